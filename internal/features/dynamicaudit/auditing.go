package dynamicaudit

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/metrics/legacyregistry"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/apis/registry"
	"proviso.dev/proviso/internal/features/dynamicaudit/sink"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/internal/state/source"
)

// Gate switches the system.
const Gate featuregate.Feature = "DynamicAudit"

// Config is what a host knows.
type Config struct {
	// Router configures where events wait for their sinks, and the backends beside them. Without a directory there are
	// no sinks.
	Router sink.Config
	// MaxSinks is the maximum number of sinks.
	MaxSinks int
	// Accounts are the service accounts with whose rights sinks of namespaces see events; without them these sinks get
	// nothing. MaxNamespaceSinks is the maximum number of sinks in one namespace.
	Accounts          Accounts
	MaxNamespaceSinks int
	// Server is the name of this server among its replicas.
	Server string
}

// broken knows the requests that a break-glass grant may make possible.
type broken struct{ k *feature.Kernel }

// Watched implements auditrule.Needs.
func (b broken) Watched(attrs authorizer.Attributes) bool {
	return b.k.Store.Current().Access.Watched(attrs)
}

// New returns the system. The configured backend becomes one more sink, which is not visible in the API.
func New(k *feature.Kernel, cfg Config) (feature.System, error) {
	s := feature.System{Name: "dynamic audit", Gate: Gate}
	if cfg.Router.Dir == "" {
		return s, nil
	}
	if cfg.Accounts == nil {
		cfg.Accounts = noAccounts{}
	}
	cfg.Router.Cutter = cutter{k, cfg.Accounts}
	cfg.Router.Redactor, cfg.Router.Clock, cfg.Router.OwnAgent = redactor{k}, k.Store.Clock(), source.Agent
	router, err := sink.New(cfg.Router)
	if err != nil {
		return s, fmt.Errorf("dynamic audit: %w", err)
	}
	// Of several servers in one process, which only tests have, the first one's metrics are shown.
	_ = legacyregistry.CustomRegister(router.Collector())
	replica, err := replicaName(cfg.Router.Dir, cfg.Server)
	if err != nil {
		return s, err
	}
	if err := k.Sinks.Keep(router); err != nil {
		return s, err
	}
	ended, end := context.WithCancel(context.Background())
	evaluator := router.Evaluator()
	evaluator.Needs = broken{k}
	s.Audit = &feature.Audit{Backend: router, Evaluator: evaluator}
	s.Resources = []string{snapshot.AuditSinks.Resource, snapshot.AuditClasses.Resource, snapshot.NamespaceAuditSinks.Resource}
	s.Registry = func(c *registry.Config) {
		c.MaxAuditSinks, c.AllowInsecureSinks, c.Audit = cfg.MaxSinks, cfg.Router.AllowInsecure, knowledge{k}
		c.NamespaceSinks = registry.NamespaceSinks{Max: cfg.MaxNamespaceSinks, Ground: ground{cfg.Accounts, cfg.Router.Allow}}
	}
	s.Parts = func(from snapshot.Source) ([]snapshot.Part, error) {
		part, err := newSinks(router, cfg.Accounts, from, k.Store.Changed)
		return []snapshot.Part{part}, err
	}
	s.Background = func(from snapshot.Source) ([]feature.Runner, error) {
		reporter, err := newSinkReporter(router, from, k.Clients, replica)
		return []feature.Runner{reporter}, err
	}
	s.Paths = []feature.Path{
		{Path: auditTailPath, Handler: &auditTail{kernel: k, router: router, ended: ended}, LongRunning: true},
		{Path: auditv1alpha1.EffectivePath, Handler: &effective{kernel: k, router: router}},
	}
	s.Shutdown = end
	return s, nil
}
