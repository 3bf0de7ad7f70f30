package authorize

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/request/requestctx"
)

// Observer is told about every request that the gate has decided. It cannot change the decision.
type Observer interface {
	Decided(ctx context.Context, made Observation)
}

// Observation is a decision with what it takes to make it again under other rules. It is a value, so it costs nothing
// if there is no observer.
type Observation struct {
	Gate  *Gate
	Attrs authorizer.Attributes
	// Known is what the chain knew without the object.
	Known Partial
	// Allowed reports whether the request continues or, if it is Final, whether it was allowed.
	Allowed bool
	// Slot and Pass were handed to admission, if the request continues.
	Slot requestctx.Slot
	Pass requestctx.Pass
	// Final is true if admission does not follow. Then Data is what conditions were resolved with; nil if there were
	// none.
	Final bool
	Data  authorizer.ConditionsData
}

// Unobserved is an observer that ignores everything.
type Unobserved struct{}

// Decided implements Observer.
func (Unobserved) Decided(context.Context, Observation) {}

// final observes a decision with nothing to follow.
func (g *Gate) final(ctx context.Context, attrs authorizer.Attributes, v Verdict, allowed bool, data authorizer.ConditionsData) {
	g.observer.Decided(ctx, Observation{Gate: g, Attrs: attrs, Known: v.known, Allowed: allowed, Final: true, Data: data})
}

// ObserveAccess is for a host that is asked about access and about admission in separate calls. A request that
// admission follows is observed there: see ObserveAdmission.
func (g *Gate) ObserveAccess(ctx context.Context, attrs authorizer.Attributes, v Verdict) {
	passes := v.Answer == Allowed || v.Answer == Open
	if passes && attrs.IsResourceRequest() && (!attrs.IsReadOnly() || isConnect(attrs)) {
		return
	}
	g.observer.Decided(ctx, Observation{Gate: g, Attrs: attrs, Known: v.known, Allowed: passes, Slot: requestctx.Request, Pass: v.Pass})
}

// ObserveAdmission is ObserveAccess for a request that is admitted with a pass.
func (g *Gate) ObserveAdmission(ctx context.Context, attrs authorizer.Attributes, v Verdict, pass requestctx.Pass) {
	g.observer.Decided(ctx, Observation{Gate: g, Attrs: attrs, Known: v.known, Allowed: true, Slot: requestctx.Request, Pass: pass})
}
