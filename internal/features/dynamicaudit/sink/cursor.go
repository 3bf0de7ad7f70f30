package sink

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"proviso.dev/proviso/internal/platform/atomicfile"
)

// cursor says which events have been delivered, and counts what has become of the others. It is replaced as a whole, so
// it is never half written; losing it causes repetitions, never lost events.
type cursor struct {
	// Seq is the sequence number of the next event to deliver. It is in, or after, the segment that begins with
	// Segment; everything before Offset of that segment is done with.
	Seq     uint64 `json:"seq"`
	Segment uint64 `json:"segment"`
	Offset  int64  `json:"offset"`

	counts
}

// counts are the sums over the life of a sink.
type counts struct {
	Delivered uint64 `json:"delivered"` // acknowledged by the sink
	Full      uint64 `json:"full"`      // dropped because the spool was full
	Share     uint64 `json:"share"`     // dropped because their user held their share of a spool that was half full
	Disk      uint64 `json:"disk"`      // dropped because they could not be written
	Oversize  uint64 `json:"oversize"`  // dropped because they were too large even without their bodies
	Corrupt   uint64 `json:"corrupt"`   // lost because a segment was damaged
	SetAside  uint64 `json:"setAside"`  // refused by the sink, even alone and without their bodies
	Torn      uint64 `json:"torn"`      // cut off by the death of the server, before their requests had been answered
	Truncated uint64 `json:"truncated"` // delivered or kept without their bodies because they were too large or refused
}

// dropped is the number of events that a sink should have got but will not get.
func (c *counts) dropped() uint64 {
	return c.Full + c.Share + c.Disk + c.Oversize + c.Corrupt + c.SetAside
}

func (c *cursor) moveTo(seq, segment uint64, offset int64) {
	c.Seq, c.Segment, c.Offset = seq, segment, offset
}

const cursorName = "cursor"

// saveCursor writes the cursor beside the segments and notes the trouble if it cannot: until it can, a restart repeats
// what was delivered since.
func (s *spool) saveCursor() {
	saved := s.cursor
	saved.Full += s.limbo() // should the server die now, they are lost
	text, err := json.Marshal(saved)
	if err == nil {
		text = fmt.Appendf(text, "\n%08x\n", checksum(text))
		err = atomicfile.Replace(filepath.Join(s.dir, cursorName), text, atomicfile.Options{Sync: s.fsync})
	}
	if s.trouble = err; err != nil {
		s.trouble = fmt.Errorf("cursor of the spool cannot be saved: %w", err)
	}
}

// loadCursor returns the saved cursor; a zero one if there is none, or none that can be trusted.
func loadCursor(dir string) (cursor, bool) {
	var c cursor
	text, err := os.ReadFile(filepath.Join(dir, cursorName))
	if err != nil || len(text) < 10 {
		return cursor{}, false
	}
	body := text[:len(text)-10]
	if fmt.Sprintf("\n%08x\n", checksum(body)) != string(text[len(text)-10:]) || json.Unmarshal(body, &c) != nil {
		return cursor{}, false
	}
	return c, true
}
