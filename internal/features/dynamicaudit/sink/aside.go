package sink

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// What a sink refuses is set aside beside the segments, one event per line: in asideName, and when that is full in a
// new one, while the old one is kept as asideOlder. Together they hold no more than a segment does.
const (
	asideName  = "set-aside.jsonl"
	asideOlder = "set-aside.older.jsonl"
)

// setAside moves past the only event of the batch and counts it. The error says why the event could not be kept.
func (s *spool) setAside(b *batch) error {
	err := s.keepAside(b.events[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cursor.SetAside++
	s.done(b)
	return err
}

// keepAside appends an event to the file. Only the delivery calls it, one event at a time.
func (s *spool) keepAside(event []byte) error {
	path := filepath.Join(s.dir, asideName)
	if int64(len(event))+1 > s.segmentBytes/2 {
		return fmt.Errorf("event of %d bytes is too large to be set aside", len(event))
	}
	if info, err := os.Stat(path); err == nil && info.Size()+int64(len(event))+1 > s.segmentBytes/2 {
		if err := os.Rename(path, filepath.Join(s.dir, asideOlder)); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(event[:len(event):len(event)], '\n'))
	return errors.Join(err, f.Close())
}
