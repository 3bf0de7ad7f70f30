package policychange

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
)

// rolesOf are the roles among documents, those in containers included.
func rolesOf(documents []manifests.Document) (roles []plan.Written) {
	for _, d := range documents {
		ref := ruleset.RoleRef{Namespace: d.Object.GetNamespace(), Name: d.Object.GetName()}
		switch d.Object.GroupVersionKind().GroupKind().String() {
		case "Role.authorization.proviso.dev":
			ref.Kind = ruleset.PolicyRole
		case "Role.rbac.authorization.k8s.io":
			ref.Kind = ruleset.Role
		case "ClusterRole.rbac.authorization.k8s.io":
			ref.Kind = ruleset.ClusterRole
		case "Policy.policy.proviso.dev":
			inside, _, _ := unstructured.NestedMap(d.Object.Object, "roles")
			for name, role := range inside {
				content, _ := role.(map[string]any)
				roles = append(roles, plan.Written{Role: ruleset.RoleRef{Kind: ruleset.PolicyRole, Namespace: ref.Namespace, Name: name}, Kinds: kindsOf(content)})
			}
			continue
		default:
			continue
		}
		roles = append(roles, plan.Written{Role: ref, Kinds: kindsOf(d.Object.Object)})
	}
	slices.SortStableFunc(roles, func(a, b plan.Written) int { return strings.Compare(a.Role.String(), b.Role.String()) })
	return roles
}

// kindsOf are the kinds that each rule of a role names.
func kindsOf(role map[string]any) (all [][]string) {
	rules, _, _ := unstructured.NestedSlice(role, "rules")
	for _, r := range rules {
		rule, _ := r.(map[string]any)
		kinds, _, _ := unstructured.NestedStringSlice(rule, "resourceKinds")
		resources, _, _ := unstructured.NestedStringSlice(rule, "resources")
		all = append(all, append(kinds, resources...))
	}
	return all
}

// unknownKinds tells the names of kinds and resources that a server with these files does not serve.
func unknownKinds(host *offline.Host) func(string) bool {
	kinds := host.Snapshot().Served.Kinds()
	return func(name string) bool {
		main, _, _ := strings.Cut(strings.TrimPrefix(name, "-"), "/")
		return main != "" && !strings.Contains(main, "*") && main != "cluster-scoped" && len(kinds.Resolve(main)) == 0
	}
}
