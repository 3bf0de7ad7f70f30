package accessreview

import (
	"context"
	"errors"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	reviewv1alpha1 "proviso.dev/proviso/api/authorizationreview/v1alpha1"
	"proviso.dev/proviso/internal/request/authorize"
)

// Chain is what reviews are answered from: *authorize.Chain is one.
type Chain interface {
	authorizer.UnconditionalAuthorizer
	authorizer.RuleResolver
	Walk(authorizer.Attributes) authorize.Walk
}

// Config is what the reviews need.
type Config struct {
	// Chain is asked the questions.
	Chain Chain
	// Requests knows what becomes of a request beyond what the chain answers.
	Requests Requests
	// Sight knows what can be said, and to whom.
	Sight Sight
	// Guards run ahead of the chain; nil if there are none.
	Guards Guards
	// Fresh gives answers by policy that is as new as a question asks for; nil refuses to.
	Fresh Fresh
	// Evaluate evaluates the built-in type of condition, TypeCEL, for AuthorizationConditionsReview. With nil, those
	// conditions cannot be evaluated either, and fail closed.
	Evaluate authorizer.EvaluateConditionFunc
}

// Requests knows what becomes of a request beyond what the chain answers.
type Requests interface {
	// Unseen is why no condition on such a request would be evaluated; nil if it would. The server has the last word on
	// that.
	Unseen(attrs authorizer.Attributes) error
	// AlsoNeeds returns the verb that the same subject needs on the same target in addition to the verb of the
	// question, since the server requires both (CA-9); empty if there is none.
	AlsoNeeds(ctx context.Context, attrs authorizer.Attributes) string
	// Narrowed says what a list or watch under conditions would be narrowed to, or why it would be refused (RD-8);
	// nothing of other requests.
	Narrowed(ctx context.Context, attrs authorizer.Attributes) string
	// United says what a list or watch shows that is not allowed as a whole, and served all the same (RD-11), or why a
	// namespace is shown; nothing of other requests. Whole is true if everything that is asked for is allowed.
	United(ctx context.Context, attrs authorizer.Attributes) (text string, whole bool)
}

// Sight knows what can be said, and to whom.
type Sight interface {
	// Known is an error while the policy cannot say anything about the target, because what serves it is not known yet:
	// requests are refused then, and so the answer is no (SV-8).
	Known(ctx context.Context, attrs authorizer.Attributes) error
	// Of is what the caller, found in the context, may see in a LocalSubjectAccessReview: the right to ask in one
	// namespace is not the right to read what the policy of the whole cluster says (CA-10).
	Of(ctx context.Context, attrs authorizer.Attributes) View
}

// View is what a caller may see of the conditions behind an answer.
type View interface {
	// Whole reports whether nothing is hidden.
	Whole() bool
	// Shows reports whether a condition may be seen. Everything may if the view is whole.
	Shows(conditionID string) bool
}

// Guards stand in front of the chain and can only deny, as protected attributes do.
type Guards interface {
	// Before lists what they say. It is asked only for callers that want conditions, about requests that the chain can
	// allow.
	Before(ctx context.Context, attrs authorizer.Attributes) []ChainElement
}

// ChainElement is something in front of the authorizer chain that a review shows.
type ChainElement struct {
	// Name is shown as the name of the authorizer. It must differ from those in the chain.
	Name string
	// Decision must not be able to allow; one that can is shown as a Deny.
	Decision authorizer.ConditionsAwareDecision
}

// Provider is the storage provider of the group authorization.k8s.io.
type Provider struct {
	answerer *answerer
	evaluate authorizer.EvaluateConditionFunc
	rules    authorizer.RuleResolver
}

// New returns the provider.
func New(c Config) (*Provider, error) {
	if c.Chain == nil || c.Requests == nil || c.Sight == nil {
		return nil, errors.New("access reviews: an authorizer chain is needed, and what is honoured, known and may be seen")
	}
	return &Provider{
		answerer: &answerer{chain: c.Chain, requests: c.Requests, sight: c.Sight, guards: c.Guards, fresh: c.Fresh},
		evaluate: c.Evaluate,
		rules:    c.Chain,
	}, nil
}

// GroupName is the group that is provided.
func (p *Provider) GroupName() string { return reviewv1.GroupName }

// NewRESTStorage installs the reviews. The resources of v1 can be switched off as in Kubernetes; v1alpha1 is served
// whenever this provider is, since it belongs to the feature and Kubernetes' configuration does not know it.
func (p *Provider) NewRESTStorage(enabled serverstorage.APIResourceConfigSource, _ generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	scheme, codecs, parameters, err := newScheme()
	if err != nil {
		return genericapiserver.APIGroupInfo{}, err
	}
	info := genericapiserver.NewDefaultAPIGroupInfo(reviewv1.GroupName, scheme, parameters, codecs)

	v1 := map[string]rest.Storage{}
	for _, r := range []struct {
		resource string
		storage  rest.Storage
	}{
		{"subjectaccessreviews", &subjectREST{stateless{singular: "subjectaccessreview"}, p.answerer}},
		{"selfsubjectaccessreviews", &selfREST{stateless{singular: "selfsubjectaccessreview"}, p.answerer}},
		{"localsubjectaccessreviews", &localREST{stateless{singular: "localsubjectaccessreview", namespaced: true}, p.answerer}},
		{"selfsubjectrulesreviews", &rulesREST{stateless{singular: "selfsubjectrulesreview"}, p.rules}},
	} {
		if enabled.ResourceEnabled(reviewv1.SchemeGroupVersion.WithResource(r.resource)) {
			v1[r.resource] = r.storage
		}
	}
	if len(v1) > 0 {
		info.VersionedResourcesStorageMap[reviewv1.SchemeGroupVersion.Version] = v1
	}
	info.VersionedResourcesStorageMap[reviewv1alpha1.SchemeGroupVersion.Version] = map[string]rest.Storage{
		"authorizationconditionsreviews": &conditionsREST{stateless{singular: "authorizationconditionsreview"}, p.evaluate},
	}
	return info, nil
}

// stateless is common to the storages of all reviews: they store nothing.
type stateless struct {
	singular   string
	namespaced bool
}

func (s stateless) NamespaceScoped() bool   { return s.namespaced }
func (s stateless) GetSingularName() string { return s.singular }
func (s stateless) Destroy()                {}
