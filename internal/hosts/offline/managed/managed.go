package managed

import (
	"fmt"
	"slices"
	"strings"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	authzv1alpha1 "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/compile"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/features/policies"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Compile compiles all that a host has.
func Compile(host *offline.Host, accept []string) (*compile.Result, error) {
	universe, err := offline.NewUniverse(host)
	if err != nil {
		return nil, err
	}
	bindings, err := host.Files().Objects(snapshot.PolicyBindings)
	if err != nil {
		return nil, err
	}
	protected, err := protections(host)
	if err != nil {
		return nil, err
	}
	lost, err := lostObjects(host)
	if err != nil {
		return nil, err
	}
	result, err := compile.Compile(compile.Input{
		Index: host.Snapshot().Rules, Bindings: snapshot.Of[*policyv1alpha1.PolicyBinding](bindings), CEL: host.CEL(),
		Resources: universe.Everything(), World: world{host}, Protected: protected, Fields: host.Snapshot().Fields, Lost: lost, Accept: accept,
		Ours: []string{policyv1alpha1.SchemeGroupVersion.Group, authzv1alpha1.SchemeGroupVersion.Group, accessv1alpha1.SchemeGroupVersion.Group, auditv1alpha1.SchemeGroupVersion.Group},
	})
	if err != nil {
		return nil, err
	}
	return result, known(result, accept)
}

// world is what a host knows.
type world struct{ *offline.Host }

// Default implements compile.World.
func (w world) Default(ref ruleset.RoleRef) bool {
	_, shipped := policies.DefaultRoles()[ref.Name]
	return shipped && ref.Namespace == w.Master()
}

// Shipped implements compile.World.
func (w world) Shipped(namespace, name string, b *policyv1alpha1.PolicyRoleBinding) bool {
	return slices.ContainsFunc(policies.DefaultRoleBindings(w.Master()), func(d *authzv1alpha1.RoleBinding) bool {
		return d.Namespace == namespace && d.Name == name && d.RoleRef.Name == b.RoleName && slices.Equal(d.UserNames, b.UserNames) && slices.Equal(d.GroupNames, b.GroupNames)
	})
}

// known refuses to accept names that nothing has, which could be misspelled.
func known(result *compile.Result, accept []string) error {
	for _, name := range accept {
		if !slices.ContainsFunc(result.Assessments, func(f *compile.Assessment) bool { return f.Rule == name || strings.HasPrefix(f.Rule, name+"/") }) {
			return fmt.Errorf("--accept %s: not the name of a rule or an object; -o report lists them", name)
		}
	}
	return nil
}

// Reasons why whole objects cannot be had.
const (
	whyShadow = "it is not enforced, and that cluster cannot shadow it"
	whyHidden = "hidden fields"
	whyAudit  = "a managed cluster has the audit configuration of its provider"
	whyAccess = "nothing there begins, ends or is approved"
)

// protections are the protected attributes that are enforced.
func protections(host *offline.Host) (cfg protectedattr.Config, err error) {
	cfg.Master = host.Master()
	local, err := host.Files().Objects(snapshot.ProtectedAttributes)
	if err != nil {
		return cfg, err
	}
	for _, o := range snapshot.Of[*policyv1alpha1.ProtectedAttribute](local) {
		if enforced(o.Enforcement) {
			cfg.Protections = append(cfg.Protections, protectedattr.FromNamespaced(o))
		}
	}
	global, err := host.Files().Objects(snapshot.ClusterProtectedAttributes)
	if err != nil {
		return cfg, err
	}
	for _, o := range snapshot.Of[*policyv1alpha1.ClusterProtectedAttribute](global) {
		if enforced(o.Enforcement) {
			cfg.Protections = append(cfg.Protections, protectedattr.FromCluster(o))
		}
	}
	return cfg, nil
}

func enforced(e policyv1alpha1.Enforcement) bool {
	return e == "" || e == policyv1alpha1.EnforcementEnforce
}

// lostObjects are the objects that cannot be had, with the reason.
func lostObjects(host *offline.Host) (map[string]string, error) {
	lost := map[string]string{}
	note := func(kind, namespace, name, why string) {
		lost[strings.ReplaceAll(kind+"/"+namespace+"/"+name, "//", "/")] = why
	}
	for _, kind := range snapshot.Kinds() {
		objects, err := host.Files().Objects(kind)
		if err != nil {
			return nil, err
		}
		for _, o := range snapshot.Of[*policyv1alpha1.ProtectedAttribute](objects) {
			if !enforced(o.Enforcement) {
				note("ProtectedAttribute", o.Namespace, o.Name, whyShadow)
			}
		}
		for _, o := range snapshot.Of[*policyv1alpha1.ClusterProtectedAttribute](objects) {
			if !enforced(o.Enforcement) {
				note("ClusterProtectedAttribute", "", o.Name, whyShadow)
			}
		}
		for _, o := range snapshot.Of[*policyv1alpha1.FieldPermission](objects) {
			switch {
			case o.Spec.ReadExclusive:
				note("FieldPermission", "", o.Name, whyHidden)
			case !enforced(o.Spec.Enforcement) && o.Spec.Exclusive:
				note("FieldPermission", "", o.Name, whyShadow)
			}
		}
		for _, o := range snapshot.Of[*auditv1alpha1.AuditSink](objects) {
			note("AuditSink", "", o.Name, whyAudit)
		}
		for _, o := range snapshot.Of[*auditv1alpha1.AuditClass](objects) {
			note("AuditClass", "", o.Name, whyAudit)
		}
		for _, o := range snapshot.Of[*accessv1alpha1.AccessRule](objects) {
			note("AccessRule", "", o.Name, whyAccess)
		}
		for _, o := range snapshot.Of[*accessv1alpha1.AccessRequest](objects) {
			note("AccessRequest", o.Namespace, o.Name, whyAccess)
		}
	}
	return lost, nil
}
