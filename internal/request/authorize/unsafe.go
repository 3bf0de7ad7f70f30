package authorize

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// VerbUnsafeDelete is the verb of a delete that no admission sees.
const VerbUnsafeDelete = "unsafe-delete-ignore-read-errors"

// DeniesUnsafe returns why an unsafe delete, which no admission sees, must be refused: the delete depends on the
// object, or the caller is denied some deletes.
func (g *Gate) DeniesUnsafe(ctx context.Context, attrs authorizer.Attributes) string {
	snap := pinned(ctx)
	if snap == nil {
		return "no policy was pinned to this request"
	}
	// Also where a condition would fold: if anything is left of the chain, the object counts.
	if v := g.Chain.Decide(ctx, WithVerb(attrs, "delete")); v.rest != nil || v.Decision == authorizer.DecisionDeny {
		return "a conditional permission does not allow an unsafe delete"
	}
	if rules := snap.Rules; rules == nil || rules.DeniesDelete(attrs.GetUser(), attrs.GetNamespace()) || len(rules.DeniesDeleteIn(attrs.GetUser())) > 0 {
		return "unsafe deletes are refused to callers who are denied some deletes"
	}
	return ""
}
