package server

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
)

// Every system can be switched off on its own. With all of them off the server behaves like stock kube-apiserver.
const (
	ConditionalAuthorization featuregate.Feature = "ConditionalAuthorization"
	PolicyAuthorization      featuregate.Feature = "PolicyAuthorization"
	FieldPermissions         featuregate.Feature = "FieldPermissions"
	ProtectedAttributes      featuregate.Feature = "ProtectedAttributes"
	DynamicAudit             featuregate.Feature = "DynamicAudit"

	// UniformConnectAuthorization is not a system of its own: it requires create of every connect request (CA-9), and has no
	// effect while ConditionalAuthorization is off.
	UniformConnectAuthorization featuregate.Feature = "UniformConnectAuthorization"
)

// Features lists our gates, in the order of the documentation.
func Features() []featuregate.Feature {
	return []featuregate.Feature{ConditionalAuthorization, PolicyAuthorization, FieldPermissions, ProtectedAttributes, DynamicAudit}
}

var registerFeatures sync.Once

// RegisterFeatures adds our gates next to Kubernetes' own, all on. It must run before flags are parsed; feature gates are
// process-wide, so that running it again does nothing.
func RegisterFeatures() error {
	var err error
	registerFeatures.Do(func() {
		gates := map[featuregate.Feature]featuregate.VersionedSpecs{}
		for _, f := range append(Features(), UniformConnectAuthorization) {
			gates[f] = featuregate.VersionedSpecs{{Version: version.MustParse("1.0"), Default: true, PreRelease: featuregate.Beta}}
		}
		err = utilfeature.DefaultMutableFeatureGate.AddVersioned(gates)
	})
	return err
}

func enabled(f featuregate.Feature) bool { return utilfeature.DefaultFeatureGate.Enabled(f) }

// stock is true when all of our systems are off.
func stock() bool {
	for _, f := range Features() {
		if enabled(f) {
			return false
		}
	}
	return true
}
