package source

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/state/policycodec"
	"proviso.dev/proviso/internal/state/snapshot"
)

// views are the roles and role bindings in files. People write these, but policy is stored in the containers that hold
// them.
type views struct {
	cfg      FilesConfig
	roles    []*authz.Role
	bindings []*authz.RoleBinding
}

// take keeps a role or role binding.
func (v *views) take(obj runtime.Object) bool {
	switch o := obj.(type) {
	case *authz.Role:
		v.roles = append(v.roles, o)
	case *authz.RoleBinding:
		v.bindings = append(v.bindings, o)
	default:
		return false
	}
	return true
}

// fold puts them into their containers, which it creates if missing. An entry that a dump has both in its container and
// as a view is the same role; two roles of one name in manifests are an error.
func (v *views) fold(f *Files) error {
	if err := unique(v.roles); err != nil {
		return err
	}
	if err := unique(v.bindings); err != nil {
		return err
	}
	for _, r := range v.roles {
		if err := v.role(f, r, true); err != nil {
			return err
		}
	}
	for _, b := range v.bindings {
		if err := v.binding(f, b, true); err != nil {
			return err
		}
	}
	for _, r := range v.cfg.Roles {
		if err := v.role(f, r, false); err != nil {
			return err
		}
	}
	for _, b := range v.cfg.RoleBindings {
		if err := v.binding(f, b, false); err != nil {
			return err
		}
	}
	return nil
}

func unique[T metav1.Object](objects []T) error {
	seen := map[string]bool{}
	for _, o := range objects {
		key := o.GetNamespace() + "/" + o.GetName()
		if seen[key] {
			return fmt.Errorf("%T %s is there twice", o, key)
		}
		seen[key] = true
	}
	return nil
}

// role puts a role into its container; without replace it keeps an existing one.
func (v *views) role(f *Files, r *authz.Role, replace bool) error {
	policy, err := container(f, snapshot.Policies, r.Namespace, policyv1alpha1.PolicyName, func(m metav1.ObjectMeta) *policyv1alpha1.Policy {
		return &policyv1alpha1.Policy{ObjectMeta: m}
	})
	if err != nil {
		return err
	}
	if _, there := policy.Roles[r.Name]; !there || replace {
		policycodec.PutRole(policy, r)
	}
	return nil
}

// binding does the same with a role binding.
func (v *views) binding(f *Files, b *authz.RoleBinding, replace bool) error {
	home := policycodec.HomeOf(b, v.cfg.MasterNamespace)
	bindings, err := container(f, snapshot.PolicyBindings, b.Namespace, home, func(m metav1.ObjectMeta) *policyv1alpha1.PolicyBinding {
		return &policyv1alpha1.PolicyBinding{ObjectMeta: m, PolicyRef: policyv1alpha1.PolicyReference{Namespace: home}}
	})
	if err != nil {
		return err
	}
	if _, there := bindings.RoleBindings[b.Name]; !there || replace {
		policycodec.PutRoleBinding(bindings, b)
	}
	return nil
}

// container finds a container, or creates it.
func container[T runtime.Object](f *Files, kind snapshot.Kind, namespace, name string, empty func(metav1.ObjectMeta) T) (none T, _ error) {
	if all := f.objects[kind.GroupVersionResource]; all != nil {
		if obj, exists, err := all.GetByKey(namespace + "/" + name); err == nil && exists {
			mine, err := f.mine(all, obj)
			if err != nil {
				return none, err
			}
			return mine.(T), nil
		}
	}
	made := empty(metav1.ObjectMeta{Namespace: namespace, Name: name})
	f.own[made] = true
	return made, f.put(kind, made)
}
