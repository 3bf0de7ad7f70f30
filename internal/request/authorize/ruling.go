package authorize

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/request/requestctx"
)

// Footing of a request in a Ruling. The zero value denies.
type Footing int

// How a request stands.
const (
	// Denied: something says that the caller must not, whatever the object.
	Denied Footing = iota
	// Silent: nothing here allows the request. Somebody else may, whom this chain does not know.
	Silent
	// Granted: it is allowed, whatever the object.
	Granted
	// Awaited: it is allowed if the object, or the fields that change, are such.
	Awaited
)

// Ruling is the decision on a request where authorization and admission are two calls that share nothing: both make it
// anew, from the same policy, and come to the same.
type Ruling struct {
	Footing Footing
	// By names the link that decided.
	By     string
	Reason string
	Err    error

	verdict Verdict
	pass    requestctx.Pass
}

// Rule decides. Conditions await the object where Honours says so, and fold everywhere else. The context has a holder.
func (g *Gate) Rule(ctx context.Context, attrs authorizer.Attributes) Ruling {
	holder := requestctx.From(ctx)
	if holder == nil || holder.Snapshot == nil {
		return Ruling{Reason: "no policy was pinned to this request"}
	}
	v := g.Chain.Decide(ctx, attrs)
	v.report(ctx)
	honoured := g.Honours(attrs)
	if !g.Conditional {
		honoured = errNoObject
	}
	r := Ruling{By: v.Authorizer, Reason: v.Reason, Err: v.Err, verdict: v}
	decision, denies := v.Decision, v.Denies
	switch {
	case v.Pending != nil && honoured == nil:
		r.Footing, r.Reason, r.pass = Awaited, "conditionally, by "+v.Authorizer, requestctx.Conditional(v.Pending)
		return r
	case v.Pending != nil || denies != nil && honoured != nil:
		decision, r.Reason, r.By, r.Err = v.fold(ctx)
		r.Reason, r.verdict, denies = joinReasons(r.Reason, honoured), Verdict{Decision: decision, Reason: r.Reason, Authorizer: r.By, Err: r.Err}, nil
	}
	switch decision {
	case authorizer.DecisionAllow:
		r.Footing, r.pass = Granted, requestctx.Allowed()
	case authorizer.DecisionNoOpinion:
		r.Footing, r.pass = Silent, requestctx.Allowed()
		if denies != nil {
			r.pass = requestctx.Conditional(unlessDenied{denies})
		}
		if fields := g.opensFields(ctx, holder, attrs); fields != nil {
			r.Footing, r.Reason, r.pass = Awaited, "if field permissions cover every change", requestctx.Granular(denies).Answered(fields)
		}
	}
	return r
}

// Hangs tells whether admission has to look at the object before the ruling holds.
func (r Ruling) Hangs() bool {
	return r.Footing == Awaited || r.Footing == Silent && r.verdict.Denies != nil
}

// Folded is the ruling where nobody will look at the object.
func (r Ruling) Folded(ctx context.Context) Ruling {
	if !r.Hangs() {
		return r
	}
	folded := Ruling{Footing: Denied, pass: requestctx.Pass{}}
	var decision authorizer.Decision
	decision, folded.Reason, folded.By, folded.Err = r.verdict.fold(ctx)
	switch decision {
	case authorizer.DecisionAllow:
		folded.Footing = Granted
	case authorizer.DecisionNoOpinion:
		folded.Footing = Silent
	}
	return folded
}

// Put gives the holder what the enforcer has to resolve. Whoever was allowed by somebody else is checked for what
// denies.
func (r Ruling) Put(holder *requestctx.Holder, attrs authorizer.Attributes) {
	holder.Put(requestctx.Request, attrs, r.pass)
}

// SupposeAccess takes down, where authorization is a call of its own, what rules that are not enforced would have made
// of a request that no admission follows. The others are settled there: see SupposeAdmission.
func (g *Gate) SupposeAccess(ctx context.Context, attrs authorizer.Attributes, r Ruling) {
	holder, decision := requestctx.From(ctx), authorizer.DecisionDeny
	if g.shadows(holder) == nil {
		return
	}
	if r.Footing == Granted || r.Footing == Awaited {
		if attrs.IsResourceRequest() && (!attrs.IsReadOnly() || isConnect(attrs)) {
			return
		}
		decision = authorizer.DecisionAllow
	}
	r.Put(holder, attrs)
	g.suppose(ctx, holder, requestctx.Request, attrs, r.verdict, decision)
}

// SupposeAdmission is SupposeAccess for what is admitted: the enforcer settles it. The ruling was put into the holder.
func (g *Gate) SupposeAdmission(ctx context.Context, attrs authorizer.Attributes, r Ruling) {
	g.suppose(ctx, requestctx.From(ctx), requestctx.Request, attrs, r.verdict, authorizer.DecisionAllow)
}

// unlessDenied allows what nothing here allows, and nothing denies.
type unlessDenied struct{ requestctx.Pending }

// Resolve implements requestctx.Pending.
func (u unlessDenied) Resolve(ctx context.Context, data authorizer.ConditionsData) requestctx.Outcome {
	out := u.Pending.Resolve(ctx, data)
	if out.Decision == authorizer.DecisionNoOpinion {
		out.Decision, out.Reason = authorizer.DecisionAllow, "another authorizer has allowed it"
	}
	return out
}

// DeniesUnsafe tells why an unsafe delete, which no admission sees, must not be made: the delete hangs on the object,
// or some deletes are denied to the caller.
func (g *Gate) DeniesUnsafe(ctx context.Context, attrs authorizer.Attributes) string {
	holder := requestctx.From(ctx)
	if holder == nil || holder.Snapshot == nil {
		return "no policy was pinned to this request"
	}
	if v := g.Chain.Decide(ctx, WithVerb(attrs, "delete")); v.Pending != nil || v.Denies != nil || v.Decision == authorizer.DecisionDeny {
		return "an unsafe delete cannot be made on a conditional permission"
	}
	if rules := holder.Snapshot.Rules; rules == nil || rules.DeniesDelete(attrs.GetUser(), attrs.GetNamespace()) || len(rules.DeniesDeleteIn(attrs.GetUser())) > 0 {
		return "an unsafe delete cannot be made by somebody to whom some deletes are denied"
	}
	return ""
}
