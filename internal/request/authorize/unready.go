package authorize

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Unready runs right after system:masters and refuses everything but GET on the health endpoints as long as the server
// must not decide requests (SV-14). Otherwise it has no opinion.
type Unready struct {
	Replicas Agreement
}

// Agreement is the agreement of a server with its replicas.
type Agreement interface {
	// Agreed returns nil while the server decides as its replicas do, and so may serve.
	Agreed() error
}

// Alone is the agreement of a host without replicas.
type Alone struct{}

// Agreed implements Agreement.
func (Alone) Agreed() error { return nil }

var _ authorizer.Authorizer = Unready{}

// Authorize denies with the reason.
func (u Unready) Authorize(_ context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	err := u.Replicas.Agreed()
	switch {
	case err == nil:
		return authorizer.DecisionNoOpinion, "", nil
	case isHealth(attrs):
		return authorizer.DecisionAllow, "health endpoint", nil
	}
	return authorizer.DecisionDeny, err.Error(), nil
}

// ConditionsAwareAuthorize never has conditions.
func (u Unready) ConditionsAwareAuthorize(ctx context.Context, attrs authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(u.Authorize(ctx, attrs))
}

// EvaluateConditions fails closed: there is nothing to evaluate.
func (u Unready) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

// isHealth reports whether the request is one that every caller may make of a server that is not ready.
func isHealth(attrs authorizer.Attributes) bool {
	if attrs.IsResourceRequest() || attrs.GetVerb() != "get" {
		return false
	}
	switch attrs.GetPath() {
	case "/livez", "/readyz", "/healthz":
		return true
	}
	return false
}
