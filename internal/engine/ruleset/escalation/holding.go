package escalation

import (
	"fmt"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
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
	// why it is not held, or "".
	why string
	// under are the rules under whose conditions it is held, any of them; none if that does not depend on the object.
	under []*policyv1alpha1.PolicyRule
}

// implication is a question whether one condition implies another.
type implication struct{ wanted, held *policyv1alpha1.PolicyRule }

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
		v.under = append(v.under, c.PolicyRule())
	}
	return v
}

// why tells why a request does not count as held by the writer for a wanted rule, or "" if it does.
func (h *proof) why(w *matching.Rule, v *holding) string {
	if len(v.under) == 0 {
		return v.why
	}
	if w.RBAC {
		return v.why + ", and RBAC has no conditions: grant it by a role of Policy"
	}
	if written, ok := w.Cond.(asWritten); ok {
		for _, held := range v.under {
			if h.implies(written.PolicyRule, held) {
				return ""
			}
		}
	}
	return v.why + ", and the condition of the new rule is not known to imply it: repeat that condition word for word, without asking who the caller is"
}

func (h *proof) implies(wanted, held *policyv1alpha1.PolicyRule) bool {
	h.budget.charge(2)
	key := implication{wanted, held}
	is, ok := h.implied[key]
	if !ok {
		is = h.grant.Implies(wanted, held)
		h.budget.charge((len(held.Where) + len(held.When)) / 64)
		h.implied[key] = is
	}
	return is
}
