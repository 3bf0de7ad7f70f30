package authorize

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/selectors"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Answer is what is known about a request before its object. The zero value denies.
type Answer int

// The answers.
const (
	// Denied: a rule or an authorizer denies it, whatever the object is.
	Denied Answer = iota
	// Unanswered: nothing here allows the request. A server refuses it; beside another server, that one may allow it.
	Unanswered
	// Allowed: whatever the object is.
	Allowed
	// Open: it depends on the object, or on the fields that change.
	Open
)

// Verdict is the decision on a request, in every host and for every question about it. The zero value denies.
type Verdict struct {
	Answer Answer
	// By names the link that decided; empty if none did.
	By string
	// Reason may be shown to the caller, Err belongs to the log.
	Reason string
	Err    error
	// Pass is what is left for admission, or for the storage of a read. It denies unless Answer is Allowed or Open.
	Pass requestctx.Pass

	known Partial
	// unselectable says why a list that is allowed under a condition cannot be narrowed.
	unselectable error
}

// Decide is the one decision about a request: the filter, reviews, who-can, narrowed reads and the sidecar all ask it.
// The request has its policy pinned to the context. In this order:
//
//   - The chain of authorizers is asked as far as it can be without the object.
//   - If conditions are left and nothing will look at the object, they fold: an allow under a condition is none, a deny
//     under a condition denies.
//   - A condition that is left makes the verdict open. A list or watch is narrowed to the objects that meet it, and that
//     every link of a narrowed token allows.
//   - A list or watch that is not allowed as a whole shows, with unions, what is allowed in single namespaces.
//   - If nothing allows the request and nothing denies it, rights to single fields may still open it.
//
// Nothing else decides whether a condition counts.
func (g *Gate) Decide(ctx context.Context, attrs authorizer.Attributes) Verdict {
	return g.decide(ctx, attrs, narrowTo)
}

// decide is Decide with another way to get the selectors of a list or watch.
func (g *Gate) decide(ctx context.Context, attrs authorizer.Attributes, by narrower) Verdict {
	snap := pinned(ctx)
	if snap == nil {
		return Verdict{Reason: "no policy was pinned to this request"}
	}
	known, parts := g.ask(ctx, snap, attrs)
	if known.rest != nil {
		unseen := g.Unseen(attrs)
		if unseen == nil {
			unseen = g.probes(ctx, known, snap, attrs)
		}
		if unseen != nil {
			known = known.folded(ctx, unseen)
		}
	}
	switch {
	case g.showsPlace(ctx, known, snap, attrs):
		return known.verdict(Allowed, reasonPlace, requestctx.Allowed())
	case known.Pending != nil && IsRead(attrs):
		return g.read(ctx, known, snap, attrs, parts.joined(by))
	case known.Pending != nil:
		return known.verdict(Open, "conditionally, by "+known.Waits, requestctx.Conditional(known.Pending))
	case known.Decision == authorizer.DecisionAllow:
		return known.verdict(Allowed, known.Reason, requestctx.Allowed())
	case known.Decision != authorizer.DecisionNoOpinion:
		return known.verdict(Denied, known.Reason, requestctx.Pass{})
	}
	if parts != nil && known.Decision == authorizer.DecisionNoOpinion && known.Err == nil {
		return parts.verdict(known)
	}
	if fields := g.opensFields(ctx, snap, attrs); fields != nil {
		return known.verdict(Open, "if field permissions cover every change", requestctx.Granular(known.Denies).Answered(fields))
	}
	return known.verdict(Unanswered, known.Reason, requestctx.Pass{})
}

// Unseen returns why no stage will look at the object of the request, so conditions on it fold; nil if one will.
func (g *Gate) Unseen(attrs authorizer.Attributes) error {
	if !g.conditional {
		return errOff
	}
	return g.Evaluated(attrs)
}

// read decides a read under a condition. An authorizer that allows it without one wins; otherwise a get is decided on
// the state that is read, and a list or watch is narrowed by selectors or by a check of each object.
func (g *Gate) read(ctx context.Context, v Partial, snap *snapshot.Snapshot, attrs authorizer.Attributes, by narrower) Verdict {
	if others, limits := v.apart(); limits != nil {
		return g.within(ctx, v, limits, g.read(ctx, others, snap, attrs, by), snap, attrs)
	}
	plain, refused := v.folded(ctx, nil), Unanswered
	if plain.Decision == authorizer.DecisionDeny {
		refused = Denied
	}
	switch {
	case plain.Decision == authorizer.DecisionAllow:
		return plain.verdict(Allowed, plain.Reason, requestctx.Allowed())
	case plain.Decision != authorizer.DecisionNoOpinion && !v.overridesDeny(ctx):
		return plain.verdict(Denied, plain.Reason, requestctx.Pass{})
	case plain.Err != nil:
		return plain.verdict(Unanswered, plain.Reason, requestctx.Pass{})
	case !isList(attrs.GetVerb()):
		return v.verdict(Open, "conditionally, by "+v.Waits, requestctx.Conditional(v.Pending))
	}
	n, err := v.narrow(ctx, snap.Served, by, g.reading != nil && g.reading.Asks(attrs) == nil)
	if isUnreadable(err) {
		// The narrowing filter reports what is wrong with the selector, as Kubernetes does; here it selects nothing.
		n, err = &requestctx.Narrowing{Box: selectors.Nothing()}, nil
	}
	if err != nil {
		whole := plain.verdict(refused, joinReasons(plain.Reason, err), requestctx.Pass{})
		whole.unselectable = err
		return whole
	}
	return v.verdict(Open, "conditionally, by "+v.Waits, requestctx.Narrowed(n))
}

// overridesDeny reports whether a deny without a condition comes after conditions that allow: where they are met, the
// link ahead has decided, in reads as in writes (PO-7).
func (v Partial) overridesDeny(ctx context.Context) bool {
	if v.rest == nil {
		return false
	}
	w, allows := v.rest.walk, false
	for a := range w.answers(ctx) {
		switch d := a.upstream(); {
		case d.IsDeny():
			return allows
		case a.isOpen() && d.FailureDecision() == authorizer.DecisionDeny:
			return false
		case a.isOpen():
			allows = true
		}
	}
	return false
}

func (v Partial) verdict(answer Answer, reason string, pass requestctx.Pass) Verdict {
	return Verdict{Answer: answer, By: v.Authorizer, Reason: reason, Err: v.Err, Pass: pass, known: v}
}

// folded is the partial decision if no condition is evaluated, with the reason.
func (v Partial) folded(ctx context.Context, unseen error) Partial {
	out := Partial{Failed: v.Failed}
	out.Decision, out.Reason, out.Authorizer, out.Err = v.fold(ctx)
	if out.Decision != authorizer.DecisionAllow {
		out.Reason = joinReasons(out.Reason, unseen)
	}
	return out
}

// Hangs reports whether the verdict is not final until admission has looked at the object.
func (v Verdict) Hangs() bool {
	return v.Answer == Open || v.Answer == Unanswered && v.known.Denies != nil
}

// DependsOnObject reports whether conditions on the object decide, rather than rights to the fields that change. A list
// that no selector of ours can narrow is among them: the caller's own selectors may imply the condition.
func (v Verdict) DependsOnObject() bool {
	return v.Answer == Open && !v.Pass.IsGranular() || v.unselectable != nil
}

// Over returns the gate with another chain, such as the part of it that can be enumerated. It has no observer.
func (g *Gate) Over(chain *Chain) *Gate {
	other := *g
	other.Chain, other.observer = chain, Unobserved{}
	return &other
}

// Folded is the verdict if no stage will look at the object after all.
func (v Verdict) Folded(ctx context.Context) Verdict {
	if !v.Hangs() {
		return v
	}
	known := v.known.selected().folded(ctx, nil)
	switch known.Decision {
	case authorizer.DecisionAllow:
		return known.verdict(Allowed, known.Reason, requestctx.Allowed())
	case authorizer.DecisionNoOpinion:
		return known.verdict(Unanswered, known.Reason, requestctx.Pass{})
	}
	return known.verdict(Denied, known.Reason, requestctx.Pass{})
}

// AtAuthorization is what an authorization filter answers, with admission to follow. It returns Allow for an open
// verdict although nothing is allowed yet: a host that does not use the Pass must call Folded or Resolve instead.
func (v Verdict) AtAuthorization() authorizer.Decision {
	switch v.Answer {
	case Allowed, Open:
		return authorizer.DecisionAllow
	case Unanswered:
		return authorizer.DecisionNoOpinion
	}
	return authorizer.DecisionDeny
}

// Beside is the pass for the admission of a server with its own authorizers: if nothing here allows the request, an
// authorizer there has allowed it, so only denies are left to check.
func (v Verdict) Beside() requestctx.Pass {
	switch {
	case v.Answer != Unanswered:
		return v.Pass
	case v.known.Denies != nil:
		return requestctx.Conditional(unlessDenied{v.known.Denies})
	}
	return requestctx.Allowed()
}

// Resolve decides the verdict with the object at hand, for checks in admission about something else than the request
// itself. It does not look at rights to single fields.
func (v Verdict) Resolve(ctx context.Context, data authorizer.ConditionsData) requestctx.Outcome {
	switch {
	case v.known.Pending != nil:
		return v.known.Pending.Resolve(ctx, data)
	case v.known.Denies != nil:
		return v.known.Denies.Resolve(ctx, data)
	}
	return v.known.outcome()
}

// Report records in audit and metrics that a condition failed before there was an object.
func (v Verdict) Report(ctx context.Context) { v.known.report(ctx) }

func pinned(ctx context.Context) *snapshot.Snapshot {
	if holder := requestctx.From(ctx); holder != nil {
		return holder.Snapshot
	}
	return nil
}

// unlessDenied turns NoOpinion into Allow: nothing here denies the request.
type unlessDenied struct{ requestctx.Pending }

// Resolve implements requestctx.Pending.
func (u unlessDenied) Resolve(ctx context.Context, data authorizer.ConditionsData) requestctx.Outcome {
	out := u.Pending.Resolve(ctx, data)
	if out.Decision == authorizer.DecisionNoOpinion {
		out.Decision, out.Reason = authorizer.DecisionAllow, "another authorizer has allowed it"
	}
	return out
}
