package source

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"proviso.dev/proviso/internal/state/snapshot"
)

// TR-18: files are read as a server would hold them once its controller has gathered the rules of aggregated roles.
func TestAggregatedRolesHaveTheRulesThatTheySelect(t *testing.T) {
	const role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: "
	dir := written(t, map[string]string{"roles.yaml": role + `sum}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {part: "yes"}}]}
rules: [{verbs: [delete], apiGroups: [""], resources: [secrets]}]
---
` + role + `whole, labels: {all: "yes"}}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {above: "yes"}}]}
---
` + role + `outer}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {all: "yes"}}]}
---
` + role + `b, labels: {part: "yes", above: "yes"}}
rules: [{verbs: [get], apiGroups: [""], resources: [pods]}]
---
` + role + `a, labels: {part: "yes"}}
rules: [{verbs: [get], apiGroups: [""], resources: [pods]}, {verbs: [list], apiGroups: [""], resources: [pods]}]
`})
	files, err := ReadFiles(FilesConfig{Paths: []string{dir}, MasterNamespace: "master"})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := files.Objects(snapshot.ClusterRoles)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range snapshot.Of[*rbacv1.ClusterRole](objects) {
		for _, rule := range r.Rules {
			got[r.Name] += rule.Verbs[0] + " "
		}
	}
	for name, want := range map[string]string{"sum": "get list ", "whole": "get ", "outer": "get ", "a": "get list "} {
		if got[name] != want {
			t.Errorf("%s has %q, want %q", name, got[name], want)
		}
	}
}
