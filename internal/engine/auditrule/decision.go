package auditrule

import (
	"fmt"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// A rule may ask how a request was decided (DA-15), which is known only at its end. Until then every decision is
// possible, so the event keeps all the detail that it may need, and gets its level when it is routed. If the decision
// is still unknown then, as for a request that was invalid before its conditions were evaluated, the event is recorded
// rather than missed.

// decisions is a set of decisions that are possible, or asked for.
type decisions uint8

const (
	allow decisions = 1 << iota
	deny
	noOpinion
	anyDecision = allow | deny | noOpinion
)

// conditions is a set of answers to whether a decision depended on conditions.
type conditions uint8

const (
	conditional conditions = 1 << iota
	unconditional
	either = conditional | unconditional
)

// The annotations that say how a request was decided. The first is upstream's; an authorized request has it, whatever
// admission says.
const (
	filterAnnotation  = "authorization.k8s.io/decision"
	pendingAnnotation = "authorization.proviso.dev/pending"
	outcomeAnnotation = "authorization.proviso.dev/outcome"
)

var decisionNames = map[v1alpha1.Decision]decisions{
	v1alpha1.DecisionAllow: allow, v1alpha1.DecisionDeny: deny, v1alpha1.DecisionNoOpinion: noOpinion,
}

// flattenDecision reads which decisions a rule asks for; none means every decision.
func flattenDecision(p *predicate, r *v1alpha1.Rule) error {
	for i, name := range r.Decisions {
		d, ok := decisionNames[name]
		if !ok {
			return fmt.Errorf("decisions[%d]: %q is not Allow, Deny or NoOpinion", i, name)
		}
		p.decisions |= d
	}
	if r.Conditional != nil {
		if p.conditions = unconditional; *r.Conditional {
			p.conditions = conditional
		}
	}
	return nil
}

// decisionOf recovers the final decision from an event. A request without the annotation, such as an unauthenticated
// one, has no decision.
func decisionOf(rq *request, ev *auditinternal.Event) {
	_, pending := ev.Annotations[pendingAnnotation]
	if rq.conditions = unconditional; pending {
		rq.conditions = conditional
	}
	rq.refused = ev.Annotations[filterAnnotation] == "forbid"
	d, known := decisionNames[v1alpha1.Decision(ev.Annotations[outcomeAnnotation])]
	forbidden := ev.ResponseStatus != nil && ev.ResponseStatus.Code == 403
	switch {
	case known && d == allow && pending && forbidden:
		// The annotation is from the first of several objects; a later one may have been refused.
		rq.decisions = anyDecision
	case known:
		rq.decisions = d
	case rq.refused:
		rq.decisions = deny | noOpinion
	case pending:
		rq.decisions = anyDecision
	case ev.Annotations[filterAnnotation] == "allow":
		rq.decisions = allow
	}
}

// answer reports whether a predicate matches.
type answer uint8

const (
	no answer = iota
	perhaps
	yes
)

func (p *predicate) asksDecision() bool { return p.decisions != 0 || p.conditions != 0 }

// decided looks only at the decision.
func (p *predicate) decided(rq *request) answer {
	return min(within(p.decisions, rq.decisions), within(p.conditions, rq.conditions))
}

// within reports whether the possible values are among those asked for: always, perhaps or never.
func within[T decisions | conditions](asked, possible T) answer {
	switch {
	case asked == 0:
		return yes
	case asked&possible == 0:
		return no
	case possible&^asked == 0:
		return yes
	}
	return perhaps
}
