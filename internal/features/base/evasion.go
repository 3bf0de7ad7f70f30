package base

import (
	"fmt"
	"slices"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/evasion"
	"proviso.dev/proviso/internal/apis/registry"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Evadable implements registry.Rules. A role that looks at nothing costs nothing.
func (r rules) Evadable(of registry.EvadableRole) (warnings []string) {
	looks := false
	for i := range of.Rules {
		looks = looks || len(evasion.Marks(&of.Rules[i])) > 0
	}
	snap := r.k.Store.Current()
	if !looks || !snap.Synced || snap.Rules == nil || snap.Served == nil {
		return nil
	}
	for _, in := range bound(snap, of) {
		where := in.Namespace
		if where == snap.Rules.MasterNamespace() {
			where = ""
		}
		if !of.Caller.MayAsk(where) {
			continue
		}
		if snap.Protect != nil {
			in.Protections = of.Caller.Protections(where)
		}
		in.Fields = snap.Fields
		for _, f := range evasion.Find(in) {
			text := fmt.Sprintf("rules[%d]: %s; %s", f.Rule, f, f.Remedy())
			if of.Namespace != "" {
				text = fmt.Sprintf("Role %q: %s", of.Role.Namespace+"/"+of.Role.Name, text)
			}
			if !slices.Contains(warnings, text) {
				warnings = append(warnings, text)
			}
		}
	}
	return warnings
}

// maxBoundIn is in how many namespaces the subjects of a role are looked at.
const maxBoundIn = 20

// bound are the subjects of a role, by the namespaces in which it is bound: those of a binding that is written, or all.
// The index is the one that the write will make.
func bound(snap *snapshot.Snapshot, of registry.EvadableRole) (all []evasion.Input) {
	ref := ruleset.RoleRef{Kind: ruleset.PolicyRole, Namespace: of.Role.Namespace, Name: of.Role.Name}
	index := snap.Rules.WithRole(ref, of.Rules)
	if of.Namespace != "" {
		in := evasion.Input{Namespace: of.Namespace, Rules: of.Rules}
		in.Index = index.WithBinding(of.Namespace, ref, policyv1alpha1.PolicyRoleBinding{UserNames: of.UserNames, GroupNames: of.GroupNames})
		for _, name := range of.UserNames {
			in.Subjects = append(in.Subjects, ruleset.Subject{Name: name})
		}
		for _, name := range of.GroupNames {
			in.Subjects = append(in.Subjects, ruleset.Subject{Group: true, Name: name})
		}
		return []evasion.Input{in}
	}
	index.Members(ref, func(namespace string, everywhere bool, s ruleset.Subject) {
		if everywhere {
			namespace = index.MasterNamespace()
		}
		i := slices.IndexFunc(all, func(in evasion.Input) bool { return in.Namespace == namespace })
		if i < 0 {
			if len(all) == maxBoundIn {
				return
			}
			i, all = len(all), append(all, evasion.Input{Index: index, Namespace: namespace, Rules: of.Rules})
		}
		all[i].Subjects = append(all[i].Subjects, s)
	})
	return all
}
