package authzconfig

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	authzconfig "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	authorizationmetrics "k8s.io/apiserver/pkg/authorization/metrics"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook"
	webhookmetrics "k8s.io/apiserver/plugin/pkg/authorizer/webhook/metrics"
	"k8s.io/client-go/informers"
	certinformers "k8s.io/client-go/informers/certificates/v1"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/auth/authorizer/abac"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
	kubefeatures "k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/node"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/features"
	"proviso.dev/proviso/internal/features/base"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/features/policies"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/authorize/authzwebhook"
)

// Config is what authorizers are built from.
type Config struct {
	Informers informers.SharedInformerFactory
	Kernel    *feature.Kernel
	// Systems are those of Lineup, built: they provide authorizer types, and links ahead of the configured ones.
	Systems []feature.System
	Lineup  features.Lineup
	// ABACFile is the policy of mode ABAC.
	ABACFile string
	// RetryBackoff and Dial are for webhooks.
	RetryBackoff *wait.Backoff
	Dial         utilnet.DialFunc
}

// Authorizers builds authorizers by type. Those with informers are built once and survive a reload of the chain.
type Authorizers struct {
	Config
	compiler authorizationcel.Compiler
	// cel evaluates the conditions of webhooks.
	cel   *authorize.CELConditions
	built map[string]authorizer.Authorizer
}

// New makes a builder; Install puts the chain in force.
func New(cfg Config) *Authorizers {
	return &Authorizers{
		Config: cfg, compiler: authorizationcel.NewDefaultCompiler(), cel: authorize.NewCELConditions(cfg.Kernel.Compiler.CEL),
		built: map[string]authorizer.Authorizer{},
	}
}

// links turns a plan into the chain. The links in front of it cannot be configured away: the limits of the caller's
// token; system:masters, so administrators cannot be locked out; and the guards that refuse all others until the server
// decides as its replicas do and the policy is known.
func (k *Authorizers) links(plan *Plan) ([]authorize.Link, error) {
	links := append(feature.First(k.Systems), []authorize.Link{
		base.Masters(),
		{Name: links.Replicas, Authorizer: authorize.Unready{Replicas: k.Kernel.Replicas}},
		{Name: links.PolicySync, Authorizer: authorize.Unsynced{Store: k.Kernel.Store, Age: k.Kernel.Age}},
	}...)
	links = append(links, feature.Links(k.Systems)...)
	for _, a := range plan.authorizers {
		more, err := k.configured(a, plan)
		if err != nil {
			return nil, err
		}
		links = append(links, more...)
	}
	return append(links, feature.Last(k.Systems)...), nil
}

// Install puts a plan in force.
func (k *Authorizers) Install(plan *Plan) error {
	links, err := k.links(plan)
	if err != nil {
		return err
	}
	indexed, err := k.indexed(plan)
	if err != nil {
		return err
	}
	if err := k.Kernel.Gate.Chain.Replace(links...); err != nil {
		return err
	}
	return k.Kernel.Indexed.Replace(indexed...)
}

// indexed is the part of the chain that can list whom it allows: system:masters and the tiers of the rule index.
func (k *Authorizers) indexed(plan *Plan) ([]authorize.Link, error) {
	links := []authorize.Link{base.Masters()}
	for _, a := range plan.authorizers {
		switch string(a.Type) {
		case policies.TypePolicy:
			more, err := k.configured(a, plan)
			if err != nil {
				return nil, err
			}
			links = append(links, more...)
		case modes.ModeRBAC:
			link := authorize.Link{Name: a.Name}
			if ours := k.provided(modes.ModeRBAC, plan); ours != nil {
				link.Authorizer = ours[0].Authorizer
			} else {
				link.Authorizer = k.rbac() // which holds all of RBAC: not made where the index has it
			}
			links = append(links, link)
		}
	}
	return append(links, feature.Last(k.Systems)...), nil
}

// provided returns the links of an authorizer type that a system provides; nil if none does. Denies in them may yield
// to the Node authorizer, if the chain has one.
func (k *Authorizers) provided(kind string, plan *Plan) []authorize.Link {
	for _, one := range k.Systems {
		if make := one.Authorizers[kind]; make != nil {
			var nodes authorizer.UnconditionalAuthorizer
			if plan.Has(modes.ModeNode) {
				nodes = k.node()
			}
			return make(nodes)
		}
	}
	return nil
}

// configured are the links of one entry of the plan, counted.
func (k *Authorizers) configured(a authzconfig.AuthorizerConfiguration, plan *Plan) ([]authorize.Link, error) {
	links := k.provided(string(a.Type), plan)
	if links == nil {
		az, err := k.authorizer(a, plan)
		if err != nil {
			return nil, fmt.Errorf("authorizer %q: %w", a.Name, err)
		}
		links = []authorize.Link{{Authorizer: az, FailOpen: failsOpen(a)}}
	}
	for i := range links {
		links[i].Name, links[i].Type = cmp.Or(links[i].Name, a.Name), string(a.Type)
		links[i].Authorizer = instrumented(string(a.Type), links[i].Name, links[i].Authorizer)
	}
	return links, nil
}

func instrumented(kind, name string, a authorizer.Authorizer) authorizer.Authorizer {
	if tier, ok := a.(*authorize.Tier); ok {
		authorizationmetrics.RegisterMetrics()
		return authorize.Counted(tier, func(outcome string) { authorizationmetrics.RecordAuthorizationDecision(kind, name, outcome) })
	}
	return &ruleLister{Authorizer: authorizationmetrics.InstrumentedAuthorizer(kind, name, a), rules: a}
}

// ruleLister keeps the rules of an authorizer visible that upstream's metrics hide.
type ruleLister struct {
	authorizer.Authorizer
	rules authorizer.Authorizer
}

func (r *ruleLister) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	if resolver, ok := r.rules.(authorizer.RuleResolver); ok {
		return resolver.RulesFor(ctx, u, namespace)
	}
	return nil, nil, true, nil
}

func (k *Authorizers) authorizer(a authzconfig.AuthorizerConfiguration, plan *Plan) (authorizer.Authorizer, error) {
	if az, ok := k.built[string(a.Type)]; ok {
		return az, nil
	}
	var az authorizer.Authorizer
	switch string(a.Type) {
	case modes.ModeAlwaysAllow:
		return authorizerfactory.NewAlwaysAllowAuthorizer(), nil
	case modes.ModeAlwaysDeny:
		return authorizerfactory.NewAlwaysDenyAuthorizer(), nil
	case modes.ModeWebhook:
		return k.webhook(a, plan.conditionsContext[a.Name])
	case modes.ModeABAC:
		policies, err := abac.NewFromFile(k.ABACFile)
		if err != nil {
			return nil, err
		}
		az = policies
	case modes.ModeNode:
		az = k.node()
	case modes.ModeRBAC:
		az = k.rbac()
	default:
		return nil, fmt.Errorf("type %q is unknown; known are Policy, Node, RBAC, ABAC, Webhook, AlwaysAllow and AlwaysDeny", a.Type)
	}
	k.built[string(a.Type)] = az
	return az, nil
}

// rbac is upstream's authorizer, which walks the bindings as in stock, for when no system has an index of them.
func (k *Authorizers) rbac() authorizer.Authorizer {
	rb := k.Informers.Rbac().V1()
	return rbac.New(
		&rbac.RoleGetter{Lister: rb.Roles().Lister()},
		&rbac.RoleBindingLister{Lister: rb.RoleBindings().Lister()},
		&rbac.ClusterRoleGetter{Lister: rb.ClusterRoles().Lister()},
		&rbac.ClusterRoleBindingLister{Lister: rb.ClusterRoleBindings().Lister()},
	)
}

// node builds the Node authorizer, once: its graph follows informers.
func (k *Authorizers) node() authorizer.Authorizer {
	if az, ok := k.built[modes.ModeNode]; ok {
		return az
	}
	var slices resourceinformers.ResourceSliceInformer
	if utilfeature.DefaultFeatureGate.Enabled(kubefeatures.DynamicResourceAllocation) {
		slices = k.Informers.Resource().V1().ResourceSlices()
	}
	var certificates certinformers.PodCertificateRequestInformer
	if utilfeature.DefaultFeatureGate.Enabled(kubefeatures.PodCertificateRequest) {
		certificates = k.Informers.Certificates().V1().PodCertificateRequests()
	}
	node.RegisterMetrics()
	graph := node.NewGraph()
	core := k.Informers.Core().V1()
	node.AddGraphEventHandlers(graph, core.Nodes(), core.Pods(), core.PersistentVolumes(),
		k.Informers.Storage().V1().VolumeAttachments(), slices, certificates)
	az := node.NewAuthorizer(graph, nodeidentifier.NewDefaultNodeIdentifier(), bootstrappolicy.NodeRules())
	k.built[modes.ModeNode] = az
	return az
}

func failsOpen(a authzconfig.AuthorizerConfiguration) bool {
	return a.Webhook != nil && a.Webhook.FailurePolicy == authzconfig.FailurePolicyNoOpinion
}

// webhook asks a webhook as upstream does. If a context of its kubeconfig says where its conditions are evaluated, it
// is told that conditions are understood (CA-17); what it says without being told is not ignored either.
func (k *Authorizers) webhook(a authzconfig.AuthorizerConfiguration, conditionsContext string) (authorizer.Authorizer, error) {
	if k.RetryBackoff == nil {
		return nil, errors.New("retry backoff parameters for authorization webhooks are missing")
	}
	if a.Webhook == nil || a.Webhook.ConnectionInfo.KubeConfigFile == nil {
		return nil, errors.New("connectionInfo.kubeConfigFile is missing")
	}
	file := *a.Webhook.ConnectionInfo.KubeConfigFile
	client, err := webhookutil.LoadKubeconfig(file, k.Dial)
	if err != nil {
		return nil, err
	}
	if t := a.Webhook.Timeout.Duration; t != 0 {
		client.Timeout = t
	}
	onError := authorizer.DecisionDeny
	if failsOpen(a) {
		onError = authorizer.DecisionNoOpinion
	}
	authorizedTTL, unauthorizedTTL := a.Webhook.AuthorizedTTL.Duration, a.Webhook.UnauthorizedTTL.Duration
	if !a.Webhook.CacheAuthorizedRequests {
		authorizedTTL = 0
	}
	if !a.Webhook.CacheUnauthorizedRequests {
		unauthorizedTTL = 0
	}
	metrics := webhookMetrics{WebhookMetrics: webhookmetrics.NewWebhookMetrics(), MatcherMetrics: authorizationcel.NewMatcherMetrics()}
	if conditionsContext == "" && a.Webhook.SubjectAccessReviewVersion != authorizationv1.SchemeGroupVersion.Version {
		return webhook.New(authzwebhook.Unconditional(client), a.Webhook.SubjectAccessReviewVersion, authorizedTTL, unauthorizedTTL, *k.RetryBackoff,
			onError, a.Webhook.MatchConditions, a.Name, metrics, k.compiler)
	}
	var conditions *rest.Config
	if conditionsContext != "" {
		if conditions, err = authzwebhook.ConditionsEndpoint(file, conditionsContext, client); err != nil {
			return nil, err
		}
	}
	return authzwebhook.New(authzwebhook.Config{
		Name: a.Name, Reviews: client, Conditions: conditions, Version: a.Webhook.SubjectAccessReviewVersion,
		AuthorizedTTL: authorizedTTL, UnauthorizedTTL: unauthorizedTTL, Backoff: *k.RetryBackoff,
		FailOpen: failsOpen(a), MatchConditions: a.Webhook.MatchConditions, Compiler: k.compiler, CEL: k.cel, Metrics: metrics,
	})
}

// webhookMetrics reports what kube-apiserver reports: webhook calls and match conditions, not single requests.
type webhookMetrics struct {
	webhookmetrics.NoopRequestMetrics
	webhookmetrics.WebhookMetrics
	authorizationcel.MatcherMetrics
}
