package sink

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// fullDisk fails writes after a number of bytes, like a disk that is full, and optionally truncation as well.
type fullDisk struct {
	mu         sync.Mutex
	room       int
	noTruncate bool
	noCreate   bool
}

type fullFile struct {
	*os.File
	disk *fullDisk
}

var errNoSpace = errors.New("no space left on device")

func (d *fullDisk) create(path string) (segmentFile, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.noCreate {
		return nil, errNoSpace
	}
	f, err := createSegment(path)
	if err != nil {
		return nil, err
	}
	return &fullFile{f.(*os.File), d}, nil
}

func (f *fullFile) Write(p []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	n := min(len(p), f.disk.room)
	f.disk.room -= n
	if _, err := f.File.Write(p[:n]); err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, errNoSpace
	}
	return n, nil
}

func (f *fullFile) Truncate(size int64) error {
	if f.disk.noTruncate {
		return errNoSpace
	}
	return f.File.Truncate(size)
}

// DA-8: on a full disk events are dropped and counted; what is there stays deliverable, and it goes on when there is
// room.
func TestSpoolOnFullDisk(t *testing.T) {
	for _, noTruncate := range []bool{false, true} {
		for room := range 300 {
			dir := quickDir(t)
			disk := &fullDisk{room: room, noTruncate: noTruncate}
			s := testSpool(t, dir, func(c *spoolConfig) { c.create = disk.create })
			events := numbered(0, 12)
			var kept []string
			failed := uint64(0)
			for i, e := range events {
				if i == 9 {
					disk.room = 1 << 20
				}
				if _, err := s.append([]byte(e), checksum([]byte(e)), time.Now()); err == nil {
					kept = append(kept, e)
				} else if failed++; !errors.Is(err, errNoSpace) {
					t.Fatal(err)
				}
			}
			if failed == 0 || len(kept) < 3 || s.cursor.Disk != failed {
				t.Fatalf("room %d: %d failed, %d kept, counts %+v", room, failed, len(kept), s.cursor)
			}
			if room%2 == 0 {
				s = testSpool(t, dir, nil)
			}
			equal(t, fmt.Sprintf("room %d", room), take(t, s), kept)
			if s.cursor.Corrupt != 0 {
				t.Fatalf("room %d: %+v", room, s.cursor)
			}
		}
	}
}

// DA-8: a directory in which nothing can be created drops and counts; once it can, events are kept again.
func TestSpoolWithoutSegments(t *testing.T) {
	disk := &fullDisk{room: 1 << 20, noCreate: true}
	s := testSpool(t, quickDir(t), func(c *spoolConfig) { c.create = disk.create })
	if _, err := s.append([]byte("x"), checksum([]byte("x")), time.Now()); err == nil || s.cursor.Disk != 1 {
		t.Fatalf("%v %+v", err, s.cursor)
	}
	disk.noCreate = false
	put(t, s, "y")
	equal(t, "after", take(t, s), []string{"y"})
}

// DA-8: /dev/full is a real full disk.
func TestSpoolOnDevFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full")
	}
	s := testSpool(t, quickDir(t), func(c *spoolConfig) {
		c.create = func(string) (segmentFile, error) { return os.OpenFile("/dev/full", os.O_WRONLY, 0) }
	})
	if _, err := s.append([]byte("x"), 0, time.Now()); err == nil || s.cursor.Disk != 1 {
		t.Fatalf("%v %+v", err, s.cursor)
	}
}
