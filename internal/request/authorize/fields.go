package authorize

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// opensFields decides whether a caller without the verb of a write may continue to admission, because they hold the
// verb granular and might hold permissions for all the fields that they change (FP-6). The answer travels with the
// request; nil means no.
func (g *Gate) opensFields(ctx context.Context, snap *snapshot.Snapshot, attrs authorizer.Attributes) requestctx.Pending {
	if !HasFields(snap, attrs) || !g.local.Local(attrs.GetAPIGroup(), attrs.GetAPIVersion()) || g.limit.Check(attrs) != nil {
		return nil
	}
	v := g.Chain.Decide(ctx, withVerb{attrs, fieldperm.Verb})
	switch {
	case v.Pending != nil && g.conditional:
		return v.Pending
	case v.Pending == nil && v.Decision == authorizer.DecisionAllow:
		return settled{v.outcome()}
	}
	return nil
}

// settled is a decision that needs no object.
type settled struct{ requestctx.Outcome }

// Resolve implements requestctx.Pending.
func (s settled) Resolve(context.Context, authorizer.ConditionsData) requestctx.Outcome {
	return s.Outcome
}

// HasFields reports whether a request writes an object whose fields are known: a resource itself, a subresource with
// the same kind of body, or one of the stand-ins that field permissions know. An eviction or a token request has no
// field that says what it does, so covering its fields would mean nothing.
func HasFields(snap *snapshot.Snapshot, attrs authorizer.Attributes) bool {
	if snap == nil || snap.Fields == nil || !attrs.IsResourceRequest() || isConnect(attrs) {
		return false
	}
	return verbs.Stores(attrs.GetVerb()) && snap.Served.HasFields(schema.GroupResource{Group: attrs.GetAPIGroup(), Resource: attrs.GetResource()}, attrs.GetSubresource())
}
