package authzwebhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	webhookmetrics "k8s.io/apiserver/plugin/pkg/authorizer/webhook/metrics"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/request/authorize"
)

// Config describes one webhook.
type Config struct {
	// Name is the authorizer's name in metrics and in calls to the conditions endpoint.
	Name string
	// Reviews is where SubjectAccessReviews are sent, exactly: nothing is added to its path.
	Reviews *rest.Config
	// Conditions is where AuthorizationConditionsReviews are sent. Without it the webhook is not told that conditions
	// are understood; if it answers some nevertheless, only those of the built-in type can be evaluated.
	Conditions *rest.Config
	// Version is the version of SubjectAccessReview that the webhook speaks. Only v1 can express conditions.
	Version string
	// AuthorizedTTL and UnauthorizedTTL are how long answers are cached; 0 caches none. Conditions count as
	// unauthorized.
	AuthorizedTTL, UnauthorizedTTL time.Duration
	// Backoff is for retries after transient failures.
	Backoff wait.Backoff
	// FailOpen leaves the request to the next authorizer after a failure. Otherwise a failure denies.
	FailOpen bool
	// MatchConditions select the requests that the webhook is asked about.
	MatchConditions []apiserver.WebhookMatchCondition
	// Compiler compiles the match conditions.
	Compiler authorizationcel.Compiler
	// CEL evaluates conditions of the built-in type.
	CEL *authorize.CELConditions
	// Metrics are upstream's, so these webhooks appear where all others do.
	Metrics webhookmetrics.AuthorizerMetrics
}

// Webhook is the authorizer.
type Webhook struct {
	name       string
	reviews    *client
	conditions *client
	cache      *answers
	failOpen   bool
	matcher    *authorizationcel.CELMatcher
	cel        *authorize.CELConditions
	metrics    webhookmetrics.AuthorizerMetrics
}

var (
	_ authorizer.Authorizer   = (*Webhook)(nil)
	_ authorizer.RuleResolver = (*Webhook)(nil)
)

// New returns the authorizer. It does not send anything yet.
func New(cfg Config) (*Webhook, error) {
	switch {
	case cfg.Name == "":
		return nil, errors.New("webhook authorizer: a name is needed")
	case cfg.Reviews == nil:
		return nil, fmt.Errorf("webhook authorizer %s: it needs an endpoint for reviews", cfg.Name)
	case cfg.Version != authorizationv1.SchemeGroupVersion.Version:
		return nil, fmt.Errorf("webhook authorizer %s: subjectAccessReviewVersion %s cannot say conditions, use v1 or remove conditionsEndpointKubeConfigContext", cfg.Name, cfg.Version)
	case cfg.CEL == nil || cfg.Compiler == nil:
		return nil, fmt.Errorf("webhook authorizer %s: it needs compilers for its conditions", cfg.Name)
	}
	if cfg.Metrics == nil {
		cfg.Metrics = webhookmetrics.NoopAuthorizerMetrics{}
	}
	matcher, errs := validation.ValidateAndCompileMatchConditions(cfg.Compiler, cfg.MatchConditions)
	if err := errs.ToAggregate(); err != nil {
		return nil, fmt.Errorf("webhook authorizer %s: %w", cfg.Name, err)
	}
	if matcher != nil {
		matcher.AuthorizerType, matcher.AuthorizerName, matcher.Metrics = "Webhook", cfg.Name, cfg.Metrics
	}
	reviews, err := newReviewClient(cfg.Reviews, cfg.Backoff)
	if err != nil {
		return nil, fmt.Errorf("webhook authorizer %s: %w", cfg.Name, err)
	}
	var conditions *client
	if cfg.Conditions != nil {
		if conditions, err = newConditionsClient(cfg.Conditions, cfg.Backoff); err != nil {
			return nil, fmt.Errorf("webhook authorizer %s: conditions endpoint: %w", cfg.Name, err)
		}
	}
	registerMetrics()
	return &Webhook{
		name: cfg.Name, reviews: reviews, conditions: conditions, cache: newAnswers(cfg.AuthorizedTTL, cfg.UnauthorizedTTL),
		failOpen: cfg.FailOpen, matcher: matcher, cel: cfg.CEL, metrics: cfg.Metrics,
	}, nil
}

// Authorize asks the question that every Kubernetes asks: the caller could not carry a condition to admission, so the
// webhook is not told that conditions are understood. If it answers conditions nevertheless, they are folded.
func (w *Webhook) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	d := w.ask(ctx, attrs, false)
	if !d.IsUnconditional() {
		return d.FailureDecision(), "the webhook answered with conditions, for which it was not asked", nil
	}
	return authorize.Parts(d)
}

// ConditionsAwareAuthorize tells the webhook that conditions are understood, if it is configured that way and a
// condition can be enforced on the request.
func (w *Webhook) ConditionsAwareAuthorize(ctx context.Context, attrs authorizer.Attributes) authorizer.ConditionsAwareDecision {
	if !enforceable(attrs) {
		return authorizer.ConditionsAwareDecisionFromParts(w.Authorize(ctx, attrs))
	}
	return w.ask(ctx, attrs, w.conditions != nil)
}

func (w *Webhook) ask(ctx context.Context, attrs authorizer.Attributes, conditional bool) authorizer.ConditionsAwareDecision {
	review := question(attrs, conditional)
	if w.matcher != nil && w.matcher.CompilationResults != nil {
		matches, err := w.matcher.Eval(ctx, &authorizationv1.SubjectAccessReview{Spec: review.Spec.SubjectAccessReviewSpec})
		switch {
		case err != nil:
			return w.failed("", err)
		case !matches:
			return authorizer.ConditionsAwareDecisionNoOpinion("", nil)
		}
	}
	key, err := keyOf(review)
	if err != nil {
		return w.failed("", err)
	}
	status, cached := w.cache.get(key)
	countCache(ctx, w.name, cached)
	if !cached {
		if status, err = w.review(ctx, review); err != nil {
			reason := ""
			if authorize.FailedClosed(err) {
				reason = reasonMalformed
			}
			return w.failed(reason, err)
		}
		w.cache.put(key, status)
	}
	return w.decisionOf(status, attrs)
}

// failed is the decision if the webhook cannot be reached or its answer cannot be understood.
func (w *Webhook) failed(reason string, err error) authorizer.ConditionsAwareDecision {
	if w.failOpen {
		return authorizer.ConditionsAwareDecisionNoOpinion(reason, err)
	}
	return authorizer.ConditionsAwareDecisionDeny(reason, err)
}

// RulesFor cannot be known: a webhook is only ever asked about one request.
func (w *Webhook) RulesFor(context.Context, user.Info, string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return nil, nil, true, errors.New("webhook authorizer does not support user rule resolution")
}
