package accessrequests

import (
	"k8s.io/component-base/featuregate"

	"proviso.dev/proviso/internal/apis/registry"
	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Gate switches the system.
const Gate featuregate.Feature = "AccessRequests"

// New returns the system. Grants also count in a host that does not store requests, such as one that explains
// decisions; only a server accepts requests.
func New(k *feature.Kernel) (feature.System, error) {
	s := feature.System{
		Name: "access requests", Gate: Gate,
		Resources: []string{snapshot.AccessRules.Resource, snapshot.AccessRequests.Resource},
		Parts: func(from snapshot.Source) ([]snapshot.Part, error) {
			part, err := snapshot.NewAccesses(snapshot.AccessesConfig{
				Source: from, MasterNamespace: k.Master, CompileRule: k.Compiler.CompileRule, Limits: ruleset.DefaultLimits(),
			}, k.Store.Changed)
			return []snapshot.Part{part}, err
		},
		Last: []authorize.Link{{Name: links.Access, Authorizer: authorize.NewAccess(k.Store).ServedBy(k.Served)}},
	}
	if k.Clients == nil {
		return s, nil
	}
	d := &desk{kernel: k}
	s.Registry = func(c *registry.Config) { c.Access = d }
	s.Enforce = func(c *enforce.Config) { c.Grants = d }
	s.Background = func(from snapshot.Source) ([]feature.Runner, error) {
		clerk, err := newClerk(d, from)
		return []feature.Runner{clerk}, err
	}
	return s, nil
}
