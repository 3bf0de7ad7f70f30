package authzwebhook

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/request/authorize"
)

const reasonFailed = "one or more conditional evaluation errors occurred"

// EvaluateConditions resolves a set that this webhook answered with: in process as far as that decides, otherwise by
// asking the conditions endpoint about the whole set.
func (w *Webhook) EvaluateConditions(ctx context.Context, d authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	start := time.Now()
	set := setIn(d)
	if set == nil || data == nil {
		return d.FailureDecision(), "failed closed", fmt.Errorf("webhook authorizer %s can only evaluate what it answered itself, got %s", w.name, d)
	}
	facts := authorize.FactsOf(ctx, data)
	local := set.inProcess(ctx, d.ConditionsMap(), facts)
	place := "process"
	if !local.decided {
		place = "endpoint"
		local = set.combine(local, w.endpoint(ctx, set, facts, data))
	}
	decision, reason, err := local.settle(ctx, set)
	if decision == authorizer.DecisionNoOpinion && reason == "" {
		reason = authorize.Unmet(d.ConditionsMap()) // the webhook did not say why not (CA-10)
	}
	observe(ctx, w.name, place, word(decision, err), start)
	return decision, reason, err
}

func setIn(d authorizer.ConditionsAwareDecision) *conditionSet {
	if !d.IsConditionsMap() {
		return nil
	}
	m := d.ConditionsMap()
	for _, group := range []iter.Seq[authorizer.Condition]{m.DenyConditions(), m.NoOpinionConditions(), m.AllowConditions()} {
		for c := range group {
			if own, ok := c.(*condition); ok {
				return own.set
			}
			return nil
		}
	}
	return nil
}

// reading is what is known about a set. The zero value decides nothing and allows nothing.
type reading struct {
	// decided is false while the webhook has to be asked.
	decided  bool
	decision authorizer.Decision
	reason   string
	err      error
	// denyFailed is true if a Deny condition could not be evaluated, or if that is unknown: the failure mode decides.
	denyFailed bool
	// held is true if a NoOpinion condition is met or fails: the set can no longer allow.
	held bool
	// lied is true if the answer is impossible: it fails closed, whatever the failure mode.
	lied bool
}

// inProcess evaluates in the order of CA-2. A step is final only if no condition that was not evaluated could overrule
// it.
func (s *conditionSet) inProcess(ctx context.Context, m authorizer.ConditionsMap, facts *expr.Data) reading {
	deny := tallyOf(ctx, m.DenyConditions(), facts)
	if deny.met != nil {
		return reading{decided: true, decision: authorizer.DecisionDeny, reason: describe(deny.met, "denied the request")}
	}
	noOpinion := tallyOf(ctx, m.NoOpinionConditions(), facts)
	f := reading{decision: authorizer.DecisionNoOpinion, denyFailed: deny.err != nil, held: noOpinion.met != nil || noOpinion.err != nil}
	switch {
	case deny.open && (deny.err == nil || s.failOpen()):
		f.err = errors.Join(deny.err, noOpinion.err)
		return f
	case f.denyFailed:
		f.decided, f.reason, f.err = true, reasonFailed, deny.err
		return f
	case f.held:
		f.decided, f.reason, f.err = true, reasonFailed, noOpinion.err
		if noOpinion.met != nil {
			f.reason, f.err = describe(noOpinion.met, "evaluated to NoOpinion"), nil
		}
		return f
	case noOpinion.open:
		return f
	}
	allow := tallyOf(ctx, m.AllowConditions(), facts)
	switch {
	case allow.met != nil:
		return reading{decided: true, decision: authorizer.DecisionAllow, reason: describe(allow.met, "allowed the request")}
	case allow.open:
		f.err = allow.err
		return f
	}
	return reading{decided: true, decision: authorizer.DecisionNoOpinion, reason: authorize.Unmet(m), err: allow.err}
}

// combine returns the stricter of the local reading and the webhook's answer.
func (s *conditionSet) combine(local, asked reading) reading {
	asked.decided = true
	if asked.decision == authorizer.DecisionDeny || asked.denyFailed || asked.lied {
		return asked
	}
	if local.denyFailed {
		return reading{decided: true, decision: authorizer.DecisionNoOpinion, denyFailed: true, reason: reasonFailed, err: local.err}
	}
	if local.held && asked.decision == authorizer.DecisionAllow {
		return reading{decided: true, decision: authorizer.DecisionNoOpinion, reason: "a NoOpinion condition holds", err: local.err}
	}
	return asked
}

// settle applies the failure mode. The chain turns a Deny with an error into NoOpinion for a webhook that fails open; a
// Deny that must stand nevertheless is returned without its error, which is logged instead.
func (r reading) settle(ctx context.Context, s *conditionSet) (authorizer.Decision, string, error) {
	switch {
	case r.lied:
		r.decision = authorizer.DecisionNoOpinion
		if canDeny(&s.answer) {
			r.decision = authorizer.DecisionDeny
		}
	case r.denyFailed && s.failOpen():
		r.decision = authorizer.DecisionNoOpinion
	case r.denyFailed:
		r.decision = authorizer.DecisionDeny
	}
	if r.decision == authorizer.DecisionDeny && r.err != nil && s.webhook.failOpen {
		klog.FromContext(ctx).Error(r.err, "Denied because conditions could not be evaluated", "authorizer", s.webhook.name)
		r.err = nil
	}
	return r.decision, r.reason, r.err
}

func word(d authorizer.Decision, err error) string {
	switch {
	case d == authorizer.DecisionAllow:
		return "allowed"
	case d == authorizer.DecisionDeny:
		return "denied"
	case err != nil:
		return "failed"
	}
	return "no_opinion"
}

// tally is the result of the conditions of one effect.
type tally struct {
	met  authorizer.Condition
	err  error
	open bool // some could not be evaluated here
}

func tallyOf(ctx context.Context, conditions iter.Seq[authorizer.Condition], facts *expr.Data) tally {
	var t tally
	for c := range conditions {
		own, ok := c.(*condition)
		if !ok {
			t.err = errors.Join(t.err, fmt.Errorf("condition %q is not the webhook's", c.GetID()))
			continue
		}
		switch r := own.evaluate(ctx, facts); {
		case r.IsTrue():
			return tally{met: c}
		case r.IsFalse():
		case r.IsUnevaluatable():
			t.open = true
		default:
			t.err = errors.Join(t.err, fmt.Errorf("condition %q: %w", c.GetID(), r.Error()))
		}
	}
	return t
}

func describe(c authorizer.Condition, what string) string {
	text := fmt.Sprintf("condition %q %s", c.GetID(), what)
	if d := c.GetDescription(); d != "" {
		text += ": " + d
	}
	return text
}
