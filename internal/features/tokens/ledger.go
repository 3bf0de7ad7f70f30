package tokens

import (
	"slices"
	"sync"
	"time"

	"proviso.dev/proviso/internal/engine/narrowedtoken"
)

// What the server remembers of tokens that it has issued (NI-6). A user who asks for many pushes out their own, and
// then those of the users with the most.
const (
	perUser  = 50
	mostHeld = 4 << 20
	// overhead is what an entry takes besides its texts.
	overhead = 256
)

// issued is a token that was issued. It cannot be made into the token.
type issued struct {
	payload      narrowedtoken.Payload // without groups and extra
	descriptions []string
}

func (i *issued) size() int {
	n := overhead + len(i.payload.User.Name) + len(i.payload.Audience) + len(i.payload.Ancestors)*(32+16)
	for _, d := range i.descriptions {
		n += len(d) + 16
	}
	return n
}

// ledger remembers the tokens that this process has issued, by user, the oldest first.
type ledger struct {
	mu     sync.Mutex
	byUser map[string][]*issued
	held   int
}

// enter remembers a token, and forgets those that have ended.
func (l *ledger) enter(p narrowedtoken.Payload, descriptions []string, now time.Time) {
	p.User = narrowedtoken.User{Name: p.User.Name}
	p.Bound = nil
	one := &issued{p, descriptions}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byUser == nil {
		l.byUser = map[string][]*issued{}
	}
	l.byUser[p.User.Name] = append(l.byUser[p.User.Name], one)
	l.held += one.size()
	l.tidy(p.User.Name, now)
	if l.held > mostHeld {
		for name := range l.byUser {
			l.tidy(name, now)
		}
	}
	for l.held > mostHeld {
		l.drop(l.most())
	}
}

// tidy forgets what has ended, and what is too much, of one user.
func (l *ledger) tidy(name string, now time.Time) {
	l.byUser[name] = slices.DeleteFunc(l.byUser[name], func(i *issued) bool {
		over := i.payload.Expires <= now.Unix()
		if over {
			l.held -= i.size()
		}
		return over
	})
	for len(l.byUser[name]) > perUser {
		l.drop(name)
	}
	if len(l.byUser[name]) == 0 {
		delete(l.byUser, name)
	}
}

// drop forgets the oldest token of a user.
func (l *ledger) drop(name string) {
	all := l.byUser[name]
	l.held -= all[0].size()
	l.byUser[name] = slices.Delete(all, 0, 1)
	if len(l.byUser[name]) == 0 {
		delete(l.byUser, name)
	}
}

// most is the user of whom the most is remembered.
func (l *ledger) most() (name string) {
	largest := -1
	for who, all := range l.byUser {
		n := 0
		for _, i := range all {
			n += i.size()
		}
		if n > largest {
			name, largest = who, n
		}
	}
	return name
}

// of lists the tokens of a user, or of all if the name is empty, that have not ended.
func (l *ledger) of(name string, now time.Time) (all []*issued) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for who, tokens := range l.byUser {
		if name != "" && name != who {
			continue
		}
		for _, i := range tokens {
			if i.payload.Expires > now.Unix() {
				all = append(all, i)
			}
		}
	}
	slices.SortFunc(all, func(a, b *issued) int {
		if a.payload.Issued != b.payload.Issued {
			return int(a.payload.Issued - b.payload.Issued)
		}
		return slices.Compare([]byte(a.payload.ID), []byte(b.payload.ID))
	})
	return all
}
