package sink

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// openSpool continues where an earlier process stopped, however it ended. New events go to a new segment, so that what
// a crash has left at the end of the last one stays apart. The segments are read once, to learn whose events they hold.
func openSpool(cfg spoolConfig) (*spool, error) {
	if cfg.create == nil {
		cfg.create = createSegment
	}
	if err := os.MkdirAll(cfg.dir, 0o700); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	s := &spool{spoolConfig: cfg, wake: make(chan struct{}, 1), shares: newShares()}
	if err := s.listSegments(); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	saved, ok := loadCursor(cfg.dir)
	if ok {
		s.cursor = saved
	}
	if err := s.findEnd(); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	// Never give a number twice, even if segments that the cursor has passed are gone. Numbers begin with 1: a cursor
	// at 0 is one that was not saved.
	s.next = max(s.next, s.cursor.Seq, 1)
	s.placeCursor()
	s.recount()
	s.synced = s.next
	if s.cursor.Seq < s.next {
		s.wake <- struct{}{}
	}
	return s, nil
}

func (s *spool) listSegments() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, isSegment := strings.CutSuffix(e.Name(), segmentSuffix)
		first, err := strconv.ParseUint(name, 10, 64)
		if !isSegment || err != nil || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		s.segments = append(s.segments, &segment{first: first, size: info.Size()})
		s.bytes += info.Size()
	}
	slices.SortFunc(s.segments, func(a, b *segment) int { return compare(a.first, b.first) })
	return nil
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

// findEnd reads the last segment to learn the next sequence number. A segment without a single event is removed.
func (s *spool) findEnd() error {
	for len(s.segments) > 0 {
		last := s.segments[len(s.segments)-1]
		next, end, err := s.scanEnd(last)
		if err != nil {
			return err
		}
		if end < last.size { // cut it off, so that the next start does not count it again
			s.cursor.Torn++
			if err := os.Truncate(s.path(last), end); err != nil {
				return err
			}
			s.bytes -= last.size - end
			last.size = end
			defer s.saveCursor()
		}
		if next > last.first {
			s.next = next
			return nil
		}
		s.next = last.first
		if err := os.Remove(s.path(last)); err != nil {
			return err
		}
		s.bytes -= last.size
		s.segments = s.segments[:len(s.segments)-1]
	}
	return nil
}

// scanEnd returns the sequence number and the offset after the last intact event of a segment.
func (s *spool) scanEnd(seg *segment) (next uint64, end int64, err error) {
	text, err := os.ReadFile(s.path(seg))
	if err != nil {
		return 0, 0, err
	}
	next = seg.first
	eachRecord(text, func(h header, _ []byte, after int) {
		if h.seq >= next {
			next, end = h.seq+1, int64(after)
		}
	})
	return next, end, nil
}

// eachRecord calls f with every intact event of a segment, and the offset after it.
func eachRecord(text []byte, f func(h header, event []byte, after int)) {
	for at := 0; at < len(text); {
		h, ok := parseHeader(text[at:])
		if !ok || uint64(len(text)-at-headerSize) < uint64(h.length) {
			at++
			at += skipToHeader(text[at:])
			continue
		}
		body := at + headerSize
		at = body + int(h.length)
		if event := text[body:at]; checksum(event) == h.sum {
			f(h, event, at)
		}
	}
}

// placeCursor makes the cursor point into a segment that exists. Where it cannot be trusted it goes back to the oldest
// event there is: a repetition is better than a loss.
func (s *spool) placeCursor() {
	for i, seg := range s.segments {
		if seg.first == s.cursor.Segment && s.cursor.Seq >= seg.first && s.cursor.Seq <= s.bound(i) && s.cursor.Offset <= seg.size {
			s.discardBefore(i)
			return
		}
	}
	for len(s.segments) > 0 && s.bound(0) <= s.cursor.Seq {
		s.discardBefore(1)
	}
	if len(s.segments) == 0 {
		s.cursor.moveTo(s.next, s.next, 0)
		return
	}
	// Events between the cursor and the oldest segment, if any, are gone with their segments.
	if first := s.segments[0].first; s.cursor.Seq < first && s.cursor.Seq > 0 {
		s.cursor.Corrupt += first - s.cursor.Seq
	}
	s.cursor.moveTo(s.segments[0].first, s.segments[0].first, 0)
}

// discardBefore removes the first n segments, which are delivered.
func (s *spool) discardBefore(n int) {
	for range n {
		if err := os.Remove(s.path(s.segments[0])); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.trouble = fmt.Errorf("delivered segment cannot be removed: %w", err)
		}
		s.bytes -= s.segments[0].size
		s.segments = s.segments[1:]
	}
}
