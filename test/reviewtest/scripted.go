package reviewtest

import (
	"context"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/request/authorize"
)

// Scripted is an authorizer that says what it is told and remembers what it was asked.
type Scripted struct {
	// Decision is the answer to everything.
	Decision authorizer.ConditionsAwareDecision
	// Rules, Paths, Incomplete and Err are the answer of RulesFor.
	Rules      []authorizer.ResourceRuleInfo
	Paths      []authorizer.NonResourceRuleInfo
	Incomplete bool
	Err        error

	mu    sync.Mutex
	asked []authorizer.Attributes
}

var (
	_ authorizer.Authorizer   = &Scripted{}
	_ authorizer.RuleResolver = &Scripted{}
)

// Asked returns what it was asked since it was last asked this.
func (s *Scripted) Asked() []authorizer.Attributes {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

func (s *Scripted) note(a authorizer.Attributes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, a)
}

// Authorize folds a conditional decision as every authorizer has to.
func (s *Scripted) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	s.note(a)
	d := s.Decision
	if !d.IsUnconditional() {
		return d.FailureDecision(), "depends on conditions", nil
	}
	for decision := range d.PossibleDecisions() {
		return decision, d.Reason(), d.Error()
	}
	return authorizer.DecisionDeny, "", nil
}

// ConditionsAwareAuthorize gives the decision.
func (s *Scripted) ConditionsAwareAuthorize(_ context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	s.note(a)
	return s.Decision
}

// EvaluateConditions is never asked by a review.
func (s *Scripted) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

// RulesFor gives the rules.
func (s *Scripted) RulesFor(context.Context, user.Info, string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return s.Rules, s.Paths, s.Incomplete, s.Err
}

// Chain makes a chain of authorizers named a, b, c and so on.
func Chain(t testing.TB, links ...*Scripted) *authorize.Chain {
	t.Helper()
	named := make([]authorize.Link, len(links))
	for i, l := range links {
		named[i] = authorize.Link{Name: string(rune('a' + i)), Authorizer: l}
	}
	chain, err := authorize.NewChain(named...)
	if err != nil {
		t.Fatal(err)
	}
	return chain
}
