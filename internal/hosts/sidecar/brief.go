package sidecar

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// maxAsked bounds what callers choose in a question that is passed on. Names that Kubernetes accepts are far shorter.
const maxAsked = 2048

// brief passes on questions of ordinary length. The authorizer behind it keeps thousands of questions as they were
// asked, for all callers together; a long one is not answered, so nothing allows it.
type brief struct{ authorizer.Authorizer }

const tooLong = "the names in the request are too long to ask the API server about"

func isBrief(a authorizer.Attributes) bool {
	n := 0
	for _, text := range []string{a.GetVerb(), a.GetNamespace(), a.GetName(), a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(), a.GetSubresource(), a.GetPath()} {
		n += len(text)
	}
	return n <= maxAsked
}

// Authorize implements authorizer.Authorizer.
func (b brief) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if !isBrief(a) {
		return authorizer.DecisionNoOpinion, tooLong, nil
	}
	return b.Authorizer.Authorize(ctx, a)
}

// ConditionsAwareAuthorize implements authorizer.Authorizer.
func (b brief) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	if !isBrief(a) {
		return authorizer.ConditionsAwareDecisionFromParts(authorizer.DecisionNoOpinion, tooLong, nil)
	}
	return b.Authorizer.ConditionsAwareAuthorize(ctx, a)
}
