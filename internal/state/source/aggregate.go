package source

import (
	"cmp"
	"reflect"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"proviso.dev/proviso/internal/state/snapshot"
)

// aggregate does what a server's controller does: an aggregated cluster role has the rules of the roles that it
// selects, whatever the file says. An aggregated role can select another one, so it repeats until nothing changes.
func (f *Files) aggregate() error {
	all := f.objects[snapshot.ClusterRoles.GroupVersionResource]
	if all == nil {
		return nil
	}
	sorted := func() []*rbacv1.ClusterRole {
		roles := snapshot.Of[*rbacv1.ClusterRole](all)
		slices.SortFunc(roles, func(a, b *rbacv1.ClusterRole) int { return cmp.Compare(a.Name, b.Name) })
		return roles
	}
	roles := sorted()
	for range len(roles) + 1 { // a chain of roles cannot be longer
		changed := false
		for _, r := range roles {
			if r.AggregationRule == nil {
				continue
			}
			rules, err := gathered(r, roles)
			if err != nil || len(rules) == 0 && len(r.Rules) == 0 || reflect.DeepEqual(rules, r.Rules) {
				continue // a server cannot use a selector that does not parse, either
			}
			object, err := f.mine(all, r)
			if err != nil {
				return err
			}
			if own, ok := object.(*rbacv1.ClusterRole); ok {
				own.Rules, changed = rules, true
			}
		}
		if !changed {
			return nil
		}
		roles = sorted()
	}
	return nil
}

// gathered returns the rules of the roles that a role selects, each once.
func gathered(role *rbacv1.ClusterRole, roles []*rbacv1.ClusterRole) (rules []rbacv1.PolicyRule, err error) {
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, err
		}
		for _, other := range roles {
			if other.Name == role.Name || !selector.Matches(labels.Set(other.Labels)) {
				continue
			}
			for _, rule := range other.Rules {
				if !slices.ContainsFunc(rules, func(have rbacv1.PolicyRule) bool { return reflect.DeepEqual(have, rule) }) {
					rules = append(rules, rule)
				}
			}
		}
	}
	return rules, nil
}
