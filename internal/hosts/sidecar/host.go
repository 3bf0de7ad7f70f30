package sidecar

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"

	"proviso.dev/proviso/internal/apis/policyreview"
	"proviso.dev/proviso/internal/features"
	"proviso.dev/proviso/internal/features/accessrequests"
	"proviso.dev/proviso/internal/features/base"
	"proviso.dev/proviso/internal/features/dynamicaudit"
	"proviso.dev/proviso/internal/features/dynamicaudit/sink"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/features/fieldpermissions"
	"proviso.dev/proviso/internal/features/policies"
	"proviso.dev/proviso/internal/features/tokens"
	"proviso.dev/proviso/internal/hosts/sidecar/webhooks"
	"proviso.dev/proviso/internal/platform/pki"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/state/discovery"
	"proviso.dev/proviso/internal/state/policycodec"
	"proviso.dev/proviso/internal/state/selfclient"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/internal/state/source"
)

// composed is the same list of systems that every host holds, and the decider over it.
type composed struct {
	kernel  *feature.Kernel
	systems []feature.System
	decider *webhooks.Decider
	health  *source.Health
}

// parts is what a composition is made of.
type parts struct {
	settings   *settings
	kinds      feature.Kinds
	clients    *selfclient.Clients
	namespaces authorize.Namespaces
	// clock is the clock; nil trusts that of the machine.
	clock snapshot.Clock
	// ground answers the registry's questions about the cluster.
	ground base.Config
	// spool is where audit events wait; empty if there are no sinks.
	spool     string
	interlock webhooks.Interlock
	// granted remembers what was allowed under a condition; nil for a new memory.
	granted *webhooks.Granted
	// roles reads the stored roles of RBAC.
	roles policyreview.RBACRoles
	// age knows when the policy is too old to decide by; nil asks the health of its sources.
	age authorize.Age
}

// compose makes the kernel, the systems on it, the chain of their links, and the decider.
func compose(p parts) (*composed, error) {
	c := &composed{health: p.ground.Health}
	if p.age == nil {
		p.age = authorize.Ageless{}
		if c.health != nil {
			p.age = c.health.Age
		}
	}
	if p.roles == nil {
		return nil, errors.New("the roles of RBAC cannot be read")
	}
	ours := policycodec.Groups()
	var err error
	c.kernel, err = base.NewKernel(base.KernelConfig{
		Master: p.settings.MasterNamespace, Conditional: true, Explain: true, Reserved: p.kinds.Reserved, Clients: p.clients, Codecs: p.kinds.Codecs,
		Namespaces: p.namespaces, Warner: logged{}, Replicas: authorize.Alone{}, Age: authorize.Ageless{}, Clock: p.clock,
		Reach: func(directory *discovery.Directory) base.Reach { return p.settings.reach(ours, directory) },
	})
	if err != nil {
		return nil, err
	}
	if p.granted == nil {
		p.granted = webhooks.NewGranted(time.Now)
	}
	p.ground.Converter = p.kinds.Converter
	p.ground.Service = &apiregistration.ServiceReference{Namespace: p.settings.Namespace, Name: serviceName}
	cfg := features.Config{
		Ground: p.ground,
		Fields: fieldpermissions.Config{Builtin: p.kinds.Builtin, MaxBody: 3 << 20},
		// A server that does not orphan has no garbage collector, either.
		Policies: policies.Config{Orphans: true},
	}
	if p.spool != "" {
		cfg.Auditing = dynamicaudit.Config{MaxSinks: 32, Server: "sidecar", Router: sink.Config{Dir: p.spool, AllowInsecure: p.settings.AllowInsecureSinks}}
	}
	if c.systems, err = lineup().Build(c.kernel, cfg); err != nil {
		return nil, err
	}
	if err := features.Install(c.kernel, c.systems); err != nil {
		return nil, err
	}
	enforced := c.systems
	if p.settings.ReadObjects {
		enforced = append(slices.Clone(enforced), reading(p.clients))
	}
	// The API server itself refuses rights that a writer of RBAC lacks.
	escalation := base.Escalation(c.kernel)
	escalation.DeniesOnly = true
	c.decider, err = webhooks.New(webhooks.Config{
		Gate: c.kernel.Gate, Store: c.kernel.Store, Served: c.kernel.Served, Enforcer: feature.Enforcer(c.kernel, enforced),
		Objects: &webhooks.Objects{Schemes: p.kinds.Schemes, Definitions: c.kernel.Served}, Interlock: p.interlock,
		Own: pki.SidecarUser, Canary: pki.CanaryUser, Home: p.settings.Namespace, Ours: ours, Guards: c.kernel, Age: p.age, Granted: p.granted,
		Grants: &policyreview.RBACWrites{Escalation: escalation, Roles: p.roles},
	})
	return c, err
}

// lineup are the systems beside a stock server. Asking and approving are off: impersonation cannot be seen
// (TM-16). So are narrowed tokens: the server would allow members of system:masters before it asks (TK-10).
func lineup() features.Lineup {
	return features.All().With(func(f featuregate.Feature) bool { return f != accessrequests.Gate && f != tokens.Gate })
}

// logged logs what is wrong with an object: the sidecar writes no events in the cluster.
type logged struct{}

// Warn implements feature.Warner.
func (logged) Warn(obj runtime.Object, reason, message string) {
	name := ""
	if m, err := meta.Accessor(obj); err == nil {
		name = m.GetNamespace() + "/" + m.GetName()
	}
	klog.InfoS("Something is wrong with an object", "object", name, "reason", reason, "message", message)
}

// Inform implements feature.Warner.
func (logged) Inform(runtime.Object, string, string) {}

// Paths of the webhooks.
const (
	accessPath    = "/proviso/authorize"
	admissionPath = "/proviso/admit"
	auditPath     = "/proviso/audit"
	metricsPath   = "/metrics"
)

var errStranger = errors.New("only the API server that this sidecar belongs to may ask here")

// webhooks run ahead of everything else. The caller has shown the certificate that init made for it.
func (s *sidecar) webhooks(trusted func(*http.Request) error, next http.Handler) http.Handler {
	paths := map[string]http.HandlerFunc{accessPath: s.decider.ServeAccess, admissionPath: s.decider.ServeAdmission, statePath: s.serveState, auditPath: s.hookedEvents, metricsPath: legacyregistry.Handler().ServeHTTP}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serve := paths[r.URL.Path]
		if serve == nil {
			next.ServeHTTP(w, r)
			return
		}
		if err := trusted(r); err != nil {
			http.Error(w, errStranger.Error(), http.StatusForbidden)
			return
		}
		serve(w, r)
	})
}
