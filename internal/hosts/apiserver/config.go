package apiserver

import (
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"
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

	"proviso.dev/proviso/internal/apis/accessreview"
	"proviso.dev/proviso/internal/features/conditions"
	"proviso.dev/proviso/internal/features/feature"
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

// newConfig builds the configurations in upstream's order (kube-apiserver's NewConfig) and, unless the server is stock,
// inserts our stages. The order matters: each configuration copies what the one before it was given.
func newConfig(opts *completed) (*config, error) {
	c := &config{opts: opts}

	upstream := opts.CompletedOptions
	authorization := upstream.Authorization
	if opts.authz != nil {
		upstream.Authorization = nil // our chain takes its place below
	}
	schemes := []*runtime.Scheme{legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme}
	definitions := openapicommon.GetOpenAPIDefinitions(generatedopenapi.GetOpenAPIDefinitions)
	if opts.authz != nil && opts.systems.Has(conditions.Gate) {
		reviews := runtime.NewScheme()
		if err := accessreview.AddToScheme(reviews); err != nil {
			return nil, err
		}
		schemes, definitions = append(schemes, reviews), accessreview.WithOpenAPIDefinitions(definitions)
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
	if backend, evaluator := opts.own.auditBackend, opts.own.auditEvaluator; backend != nil {
		generic.AuditBackend, generic.AuditPolicyRuleEvaluator = backend, evaluator
	}

	// Before the kube configuration: its admission options capture the authorizer.
	if opts.authz != nil {
		if c.stages, err = newStages(opts, generic, informers); err != nil {
			return nil, err
		}
		c.stages.wrapAuthentication(generic)
		generic.Authorization.Authorizer = c.stages.kernel.Gate.Chain
		generic.RuleResolver = c.stages.kernel.Gate.Chain
	}

	if opts.authz != nil {
		excludeReviews(upstream.Admission)
	}
	kube, resolver, initializers, err := kubeapp.CreateKubeAPIServerConfig(upstream, generic, informers, storageFactory)
	if err != nil {
		return nil, err
	}
	c.kube = kube
	if c.stages != nil {
		if err := c.stages.resolver.Keep(resolver); err != nil {
			return nil, err
		}
	}
	if configured := opts.own.configured; configured != nil {
		if err := configured(c, generic); err != nil {
			return nil, err
		}
	}

	// Before the others are copied from it: every server of the process gets the same admission chain.
	if c.stages != nil {
		c.stages.wrapAdmission(generic)
		generic.RESTOptionsGetter = c.stages.wrapStorage(generic.RESTOptionsGetter, legacyscheme.Scheme)
		// Admission plugins keep the plain chain; the endpoint handlers of every server make their second checks
		// through the gate.
		generic.Authorization.Authorizer = c.stages.kernel.Gate.InHandlers()
	}

	c.extensions, err = controlplaneapiserver.CreateAPIExtensionsConfig(*generic, kube.ControlPlane.VersionedInformers, initializers, upstream.CompletedOptions,
		upstream.MasterCount, resolver, webhook.NewDefaultAuthenticationInfoResolverWrapper(kube.ControlPlane.ProxyTransport,
			generic.EgressSelector, generic.LoopbackClientConfig, generic.TracerProvider))
	if err != nil {
		return nil, err
	}
	if c.stages != nil {
		own := &c.extensions.GenericConfig.Config
		own.RESTOptionsGetter = c.stages.wrapStorage(own.RESTOptionsGetter, apiextensionsapiserver.Scheme)
		c.extensions.ExtraConfig.CRDRESTOptionsGetter = c.stages.wrapStorage(c.extensions.ExtraConfig.CRDRESTOptionsGetter, nil)
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
		services := &c.aggregator.GenericConfig.Config
		services.RESTOptionsGetter = c.stages.wrapStorage(services.RESTOptionsGetter, aggregatorscheme.Scheme)
		// Only the aggregator's handler chain runs, so the filters are wrapped only there.
		c.stages.wrapAudit(&c.aggregator.GenericConfig.Config)
		feature.WrapHandlers(&c.aggregator.GenericConfig.Config, c.stages.kernel.Gate, c.stages.kernel.Store, c.stages.systems)
	} else if err := guardStock(&c.aggregator.GenericConfig.Config, opts.member); err != nil {
		return nil, err
	}
	return c, nil
}
