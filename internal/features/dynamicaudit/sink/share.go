package sink

import (
	"bytes"
	"errors"
	"hash/maphash"
	"os"
)

// The users whose requests are audited share a spool, so one of them cannot push out undelivered events of the others.
// While more than half of it is taken, a user may hold as much of it as is still free: a single one gets half, two get
// a third each, and so on. There is always room for users who hold little.

// callerID stands for a user: what is kept of each has a fixed size, whatever their names are.
type callerID uint64

const (
	// maxCallers is how many users are told apart in one spool. All further ones share as one.
	maxCallers = 4096
	// furtherCallers is that one.
	furtherCallers callerID = 0
)

var errShare = errors.New("spool is more than half full, and the user of the event holds their share of it")

// shares is what each user holds of a spool.
type shares struct {
	seed maphash.Seed
	held map[callerID]int64
}

func newShares() shares { return shares{seed: maphash.MakeSeed(), held: map[callerID]int64{}} }

// userBegins is where an encoded event says whose it is. It cannot be part of a text before it: quotes in JSON texts
// are escaped.
var userBegins = []byte(`,"user":{"username":"`)

// of is the user of an encoded event: the one who was authenticated, whomever they impersonate. Events without a name
// are those of one user.
func (s *shares) of(event []byte) callerID {
	var name []byte
	if i := bytes.Index(event, userBegins); i >= 0 {
		name = event[i+len(userBegins):]
		for end := range name {
			if name[end] == '"' && (end == 0 || name[end-1] != '\\') { // one that ends in a backslash counts as longer
				name = name[:end]
				break
			}
		}
	}
	id := callerID(max(1, maphash.Bytes(s.seed, name)))
	if _, known := s.held[id]; !known && len(s.held) >= maxCallers {
		return furtherCallers
	}
	return id
}

// add counts an event that was kept in a segment.
func (s *shares) add(seg *segment, who callerID, bytes int64) {
	if seg.held == nil {
		seg.held = map[callerID]int64{}
	}
	seg.held[who] += bytes
	s.held[who] += bytes
}

// remove forgets a segment.
func (s *shares) remove(seg *segment) {
	for who, n := range seg.held {
		if s.held[who] -= n; s.held[who] <= 0 {
			delete(s.held, who)
		}
	}
}

// makeRoom lets an event of a user in, or says why not. A user who holds nothing, and for whom nothing is free, takes
// the place of the oldest events. One who holds their share takes the place of their own.
func (s *spool) makeRoom(who callerID, need int64) error {
	for s.bytes+need > s.maxBytes/2 && s.shares.held[who]+need > s.maxBytes-s.bytes {
		if s.shares.held[who] > 0 && !s.oldestIsOf(who) {
			s.cursor.Share++
			return errShare
		}
		if err := s.dropOldest(); err != nil {
			s.cursor.Disk++
			return err
		}
	}
	return nil
}

// oldestIsOf reports whether all of the oldest segment belongs to one user.
func (s *spool) oldestIsOf(who callerID) bool {
	if len(s.segments) == 0 {
		return true
	}
	held := s.segments[0].held
	return len(held) == 1 && held[who] > 0
}

// recount learns who holds what of the segments of an earlier process. What cannot be read belongs to no user.
func (s *spool) recount() {
	for _, seg := range s.segments {
		text, err := os.ReadFile(s.path(seg))
		if err != nil {
			continue
		}
		eachRecord(text, func(_ header, event []byte, _ int) {
			s.shares.add(seg, s.shares.of(event), int64(headerSize+len(event)))
		})
	}
}
