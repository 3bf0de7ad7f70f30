package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	genericfeatures "k8s.io/apiserver/pkg/features"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/server/healthz"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"

	"proviso.dev/proviso/internal/apis/policyreview"
	"proviso.dev/proviso/internal/apis/rbacstorage"
	"proviso.dev/proviso/internal/apis/registry"
	"proviso.dev/proviso/internal/features"
	"proviso.dev/proviso/internal/features/base"
	"proviso.dev/proviso/internal/features/conditionalreads"
	"proviso.dev/proviso/internal/features/conditions"
	"proviso.dev/proviso/internal/features/dynamicaudit"
	"proviso.dev/proviso/internal/features/dynamicaudit/sink"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/features/fieldpermissions"
	"proviso.dev/proviso/internal/features/hiddenfields"
	"proviso.dev/proviso/internal/features/policies"
	"proviso.dev/proviso/internal/features/protectedattributes"
	"proviso.dev/proviso/internal/features/tokens"
	"proviso.dev/proviso/internal/hosts/apiserver/authzconfig"
	"proviso.dev/proviso/internal/platform/etcdclient"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/authorize/noderestriction"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/request/shadow"
	"proviso.dev/proviso/internal/request/streams"
	"proviso.dev/proviso/internal/state/discovery"
	"proviso.dev/proviso/internal/state/journal"
	"proviso.dev/proviso/internal/state/selfclient"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/internal/state/source"
)

// newStages makes the kernel, the systems on it, and the chain of their links and the configured authorizers, before
// the servers exist.
func newStages(opts *completed, generic *genericapiserver.Config, informers informers.SharedInformerFactory) (*stages, error) {
	authorize.RegisterMetrics()
	enforce.RegisterMetrics()
	shadow.RegisterMetrics()
	s := &stages{health: source.NewHealth(), events: selfclient.NewEvents(), resolver: &lateResolver{}, roles: &lateRoles{}}
	clients := selfclient.New(generic.LoopbackClientConfig)
	types, err := ruleTypes(clients)
	if err != nil {
		return nil, err
	}
	namespaces := informers.Core().V1().Namespaces().Lister()
	kernel := base.KernelConfig{
		Master:      opts.own.PolicyMasterNamespace,
		Conditional: opts.systems.Has(conditions.Gate), UniformConnect: opts.gates[UniformConnectAuthorization],
		Unions:     opts.gates[UnionReads],
		Explain:    opts.systems.Has(policies.Gate),
		Reserved:   builtinGroups(),
		Clients:    clients,
		Codecs:     codecs(),
		Namespaces: authorize.NamespacesFunc(func(name string) (runtime.Object, error) { return namespaces.Get(name) }),
		Warner:     s.events,
		Replicas:   opts.member,
		Age:        authorize.Ageless{},
		Needs:      replicaNeeds{opts.member},
		Types:      types,
		Clock:      opts.clock,
	}
	s.clock, s.health.Clock = opts.clock, opts.clock
	if limit := opts.own.MaxStaleness; limit > 0 {
		s.health.Age = source.NewAge(limit)
		kernel.Age = s.health.Age
	}
	if opts.systems.Has(conditionalreads.Gate) {
		kernel.Reach = func(directory *discovery.Directory) base.Reach {
			return base.Reach{Local: directory, Reads: conditionalreads.Stored(directory)}
		}
	}
	if s.kernel, err = base.NewKernel(kernel); err != nil {
		return nil, err
	}
	s.kernel.Owners.Alone = !opts.own.external()
	cfg, err := s.lineupConfig(opts, generic, informers)
	if err != nil {
		return nil, err
	}
	if s.systems, err = opts.systems.Build(s.kernel, cfg); err != nil {
		return nil, err
	}
	chain := authzconfig.Config{
		Informers: informers, Kernel: s.kernel, Systems: s.systems, Lineup: opts.systems,
		ABACFile: opts.Authorization.PolicyFile, RetryBackoff: opts.Authorization.WebhookRetryBackoff,
	}
	if generic.EgressSelector != nil {
		if chain.Dial, err = generic.EgressSelector.Lookup(egressselector.ControlPlane.AsNetworkContext()); err != nil {
			return nil, err
		}
	}
	authorizers := authzconfig.New(chain)
	if err := authorizers.Install(opts.authz); err != nil {
		return nil, fmt.Errorf("invalid authorization config: %w", err)
	}
	if !opts.authz.Has(modes.ModeRBAC) {
		generic.DisabledPostStartHooks.Insert(rbacrest.PostStartHookName)
	}
	if opts.authz.File() == "" {
		return s, nil
	}
	return s, generic.AddPostStartHook("proviso-authorization-config", func(ctx genericapiserver.PostStartHookContext) error {
		go authorizers.Follow(ctx, opts.authz, generic.APIServerID)
		return nil
	})
}

// codecs write our refusals in every form in which upstream writes its own: a different form would reveal which of the
// two refused.
func codecs() runtime.NegotiatedSerializer {
	if !utilfeature.DefaultFeatureGate.Enabled(genericfeatures.CBORServingAndStorage) {
		return legacyscheme.Codecs
	}
	return serializer.NewCodecFactory(legacyscheme.Scheme, serializer.WithSerializer(cbor.NewSerializerInfo))
}

// lineupConfig is what this host knows, by system.
func (s *stages) lineupConfig(opts *completed, generic *genericapiserver.Config, informers informers.SharedInformerFactory) (features.Config, error) {
	own := opts.own
	s.journal = journal.New(journal.Config{
		Connect: func() (*clientv3.Client, error) { return etcdclient.Connect(opts.Etcd.StorageConfig.Transport) },
		Prefix:  opts.Etcd.StorageConfig.Prefix, Entries: own.HistoryEntries,
	})
	cfg := features.Config{
		Ground: base.Config{
			Health: s.health, Roles: s.roles, Converter: policyreview.ConverterFunc(readContent),
			Namespaces: s.kernel.Clients.Namespaces(informers.Core().V1().Namespaces().Lister()),
			Journal:    s.journal,
			Recheck:    own.recheck(),
		},
		Reads: conditionalreads.Config{Storage: true, RecheckAll: own.recheck() == streams.All, Shards: opts.public, Follower: namespaceFollower{informers}},
		Policies: policies.Config{GuardRBAC: func(upstream feature.Provider) (feature.Provider, error) {
			return rbacstorage.New(upstream, base.Escalation(s.kernel), &s.rbac)
		}, ExpiredTTL: own.ExpiredBindingsTTL, Orphans: opts.Etcd.EnableGarbageCollection},
		Attributes: protectedattributes.Config{ExemptUsers: own.ProtectedAttributesExemptUsers, ExemptGroups: own.ProtectedAttributesExemptGroups},
		Fields:     fieldpermissions.Config{Builtin: builtin{}, Hides: opts.systems.Has(hiddenfields.Gate), MaxBody: generic.MaxRequestBodyBytes, Etcd: s.journal},
		Hidden:     hiddenfields.Config{Storage: true, Builtin: builtin{}, MaxBody: generic.MaxRequestBodyBytes},
		Auditing: dynamicaudit.Config{Server: generic.APIServerID, MaxSinks: own.AuditDynamic.MaxSinks, MaxNamespaceSinks: own.AuditDynamic.NamespaceSinks,
			Accounts: serviceAccounts{informers.Core().V1().ServiceAccounts()}, Router: own.auditRouter(generic, s.resolver)},
	}
	if opts.systems.Has(tokens.Gate) {
		var err error
		if cfg.Tokens, err = own.tokenConfig(); err != nil {
			return cfg, err
		}
		cfg.Tokens.Etcd = s.journal
		if cfg.Tokens.Bound, err = newBoundObjects(informers, s.kernel.Clients); err != nil {
			return cfg, err
		}
	}
	if opts.authz.Has(modes.ModeNode) && opts.systems.Has(conditions.Gate) {
		nodes, err := noderestriction.New(informers, s.kernel.Gate.Chain)
		if err != nil {
			return cfg, err
		}
		cfg.Conditional.Nodes = nodes
	}
	return cfg, nil
}

// auditRouter says where events wait, and what the router stands in front of.
func (o *Options) auditRouter(generic *genericapiserver.Config, services *lateResolver) sink.Config {
	cfg := sink.Config{
		Dir:            o.spoolDir(),
		SpoolBytes:     o.AuditDynamic.SpoolBytes,
		Fsync:          o.AuditDynamic.SpoolFsync,
		AllowInsecure:  o.AuditDynamic.AllowInsecureSinks,
		Services:       services,
		TracerProvider: generic.TracerProvider,
		FlushTimeout:   shutdownTimeout / 2,
	}
	cfg.Allow, _ = sink.ParseAllow(o.AuditDynamic.NamespaceSinksAllow) // it was checked before
	if generic.AuditBackend != nil && generic.AuditPolicyRuleEvaluator != nil {
		cfg.Static = &sink.Static{Evaluator: generic.AuditPolicyRuleEvaluator, Backend: generic.AuditBackend}
	}
	return cfg
}

// lateResolver finds services once upstream has made what finds them. Until then a service has no address.
type lateResolver struct {
	feature.Promise[webhook.ServiceResolver]
}

// ResolveEndpoint implements webhook.ServiceResolver.
func (l *lateResolver) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	if resolver, known := l.Get(); known {
		return resolver.ResolveEndpoint(namespace, name, port)
	}
	return nil, errors.New("services are not known yet")
}

// lateRoles knows which roles exist once they are read.
type lateRoles struct {
	feature.Promise[registry.Roles]
}

// RoleExists implements registry.Roles.
func (l *lateRoles) RoleExists(ctx context.Context, kind, namespace, name string) (bool, error) {
	if roles, known := l.Get(); known {
		return roles.RoleExists(ctx, kind, namespace, name)
	}
	return false, errors.New("roles are not known yet")
}

// provide puts storage of our systems in the place of upstream's.
func (s *stages) provide(providers []controlplaneapiserver.RESTStorageProvider) error {
	for _, one := range s.systems {
		for group, replace := range one.Provide {
			at := slices.IndexFunc(providers, func(p controlplaneapiserver.RESTStorageProvider) bool { return p.GroupName() == group })
			if at < 0 {
				return fmt.Errorf("upstream has no storage provider for %s any more", group)
			}
			ours, err := replace(providers[at])
			if err != nil {
				return err
			}
			providers[at] = ours
		}
	}
	return nil
}

// serves reports whether a resource of our groups is served: its system must be enabled.
func (s *stages) serves(resource string) bool {
	return feature.Serves(s.systems, resource)
}

// source is where the policy of this server comes from: its own informers.
func (s *stages) source(definitions cache.SharedIndexInformer) *source.Informers {
	return source.NewInformers(source.InformersConfig{
		Cluster: s.kernel.Clients, Groups: s.kernel.Clients, Stored: &s.rbac, Warner: s.events,
		Given:  map[schema.GroupVersionResource]snapshot.Objects{snapshot.Definitions.GroupVersionResource: definitions},
		Served: source.ServedFunc(func(kind snapshot.Kind) (bool, error) { return s.serves(kind.Resource), nil }),
		Health: s.health, Unreadable: rbacstorage.Unreadable,
	})
}

// start feeds the policy snapshot once the server runs, makes readiness depend on it, and starts what systems do in the
// background.
func (s *stages) start(server *genericapiserver.GenericAPIServer, from *source.Informers) error {
	if err := s.roles.Keep(from); err != nil {
		return err
	}
	running, err := feature.Feed(s.kernel.Store, s.systems, from)
	if err != nil {
		return err
	}
	for _, one := range s.systems {
		for _, p := range one.Paths {
			server.Handler.NonGoRestfulMux.Handle(p.Path, p.Handler)
		}
		if one.Shutdown != nil {
			if err := server.AddPreShutdownHook("proviso-"+one.Name, func() error {
				one.Shutdown()
				return nil
			}); err != nil {
				return err
			}
		}
	}
	checks := append([]healthz.HealthChecker{healthz.NamedCheck("policy-snapshot", func(*http.Request) error { return s.kernel.Store.Ready() })}, s.health.Checks()...)
	if err := server.AddReadyzChecks(checks...); err != nil {
		return err
	}
	return server.AddPostStartHook("proviso-policy-snapshot", func(ctx genericapiserver.PostStartHookContext) error {
		if err := s.events.Start(ctx, s.kernel.Clients); err != nil {
			klog.ErrorS(err, "Events are not written")
		}
		from.Run(ctx)
		for _, r := range running {
			go r.Run(ctx)
		}
		go s.clock.Report(ctx, s.kernel.Master, s.events)
		go s.kernel.Warmer.Run(ctx.Done())
		go s.kernel.Store.Run(ctx.Done())
		return nil
	})
}
