package authorize

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/request/requestctx"
)

// Denied asks the whole chain whether a request is denied, which is more than not being allowed: some rule denies it
// (PO-20). Conditions are resolved with the data; if none would be evaluated on such a request, they fold.
func (g *Gate) Denied(ctx context.Context, attrs authorizer.Attributes, data authorizer.ConditionsData) (requestctx.Outcome, bool) {
	v := g.Decide(ctx, attrs)
	v.Report(ctx)
	out := v.Resolve(ctx, data)
	return out, out.Decision == authorizer.DecisionDeny
}

// MayBeDenied reports whether some object could make the chain deny the request.
func (g *Gate) MayBeDenied(ctx context.Context, attrs authorizer.Attributes) bool {
	return g.Chain.ConditionsAwareAuthorize(ctx, attrs).PossibleDecisions().Has(authorizer.DecisionDeny)
}
