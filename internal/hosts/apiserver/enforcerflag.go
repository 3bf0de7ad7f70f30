package apiserver

import (
	"fmt"
	"slices"

	"proviso.dev/proviso/internal/features/conditions"
	"proviso.dev/proviso/internal/request/enforce"
)

// liftEnforcer takes the enforcer out of the flags for admission plugins, where upstream does not know it. Enabling it
// is accepted and changes nothing: it runs anyway. Disabling it would be a server that lets conditional requests
// through, and refuses to start (CA-7, CA-23).
func (o *Options) liftEnforcer() error {
	a := o.Kube.Admission
	if !o.switches().systems.Has(conditions.Gate) || a == nil || a.GenericAdmission == nil {
		return nil // upstream calls it unknown, as stock does
	}
	if slices.Contains(a.GenericAdmission.DisablePlugins, enforce.Name) {
		return fmt.Errorf("--disable-admission-plugins: %s cannot be disabled while the feature gate %s is on; remove it from the flag, or switch the gate off",
			enforce.Name, conditions.Gate)
	}
	without := func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == enforce.Name })
	}
	a.GenericAdmission.EnablePlugins, a.PluginNames = without(a.GenericAdmission.EnablePlugins), without(a.PluginNames)
	return nil
}
