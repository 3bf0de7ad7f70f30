package escalation

import (
	"fmt"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// question is a request, at a place or for a path.
type question struct {
	at               *place
	verb, name, path string
}

// holding is what the writer holds of a request, whichever rule wants it. Many rules want the same request.
type holding struct {
	// why says why it is not held, or "".
	why string
	// under are the rules under any of whose conditions it is held; empty if that does not depend on the object.
	under []condition
}

// condition is the condition of a rule for one request. A where only applies to a connection if the rule names it: then
// it is about the target.
type condition struct {
	rule  *policyv1alpha1.PolicyRule
	aimed bool
}

// implication is a question whether one condition implies another.
type implication struct{ wanted, held condition }

// holdingOf decides a request, once.
func (h *proof) holdingOf(at *place, a authorizer.AttributesRecord) *holding {
	key := question{at: at, verb: a.Verb, name: a.Name, path: a.Path}
	v, ok := h.holdings[key]
	if !ok {
		v = h.decide(at, a)
		h.holdings[key] = v
	}
	return v
}

func (h *proof) decide(at *place, a authorizer.AttributesRecord) *holding {
	a.User = h.user
	var q ruleset.Query
	q.Reset(h.ix, a)
	h.budget.charge(perRequest)
	if at != nil {
		q.AsKind(at.kind)
		h.budget.charge(len(h.lens.byRes[at.res]) + len(h.lens.wild) + h.lens.kinds/perKind)
	} else {
		h.budget.charge(h.names.paths)
	}
	if h.grant.Lifted {
		return &holding{why: whyDenied(&q)}
	}
	s := q.Decide(nil)
	h.budget.charge(perCondition * len(s.Conditions))
	switch {
	case s.Certainty == ruleset.Always:
		return &holding{}
	case s.Certainty == ruleset.Never && s.Deny.Found():
		return &holding{why: deniedBy(s.Deny)}
	case s.Certainty == ruleset.Never:
		return &holding{why: "no rule allows it"}
	}
	for _, c := range s.Conditions {
		if c.Effect() == ruleset.Denies {
			return &holding{why: deniedBy(c)}
		}
	}
	v := &holding{why: fmt.Sprintf("held only under the condition of %s, rule %d", s.Conditions[0].Role(), s.Conditions[0].RuleIndex())}
	for _, c := range s.Conditions {
		v.under = append(v.under, condition{c.PolicyRule(), c.Aims().Has(a.APIGroup, a.Resource, a.Subresource)})
	}
	return v
}

// why returns why a request does not count as held by the writer for a wanted rule, or "" if it does.
func (h *proof) why(w *matching.Rule, v *holding, a authorizer.AttributesRecord) string {
	if len(v.under) == 0 {
		return v.why
	}
	if w.RBAC {
		return v.why + ", and RBAC has no conditions: grant it by a role of Policy"
	}
	other := false
	if written, ok := w.Cond.(asWritten); ok {
		wanted := condition{written.PolicyRule, w.Aims.Has(a.APIGroup, a.Resource, a.Subresource)}
		if wanted.rule.Where != "" && !wanted.aimed && connect.Of(a.APIGroup, a.Resource, a.Subresource) != connect.None {
			return "" // such a where never holds, so nothing is granted
		}
		for _, held := range v.under {
			if h.implies(wanted, held) {
				return ""
			}
			other = other || held.rule.Where != "" && held.aimed != wanted.aimed
		}
	}
	if other {
		return v.why + ", and that is not about the target of the connection: its rule does not name it"
	}
	return v.why + ", and the condition of the new rule is not known to imply it: repeat that condition word for word, without asking who the caller is"
}

func (h *proof) implies(wanted, held condition) bool {
	if held.rule.Where != "" && held.aimed != wanted.aimed {
		return false // the same text, about something else
	}
	h.budget.charge(2)
	key := implication{wanted, held}
	is, ok := h.implied[key]
	if !ok {
		is = h.grant.Implies(wanted.rule, held.rule)
		h.budget.charge((len(held.rule.Where) + len(held.rule.When)) / 64)
		h.implied[key] = is
	}
	return is
}
