package base

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"

	authzv1alpha1 "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/freshness"
	"proviso.dev/proviso/internal/request/shadow"
	"proviso.dev/proviso/internal/state/discovery"
	"proviso.dev/proviso/internal/state/selfclient"
	"proviso.dev/proviso/internal/state/snapshot"
)

// KernelConfig is what a host gives its systems.
type KernelConfig struct {
	// Master is the namespace whose policy holds everywhere.
	Master string
	// Conditional lets conditions pass to admission; with UniformConnect, every connect request takes create as well
	// (CA-9).
	Conditional, UniformConnect bool
	// Unions lets lists and watches that are not allowed as a whole show the allowed part (RD-11), where Reach has
	// reads.
	Unions bool
	// Explain adds to refusals the command that explains them; the system for policies serves it (TR-12).
	Explain bool
	// Reach returns where conditions are honoured, given what is served; nil means what this host serves, without
	// reads.
	Reach func(*discovery.Directory) Reach
	// Reserved are the API groups that are built in.
	Reserved []string
	// Clients reach the server itself; nil in a host that is not a server.
	Clients *selfclient.Clients
	// Codecs write errors; nil in a host that does not answer requests.
	Codecs runtime.NegotiatedSerializer
	// Namespaces finds a namespace for conditions that look at it.
	Namespaces authorize.Namespaces
	// Warner tells people that something is wrong with an object.
	Warner feature.Warner
	// Replicas say whether this host decides as they do; authorize.Alone if there are none.
	Replicas authorize.Agreement
	// Age knows when the policy is too old to decide by; authorize.Ageless if it is never.
	Age authorize.Age
	// Needs tells replicas which stored content an older release would not know; nil if there are no replicas.
	Needs feature.Needs
	// Clock is the clock; nil trusts that of the machine.
	Clock snapshot.Clock
	// Types finds the schemas against which a rule is checked when it is written; nil checks none.
	Types func(*snapshot.Store) rulecondition.Types
}

// Reach is where conditions are honoured.
type Reach struct {
	// Local knows what is admitted here.
	Local authorize.Local
	// Limit knows exceptions where no condition is honoured; nil limits nothing.
	Limit authorize.Limit
	// Reads knows which reads are decided under a condition; nil if none are.
	Reads authorize.Reads
}

// Masters is the link that always comes first, so administrators cannot be locked out.
func Masters() authorize.Link {
	return authorize.Link{Name: links.SystemMasters, Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)}
}

// NewKernel returns what every system is built with.
func NewKernel(cfg KernelConfig) (*feature.Kernel, error) {
	if cfg.Warner == nil || cfg.Replicas == nil || cfg.Age == nil {
		return nil, errors.New("a kernel needs a warner, its replicas and the age of its policy")
	}
	cel, err := expr.New(expr.Config{})
	if err != nil {
		return nil, err
	}
	chain, err := newChain(cfg.Master)
	if err != nil {
		return nil, err
	}
	indexed, err := newChain(cfg.Master)
	if err != nil {
		return nil, err
	}
	if cfg.Clock == nil {
		cfg.Clock = snapshot.SystemClock{}
	}
	store, cache := snapshot.NewStoreWith(cfg.Clock), expr.NewCache(cel)
	directory := discovery.NewDirectory(discovery.Config{Changed: store.Changed, Reserved: cfg.Reserved, Clients: cfg.Clients, Codecs: cfg.Codecs})
	compiler := &rulecondition.Compiler{CEL: cel, Cache: cache}
	if cfg.Types != nil {
		compiler.Types = cfg.Types(store)
	}
	k := &feature.Kernel{
		Store: store, Master: cfg.Master, Indexed: indexed,
		Compiler: compiler, Cache: cache, Warmer: snapshot.NewWarmer(cache),
		Served: directory, Clients: cfg.Clients, Codecs: cfg.Codecs, Namespaces: cfg.Namespaces, Warner: cfg.Warner, Replicas: cfg.Replicas, Age: cfg.Age, Needs: cfg.Needs,
		Behind: behind{cfg.Clients, directory}, Shadow: shadow.New(time.Now),
		Fresh: &freshness.Waiting{Store: store},
	}
	reach := Reach{Local: directory}
	if cfg.Reach != nil {
		reach = cfg.Reach(directory)
	}
	k.Gate = newGate(cfg, k, chain, reach)
	return k, nil
}

func newGate(cfg KernelConfig, k *feature.Kernel, chain *authorize.Chain, reach Reach) *authorize.Gate {
	gate := authorize.GateConfig{
		Chain: chain, Conditional: cfg.Conditional, UniformConnect: cfg.Conditional && cfg.UniformConnect, Explain: cfg.Explain, Unions: cfg.Unions,
		Local: reach.Local, Limit: reach.Limit, Observer: k.Shadow, Newer: k.Fresh,
	}
	if cfg.Conditional { // there are no conditional reads without conditions
		gate.Reads = reach.Reads
	}
	return authorize.NewGate(gate)
}

// newChain returns the chain before there are systems.
func newChain(master string) (*authorize.Chain, error) {
	return authorize.NewScopedChain(masterWrites(master), Masters())
}

// masterWrites knows the requests that change the policy of the master namespace. Power there is power everywhere, so
// the right to them must be held cluster-wide (PO-6).
type masterWrites string

// ClusterWide implements authorize.Scope.
func (m masterWrites) ClusterWide(a authorizer.Attributes) bool {
	if a.GetNamespace() != string(m) || !a.IsResourceRequest() || a.IsReadOnly() {
		return false
	}
	switch a.GetAPIGroup() {
	case authzv1alpha1.SchemeGroupVersion.Group, policyv1alpha1.SchemeGroupVersion.Group:
		return true
	}
	return false
}
