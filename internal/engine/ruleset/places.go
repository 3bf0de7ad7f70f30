package ruleset

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// ByName lets allow rules that are limited to names apply to a request without a name: under the condition that the
// object has one of them, see Hit.Names. It is for a list or watch whose objects are checked one by one.
func (q *Query) ByName() { q.req.ByName = q.req.Name == "" && q.req.ResourceRequest && !q.req.Wild }

// Places returns the namespaces whose own bindings concern the caller, in the order in which objects are stored.
func (q *Query) Places() []string {
	var all []string
	for s, i := q.next(0); s != nil; s, i = q.next(i) {
		s.local().Each(func(ns string, _ *local) bool {
			all = append(all, ns)
			return true
		})
	}
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(a+"/", b+"/") })
	return slices.Compact(all)
}

// In reports whether bindings of the namespace may allow the request there, and whether they may deny it. It asks
// nothing else.
func (q *Query) In(namespace string) (allows, denies bool) {
	inside := *q
	inside.req.Namespace, inside.req.NamespaceHash = namespace, q.ix.hash(namespace)
	var m Match
	inside.match(&m, ScopePolicy, true)
	if !m.Allow.Found() && !m.ConditionalAllow {
		inside.match(&m, ScopeRBAC, false)
	}
	return m.Allow.Found() || m.ConditionalAllow, m.Denies()
}

// commonGroups are groups that do not identify a user.
var commonGroups = map[string]bool{user.AllAuthenticated: true, user.AllUnauthenticated: true, "system:serviceaccounts": true}

// Scopes knows which resources belong to a namespace.
type Scopes interface {
	Namespaced(schema.GroupResource) bool
}

// Holds knows in which namespaces a user has a right to some object in them.
type Holds struct {
	// Policy and RBAC select which bindings count.
	Policy, RBAC bool
	// Served knows which resources belong to a namespace.
	Served Scopes

	known map[uint32]bool // by role
}

// In reports whether a binding of the namespace gives the caller a right to a resource that belongs to a namespace.
// Rights from the groups of all users or all service accounts do not count, and denies are ignored.
func (h *Holds) In(q *Query, namespace string) bool {
	hash := q.ix.hash(namespace)
	for s, i := q.next(0); s != nil; s, i = q.next(i) {
		if s.key.Group && commonGroups[s.key.Name] {
			continue
		}
		here, ok := s.local().Get(hash, namespace)
		if !ok {
			continue
		}
		if h.Policy && h.any(q.ix, here.policy) || h.RBAC && h.any(q.ix, here.rbac) {
			return true
		}
	}
	return false
}

func (h *Holds) any(ix *Index, g grants) bool {
	return slices.ContainsFunc(g, func(rg roleGrant) bool {
		gives, ok := h.known[rg.id]
		if !ok {
			gives = h.gives(ix, rg.id)
			if h.known == nil {
				h.known = map[uint32]bool{}
			}
			h.known[rg.id] = gives
		}
		return gives
	})
}

// gives reports whether a role has an allow rule for a resource that belongs to a namespace.
func (h *Holds) gives(ix *Index, id uint32) bool {
	r := ix.slots.Get(id)
	if r == nil {
		return false
	}
	for _, cells := range [...][]matching.Cell{r.allow.Cells, r.allow.Wild} {
		for i := range cells {
			if h.covers(ix, &cells[i]) {
				return true
			}
		}
	}
	return false
}

func (h *Holds) covers(ix *Index, c *matching.Cell) bool {
	for _, gr := range ix.kinds.Resources() {
		if h.about(c, gr) {
			return true
		}
	}
	return false
}

// about reports whether a cell matches a resource that belongs to a namespace.
func (h *Holds) about(c *matching.Cell, gr schema.GroupResource) bool {
	return (c.AnyRes || c.Res == gr.Resource) && c.InGroup(gr.Group) && (c.Rule.Groups == nil || slices.Contains(c.Rule.Groups, gr.Group)) && h.Served.Namespaced(gr)
}

// SameFor reports whether another state of the index is exactly the same for a user: no binding of the user or of one
// of their groups has changed, nor a role bound by one, nor the meaning of names.
func (ix *Index) SameFor(u user.Info, other *Index) bool {
	switch {
	case ix == other:
		return true
	case u == nil || other == nil || ix.seed != other.seed || ix.kinds != other.kinds || ix.master != other.master:
		return false
	}
	if !ix.sameOf(Subject{Name: u.GetName()}, other) {
		return false
	}
	for _, g := range u.GetGroups() {
		if !ix.sameOf(Subject{Group: true, Name: g}, other) {
			return false
		}
	}
	return true
}

// sameOf compares what one subject has.
func (ix *Index) sameOf(key Subject, other *Index) bool {
	h := ix.hashSubject(key)
	s, ok := ix.subjects.Get(h, key)
	o, had := other.subjects.Get(h, key)
	if !ok || !had {
		return ok == had
	}
	if s != o {
		return false
	}
	same := func(g grants) bool {
		return !slices.ContainsFunc(g, func(rg roleGrant) bool {
			r := ix.slots.Get(rg.id)
			return r != other.slots.Get(rg.id) || r != nil && r.asksTime
		})
	}
	if !same(s.cluster) || !same(s.master()) {
		return false
	}
	all := true
	s.local().Each(func(_ string, l *local) bool {
		all = same(l.policy) && same(l.rbac)
		return all
	})
	return all
}
