package apiserver

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/version"
	genericfeatures "k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"

	"proviso.dev/proviso/internal/features"
	"proviso.dev/proviso/internal/features/accessrequests"
	"proviso.dev/proviso/internal/features/conditionalreads"
	"proviso.dev/proviso/internal/features/conditions"
	"proviso.dev/proviso/internal/features/fieldpermissions"
	"proviso.dev/proviso/internal/features/hiddenfields"
	"proviso.dev/proviso/internal/features/policies"
	"proviso.dev/proviso/internal/features/tokens"
)

// UniformConnectAuthorization is not a system of its own: it requires create of every connect request (CA-9), and has
// no effect while ConditionalAuthorization is off.
const UniformConnectAuthorization featuregate.Feature = "UniformConnectAuthorization"

// UnionReads is not a system of its own: it lets a list or watch that is not allowed as a whole show what is allowed in
// single namespaces, or by name (RD-11). Kubernetes refuses such a list, and software relies on that: it is off by
// default. It has no effect while ConditionalReads is off.
const UnionReads featuregate.Feature = "UnionReads"

// Features lists our gates. Every system can be switched off on its own; with all of them off the server behaves like
// stock kube-apiserver.
func Features() []featuregate.Feature {
	return append(features.All().Gates(), UniformConnectAuthorization, UnionReads)
}

var registerFeatures sync.Once

// RegisterFeatures adds our gates next to Kubernetes' own, on unless they change what stock software sees. It must run
// before flags are parsed; feature gates are process-wide, so running it again does nothing.
func RegisterFeatures() error {
	var err error
	registerFeatures.Do(func() {
		gates := map[featuregate.Feature]featuregate.VersionedSpecs{}
		for _, f := range Features() {
			gates[f] = featuregate.VersionedSpecs{{Version: version.MustParse("1.0"), Default: f != UnionReads && f != tokens.Gate, PreRelease: featuregate.Beta}}
		}
		if err = utilfeature.DefaultMutableFeatureGate.AddVersioned(gates); err == nil {
			err = utilfeature.DefaultMutableFeatureGate.OverrideDefault(genericfeatures.ShardedListAndWatch, true)
		}
	})
	return err
}

// closedShards is true if this process, and not its operator, has disabled the gate for shards.
var closedShards struct {
	sync.Mutex
	done bool
}

// shards settles the gate by which lists and watches ask about single objects (RD-10). It is on by our default, and off
// where conditional reads are: such a server is stock in this. An operator who says something has it their way, and
// lets callers use the parameter of the gate if it is on. Gates are process-wide.
func (s switches) shards() (public bool, _ error) {
	closedShards.Lock()
	defer closedShards.Unlock()
	gate := utilfeature.DefaultMutableFeatureGate
	if closedShards.done {
		if err := gate.ResetFeatureValueToDefault(genericfeatures.ShardedListAndWatch); err != nil {
			return false, err
		}
		closedShards.done = false
	}
	switch {
	case gate.ExplicitlySet(genericfeatures.ShardedListAndWatch):
		return gate.Enabled(genericfeatures.ShardedListAndWatch), nil
	case s.systems.Has(conditionalreads.Gate):
		return false, nil
	}
	closedShards.done = true
	return false, gate.SetFromMap(map[string]bool{string(genericfeatures.ShardedListAndWatch): false})
}

// gates reads our feature gates; this is the only place. Disabled systems are removed from the list.
func gates() map[featuregate.Feature]bool {
	all := map[featuregate.Feature]bool{}
	for _, f := range Features() {
		all[f] = utilfeature.DefaultFeatureGate.Enabled(f)
	}
	return all
}

// switches is which systems there are.
type switches struct {
	// gates are all of ours, and systems the list without those that are off.
	gates   map[featuregate.Feature]bool
	systems features.Lineup
}

// switches reads them for this server.
func (o *Options) switches() switches {
	s := switches{gates: gates()}
	for _, f := range o.on {
		s.gates[f] = true
	}
	for _, f := range o.off {
		s.gates[f] = false
	}
	s.systems = o.lineup.With(func(f featuregate.Feature) bool {
		base, needed := needs[f]
		return s.gates[f] && (!needed || s.gates[base])
	})
	return s
}

// needs says which systems are parts of others: without those they are off.
var needs = map[featuregate.Feature]featuregate.Feature{
	conditionalreads.Gate: conditions.Gate,
	hiddenfields.Gate:     fieldpermissions.Gate,
	accessrequests.Gate:   policies.Gate,
}

// stock is true when all of our systems are off.
func (s switches) stock() bool { return len(s.systems.Gates()) == 0 }
