package enforce

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/verbs"
)

var (
	secretResource = schema.GroupResource{Resource: "secrets"}
	clusterRoles   = schema.GroupVersionResource{Group: rbacv1.GroupName, Version: "v1", Resource: "clusterroles"}
)

// aggregates refuses to write or delete a cluster role if another one aggregates it, directly or through a third, and
// the caller is denied changes of that one: the aggregation controller would change it.
func (c *cause) aggregates(ctx context.Context, sets ...labels.Set) error {
	if c.GetResource().GroupResource() != clusterRoles.GroupResource() || c.GetSubresource() != "" {
		return nil
	}
	rules, request := c.snapshot().Rules, c.deletes(clusterRoles, "", "")
	mayDeny := func(name, verb string) bool {
		request.Name, request.Verb = name, verb
		_, may := rules.MayDeny(request)
		return may
	}
	changing := []string{verbs.Update, verbs.Patch}
	if !slices.ContainsFunc(changing, func(verb string) bool { return mayDeny("", verb) }) {
		return nil
	}
	gathering, err := c.gathering(ctx, sets)
	if err != nil {
		return forbidden(c, "rules deny you changes of cluster roles, and the server cannot tell which of them gather this one: "+err.Error())
	}
	kind := schema.GroupVersionKind{Group: rbacv1.GroupName, Version: "v1", Kind: "ClusterRole"}
	for _, role := range gathering {
		for _, verb := range changing {
			if !mayDeny(role.GetName(), verb) {
				continue
			}
			out, denied := c.Denials.Denied(ctx, request, &facts{
				Attributes: admission.NewAttributesRecord(role, role, kind, "", request.Name, clusterRoles, "", admission.Update, &metav1.UpdateOptions{}, c.IsDryRun(), c.GetUserInfo()),
				data: expr.NewData(expr.DataConfig{Operation: string(admission.Update), Objects: expr.Static{New: role, Old: role}, OwnKind: true,
					Options: &metav1.UpdateOptions{}, Shared: expr.BudgetOf(ctx)}),
			})
			if denied {
				c.blame(out, request)
				return forbidden(c, "another cluster role gathers this one by its labels and would change; a rule denies you that: "+out.Reason)
			}
		}
	}
	return nil
}

// gathering returns the other cluster roles that change with the one of the request, which has these sets of labels.
func (c *cause) gathering(ctx context.Context, sets []labels.Set) (found []*unstructured.Unstructured, err error) {
	all, more, err := c.Stored.Objects(ctx, clusterRoles, maxListed)
	switch {
	case err != nil:
		return nil, err
	case more:
		return nil, fmt.Errorf("there are more than %d", maxListed)
	}
	seen := map[string]bool{c.name(): true}
	for len(sets) > 0 {
		var next []labels.Set
		for i := range all {
			if seen[all[i].GetName()] {
				continue
			}
			var role rbacv1.ClusterRole
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(all[i].Object, &role); err != nil {
				return nil, err
			}
			switch gathers, err := gathers(&role, sets); {
			case err != nil:
				return nil, err
			case gathers:
				seen[role.Name] = true
				found, next = append(found, &all[i]), append(next, role.Labels)
			}
		}
		sets = next
	}
	return found, nil
}

// gathers reports whether a cluster role aggregates rules from others with one of these sets of labels.
func gathers(role *rbacv1.ClusterRole, sets []labels.Set) (bool, error) {
	if role.AggregationRule == nil {
		return false, nil
	}
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return false, err
		}
		for _, set := range sets {
			if selector.Matches(set) {
				return true, nil
			}
		}
	}
	return false, nil
}

// gathered checks a new cluster role.
func (c *cause) gathered(ctx context.Context) error {
	m, err := meta.Accessor(c.GetObject())
	if err != nil {
		return nil //nolint:nilerr // without labels nothing gathers it
	}
	return c.aggregates(ctx, m.GetLabels())
}
