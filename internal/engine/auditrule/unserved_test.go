package auditrule

import (
	"fmt"
	"testing"
)

// DA-18: a place in a class that selects nothing which is served is found; its twin is not.
func TestFindUnserved(t *testing.T) {
	served := []ServedResource{
		{"", "pods", "", true}, {"", "pods", "exec", true}, {"", "nodes", "", false}, {"", "namespaces", "", false}, {"apps", "deployments", "", true},
	}
	for rule, want := range map[string]string{
		`{groupResourceSelectors: [{group: "", resources: [{kind: pods}, {kind: nodes}]}]}`:                        "[]",
		`{groupResourceSelectors: [{group: "", resources: [{kind: pods}, {kind: pod}]}]}`:                          "[{[spec rules 0 groupResourceSelectors 0 resources 1 kind] no resource pod is served}]",
		`{groupResourceSelectors: [{group: apps, resources: [{kind: pods}]}]}`:                                     "[{[spec rules 0 groupResourceSelectors 0 resources 0 kind] no resource pods.apps is served}]",
		`{groupResourceSelectors: [{group: "*", resources: [{kind: deployments}]}, {group: "*"}]}`:                 "[]",
		`{groupResourceSelectors: [{group: app}]}`:                                                                 `[{[spec rules 0 groupResourceSelectors 0 group] nothing is served in the API group "app"}]`,
		`{groupResourceSelectors: [{group: "", resources: [{kind: pods, subresources: [exec, "*"]}]}]}`:            "[]",
		`{groupResourceSelectors: [{group: "", resources: [{kind: pods, subresources: [exec, exce]}]}]}`:           "[{[spec rules 0 groupResourceSelectors 0 resources 0 subresources 1] no subresource exce of pods is served}]",
		`{groupResourceSelectors: [{group: "", scope: Namespaced, resources: [{kind: nodes}]}]}`:                   "[{[spec rules 0 groupResourceSelectors 0 resources 0 kind] nodes belongs to no namespace, and scope: Namespaced selects nothing of it}]",
		`{groupResourceSelectors: [{group: "", scope: Namespaced, resources: [{kind: namespaces}, {kind: "*"}]}]}`: "[]",
		`{groupResourceSelectors: [{group: "", scope: Cluster, resources: [{kind: pods}]}], verbs: [list]}`:        "[]",
		`{nonResourceSelectors: [{urls: [/nowhere]}]}`:                                                             "[]",
	} {
		_, classes := load(t, "kind: AuditClass\nmetadata: {name: c}\nspec: {rules: ["+rule+"]}")
		if got := fmt.Sprint(FindUnserved(classes[0], served)); got != want {
			t.Errorf("%s: %s", rule, got)
		}
		if got := FindUnserved(classes[0], nil); got != nil {
			t.Errorf("%s: nothing is known, and %v", rule, got)
		}
	}
}
