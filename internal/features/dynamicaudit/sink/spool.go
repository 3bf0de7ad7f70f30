package sink

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"proviso.dev/proviso/internal/platform/atomicfile"
)

// spool keeps the events of one sink on disk from before the response to the request ends until the sink has
// acknowledged them: segments of records, appended to the newest and delivered from the oldest, and a cursor that says
// what is delivered. It holds its lock over writes to local files only, never over the network.
//
// It never blocks or fails a request: what it cannot keep it counts. Users share it; see makeRoom.
type spool struct {
	spoolConfig

	mu       sync.Mutex
	segments []*segment  // oldest first
	active   segmentFile // of the last segment, if open for writing
	bytes    int64       // of all segments
	shares   shares      // who holds them
	next     uint64      // sequence number of the next event
	cursor   cursor
	flying   *batch // under way to the sink
	scratch  []byte
	closed   bool
	removed  bool
	trouble  error // why the cursor could not be saved

	syncMu  sync.Mutex
	synced  uint64        // events before it are on stable storage
	wake    chan struct{} // something to deliver
	pending atomic.Int64  // time of the oldest event that waits, 0 if none or unknown
}

type spoolConfig struct {
	dir string
	// maxBytes bounds the segments, segmentBytes each of them.
	maxBytes, segmentBytes int64
	// fsync waits for stable storage before an append returns.
	fsync bool
	// create opens a new segment; the seam for tests of full disks.
	create func(path string) (segmentFile, error)
}

// segmentFile is the part of *os.File that appending needs.
type segmentFile interface {
	io.Writer
	Truncate(size int64) error
	Sync() error
	Close() error
}

func createSegment(path string) (segmentFile, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
}

type segment struct {
	first uint64 // sequence number of its first event; also its name
	size  int64  // of its valid part, or of the whole file for one that an earlier process wrote
	held  map[callerID]int64
}

func (s *spool) path(seg *segment) string {
	return filepath.Join(s.dir, fmt.Sprintf("%020d%s", seg.first, segmentSuffix))
}

const segmentSuffix = ".seg"

var (
	errSpoolClosed  = errors.New("spool is closed")
	errSpoolRemoved = errors.New("spool is removed")
)

// append keeps one event, and returns its number. sum is the checksum of payload. The error says why the event was
// dropped, which is counted.
func (s *spool) append(payload []byte, sum uint32, now time.Time) (uint64, error) {
	s.mu.Lock()
	seq, err := s.appendLocked(payload, sum, now)
	s.mu.Unlock()
	if err != nil {
		return 0, err
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	if s.fsync {
		return seq, s.commit(seq)
	}
	return seq, nil
}

// largest is the size of the largest event that the spool can keep.
func (s *spool) largest() int { return int(s.segmentBytes) - headerSize }

func (s *spool) appendLocked(payload []byte, sum uint32, now time.Time) (uint64, error) {
	switch {
	case s.removed:
		return 0, errSpoolRemoved
	case s.closed:
		return 0, errSpoolClosed
	}
	need := int64(headerSize + len(payload))
	if need > s.segmentBytes {
		s.cursor.Oversize++
		return 0, fmt.Errorf("event of %d bytes is larger than a segment of the spool", len(payload))
	}
	who := s.shares.of(payload)
	if err := s.makeRoom(who, need); err != nil {
		return 0, err
	}
	if err := s.writable(need); err != nil {
		s.cursor.Disk++
		return 0, fmt.Errorf("segment cannot be created: %w", err)
	}
	h := header{length: uint32(len(payload)), seq: s.next, time: now.UnixNano(), sum: sum}
	if err := s.write(h, payload); err != nil {
		s.cursor.Disk++
		return 0, fmt.Errorf("event cannot be written: %w", err)
	}
	seg := s.segments[len(s.segments)-1]
	seg.size += need
	s.bytes += need
	s.shares.add(seg, who, need)
	s.next++
	s.pending.CompareAndSwap(0, h.time)
	return h.seq, nil
}

// writable makes sure that there is an active segment with room for need bytes.
func (s *spool) writable(need int64) error {
	if s.active != nil && s.segments[len(s.segments)-1].size+need <= s.segmentBytes {
		return nil
	}
	if err := s.rotate(); err != nil {
		return err
	}
	seg := &segment{first: s.next}
	// A segment of this name can only be left over from a first event that could not be written or trusted.
	if err := os.Remove(s.path(seg)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := s.create(s.path(seg))
	if err != nil {
		return err
	}
	s.active = f
	s.segments = append(s.segments, seg)
	return s.syncDir()
}

// rotate closes the active segment, if there is one.
func (s *spool) rotate() error {
	if s.active == nil {
		return nil
	}
	f := s.active
	s.active = nil
	var err error
	if s.fsync {
		err = f.Sync()
	}
	if seg := s.segments[len(s.segments)-1]; seg.size == 0 { // its only write failed
		s.segments = s.segments[:len(s.segments)-1]
		err = errors.Join(err, os.Remove(s.path(seg)))
	}
	return errors.Join(err, f.Close())
}

// write appends a record in one write where it is small. What a failed write has left behind is cut off; if that fails
// as well, the segment is closed, and a reader finds garbage at its end, which it can tell from events.
func (s *spool) write(h header, payload []byte) error {
	const together = 64 << 10
	s.scratch = h.append(s.scratch[:0])
	var err error
	if len(payload) <= together {
		s.scratch = append(s.scratch, payload...)
		_, err = s.active.Write(s.scratch)
	} else if _, err = s.active.Write(s.scratch); err == nil {
		_, err = s.active.Write(payload)
	}
	if err == nil {
		return nil
	}
	if cut := s.active.Truncate(s.segments[len(s.segments)-1].size); cut != nil {
		err = errors.Join(err, s.rotate())
	}
	return err
}

// dropOldest makes room by giving up the oldest segment and counting what was not delivered of it.
func (s *spool) dropOldest() error {
	if len(s.segments) == 1 {
		if err := s.rotate(); err != nil {
			return err
		}
	}
	if len(s.segments) == 0 { // the event alone is larger than the spool
		return fmt.Errorf("spool of %d bytes has no room for the event", s.maxBytes)
	}
	oldest := s.segments[0]
	after := s.bound(0)
	if err := os.Remove(s.path(oldest)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("oldest segment cannot be dropped: %w", err)
	}
	from := s.cursor.Seq
	if f := s.flying; f != nil && !f.dropped { // whether these are lost, their delivery will tell
		f.dropped = true
		from = f.to.seq
	}
	if from < after {
		s.cursor.Full += after - from
	}
	s.forgetOldest()
	s.saveCursor()
	return nil
}

// forgetOldest removes the oldest segment from the books and moves the cursor behind it.
func (s *spool) forgetOldest() {
	oldest, after := s.segments[0], s.bound(0)
	s.bytes -= oldest.size
	s.shares.remove(oldest)
	s.segments = s.segments[1:]
	if s.cursor.Seq < after || s.cursor.Segment == oldest.first {
		s.cursor.moveTo(after, s.oldestFirst(), 0)
	}
	s.pending.Store(0)
}

// bound returns the sequence number after the last event of the i-th segment.
func (s *spool) bound(i int) uint64 {
	if i+1 < len(s.segments) {
		return s.segments[i+1].first
	}
	return s.next
}

func (s *spool) oldestFirst() uint64 {
	if len(s.segments) > 0 {
		return s.segments[0].first
	}
	return s.next
}

// commit waits until the event is on stable storage. The first caller syncs for all that have written by then.
func (s *spool) commit(seq uint64) error {
	s.syncMu.Lock()
	defer s.syncMu.Unlock()
	if s.synced > seq {
		return nil
	}
	s.mu.Lock()
	f, upTo := s.active, s.next
	s.mu.Unlock()
	if f == nil { // rotated meanwhile, which syncs
		return nil
	}
	if err := f.Sync(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("event is spooled, but not known to be on stable storage: %w", err)
	}
	s.synced = upTo
	return nil
}

func (s *spool) syncDir() error {
	if !s.fsync {
		return nil
	}
	return atomicfile.SyncDir(s.dir)
}

// close stops appending and keeps what is there for the next process.
func (s *spool) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.settle()
	err := s.rotate()
	s.saveCursor()
	return errors.Join(err, s.trouble)
}

// remove closes the spool and deletes everything.
func (s *spool) remove() error {
	s.mu.Lock()
	s.removed = true
	s.mu.Unlock()
	_ = s.close() // whatever it could not save is deleted next
	return os.RemoveAll(s.dir)
}
