package denial

import (
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// TR-12: a refusal names the command that says more, as a shell takes it, or none.
func TestRemedy(t *testing.T) {
	of := func(verb, group, resource, sub, namespace, name string) authorizer.Attributes {
		return authorizer.AttributesRecord{Verb: verb, APIGroup: group, Resource: resource, Subresource: sub, Namespace: namespace, Name: name, ResourceRequest: true}
	}
	for _, tc := range []struct {
		of     authorizer.Attributes
		verb   string
		object bool
		want   string
	}{
		{of("delete", "", "configmaps", "", "bakery", "recipe"), "", false, "proviso explain delete configmaps/recipe -n bakery"},
		{of("delete", "", "configmaps", "", "bakery", "recipe"), "", true, "proviso explain delete configmaps/recipe -n bakery --stored"},
		{of("create", "apps", "deployments", "", "bakery", ""), "", true, "proviso explain create deployments.apps -n bakery -f FILE"},
		{of("patch", "apps", "deployments", "scale", "bakery", "oven"), "", true, "proviso explain patch deployments.apps/oven --subresource scale -n bakery --stored -f FILE"},
		{of("get", "", "pods", "exec", "bakery", "oven"), "create", false, "proviso explain create pods/oven --subresource exec -n bakery"},
		{of("list", "", "nodes", "", "", ""), "", false, "proviso explain list nodes -A"},
		{of("create", "", "persistentvolumes", "", "", ""), "", false, "proviso explain create persistentvolumes"},
		{of("delete", "", "namespaces", "", "bakery", "bakery"), "", false, "proviso explain delete namespaces/bakery"},
		{of("get", "", "nodes", "", "", "n1"), "", false, "proviso explain get nodes/n1"},
		{of("patch", "", "pods", "", "bakery", "oven"), "granular:label(owner)", false, "proviso explain 'granular:label(owner)' pods/oven -n bakery"},
		{authorizer.AttributesRecord{Verb: "get", Path: "/metrics"}, "", false, "proviso explain get /metrics"},
		{of("impersonate", "", "users", "", "", "system:serviceaccount:a:b"), "", false, "proviso explain impersonate users/system:serviceaccount:a:b"},
		// What a shell would read differently is quoted, and what cannot be is not said.
		{of("get", "", "configmaps", "", "bakery", "a;rm -rf $HOME"), "", false, "proviso explain get 'configmaps/a;rm -rf $HOME' -n bakery"},
		{of("get", "", "configmaps", "", "bakery", "a'b"), "", false, ""},
		{of("get", "", "configmaps", "", "bakery", "a`id`"), "", false, ""},
		{of("get", "", "configmaps", "", "bakery", "a\nb"), "", false, ""},
		{authorizer.AttributesRecord{Verb: "get"}, "", false, ""},
		{nil, "", false, ""},
	} {
		q := &Question{Attributes: tc.of, Verb: tc.verb, Object: tc.object}
		if got := q.command(); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.of, got, tc.want)
		}
		message := q.Advise("no")
		if want := "no; `" + tc.want + "` says what would allow it"; tc.want != "" && message != want || tc.want == "" && message != "no" {
			t.Errorf("%+v: message %q", tc.of, message)
		}
	}
	var none *Question
	if got := none.Advise("no"); got != "no" {
		t.Errorf("no question: %q", got)
	}
	if got := (&Question{Attributes: authorizer.AttributesRecord{Verb: "get", Path: "/x"}}).Advise(""); got != "`proviso explain get /x` says what would allow it" {
		t.Errorf("no reason: %q", got)
	}
}
