package features

import (
	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/features/base"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/features/policies"
	"proviso.dev/proviso/internal/request/authorize"
)

// RBAC is the name of the link that is RBAC.
const RBAC = links.RBAC

// Install builds the chain of a host without configured authorizers: the guards, then Policy, then RBAC, like the
// default of a server. It does not include nodes, webhooks and ABAC.
func Install(k *feature.Kernel, systems []feature.System) error {
	links := append([]authorize.Link{base.Masters()}, feature.Links(systems)...)
	for _, kind := range []string{policies.TypePolicy, policies.TypeRBAC} {
		for _, s := range systems {
			make := s.Authorizers[kind]
			if make == nil {
				continue
			}
			for _, link := range make(nil) {
				if link.Name == "" {
					link.Name = RBAC
				}
				links = append(links, link)
			}
		}
	}
	links = append(links, feature.Last(systems)...)
	if err := k.Gate.Chain.Replace(links...); err != nil {
		return err
	}
	return k.Indexed.Replace(links...)
}
