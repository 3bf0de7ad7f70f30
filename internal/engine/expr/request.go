package expr

import (
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/expr/cost"
	"proviso.dev/proviso/internal/engine/verbs"
)

// Request is what is known about a request when it is authorized; it is the
// variable `request` of every expression (CA-11). It must not be changed once
// it has been given to Decide: residuals keep it.
type Request struct {
	User   string
	UID    string
	Groups []string
	Extra  map[string][]string

	Verb        string
	APIGroup    string
	APIVersion  string
	Resource    string
	Subresource string
	Namespace   string
	Name        string

	FieldSelector fields.Requirements
	LabelSelector labels.Requirements

	// Time is the instant of the request; zero if it is not known: then conditions that look at it stay open.
	Time time.Time

	gaps  gaps
	spent uint64 // in the first step, by all conditions; changed atomically
}

// Limits of the first step, for one condition and for all conditions of a
// request. The first step is part of authorization, which has to be quick
// whatever conditions are stored.
const (
	firstStepLimit  = 100_000
	firstStepBudget = 1_000_000
)

// firstStep returns what an evaluation may cost before admission.
func (r *Request) firstStep() uint64 {
	if r == nil {
		return firstStepLimit
	}
	return min(firstStepLimit, firstStepBudget-min(firstStepBudget, atomic.LoadUint64(&r.spent)))
}

func (r *Request) spend(cost uint64) {
	if r != nil {
		atomic.AddUint64(&r.spent, cost)
	}
}

// NewRequest reads the attributes of an authorization check. A selector that does not parse is left out: then it
// implies nothing (CA-16), which fails closed.
//
// A connection counts as create, whichever HTTP method opens it, and a proxy is about the object itself, however the
// URL spells its name: a GET or a port must not evade a condition (CA-9, PO-20).
func NewRequest(a authorizer.Attributes) *Request {
	r := &Request{
		Verb:        a.GetVerb(),
		APIGroup:    a.GetAPIGroup(),
		APIVersion:  a.GetAPIVersion(),
		Resource:    a.GetResource(),
		Subresource: a.GetSubresource(),
		Namespace:   a.GetNamespace(),
		Name:        a.GetName(),
	}
	if kind := connect.Of(r.APIGroup, r.Resource, r.Subresource); kind != connect.None {
		r.Name = connect.Name(kind, r.Name)
		if isMethod(r.Verb) {
			r.Verb = connect.Verb
		}
	}
	if u := a.GetUser(); u != nil {
		r.User, r.UID, r.Groups, r.Extra = u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra()
		if some, ok := u.(*Unidentified); ok {
			r.gaps = gaps{any: true, name: some.Nameless}
		}
	}
	if f, err := a.GetFieldSelector(); err == nil {
		r.FieldSelector = f
	}
	if l, err := a.GetLabelSelector(); err == nil {
		r.LabelSelector = l
	}
	return r
}

// NewRequestAt is NewRequest at an instant. Conditions see it in UTC, with the precision of the server's instants:
// microseconds.
func NewRequestAt(a authorizer.Attributes, at time.Time) *Request {
	r := NewRequest(a)
	if !at.IsZero() {
		r.Time = at.UTC().Truncate(time.Microsecond)
	}
	return r
}

// isMethod reports whether a verb comes from an HTTP method, and is not a special verb such as impersonate-on:*:get.
func isMethod(verb string) bool { return verbs.IsRead(verb) || verbs.Changes(verb) }

// isSmall reports whether a request is within the bounds of cost.Small.
func (r *Request) isSmall() bool { return r.within(cost.Small) }

func (r *Request) isTiny() bool { return r.within(cost.Tiny) }

func (r *Request) within(size cost.Size) bool {
	if r == nil || len(r.Groups) > size.Items || len(r.Extra) > size.Items ||
		len(r.FieldSelector) > size.Items || len(r.LabelSelector) > size.Items {
		return false
	}
	short := func(ss ...string) bool { return short(size.Bytes, ss) }
	ok := short(r.User, r.UID, r.Verb, r.APIGroup, r.APIVersion, r.Resource, r.Subresource, r.Namespace, r.Name) &&
		short(r.Groups...)
	for k, v := range r.Extra {
		ok = ok && len(v) <= size.Items && short(k) && short(v...)
	}
	for _, f := range r.FieldSelector {
		ok = ok && short(f.Field, f.Value)
	}
	for _, l := range r.LabelSelector {
		values := l.ValuesUnsorted()
		ok = ok && len(values) <= size.Items && short(l.Key()) && short(values...)
	}
	return ok
}

func short(bytes int, ss []string) bool {
	for _, s := range ss {
		if len(s) > bytes {
			return false
		}
	}
	return true
}
