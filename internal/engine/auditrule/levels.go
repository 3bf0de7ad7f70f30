package auditrule

import (
	"math/bits"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Levels returns the level of each sink for a request, in the order of Sinks. It reuses out and allocates only if out
// is too short.
func (ix *Index) Levels(attrs authorizer.Attributes, out []Level) []Level {
	var rq request
	fromAttributes(&rq, attrs)
	out = ix.sized(out)
	ix.scan(&rq, out)
	return out
}

// EventLevels is Levels for the request that an event was made for. The event may be of any stage.
func (ix *Index) EventLevels(ev *auditinternal.Event, out []Level) []Level {
	var rq request
	fromEvent(&rq, ev)
	out = ix.sized(out)
	ix.scan(&rq, out)
	return out
}

// Max returns the highest level that a sink wants of a request.
func (ix *Index) Max(attrs authorizer.Attributes) Level {
	var rq request
	fromAttributes(&rq, attrs)
	return ix.scan(&rq, nil)
}

func (ix *Index) sized(out []Level) []Level {
	if cap(out) < len(ix.sinks) {
		return make([]Level, len(ix.sinks))
	}
	return out[:len(ix.sinks)]
}

// block is how many words are processed together, so united rows fit on the stack whatever the size of the index.
const block = 32

// scan finds the first matching clause of each sink, writes the levels to out unless it is nil, and returns the
// highest. Sinks without a match have their default. The subject is checked last: for most requests, resource and verb
// already show that no sink is interested, and a user has several groups to look up.
func (ix *Index) scan(rq *request, out []Level) Level {
	if out != nil {
		copy(out, ix.defaults)
	}
	highest, decided := None, 0    // sinks before decided are part of highest
	perhapsOf, atLeast := -1, None // the sink that a clause perhaps matches, and the level it would give
	rows := ix.find(rq)
	var accepted [block]uint64
	next := 0 // clauses before next no longer matter
	for lo := 0; lo < ix.words; lo += block {
		hi := min(lo+block, ix.words)
		if next >= hi*64 || !ix.accept(rq, &rows, lo, accepted[:hi-lo]) {
			continue
		}
		for w := max(lo, next/64); w < hi; w++ {
			x := accepted[w-lo]
			if next > w*64 {
				x &= ^uint64(0) << (next - w*64) // next < (w+1)*64
			}
			for x != 0 {
				i := w*64 + bits.TrailingZeros64(x)
				if (ix.unindexed != 0 || ix.asksBoth) && !ix.confirms(i, rq) {
					x &= x - 1
					continue
				}
				sink, level := int(ix.owner[i]), ix.levels[i]
				if ix.asksDecision {
					p := ix.predicates[i]
					if rq.refused && p.asksDecision() {
						level = min(level, Metadata)
					}
					matches := p.decided(rq)
					if matches != no && perhapsOf == sink {
						level = max(level, atLeast)
					}
					if matches == perhaps { // a later clause, or the default, may give more
						perhapsOf, atLeast = sink, level
						highest = max(highest, level)
						if out != nil {
							out[sink] = max(level, ix.defaults[sink])
						}
					}
					if matches != yes {
						x &= x - 1
						continue
					}
				}
				if out != nil {
					out[sink] = level
				}
				highest = max(highest, level, ix.defaultsOf(decided, sink))
				decided = sink + 1
				if next = int(ix.end[sink]); next >= (w+1)*64 {
					break
				}
				x &= ^uint64(0) << (next - w*64)
			}
			if next >= (w+2)*64 {
				w = next/64 - 1
			}
		}
	}
	return max(highest, ix.defaultsOf(decided, len(ix.sinks)))
}

// confirms checks what the tables do not cover of a clause.
func (ix *Index) confirms(i int, rq *request) bool {
	p := ix.predicates[i]
	return p.matches(rq, ix.unindexed) && (!p.both || p.matchesSubject(rq))
}

// rows are the rows found for a request, one per dimension. A nil row accepts every clause.
type rows struct {
	verb         row
	named, every row // a clause has to be in one of them; both nil if resources are not indexed

	placed        bool // whether the following have been looked up; most requests do not need them
	sub, name, ns row
}

func (ix *Index) find(rq *request) (r rows) {
	r.verb = ix.verb.find(rq.verb)
	if rq.isResource && ix.unindexed&dimResource == 0 {
		r.named, r.every = ix.resource.find(rq.group, rq.resource)
	}
	return r
}

// place looks up the rows for the location of the object.
func (ix *Index) place(rq *request, r *rows) {
	r.placed = true
	if !rq.isResource {
		return
	}
	if r.sub = ix.alone; rq.subresource != "" {
		r.sub = ix.subs.find(rq.subresource)
	}
	r.name = ix.name.find(rq.name)
	if r.ns = ix.cluster; rq.namespace != "" {
		r.ns = ix.namespaces.find(rq.namespace)
	}
}

// accept writes the clauses lo*64 … that accept the request in every dimension that is indexed; false if there is none.
func (ix *Index) accept(rq *request, r *rows, lo int, into []uint64) bool {
	switch {
	case !rq.isResource && ix.unindexed&dimPath == 0:
		ix.path.unite(rq.path, lo, into)
	case r.every != nil:
		named, every := r.named[lo:], r.every[lo:]
		for w := range into {
			into[w] = named[w] | every[w]
		}
	default:
		ix.all(lo, into)
	}
	if !and(into, r.verb, lo) {
		return false
	}
	if !r.placed {
		ix.place(rq, r)
	}
	any := and(into, r.ns, lo) && and(into, r.sub, lo) && and(into, r.name, lo)
	if !any || ix.unindexed&dimSubject != 0 || ix.subject.anybodyOf(lo, into) {
		return any
	}
	var subjects [block]uint64
	ix.subject.unite(rq, lo, subjects[:len(into)])
	return and(into, subjects[:len(into)], 0)
}

// and keeps what r accepts, and reports whether anything is left.
func and(into []uint64, r row, lo int) bool {
	if r == nil {
		return true
	}
	var left uint64
	r = r[lo:]
	for w := range into {
		into[w] &= r[w]
		left |= into[w]
	}
	return left != 0
}

// all writes every clause lo*64 …, but no bit after the last clause.
func (ix *Index) all(lo int, into []uint64) {
	for w := range into {
		into[w] = ^uint64(0)
		if missing := (lo+w+1)*64 - len(ix.predicates); missing > 0 {
			into[w] >>= missing
		}
	}
}

// defaultsOf returns the highest default of the sinks from … to-1.
func (ix *Index) defaultsOf(from, to int) Level {
	highest := None
	if ix.quiet {
		return highest
	}
	for _, l := range ix.defaults[from:to] {
		highest = max(highest, l)
	}
	return highest
}
