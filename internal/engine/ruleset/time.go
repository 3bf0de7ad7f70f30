package ruleset

import (
	"math"
	"regexp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// A time-limited binding is in the index only while it counts, so code that asks the index need not know the time. The
// index is valid for a moment; At and Throughout return one for another moment, by moving the bindings whose edges are
// in between. Without such bindings they return the index unchanged.

// Span is when a binding counts, in seconds since 1970: from From, inclusive, to Until, exclusive.
type Span struct{ From, Until int64 }

// always is the span of a binding without a time limit.
var always = Span{math.MinInt64, math.MaxInt64}

// SpanOf returns the span between two instants, each of which may be missing.
func SpanOf(notBefore, notAfter *metav1.Time) Span {
	s := always
	if notBefore != nil {
		s.From = notBefore.Unix()
	}
	if notAfter != nil {
		s.Until = notAfter.Unix()
	}
	return s
}

// From returns the span from an instant, without an end.
func From(t time.Time) Span { return Span{t.Unix(), math.MaxInt64} }

// Contains reports whether all of another span is in it.
func (s Span) Contains(o Span) bool { return s.From <= o.From && o.Until <= s.Until }

// overlaps reports whether two spans have an instant in common.
func (s Span) overlaps(o Span) bool { return s.From < o.Until && o.From < s.Until }

// Bounded reports whether the span begins or ends.
func (s Span) Bounded() bool { return s != always }

// moment is the time for which an index holds. The zero value is a time that is not known.
type moment struct {
	known bool
	span  Span
}

func second(t time.Time) moment { return moment{true, Span{t.Unix(), t.Unix() + 1}} }

// isInstant reports whether the moment is an instant, and not a span or unknown.
func (m moment) isInstant() bool { return m.known && m.span.Until == m.span.From+1 }

// counting is how a binding counts in a moment.
type counting uint8

const (
	never counting = iota
	// denying: the deny rules of its role apply, and its allow rules do not. It is not known whether it counts, or it
	// counts for a part of the moment.
	denying
	fully
)

// in returns how a binding of the span counts in a moment.
func (s Span) in(m moment) counting {
	switch {
	case !m.known:
		return denying
	case s.Contains(m.span):
		return fully
	case s.overlaps(m.span):
		return denying
	}
	return never
}

// timed is a time-limited binding. The index gets a copy.
type timed struct {
	span Span
	b    *binding
}

// in returns the binding as it counts in a moment; nil if it does not.
func (t *timed) in(m moment) *binding {
	next := &binding{ref: t.b.ref, named: t.b.named, subjects: t.b.subjects, problem: t.b.problem}
	switch t.span.in(m) {
	case never:
		return nil
	case denying:
		if next.named.Kind == PolicyRole && *next.named == next.named.plain() {
			next.bind(next.named.twin(), "it is not known whether it counts for all of the time in question")
		} else if next.named.Kind != PolicyRole {
			return nil // roles of RBAC deny nothing
		}
	}
	return next
}

// timedBinding returns the time limit of a binding; nil if it has none. A binding that cannot be read denies at all
// times.
func timedBinding(e *policyv1alpha1.PolicyRoleBinding, b *binding, denies bool) *timed {
	span := SpanOf(e.NotBefore, e.NotAfter)
	if !span.Bounded() || b.problem != nil && !denies || roleUnreadable(e) {
		return nil
	}
	return &timed{span, b}
}

// At returns the index for one instant.
func (ix *Index) At(t time.Time) *Index {
	if ix == nil || ix.HoldsAt(t) {
		return ix
	}
	return ix.during(second(t))
}

// HoldsAt reports whether the index is valid for an instant, too.
func (ix *Index) HoldsAt(t time.Time) bool {
	return !ix.IsTimed() || ix.moment.isInstant() && ix.holds.From <= t.Unix() && t.Unix() < ix.holds.Until
}

// IsTimed reports whether some binding is time-limited.
func (ix *Index) IsTimed() bool { return ix != nil && ix.timed.Len() > 0 }

// AsksTime reports whether the condition of some rule may look at request.time.
func (ix *Index) AsksTime() bool { return ix != nil && ix.asking > 0 }

// Again returns a copy with a new identity, so code that compares indexes evaluates again.
func (ix *Index) Again() *Index {
	next := *ix
	return &next
}

// requestUsed finds uses of the request in an expression, with the field used.
var requestUsed = regexp.MustCompile(`\brequest\b(?:\s*\.\s*([A-Za-z_][A-Za-z_0-9]*))?`)

// mayAskTime reports whether an expression may look at request.time. It checks the text for a use of the field, or of
// the request as a whole.
func mayAskTime(source string) bool {
	if source == "" {
		return false
	}
	for _, used := range requestUsed.FindAllStringSubmatch(source, -1) {
		if used[1] == "" || used[1] == "time" {
			return true
		}
	}
	return false
}

// Throughout returns the index of what holds in all of a span: a binding that allows for only a part of it does not
// count, and one that denies for a part of it does.
func (ix *Index) Throughout(s Span) *Index {
	if !ix.IsTimed() {
		return ix
	}
	return ix.during(moment{true, s})
}

// Unknown returns the index for a time that is not known: time-limited bindings deny, and allow nothing.
func (ix *Index) Unknown() *Index {
	if !ix.IsTimed() || !ix.moment.known {
		return ix
	}
	return ix.during(moment{})
}

// Until returns when the index is no longer valid; not found if it always is.
func (ix *Index) Until() (edge time.Time, found bool) {
	if !ix.IsTimed() || !ix.moment.isInstant() || ix.holds.Until == math.MaxInt64 {
		return time.Time{}, false
	}
	return time.Unix(ix.holds.Until, 0), true
}

// Edges returns the instants at which bindings of a user begin or end, in order; of all users if the user is nil.
func (ix *Index) Edges(u user.Info) (edges []time.Time) {
	ix.timed.Each(func(_ BindingRef, t *timed) bool {
		if u == nil || t.b.concerns(u) {
			for _, at := range [...]int64{t.span.From, t.span.Until} {
				if at != math.MinInt64 && at != math.MaxInt64 {
					edges = append(edges, time.Unix(at, 0).UTC())
				}
			}
		}
		return true
	})
	slices.SortFunc(edges, time.Time.Compare)
	return slices.CompactFunc(edges, time.Time.Equal)
}

// Timed visits the time-limited bindings, whether they count now or not, in no order.
func (ix *Index) Timed(visit func(BindingRef, RoleRef, Span)) {
	ix.timed.Each(func(ref BindingRef, t *timed) bool {
		visit(ref, t.b.named.plain(), t.span)
		return true
	})
}

// SpanOf returns when a binding counts.
func (ix *Index) SpanOf(ref BindingRef) Span {
	if t, ok := ix.timed.Get(ix.hashBinding(ref), ref); ok {
		return t.span
	}
	return always
}

func (b *binding) concerns(u user.Info) bool {
	return slices.ContainsFunc(b.subjects, func(s boundSubject) bool {
		if s.kind == boundGroup {
			return slices.Contains(u.GetGroups(), s.name)
		}
		return s.name == u.GetName()
	})
}

// during moves the bindings that count differently in another moment.
func (ix *Index) during(m moment) *Index {
	e := ix.edit()
	e.next.moment = m
	ix.timed.Each(func(ref BindingRef, t *timed) bool {
		if t.span.in(ix.moment) != t.span.in(m) {
			e.bindings[ref] = t.in(m)
		}
		return true
	})
	return e.done()
}

// time records the new time-limited bindings, and puts those that count into the index.
func (e *edit) time() {
	for ref, t := range e.timed {
		h := e.next.hashBinding(ref)
		if t == nil {
			e.next.timed.Remove(e.owner, h, ref)
			continue
		}
		e.next.timed.Set(e.owner, h, ref, t)
		e.bindings[ref] = t.in(e.next.moment)
	}
}

// untimed records that a binding is no longer time-limited.
func (e *edit) untimed(ref BindingRef) {
	_, noted := e.timed[ref]
	if _, known := e.next.timed.Get(e.next.hashBinding(ref), ref); known || noted {
		e.timed[ref] = nil
	}
}

// settleTime finds the edges around the moment.
func (e *edit) settleTime() {
	if e.next.timed.Len() == 0 {
		return
	}
	if len(e.timed) == 0 && e.next.moment == e.base.moment {
		return
	}
	now := e.next.moment.span
	e.next.holds = always
	e.next.timed.Each(func(_ BindingRef, t *timed) bool {
		for _, at := range [...]int64{t.span.From, t.span.Until} {
			if at <= now.From {
				e.next.holds.From = max(e.next.holds.From, at)
			} else {
				e.next.holds.Until = min(e.next.holds.Until, at)
			}
		}
		return true
	})
}
