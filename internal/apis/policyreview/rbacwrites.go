package policyreview

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	"proviso.dev/proviso/internal/engine/ruleset/escalation"
	"proviso.dev/proviso/internal/request/authorize"
)

// RBACRoles reads the roles that are stored.
type RBACRoles interface {
	Role(ctx context.Context, namespace, name string) (*rbacv1.Role, error)
	ClusterRole(ctx context.Context, name string) (*rbacv1.ClusterRole, error)
	ClusterRoles(ctx context.Context, by labels.Selector) ([]rbacv1.ClusterRole, error)
}

// RBACWrites checks what is written to RBAC, for every host that sees both objects of a write.
type RBACWrites struct {
	Escalation *Escalation
	// Roles reads what is bound.
	Roles RBACRoles
}

// Reach reports whether a deny rule reaches a user who grants rights in a namespace; empty is everywhere. Nobody
// else can hand out what is denied to them.
func (w *RBACWrites) Reach(ctx context.Context, u user.Info, namespace string) bool {
	index := authorize.SnapshotOf(ctx, w.Escalation.Store).Rules
	return index == nil || escalation.Reaches(index, escalation.Grant{User: u, Namespace: namespace, Tiers: w.Escalation.tiers()})
}

// Confirm checks whether the caller may grant what an object of RBAC grants; old is nil if the object is new. As in
// Kubernetes, a write that only completes a deletion grants nothing.
func (w *RBACWrites) Confirm(ctx context.Context, namespace string, obj, old runtime.Object) error {
	if onlyForDeletion(obj, old) {
		return nil
	}
	switch o := obj.(type) {
	case *rbacv1.Role:
		return w.Escalation.ConfirmRBACRole(ctx, RBACRole{Namespace: namespace, Name: o.Name, Rules: o.Rules})
	case *rbacv1.ClusterRole:
		return w.Escalation.ConfirmRBACRole(ctx, RBACRole{Name: o.Name, Rules: o.Rules, Aggregates: gathers(obj) || gathers(old)})
	case *rbacv1.RoleBinding:
		return w.binding(ctx, RBACBinding{Namespace: namespace, Name: o.Name, RoleRef: o.RoleRef, Subjects: o.Subjects})
	case *rbacv1.ClusterRoleBinding:
		return w.binding(ctx, RBACBinding{Name: o.Name, RoleRef: o.RoleRef, Subjects: o.Subjects})
	}
	return fmt.Errorf("cannot check a %T", obj)
}

// onlyForDeletion reports whether nothing changes but what the garbage collector changes.
func onlyForDeletion(obj, old runtime.Object) bool {
	if old == nil || reflect.ValueOf(old).IsNil() {
		return false
	}
	now := obj.DeepCopyObject()
	is, err := meta.Accessor(now)
	if err != nil {
		return false
	}
	was, err := meta.Accessor(old)
	if err != nil {
		return false
	}
	is.SetOwnerReferences(was.GetOwnerReferences())
	is.SetFinalizers(was.GetFinalizers())
	is.SetSelfLink(was.GetSelfLink())
	is.SetManagedFields(was.GetManagedFields())
	return equality.Semantic.DeepEqual(now, old)
}

// gathers reports whether a cluster role takes in the rules of others.
func gathers(obj runtime.Object) bool {
	r, ok := obj.(*rbacv1.ClusterRole)
	return ok && r != nil && r.AggregationRule != nil && len(r.AggregationRule.ClusterRoleSelectors) > 0
}

func (w *RBACWrites) binding(ctx context.Context, b RBACBinding) error {
	b.Rules = func(ctx context.Context) ([]rbacv1.PolicyRule, error) {
		if b.RoleRef.Kind == "Role" {
			role, err := w.Roles.Role(ctx, b.Namespace, b.RoleRef.Name)
			if err != nil {
				return nil, err
			}
			return role.Rules, nil
		}
		role, err := w.Roles.ClusterRole(ctx, b.RoleRef.Name)
		if err != nil {
			return nil, err
		}
		return w.gathered(ctx, role)
	}
	return w.Escalation.ConfirmRBACBinding(ctx, b)
}

// gathered are the rules of a cluster role with those that it gathers. The controller may not have written them into
// the role yet, and a binding binds the role as it will be.
func (w *RBACWrites) gathered(ctx context.Context, first *rbacv1.ClusterRole) ([]rbacv1.PolicyRule, error) {
	rules, seen := slices.Clone(first.Rules), map[string]bool{first.Name: true}
	for todo := []*rbacv1.ClusterRole{first}; len(todo) > 0; todo = todo[1:] {
		if todo[0].AggregationRule == nil {
			continue
		}
		for i := range todo[0].AggregationRule.ClusterRoleSelectors {
			selector, err := metav1.LabelSelectorAsSelector(&todo[0].AggregationRule.ClusterRoleSelectors[i])
			if err != nil {
				return nil, err
			}
			chosen, err := w.Roles.ClusterRoles(ctx, selector)
			if err != nil {
				return nil, err
			}
			for i := range chosen {
				if r := &chosen[i]; !seen[r.Name] {
					seen[r.Name] = true
					rules, todo = append(rules, r.Rules...), append(todo, r)
				}
			}
		}
	}
	return rules, nil
}
