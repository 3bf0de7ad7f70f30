package sidecar

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/audit"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/rest"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	apiregistrationinformers "k8s.io/kube-aggregator/pkg/client/informers/externalversions"

	"proviso.dev/proviso/internal/apis/registry"
	"proviso.dev/proviso/internal/features/base"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/platform/localetcd"
	"proviso.dev/proviso/internal/platform/pki"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/state/discovery"
	"proviso.dev/proviso/internal/state/selfclient"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/internal/state/source"
	"proviso.dev/proviso/internal/state/timekeeper"
)

// etcdTick spares the machine of the API server: an etcd that ticks more often is most of an idle sidecar's work.
const etcdTick = 50 * time.Millisecond

// sidecar is a running one.
type sidecar struct {
	dir      string
	settings *settings
	files    *pki.Beside
	kinds    feature.Kinds
	proof    *proof
	*composed

	// clock is compared with the past and with those of other sidecars.
	clock *timekeeper.Keeper

	cluster, own *rest.Config
	remote       *source.Remote
	server       *genericapiserver.GenericAPIServer
	// sinks take the events of the API server's audit webhook, once they run.
	sinks atomic.Pointer[audit.Backend]
}

// Run runs a sidecar until the context ends. Agree lets the time of this machine be the one that counts.
func Run(ctx context.Context, dir string, agree bool, kinds feature.Kinds, announce func(string)) error {
	set, err := readSettings(dir)
	if err != nil {
		return err
	}
	s := &sidecar{dir: dir, settings: set, files: pki.BesideFiles(dir), kinds: kinds, proof: newProof(time.Now), clock: newClock(set)}
	manifests, err := s.settings.manifests(s.files)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", set.Listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w; choose another --listen in `proviso sidecar init`", set.Listen, err)
	}
	defer func() { _ = listener.Close() }()
	listener = tracked{listener, s.proof}
	if address := set.outside(); address != "" {
		outside, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("cannot listen on %s: %w; choose another --advertise-address in `proviso sidecar init`", address, err)
		}
		// Nothing that comes from there proves anything.
		listener = join(listener, outside)
		defer func() { _ = listener.Close() }()
	}
	endpoints := set.Etcd.Servers
	if len(endpoints) == 0 {
		etcd, err := localetcd.Start(ctx, localetcd.Config{Dir: filepath.Join(dir, "etcd"), Tick: etcdTick})
		if err != nil {
			return err
		}
		defer etcd.Close()
		endpoints = etcd.Endpoints()
	}
	s.cluster = s.config(s.files.SidecarCert, s.files.SidecarKey)
	storage := set.Etcd.storage(endpoints)
	generic, err := s.genericConfig(listener, storage)
	if err != nil {
		return err
	}
	leave, err := s.keepTime(ctx, storage, agree)
	if err != nil {
		return err
	}
	defer leave()
	if err := s.assemble(generic); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go s.proof.watchManifest(ctx, filepath.Join(dir, staticDir), manifests, heardPeriod)
	go func() {
		if err := s.proof.sing(ctx, s.config(s.files.CanaryCert, s.files.CanaryKey), set.Namespace); err != nil {
			stop(err)
		}
	}()
	for _, one := range s.systems {
		if one.Shutdown != nil {
			context.AfterFunc(ctx, one.Shutdown)
		}
	}
	go s.follow(ctx, stop, announce)
	if err := s.server.PrepareRun().RunWithContext(ctx); err != nil {
		return err
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// config reaches the API server with a certificate.
func (s *sidecar) config(cert, key string) *rest.Config {
	return &rest.Config{Host: s.settings.Server, TLSClientConfig: rest.TLSClientConfig{CAFile: s.files.ClusterCACert, CertFile: cert, KeyFile: key}, UserAgent: "proviso-sidecar", QPS: 50, Burst: 100}
}

// assemble makes the systems and the server of our groups over them.
func (s *sidecar) assemble(generic *genericapiserver.Config) (err error) {
	s.own = generic.LoopbackClientConfig
	clients, health := selfclient.Beside(s.cluster, s.own), source.NewHealth()
	health.Age, health.Clock = source.NewAge(s.settings.MaxStaleness.Duration), s.clock
	s.remote, err = source.NewBeside(s.cluster, source.InformersConfig{
		Groups: clients,
		Served: source.ServedFunc(func(kind snapshot.Kind) (bool, error) { return feature.Serves(s.systems, kind.Resource), nil }),
		Health: health, Warner: logged{},
	})
	if err != nil {
		return err
	}
	roles, err := newStoredRoles(s.cluster)
	if err != nil {
		return err
	}
	namespaces := s.remote.Kube().Core().V1().Namespaces().Lister()
	s.composed, err = compose(parts{
		settings: s.settings, kinds: s.kinds, clients: clients, clock: s.clock, interlock: s.proof, roles: roles, spool: filepath.Join(s.dir, "audit"),
		namespaces: authorize.NamespacesFunc(func(name string) (runtime.Object, error) { return namespaces.Get(name) }),
		ground:     base.Config{Health: health, Namespaces: clients.Namespaces(namespaces), Roles: s.remote},
	})
	if err != nil {
		return err
	}
	trusted, err := s.trusted()
	if err != nil {
		return err
	}
	if err := s.guard(generic, trusted); err != nil {
		return err
	}
	s.server, err = registry.NewServer(generic, s.remote.Kube(), feature.Registry(s.systems), func(resource string) bool { return feature.Serves(s.systems, resource) },
		genericapiserver.NewEmptyDelegate())
	if err != nil {
		return err
	}
	checks := append([]healthz.HealthChecker{
		healthz.NamedCheck("policy-snapshot", func(*http.Request) error { return s.kernel.Store.Ready() }),
		healthz.NamedCheck("conditions-honoured", s.proof.readyz),
	}, s.health.Checks()...)
	return s.server.AddReadyzChecks(checks...)
}

// follow reads the cluster as soon as its API server answers, and feeds the policy from then on.
func (s *sidecar) follow(ctx context.Context, stop context.CancelCauseFunc, announce func(string)) {
	lists, err := awaitBuiltin(ctx, s.cluster)
	if err != nil {
		stop(err)
		return
	}
	if err := s.feed(ctx, lists); err != nil {
		stop(err)
		return
	}
	announce(fmt.Sprintf("Serving %s on %s.", s.settings.Server, s.settings.Listen))
	if doubt := s.clock.Doubt(); doubt != "" {
		announce("Warning: " + doubt)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(30 * time.Second):
		}
		if now, err := builtin(ctx, s.cluster); err == nil && !reflect.DeepEqual(now, lists) {
			stop(errors.New("the API server serves other built-in resources than before: the sidecar begins again"))
			return
		}
	}
}

// feed starts what the policy is made of.
func (s *sidecar) feed(ctx context.Context, lists lists) error {
	own, err := discovery.LocalAPIs(ctx, s.server)
	if err != nil {
		return err
	}
	aggregator, err := apiregistrationclient.NewForConfig(s.cluster)
	if err != nil {
		return err
	}
	services := apiregistrationinformers.NewSharedInformerFactory(aggregator, 0)
	definitions, err := s.remote.Objects(snapshot.Definitions)
	if err != nil {
		return err
	}
	world := discovery.World{Local: append(lists, own...), Services: services.Apiregistration().V1().APIServices().Informer(), Definitions: definitions}
	if err := s.kernel.Served.Watch(world); err != nil {
		return err
	}
	running, err := feature.Feed(s.kernel.Store, s.systems, s.remote)
	if err != nil {
		return err
	}
	for _, one := range s.systems {
		if one.Audit != nil {
			if err := one.Audit.Backend.Run(ctx.Done()); err != nil {
				return err
			}
			s.sinks.Store(&one.Audit.Backend)
			if s.settings.Audit == auditByHook {
				continue
			}
			tail, err := newLogTail(filepath.Join(s.dir, auditLog), filepath.Join(s.dir, "audit", "position"), one.Audit.Backend)
			if err != nil {
				return err
			}
			running = append(running, tail)
		}
	}
	services.Start(ctx.Done())
	s.health.Age.Begin()
	s.remote.Run(ctx)
	for _, r := range running {
		go r.Run(ctx)
	}
	go s.kernel.Warmer.Run(ctx.Done())
	go s.kernel.Store.Run(ctx.Done())
	return nil
}
