package authorize

import (
	"context"
	"fmt"
	"iter"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Walk is one way through the chain: the answers that are kept, and then the links that were not asked yet. Everything
// that the chain is asked is a fold over Answers. A Walk is a value: a copy goes its own way from where it was made.
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
	// decision says nothing if there is a set: that is then the answer.
	decision authorizer.ConditionsAwareDecision
	set      *openSet
}

// isOpen reports whether it depends on the object.
func (a *answer) isOpen() bool { return a.set != nil || !a.decision.IsUnconditional() }

// upstream is the answer as upstream has it.
func (a *answer) upstream() authorizer.ConditionsAwareDecision { return decisionOf(a.decision, a.set) }

// kept is an answer that is kept. Decisions of upstream's are large, and few answers have one.
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

// Answers yields what the links say, in order. A link is asked when its turn comes; after a break no
// more are asked, and the walk can go on later with the links that are left.
func (w *Walk) Answers(ctx context.Context) iter.Seq2[Link, authorizer.ConditionsAwareDecision] {
	return func(yield func(Link, authorizer.ConditionsAwareDecision) bool) {
		for a := range w.answers(ctx) {
			if !yield(*a.link, a.upstream()) {
				return
			}
		}
	}
}

// answers yields the same for those who need no upstream decision.
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

// Fold goes on without conditions: the first Allow or Deny decides. Links that gave an unconditional answer are not
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
				err = nil // it has decided; upstream would make a 500 of an error
			}
			return decision, reason, link.Name, err
		}
		r.note(link.Name, d.Reason(), d.Error())
	}
	return authorizer.DecisionNoOpinion, r.reason(), "", utilerrors.NewAggregate(r.errs)
}

// Parts takes an unconditional decision apart. A conditional one is what it folds to.
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

// folds says why conditions that nobody evaluates do not allow: those that may allow, and those that can only deny.
func folds(mayAllow bool) string {
	if mayAllow {
		return "allowed only under conditions on the object; use `proviso can-i` to see them"
	}
	return "denied under conditions on the object; use `proviso can-i` to see them"
}

// record collects what links without an opinion had to say.
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
		r.errs = append(r.errs, err) // as the authorizer put it: reviews quote it, and stock adds nothing to it
	}
}

func (r *record) reason() string { return strings.Join(r.reasons, "\n") }

// all joins errors and failures.
func (r *record) all() error {
	return utilerrors.NewAggregate(append(r.errs[:len(r.errs):len(r.errs)], r.failures...))
}

// kept is the record for the rest of the walk; nil if it is empty.
func (r *record) kept() *record {
	if len(r.reasons)+len(r.errs)+len(r.failures) == 0 {
		return nil
	}
	return r.copy()
}

// copy is a record that can be continued without changing this one.
func (r *record) copy() *record {
	if r == nil {
		return &record{}
	}
	return &record{r.reasons[:len(r.reasons):len(r.reasons)], r.errs[:len(r.errs):len(r.errs)], r.failures[:len(r.failures):len(r.failures)]}
}
