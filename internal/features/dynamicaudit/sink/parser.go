package sink

// parser picks the intact events out of a window of a segment and counts the others by the gaps that they leave.
type parser struct {
	window
	maxEvents int
	batch     *batch
}

// parse takes text from where the batch ends and moves its end behind what it could decide on. If the first event is
// not completely in text, it returns how much text that needs.
func (p *parser) parse(text []byte) (more int) {
	last := p.batch.to.offset+int64(len(text)) >= p.end // nothing follows
	at := 0
	for at < len(text) && len(p.batch.events) < p.maxEvents {
		h, ok := parseHeader(text[at:])
		if !ok && len(text)-at < headerSize && !last {
			break
		}
		total := headerSize + int(h.length)
		if !ok || p.batch.to.offset+int64(at+total) > p.end { // garbage, or cut off
			at++
			at += skipToHeader(text[at:])
			continue
		}
		if at+total > len(text) {
			if len(p.batch.events) == 0 {
				more = total
			}
			break
		}
		if event := text[at+headerSize : at+total]; h.seq >= p.batch.to.seq && h.seq < p.bound && checksum(event) == h.sum {
			p.batch.lost += h.seq - p.batch.to.seq
			p.batch.to.seq = h.seq + 1
			if len(p.batch.events) == 0 {
				p.batch.oldest = h.time
			}
			p.batch.events = append(p.batch.events, event)
		}
		at += total
	}
	p.batch.to.offset += int64(at)
	return more
}

// finish accounts for what is missing at the end of the window.
func (p *parser) finish(w window) {
	if p.batch.to.offset < p.end {
		return
	}
	p.batch.to.offset = w.end
	p.batch.lost += w.bound - p.batch.to.seq
	p.batch.to.seq = w.bound
}
