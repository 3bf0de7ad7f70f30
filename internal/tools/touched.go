package tools

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/offline"
	"proviso.dev/proviso/internal/plan"
	"proviso.dev/proviso/internal/ruleset"
	"proviso.dev/proviso/internal/snapshot"
)

// touch finds those whom a change of roles and bindings concerns, so that nobody else has to be looked at (TR-5). It is
// nil if that could be everybody: other kinds change, what a server serves changes, or a binding names a group that
// people are in by themselves.
type touch struct {
	roles    map[ruleset.RoleRef]bool
	bindings map[string]bool // kind, namespace and name
	master   string
	out      plan.Touched
	all      bool
}

func touched(before, after *offline.Host, change []document, master string) *plan.Touched {
	t := &touch{roles: map[ruleset.RoleRef]bool{}, bindings: map[string]bool{}, master: master, out: plan.Touched{Namespaces: []string{}}}
	for _, d := range change {
		object, _ := written(d)
		switch o := object.(type) {
		case *authz.Role:
			t.roles[ruleset.RoleRef{Kind: ruleset.PolicyRole, Namespace: o.Namespace, Name: o.Name}] = true
		case *rbacv1.Role:
			t.roles[ruleset.RoleRef{Kind: ruleset.Role, Namespace: o.Namespace, Name: o.Name}] = true
		case *rbacv1.ClusterRole:
			t.roles[ruleset.RoleRef{Kind: ruleset.ClusterRole, Name: o.Name}] = true
		case *authz.RoleBinding, *rbacv1.RoleBinding, *rbacv1.ClusterRoleBinding:
			t.bindings[d.key()] = true
		default:
			return nil
		}
	}
	for _, h := range []*offline.Host{before, after} {
		if !t.in(h) || t.all {
			return nil
		}
	}
	slices.SortFunc(t.out.Subjects, ruleset.Subject.Compare)
	t.out.Subjects = slices.Compact(t.out.Subjects)
	return &t.out
}

// in looks at the bindings of one host.
func (t *touch) in(h *offline.Host) bool {
	of := func(kind snapshot.Kind) snapshot.Objects {
		objects, err := h.Files().Objects(kind)
		if err != nil {
			t.all = true
		}
		return objects
	}
	for _, b := range snapshot.Of[*policyv1alpha1.PolicyBinding](of(snapshot.PolicyBindings)) {
		for name, one := range b.RoleBindings {
			role := ruleset.RoleRef{Kind: ruleset.PolicyRole, Namespace: b.PolicyRef.Namespace, Name: one.RoleName}
			if t.roles[role] || t.bindings["RoleBinding.authorization.proviso.dev "+b.Namespace+"/"+name] {
				t.policy(b.Namespace, one)
			}
		}
	}
	for _, b := range snapshot.Of[*rbacv1.RoleBinding](of(snapshot.RoleBindings)) {
		if t.binds(b.RoleRef, b.Namespace) || t.bindings["RoleBinding.rbac.authorization.k8s.io "+b.Namespace+"/"+b.Name] {
			t.rbac(b.Namespace, b.Subjects)
		}
	}
	for _, b := range snapshot.Of[*rbacv1.ClusterRoleBinding](of(snapshot.ClusterRoleBindings)) {
		if t.binds(b.RoleRef, "") || t.bindings["ClusterRoleBinding.rbac.authorization.k8s.io "+b.Name] {
			t.rbac("", b.Subjects)
		}
	}
	return !t.all
}

func (t *touch) binds(ref rbacv1.RoleRef, namespace string) bool {
	if ref.Kind == "Role" {
		return t.roles[ruleset.RoleRef{Kind: ruleset.Role, Namespace: namespace, Name: ref.Name}]
	}
	return t.roles[ruleset.RoleRef{Kind: ruleset.ClusterRole, Name: ref.Name}]
}

func (t *touch) policy(namespace string, b policyv1alpha1.PolicyRoleBinding) {
	for _, name := range b.UserNames {
		t.add(namespace, ruleset.Subject{Name: name})
	}
	for _, name := range b.GroupNames {
		t.add(namespace, ruleset.Subject{Group: true, Name: name})
	}
}

func (t *touch) rbac(namespace string, subjects []rbacv1.Subject) {
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.GroupKind:
			t.add(namespace, ruleset.Subject{Group: true, Name: s.Name})
		case rbacv1.ServiceAccountKind:
			home := s.Namespace
			if home == "" {
				home = namespace
			}
			t.add(namespace, ruleset.Subject{Name: serviceaccount.MakeUsername(home, s.Name)})
		default:
			t.add(namespace, ruleset.Subject{Name: s.Name})
		}
	}
}

func (t *touch) add(namespace string, s ruleset.Subject) {
	if s.Group && strings.HasPrefix(s.Name, "system:") {
		t.all = true
		return
	}
	t.out.Subjects = append(t.out.Subjects, s)
	switch {
	case namespace == "" || namespace == t.master:
		t.out.Namespaces = nil
	case t.out.Namespaces != nil && !slices.Contains(t.out.Namespaces, namespace):
		t.out.Namespaces = append(t.out.Namespaces, namespace)
	}
}
