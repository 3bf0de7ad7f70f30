package authorize

import (
	"context"
	"fmt"
	"iter"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Walk is one way through the chain: the answers that are kept, and then the links that were not asked yet. Every
// question to the chain is a fold over Answers. A Walk is a value: a copy continues independently from the same point.
type Walk struct {
	attrs authorizer.Attributes
	kept  []kept
	rest  []Link
	// folds asks for answers without conditions, for callers that cannot carry them to admission.
	folds bool
	// how a list or watch is asked about.
	how lists
}

// answer is what a link said.
type answer struct {
	link *Link
	// decision is unset if there is a set, which then is the answer.
	decision authorizer.ConditionsAwareDecision
	set      *openSet
}

// isOpen reports whether the answer depends on the object.
func (a *answer) isOpen() bool { return a.set != nil || !a.decision.IsUnconditional() }

// upstream returns the answer as upstream's type.
func (a *answer) upstream() authorizer.ConditionsAwareDecision { return decisionOf(a.decision, a.set) }

// kept is an answer that is kept. Upstream's decisions are large, and few answers have one.
type kept struct {
	link     *Link
	decision *authorizer.ConditionsAwareDecision
	set      *openSet
}

func (k kept) answer() answer {
	if k.set != nil {
		return answer{link: k.link, set: k.set}
	}
	return answer{link: k.link, decision: *k.decision}
}

// Walk begins at the first link.
func (c *Chain) Walk(attrs authorizer.Attributes) Walk {
	return Walk{attrs: c.Scoped(attrs), rest: c.Links()}
}

// Answers yields what the links say, in order. A link is asked when its turn comes; after a break no more are asked,
// and the walk can continue later with the rest.
func (w *Walk) Answers(ctx context.Context) iter.Seq2[Link, authorizer.ConditionsAwareDecision] {
	return func(yield func(Link, authorizer.ConditionsAwareDecision) bool) {
		for a := range w.answers(ctx) {
			if !yield(*a.link, a.upstream()) {
				return
			}
		}
	}
}

// answers yields the same for callers that do not need upstream's decision.
func (w *Walk) answers(ctx context.Context) iter.Seq[*answer] {
	return func(yield func(*answer) bool) {
		for _, k := range w.kept {
			a := k.answer()
			if w.folds && a.isOpen() {
				w.ask(ctx, a.link, &a)
			}
			if !yield(&a) {
				return
			}
		}
		for len(w.rest) > 0 {
			link := &w.rest[0]
			w.rest = w.rest[1:]
			var a answer
			w.ask(ctx, link, &a)
			if !yield(&a) {
				return
			}
		}
	}
}

// ask asks one link. Folding is left to the link: a conditional Deny denies, a conditional Allow has no opinion.
func (w *Walk) ask(ctx context.Context, link *Link, a *answer) {
	*a = answer{link: link}
	tier, ok := link.Authorizer.(opener)
	switch {
	case ok && w.folds:
		a.decision = authorizer.ConditionsAwareDecisionFromParts(tier.fold(ctx, w.attrs, w.how))
		return
	case ok:
		a.decision, a.set = tier.open(ctx, w.attrs, w.how)
		return
	case w.folds:
		a.decision = authorizer.ConditionsAwareDecisionFromParts(link.Authorizer.Authorize(ctx, w.attrs))
		return
	}
	a.decision = link.Authorizer.ConditionsAwareAuthorize(ctx, w.attrs)
}

// Keep keeps an answer for the rest of the walk. Copies of the walk do not see it.
func (w *Walk) Keep(link Link, d authorizer.ConditionsAwareDecision) {
	w.keep(&answer{link: &link, decision: d})
}

func (w *Walk) keep(a *answer) {
	k := kept{link: a.link, set: a.set}
	if k.set == nil {
		d := a.decision
		k.decision = &d
	}
	if len(w.kept) == 0 && k.set != nil {
		w.kept = append(k.set.answer[:0], k)
		return
	}
	w.kept = append(w.kept[:len(w.kept):len(w.kept)], k)
}

// Fold continues without conditions: the first Allow or Deny decides. Links that gave an unconditional answer are not
// asked again.
func (w Walk) Fold(ctx context.Context) (authorizer.Decision, string, error) {
	decision, reason, _, err := w.fold(ctx, &record{})
	return decision, reason, err
}

// fold also names the link that decided.
func (w Walk) fold(ctx context.Context, r *record) (_ authorizer.Decision, reason, by string, _ error) {
	w.folds = true
	for a := range w.answers(ctx) { // none of them is open
		link, d := a.link, a.decision
		if decision, reason, err := Parts(d); decision != authorizer.DecisionNoOpinion {
			if FailedClosed(err) {
				err = nil // it has decided; upstream would turn an error into a 500
			}
			return decision, reason, link.Name, err
		}
		r.note(link.Name, d.Reason(), d.Error())
	}
	return authorizer.DecisionNoOpinion, r.reason(), "", utilerrors.NewAggregate(r.errs)
}

// Parts splits an unconditional decision. A conditional one is folded.
func Parts(d authorizer.ConditionsAwareDecision) (authorizer.Decision, string, error) {
	switch {
	case d.IsAllow():
		return authorizer.DecisionAllow, d.Reason(), d.Error()
	case d.IsNoOpinion():
		return authorizer.DecisionNoOpinion, d.Reason(), d.Error()
	case d.IsDeny():
		return authorizer.DecisionDeny, d.Reason(), d.Error()
	}
	return d.FailureDecision(), folds(d.PossibleDecisions().Has(authorizer.DecisionAllow)), nil
}

// folds says why conditions that will not be evaluated do not allow: those that may allow, and those that can only
// deny.
func folds(mayAllow bool) string {
	if mayAllow {
		return "allowed only under conditions on the object; use `proviso can-i` to see them"
	}
	return "denied under conditions on the object; use `proviso can-i` to see them"
}

// record collects the reasons and errors of links without an opinion.
type record struct {
	reasons  []string
	errs     []error
	failures []error // of conditions
}

func (r *record) note(name, reason string, err error) {
	if reason != "" {
		r.reasons = append(r.reasons, name+": "+reason)
	}
	switch {
	case FailedClosed(err):
		r.failures = append(r.failures, fmt.Errorf("%s: %w", name, err))
	case err != nil:
		r.errs = append(r.errs, err) // in the authorizer's words: reviews quote it, and stock Kubernetes adds nothing to it
	}
}

func (r *record) reason() string { return strings.Join(r.reasons, "\n") }

// all joins errors and failures.
func (r *record) all() error {
	return utilerrors.NewAggregate(append(r.errs[:len(r.errs):len(r.errs)], r.failures...))
}

// kept returns the record for the rest of the walk; nil if it is empty.
func (r *record) kept() *record {
	if len(r.reasons)+len(r.errs)+len(r.failures) == 0 {
		return nil
	}
	return r.copy()
}

// copy returns a record that can be continued without changing this one.
func (r *record) copy() *record {
	if r == nil {
		return &record{}
	}
	return &record{r.reasons[:len(r.reasons):len(r.reasons)], r.errs[:len(r.errs):len(r.errs)], r.failures[:len(r.failures):len(r.failures)]}
}
