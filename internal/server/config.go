package server

import (
	"fmt"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	kubeapp "k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"

	"proviso.dev/proviso/internal/authorize"
	"proviso.dev/proviso/internal/enforce"
	"proviso.dev/proviso/internal/expr"
	"proviso.dev/proviso/internal/restrict"
	"proviso.dev/proviso/internal/review"
	"proviso.dev/proviso/internal/snapshot"
)

// config holds the configurations of the servers of one process, from the innermost to the outermost.
type config struct {
	opts *completed

	extensions *apiextensionsapiserver.Config
	kube       *controlplane.Config
	groups     *genericapiserver.Config // our own; nil when the server is stock
	aggregator *aggregatorapiserver.Config

	informers informers.SharedInformerFactory
	// stages is nil when all systems are off.
	stages *stages
}

// newConfig makes the configurations in upstream's order (kube-apiserver's NewConfig) and, unless the server is stock, puts
// our stages in between. The order matters: each configuration copies what the one before it was given.
func newConfig(opts *completed) (*config, error) {
	c := &config{opts: opts}

	upstream := opts.CompletedOptions
	authorization := upstream.Authorization
	if opts.authz != nil {
		upstream.Authorization = nil // our chain takes its place below
	}
	schemes := []*runtime.Scheme{legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme}
	definitions := openapicommon.GetOpenAPIDefinitions(generatedopenapi.GetOpenAPIDefinitions)
	if opts.authz != nil && enabled(ConditionalAuthorization) {
		reviews := runtime.NewScheme()
		if err := review.AddToScheme(reviews); err != nil {
			return nil, err
		}
		schemes, definitions = append(schemes, reviews), review.WithOpenAPIDefinitions(definitions)
	}
	generic, informers, storageFactory, err := controlplaneapiserver.BuildGenericConfig(
		upstream.CompletedOptions,
		schemes,
		controlplane.DefaultAPIResourceConfigSource(),
		definitions,
		opts.InformerName,
	)
	upstream.Authorization = authorization
	if err != nil {
		return nil, err
	}
	c.informers = informers

	// Before the kube configuration: its admission options capture the authorizer.
	if opts.authz != nil {
		if c.stages, err = newStages(opts, generic, informers); err != nil {
			return nil, err
		}
		generic.Authorization.Authorizer = c.stages.gate.Chain
		generic.RuleResolver = c.stages.gate.Chain
	}

	if opts.authz != nil {
		excludeReviews(upstream.Admission)
	}
	kube, resolver, initializers, err := kubeapp.CreateKubeAPIServerConfig(upstream, generic, informers, storageFactory)
	if err != nil {
		return nil, err
	}
	c.kube = kube
	if configured := opts.own.plugs.configured; configured != nil {
		if err := configured(c, generic); err != nil {
			return nil, err
		}
	}

	// Before the others are copied from it: every server of the process gets the same admission chain.
	if c.stages != nil {
		c.stages.wrapAdmission(generic, informers)
		// Admission plugins keep the plain chain; the endpoint handlers of every server make their second checks through the
		// gate.
		generic.Authorization.Authorizer = c.stages.gate.InHandlers()
	}

	c.extensions, err = controlplaneapiserver.CreateAPIExtensionsConfig(*generic, kube.ControlPlane.VersionedInformers, initializers, upstream.CompletedOptions,
		upstream.MasterCount, resolver, webhook.NewDefaultAuthenticationInfoResolverWrapper(kube.ControlPlane.ProxyTransport,
			generic.EgressSelector, generic.LoopbackClientConfig, generic.TracerProvider))
	if err != nil {
		return nil, err
	}
	if c.stages != nil {
		if c.groups, err = newGroupsConfig(opts, *generic); err != nil {
			return nil, err
		}
	}
	c.aggregator, err = controlplaneapiserver.CreateAggregatorConfig(*generic, upstream.CompletedOptions, kube.ControlPlane.VersionedInformers, resolver,
		kube.ControlPlane.ProxyTransport, kube.ControlPlane.Extra.PeerProxy, initializers)
	if err != nil {
		return nil, err
	}

	if c.stages != nil {
		// Only the aggregator's handler chain runs, so that only there the filters are wrapped.
		if err := c.stages.wrapAudit(opts.own, &c.aggregator.GenericConfig.Config, resolver); err != nil {
			return nil, err
		}
		c.stages.wrapHandlers(&c.aggregator.GenericConfig.Config)
	} else if err := guardStock(&c.aggregator.GenericConfig.Config, opts.member.Agreed); err != nil {
		return nil, err
	}
	return c, nil
}

// newStages builds what our systems need before the servers exist.
func newStages(opts *completed, generic *genericapiserver.Config, informers informers.SharedInformerFactory) (*stages, error) {
	authorize.RegisterMetrics()
	enforce.RegisterMetrics()
	cel, err := expr.New(expr.Config{})
	if err != nil {
		return nil, err
	}
	cache := expr.NewCache(cel)
	s := &stages{
		store:    snapshot.NewStore(),
		plan:     opts.authz,
		plugs:    opts.own.plugs,
		compiler: &restrict.Compiler{CEL: cel, Cache: cache},
		warmer:   snapshot.NewWarmer(cache),
		sources:  newSources(),
		events:   newEvents(),
		master:   opts.own.PolicyMasterNamespace,
	}
	if enabled(FieldPermissions) {
		s.fields = newFieldRights(s.store, cache)
	}
	if s.compiler.Types, err = ruleTypes(s.store, generic.LoopbackClientConfig); err != nil {
		return nil, err
	}
	s.kit = &authorizerKit{
		informers:    informers,
		store:        s.store,
		agreed:       opts.member.Agreed,
		abacFile:     opts.Authorization.PolicyFile,
		retryBackoff: opts.Authorization.WebhookRetryBackoff,
		compiler:     authorizationcel.NewDefaultCompiler(),
		cel:          authorize.NewCELConditions(cel),
		extra:        s.plugs.links,
		built:        builtAuthorizers{},
		// Asked when a request is decided, when the gate has long been made.
		local: func(group, version string) bool { return s.gate.Local == nil || s.gate.Local(group, version) },
	}
	if enabled(ConditionalAuthorization) && opts.authz.has(modes.ModeNode) {
		s.kit.restriction = newNodeRestriction(informers)
	}
	if generic.EgressSelector != nil {
		dial, err := generic.EgressSelector.Lookup(egressselector.ControlPlane.AsNetworkContext())
		if err != nil {
			return nil, err
		}
		s.kit.dial = dial
	}
	links, err := s.kit.links(opts.authz)
	if err != nil {
		return nil, fmt.Errorf("invalid authorization config: %w", err)
	}
	chain, err := authorize.NewChain(links...)
	if err != nil {
		return nil, err
	}
	chain.ClusterWide = masterWrites(s.master)
	if s.kit.restriction != nil {
		if err := s.kit.restriction.initialize(chain); err != nil {
			return nil, err
		}
	}
	if s.indexed, err = s.kit.indexed(opts.authz); err != nil {
		return nil, err
	}
	s.indexed.ClusterWide = chain.ClusterWide
	s.gate = &authorize.Gate{Chain: chain, Conditional: enabled(ConditionalAuthorization),
		UniformConnect: enabled(ConditionalAuthorization) && enabled(UniformConnectAuthorization)}
	if !opts.authz.has(modes.ModeRBAC) {
		generic.DisabledPostStartHooks.Insert(rbacrest.PostStartHookName)
	}
	return s, s.reload(generic)
}
