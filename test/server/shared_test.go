package server

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"

	"proviso.dev/proviso/internal/features"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/features/tokens"
	"proviso.dev/proviso/internal/hosts/apiserver"
	"proviso.dev/proviso/test/sixth"
)

// Servers that tests share, since a start takes seconds. The first test that asks for one starts it, and it runs until
// all tests are through. Each test has namespaces, users and cluster-wide names of its own, and does not touch what the
// server came with. A test that waits for something may do so in parallel with others; one that looks at everything
// that a server serves, or runs kubectl, which is made for one process, may not.
var (
	// plain has no controllers, and nothing plugged in.
	plain = &sharedServer{}
	// audited writes down the annotations of every request.
	audited = &sharedServer{configure: func(o *apiserver.Options) { o.AuditTo(trail, trail) }}
	trail   = &auditTrail{annotations: map[string]map[string]string{}}
	// united shows unions.
	united = &sharedServer{configure: func(o *apiserver.Options) { o.SwitchOn(apiserver.UnionReads) }}
	// narrowed has narrowed tokens.
	narrowed = &sharedServer{configure: func(o *apiserver.Options) {
		o.SwitchOn(tokens.Gate)
		o.AuditTo(tokenTrail, tokenTrail)
	}}
	tokenTrail = &bodyTrail{}
	// bare has no kinds but those that it came with until TestDefaultRoles is through: tests that define some ask for
	// another.
	bare = &sharedServer{configure: func(o *apiserver.Options) {
		o.Kube.Admission.GenericAdmission.DisablePlugins = []string{"NodeRestriction"} // TestNodeRestriction
		o.Give("enable-admission-plugins")
		o.AuditDynamic.AllowInsecureSinks = true         // TestAuditFeed
		o.Controllers = []string{"namespace-controller"} // TestNamespaceLifeAndDeath
	}}
	// peopled has all controllers, whose writes it keeps, and a link of the chain that allows what is good.
	peopled = &sharedServer{configure: func(o *apiserver.Options) {
		o.Controllers = []string{"*"}
		o.AuditTo(done, done)
		withOnlyGood(o)
	}}
	done = &deedTrail{deeds: map[string]bool{}}
)

// plugged has what tests look at a server from inside with.
var (
	plugged = &sharedServer{configure: func(o *apiserver.Options) {
		o.SwitchOn(tokens.Gate) // it is in the picture
		o.Plug(features.Entry{New: func(k *feature.Kernel, _ features.Config) (feature.System, error) {
			pluggedKernel = k
			return sixth.New("six"), nil
		}})
		plug(o, holding(pluggedServed))
		o.Configure(func(generic *genericapiserver.Config) error {
			generic.RESTOptionsGetter = strategies{generic.RESTOptionsGetter, &sync.Mutex{}, pluggedStorage}
			return nil
		})
	}}
	pluggedKernel  *feature.Kernel
	pluggedServed  = &servedPart{}
	pluggedStorage = map[schema.GroupResource]strategy{}
)

type sharedServer struct {
	configure func(*apiserver.Options)
	once      sync.Once
	server    *instance
}

// get returns the server as that of one test: what fails while it is used fails that test.
func (s *sharedServer) get(t *testing.T) *instance {
	t.Helper()
	s.once.Do(func() {
		configure := []func(*apiserver.Options){}
		if s.configure != nil {
			configure = append(configure, s.configure)
		}
		s.server = start(lifetime{t}, configure...)
	})
	if s.server == nil {
		t.Fatal("the shared server did not start; see the test that was the first to ask for it")
	}
	server := *s.server.Server
	server.T = t
	return &instance{Server: &server, t: t, dir: server.Dir, admin: server.Admin}
}

// accountForPods makes the service account that a pod in the namespace default needs, where no controller does.
func (s *instance) accountForPods(t *testing.T) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err := kubernetes.NewForConfigOrDie(s.admin).CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// lifetime is the test that starts a shared server: the server outlives it, and what is said then is kept for the end.
type lifetime struct{ testing.TB }

var atEnd struct {
	sync.Mutex
	cleanups []func()
	errs     []error
}

func (lifetime) Cleanup(f func()) {
	atEnd.Lock()
	defer atEnd.Unlock()
	atEnd.cleanups = append(atEnd.cleanups, f)
}

func (lifetime) Error(args ...any)                 { ended(fmt.Sprint(args...)) }
func (lifetime) Errorf(format string, args ...any) { ended(fmt.Sprintf(format, args...)) }

func ended(what string) {
	atEnd.Lock()
	defer atEnd.Unlock()
	atEnd.errs = append(atEnd.errs, errors.New(what))
}

// stopShared ends the shared servers, after all tests.
func stopShared() error {
	for i := len(atEnd.cleanups) - 1; i >= 0; i-- {
		atEnd.cleanups[i]()
	}
	return errors.Join(atEnd.errs...)
}
