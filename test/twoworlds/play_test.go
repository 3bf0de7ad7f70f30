package twoworlds

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
)

// pair are the two worlds.
type pair struct {
	worlds [2]*world
	// installed is the cluster that both have now, without steps.
	installed string
	plays     int
	steps     int
	// reached counts the steps that came as far as the storage; excuses counts by row of the table.
	reached int
	excuses map[string]int
}

func newPair(t testing.TB) *pair {
	t.Helper()
	debug.SetGCPercent(400) // memory is there, and time is short
	p := &pair{excuses: map[string]int{}}
	for i := range p.worlds {
		p.worlds[i] = newWorld(t, i == 1)
	}
	if err := p.both(func(w *world) { w.found() }); err != nil {
		t.Fatal(err)
	}
	return p
}

// both does the same in both worlds at the same time.
func (p *pair) both(do func(*world)) error {
	var wg sync.WaitGroup
	var failed [2]error
	for i, w := range p.worlds {
		wg.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					why, ok := r.(unsettled)
					if !ok {
						panic(r)
					}
					failed[i] = fmt.Errorf("not set up: %s", why)
				}
			}()
			do(w)
		})
	}
	wg.Wait()
	if failed[0] != nil {
		return failed[0]
	}
	return failed[1]
}

// find is a difference that the law does not allow.
type find struct {
	step int
	// shape says where it is, in a way that survives shrinking.
	shape string
	// open is the entry of the table of known finds that it belongs to.
	open string
	a, b *reply
}

func (f *find) String() string {
	return fmt.Sprintf("step %d, %s:\n  %v\n  %v", f.step+1, f.shape, f.a, f.b)
}

// shape is a step without the names in it.
func shape(s Step) string {
	ref, sub, version := refOf(s.Path)
	out := s.Method + " " + version + " " + ref.Kind
	if s.Watch {
		out = "WATCH " + version + " " + ref.Kind
	}
	if ref.Name == "" {
		out += " collection"
	}
	if sub != "" {
		out += "/" + sub
	}
	return out
}

// play sends the steps of a case to both worlds. fresh makes the cluster again, whatever exists. log gets the answers.
func (p *pair) play(c *Case, fresh bool, log func(string)) (*find, error) {
	bare := c.clone()
	bare.Steps, bare.Found, bare.Open = nil, "", ""
	cluster := text(bare)
	users := [2]string{}
	p.plays++
	index := func(w *world) int { return slices.Index(p.worlds[:], w) }
	// The caller's policy comes first: a watch from before it would have to begin again (RD-7).
	if err := p.both(func(w *world) { users[index(w)] = w.admit(c) }); err != nil {
		return nil, err
	}
	if p.installed != cluster || fresh {
		p.installed = ""
		if err := p.both(func(w *world) { w.install(c) }); err != nil {
			return nil, err
		}
		p.installed = cluster
	}
	for _, w := range p.worlds {
		w.last, w.more = w.states[3], ""
	}
	touched := map[Ref]bool{}
	for i, s := range c.Steps {
		var replies [2]*reply
		err := p.both(func(w *world) {
			if ref, _, _ := refOf(s.Path); kinds[ref.Kind].root != "" && (s.reads() || s.Method == http.MethodDelete) {
				w.caughtUp(ref.Kind) // with the steps before, of the case before, too
			}
			disturb := func() {
				if s.Meanwhile {
					w.disturb(c, p.plays)
				}
			}
			if s.Watch {
				replies[index(w)] = w.stream(users[index(w)], s, fmt.Sprintf("t%d-%d", p.plays, i), disturb)
				return
			}
			disturb()
			replies[index(w)] = w.send(users[index(w)], s)
		})
		if err != nil {
			p.installed = ""
			return nil, err
		}
		a, b := replies[0], replies[1]
		if log != nil {
			log(fmt.Sprintf("%d. %v\n  %v\n  %v", i+1, s, a, b))
		}
		p.count(a, b)
		p.touch(c, s, a, b, touched)
		part := a.differs(b)
		if part == "" {
			continue
		}
		touched[c.Change.Ref] = true
		if row := excused(c, s, a, b); row != "" {
			p.excuses[row]++
			p.installed = "" // they may differ in more than the change now, and in what watches tell of before
			return nil, nil
		}
		f := &find{step: i, shape: shape(s) + " " + part, a: a, b: b, open: known(c, i, a, b)}
		return f, p.restore(c, touched)
	}
	return nil, p.restore(c, touched)
}

// restore makes the cluster as it was before the steps.
func (p *pair) restore(c *Case, touched map[Ref]bool) error {
	delete(touched, Ref{})
	if c.Quota > 0 && len(touched) > 0 {
		p.installed = "" // nobody counts down what is used
		return nil
	}
	err := p.both(func(w *world) { w.restore(c, touched) })
	if err != nil {
		p.installed = ""
	}
	return err
}

func (p *pair) count(a, b *reply) {
	p.steps++
	stored := func(r *reply) bool {
		return r.code >= 200 && r.code < 300 || r.code == http.StatusConflict || r.code == http.StatusUnprocessableEntity ||
			r.code == http.StatusNotFound && strings.Contains(r.body, `"reason":"NotFound"`)
	}
	if stored(a) || stored(b) {
		p.reached++
	}
}

// ours reports whether a path is that of a kind of the search.
func ours(path string) bool {
	ref, _, _ := refOf(path)
	k := kinds[ref.Kind]
	return k.root != "" && (strings.HasPrefix(path, k.root+"/") || k.also != "" && strings.HasPrefix(path, k.also+"/"))
}

// touch notes what a step may have changed.
func (p *pair) touch(c *Case, s Step, a, b *reply, touched map[Ref]bool) {
	ref, _, _ := refOf(s.Path)
	if s.Meanwhile && c.Change.Kind != "" {
		touched[c.Change.Ref] = true
	}
	if s.Watch {
		return
	}
	wrote := func(r *reply) bool { return r.code < 300 || r.code >= 500 }
	collection := s.Method == http.MethodDelete && ref.Name == "" // of which a part is gone if it fails
	if s.reads() || !collection && !wrote(a) && !wrote(b) || strings.Contains(s.Query, "dryRun") || !ours(s.Path) {
		return
	}
	if collection {
		for _, o := range c.Objects {
			if o.Kind == ref.Kind && !o.Gone {
				touched[o.Ref] = true
			}
		}
		for _, ns := range []string{home, other} {
			touched[Ref{ref.Kind, ns, fenceName}] = true
		}
		return
	}
	if s.Method == http.MethodPost && ref.Name == "" {
		for _, w := range p.worlds {
			w.strays(ref.Kind, touched)
		}
	}
	for _, r := range []*reply{a, b} {
		at := ref
		if meta, _ := r.raw["metadata"].(object); at.Name == "" {
			at.Name, _ = meta["name"].(string)
		}
		if at.Name != "" {
			touched[at] = true
			for _, w := range p.worlds {
				w.present[at] = true
			}
		}
	}
}
