package sink

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// batch is what is delivered together: the oldest events that wait, in order. It stays valid until the next read.
type batch struct {
	events [][]byte
	oldest int64 // when the first was spooled

	from, to cursorPosition
	lost     uint64 // events between from and to that are damaged
	dropped  bool   // its segment has been dropped since; under the spool's lock
}

// cursorPosition is the place of a cursor.
type cursorPosition struct {
	seq, segment uint64
	offset       int64
}

func (b *batch) empty() bool { return len(b.events) == 0 && b.lost == 0 && b.from == b.to }

// reader reads batches from a spool, on the goroutine of the delivery.
type reader struct {
	spool *spool
	buf   []byte
	file  *os.File
	open  uint64 // first sequence number of the open file's segment
	bad   int    // reads that have failed in a row
}

// patience is how often a segment may fail to be read before what cannot be read of it is given up.
const patience = 3

// next returns the oldest events that wait: at most maxEvents, and not more than maxBytes unless the first alone is
// larger. A batch without events that is not empty has passed damaged ones only and is to be acknowledged as well.
func (r *reader) next(maxEvents, maxBytes int) (*batch, error) {
	for {
		window, ok, err := r.window()
		if err != nil || !ok {
			return &batch{}, err
		}
		b, err := r.readWindow(window, maxEvents, maxBytes)
		if errors.Is(err, os.ErrNotExist) { // dropped meanwhile because the spool was full, or gone
			if r.spool.skipGone(window) {
				continue
			}
		}
		if err == nil && !r.spool.launch(b) {
			continue
		}
		return b, err
	}
}

// launch notes that the batch is under way; false if its segment has been dropped meanwhile.
func (s *spool) launch(b *batch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cursor.Seq != b.from.seq || s.cursor.Segment != b.from.segment {
		return false
	}
	s.flying = b
	if len(b.events) > 0 {
		s.pending.Store(b.oldest)
	}
	return true
}

// settle gives up the batch that is under way, if there is one. If the spool has dropped it, it is lost for good now.
func (s *spool) settle() {
	s.cursor.Full += s.limbo()
	s.flying = nil
}

// limbo is how many events have been dropped from disk but may still be delivered, because they are under way.
func (s *spool) limbo() uint64 {
	if s.flying == nil || !s.flying.dropped {
		return 0
	}
	return s.flying.to.seq - s.flying.from.seq
}

// window is the part of one segment that is to be read.
type window struct {
	path    string
	segment uint64
	at      cursorPosition
	end     int64  // offset where it ends
	bound   uint64 // sequence number after its last event
}

// window returns what is to be read next; false if nothing waits. It moves on to the next segment where one is done
// with.
func (r *reader) window() (window, bool, error) {
	s := r.spool
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	for len(s.segments) > 0 {
		seg := s.segments[0]
		if s.cursor.Segment != seg.first {
			s.cursor.moveTo(max(s.cursor.Seq, seg.first), seg.first, 0)
		}
		if s.cursor.Offset < seg.size {
			at := cursorPosition{s.cursor.Seq, s.cursor.Segment, s.cursor.Offset}
			return window{path: s.path(seg), segment: seg.first, at: at, end: seg.size, bound: s.bound(0)}, true, nil
		}
		if len(s.segments) == 1 && s.active != nil {
			break
		}
		s.finishOldest()
	}
	s.pending.Store(0)
	return window{}, false, nil
}

// finishOldest removes the oldest segment, of which nothing waits any more.
func (s *spool) finishOldest() {
	after := s.bound(0)
	if s.cursor.Seq < after { // its end was damaged
		s.cursor.Corrupt += after - s.cursor.Seq
	}
	if err := os.Remove(s.path(s.segments[0])); err != nil && !errors.Is(err, os.ErrNotExist) {
		s.trouble = fmt.Errorf("delivered segment cannot be removed: %w", err)
	}
	s.cursor.Seq = after
	s.forgetOldest()
	s.cursor.moveTo(after, s.oldestFirst(), 0)
	s.saveCursor()
}

// skipGone gives up a segment whose file is not there, and counts its events unless dropping it has counted them
// already.
func (s *spool) skipGone(w window) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.segments) == 0 || s.segments[0].first != w.segment {
		return true // dropped, and counted
	}
	if len(s.segments) == 1 && s.active != nil && s.rotate() != nil {
		return false
	}
	s.finishOldest()
	return true
}

func (r *reader) readWindow(w window, maxEvents, maxBytes int) (*batch, error) {
	if err := r.openSegment(w); err != nil {
		return nil, err
	}
	p := parser{batch: &batch{from: w.at, to: w.at}, maxEvents: maxEvents, window: w}
	want := maxBytes + headerSize
	for {
		n := int(min(int64(want), w.end-p.batch.to.offset))
		if cap(r.buf) < n {
			r.buf = make([]byte, n)
		}
		buf := r.buf[:n]
		got, err := r.file.ReadAt(buf, p.batch.to.offset)
		if got < n {
			if err != nil && got == 0 && !errors.Is(err, io.EOF) {
				if r.bad++; r.bad < patience {
					return nil, fmt.Errorf("segment cannot be read: %w", err)
				}
			}
			buf = buf[:got] // shorter than it was: the rest is gone
			p.window.end = p.batch.to.offset + int64(got)
		}
		r.bad = 0
		more := p.parse(buf)
		if len(p.batch.events) > 0 || p.batch.to.offset >= p.window.end {
			break
		}
		if more > want { // one event that is larger than a batch
			want = more
		}
	}
	p.finish(w)
	return p.batch, nil
}

func (r *reader) openSegment(w window) error {
	if r.file != nil && r.open == w.segment {
		return nil
	}
	r.close()
	f, err := os.Open(w.path)
	if err != nil {
		return err
	}
	r.file, r.open = f, w.segment
	return nil
}

// close gives up the file and the buffer; reading opens them again.
func (r *reader) close() {
	if r.file != nil {
		_ = r.file.Close() // only read
	}
	r.file, r.buf = nil, nil
}

// ack notes that the sink has the events of the batch, and that its damaged ones are lost.
func (s *spool) ack(b *batch, truncated int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cursor.Delivered += uint64(len(b.events))
	s.cursor.Truncated += uint64(truncated)
	s.done(b)
}

// done moves past the batch, whatever has become of its events.
func (s *spool) done(b *batch) {
	s.cursor.Corrupt += b.lost
	s.flying = nil
	if !b.dropped {
		s.cursor.moveTo(b.to.seq, b.to.segment, b.to.offset)
		s.pending.Store(0)
		s.recycle()
	}
	s.saveCursor()
}

// recycle removes the active segment once it is delivered and not small any more, so that delivered events do not stay
// on disk while the sink is quiet.
func (s *spool) recycle() {
	const small = 256 << 10
	if len(s.segments) != 1 || s.active == nil || s.cursor.Offset < s.segments[0].size || s.segments[0].size < small {
		return
	}
	if err := s.rotate(); err != nil {
		s.trouble = err
		return
	}
	s.finishOldest()
}

// superseded reports whether the batch has been dropped because the spool was full.
func (s *spool) superseded(b *batch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return b.dropped
}

// lag returns for how long the oldest event has waited; 0 if none waits.
func (s *spool) lag(now time.Time) time.Duration {
	if oldest := s.pending.Load(); oldest != 0 {
		return max(0, now.Sub(time.Unix(0, oldest)))
	}
	return 0
}
