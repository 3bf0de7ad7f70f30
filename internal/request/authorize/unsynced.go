package authorize

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Unsynced runs right after system:masters and, until the policy snapshot has synced, refuses everything but GET on the
// health endpoints (SV-8). Afterwards it has no opinion, unless the policy is too old to decide by (OP-6).
type Unsynced struct {
	Store *snapshot.Store
	// Age knows when the policy is too old.
	Age Age
}

// Age knows when the policy is too old to decide by.
type Age interface {
	// Stale says why the policy is too old; empty if it is not.
	Stale() string
}

// Ageless is the age of policy that cannot get too old, or whose age is not limited.
type Ageless struct{}

// Stale implements Age.
func (Ageless) Stale() string { return "" }

var _ authorizer.Authorizer = Unsynced{}

// Authorize denies while no policy, or no recent policy, is known: a deny rule may exist that was not read yet.
func (u Unsynced) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	why := "the server has not read its policy yet: try again in a moment"
	if SnapshotOf(ctx, u.Store).Synced {
		if why = u.Age.Stale(); why == "" {
			return authorizer.DecisionNoOpinion, "", nil
		}
	}
	if isHealth(attrs) {
		return authorizer.DecisionAllow, "health endpoint", nil
	}
	return authorizer.DecisionDeny, why, nil
}

// ConditionsAwareAuthorize never has conditions.
func (u Unsynced) ConditionsAwareAuthorize(ctx context.Context, attrs authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(u.Authorize(ctx, attrs))
}

// EvaluateConditions fails closed: there is nothing to evaluate.
func (u Unsynced) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

// SnapshotOf returns the policy that decides a call: the one pinned to the request, or the current one outside
// requests.
func SnapshotOf(ctx context.Context, store *snapshot.Store) *snapshot.Snapshot {
	if h := requestctx.From(ctx); h != nil && h.Snapshot != nil {
		return h.Snapshot
	}
	return store.Current()
}
