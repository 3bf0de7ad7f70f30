package ruleset

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/internal/engine/verbs"
)

// Action is what a request does, in any namespace and by any caller.
type Action struct {
	Verb     string
	Resource schema.GroupResource
	Sub      string
}

// namespaceObjects are the namespaces themselves.
var namespaceObjects = schema.GroupResource{Resource: "namespaces"}

// Everywhere visits the rules of the master namespace that allow the caller something under a condition, with the
// actions that they are about: those on resources that belong to a namespace, and the verb of the query on namespaces
// themselves. It visits further actions of a rule as long as visit returns true. Rights from the groups of all users or
// all service accounts do not count.
func (h *Holds) Everywhere(q *Query, visit func(Hit, Action) (more bool)) {
	for s, i := q.next(0); s != nil; s, i = q.next(i) {
		if s.key.Group && commonGroups[s.key.Name] {
			continue
		}
		g := s.master()
		for j := range g {
			r := q.ix.slots.Get(g[j].id)
			if r == nil {
				continue
			}
			var done []*matching.Rule
			for _, cells := range [...][]matching.Cell{r.allow.Cells, r.allow.Wild} {
				for k := range cells {
					c := &cells[k]
					if c.Rule.Cond == nil || slices.Contains(done, c.Rule) {
						continue
					}
					hit := Hit{rule: c.Rule, role: r, grant: &g[j], who: s}
					if !h.actions(q, c, hit, visit) {
						done = append(done, c.Rule)
					}
				}
			}
		}
	}
}

// actions visits the actions of one kind of a rule.
func (h *Holds) actions(q *Query, c *matching.Cell, hit Hit, visit func(Hit, Action) (more bool)) bool {
	for _, gr := range q.ix.kinds.Resources() {
		if !h.about(c, gr) && gr != namespaceObjects {
			continue
		}
		for _, a := range actionsOf(hit, c, gr) {
			if gr == namespaceObjects && (a.Verb != q.req.Verb || a.Sub != "") {
				continue
			}
			var req matching.Request
			req.Set(q.ix.seed, &authorizer.AttributesRecord{Verb: a.Verb, APIGroup: gr.Group, Resource: gr.Resource, Subresource: a.Sub, ResourceRequest: true})
			req.ByName = true
			if (c.AnyRes || c.Res == gr.Resource) && c.Check(&req) != matching.Misses && !visit(hit, a) {
				return false
			}
		}
	}
	return true
}

// actionsOf returns the actions on a resource that a rule may allow: a superset of those that it allows.
func actionsOf(hit Hit, c *matching.Cell, gr schema.GroupResource) (all []Action) {
	rule := hit.PolicyRule()
	if rule == nil {
		return nil
	}
	sub := c.Sub
	if c.Mode == matching.SubAny {
		sub = "status"
	}
	for _, verb := range rule.Verbs {
		switch verb {
		case "*":
			for _, one := range verbs.All() {
				all = append(all, Action{one, gr, sub})
			}
		case "exec", "proxy": // which are verbs of rules, and subresources of requests
			all = append(all, Action{verbs.Create, gr, verb})
		default:
			all = append(all, Action{verb, gr, sub})
		}
	}
	return all
}
