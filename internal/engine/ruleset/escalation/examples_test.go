package escalation

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/test/refmodel"
)

// PO-12: what people are told, and what people can do.
func TestCoversByExample(t *testing.T) {
	specials := []string{"*", "escalate", "bind", "deny", "approve", "impersonate*", "granular:*", "reveal:*", "unsafe-delete-ignore-read-errors"}
	w := refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{
		"clark":  {{Verbs: specials, ResourceKinds: []string{"*"}}, {Verbs: specials, NonResourceURLs: []string{"*"}}},
		"edwina": {{Verbs: []string{"*"}, ResourceKinds: []string{"*", "-roles", "-secrets"}}},
		"noexec": {{Verbs: []string{"*", "-exec"}, ResourceKinds: []string{"*"}}},
		"nodes":  {{Verbs: []string{"proxy"}, ResourceKinds: []string{"nodes"}}},
		"namer":  {{Verbs: []string{"get"}, ResourceKinds: []string{"gizmos", "Gizmo"}}},
		"gadget": {{Verbs: []string{"get"}, ResourceKinds: []string{"*", "-gadgets"}}},
		"verbs":  {{Verbs: []string{"get", "list", "watch", "create", "update", "delete", "exec", "proxy", "escalate", "bind", "deny", "approve", "impersonate", "unsafe-delete-ignore-read-errors"}, ResourceKinds: []string{"*"}}},
		"urls":   {{Verbs: []string{"get"}, NonResourceURLs: []string{"/debug/", "/logs*"}}},
		"create": {{Verbs: []string{"create"}, ResourceKinds: []string{"pods.", "pods./exec"}}, {Deny: true, Verbs: []string{"get"}, ResourceKinds: []string{"nodes"}}, {Verbs: []string{"get"}, ResourceKinds: []string{"*"}}},
		"denied": {{Verbs: specials, ResourceKinds: []string{"*"}}, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"deployments.apps"}, When: "a"}},
	}, map[string][]policyv1alpha1.PolicyRule{
		"edgar": {{Verbs: []string{"update"}, ResourceKinds: []string{"deployments.apps"}, When: "object.spec.replicas < 5",
			AttributeRestrictions: &policyv1alpha1.AttributeRestrictions{FieldsMutable: []string{"labels", ".spec.replicas"}}}},
		"botty": {{Verbs: []string{"create"}, ResourceKinds: []string{"pods."}, When: `request.user == "botty"`}},
	})
	w.ClusterRoles = []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}}}
	w.ClusterRoleBindings = []*rbacv1.ClusterRoleBinding{{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "pods"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "rbacca"}}}}
	w.ClusterRoles = append(w.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "some"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"list"}, APIGroups: []string{"*"}, Resources: []string{"pods", "services", "nodes", "pods/status"}}}})
	w.ClusterRoleBindings = append(w.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "some"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "some"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "somebody"}}})
	ix := ruleset.Build(inputOf(w))
	labels := &policyv1alpha1.AttributeRestrictions{FieldsMutable: []string{"labels"}}
	for _, test := range []struct {
		name, who, ns string
		policy        rules
		rbac          []rbacv1.PolicyRule
		want          string // part of the refusal; empty: accepted
	}{
		{name: "cluster admin grants everything", who: "clark", policy: rules{{Verbs: specials, ResourceKinds: []string{"*"}}, {Verbs: []string{"get"}, NonResourceURLs: []string{"/x*"}}}},
		{name: "cluster admin grants everything of RBAC", who: "clark", rbac: []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}, {Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}}},
		{name: "deny rules grant nothing", who: "nobody", policy: rules{{Deny: true, Verbs: []string{"*"}, ResourceKinds: []string{"*"}}}},
		{name: "editor grants a part", who: "edwina", policy: rules{{Verbs: []string{"get", "exec"}, ResourceKinds: []string{"pods", "Deployment.apps"}}}},
		{name: "a built-in kind stays what it is", who: "edwina", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"Deployment"}}}},
		{name: "another kind can become that of anything", who: "edwina", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"Gadget"}}}, want: "get gadget (should its kind become roles; -roles in the rule leaves that out) in any other API group"},
		{name: "unless the exceptions are the same", who: "edwina", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"Gadget", "Thing.x.io", "gizmos.x.io", "-roles", "-secrets"}}}},
		{name: "another plural can get any kind", who: "edwina", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"gizmos.x.io"}}}, want: "get gizmos (should its kind become roles; -roles in the rule leaves that out) in x.io"},
		{name: "editor grants what they have", who: "edwina", policy: rules{{Verbs: []string{"*"}, ResourceKinds: []string{"-secrets", "-roles"}}}},
		{name: "editor cannot grant the exception", who: "edwina", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"secrets"}}}, want: "get secrets: no rule allows it"},
		{name: "editor cannot grant without the exception", who: "edwina", policy: rules{{Verbs: []string{"*"}, ResourceKinds: []string{"*", "-roles"}}}, want: "secrets"},
		{name: "editor cannot grant special verbs", who: "edwina", policy: rules{{Verbs: []string{"bind"}, ResourceKinds: []string{"pods"}}}, want: "bind pods"},
		{name: "RBAC's star has the special verbs", who: "edwina", rbac: []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"pods"}}}, want: "approve pods: no rule allows it"},
		{name: "exec through the parent", who: "noexec", policy: rules{{Verbs: []string{"exec"}, ResourceKinds: []string{"pods"}}}, want: "pods/exec: no rule allows it"},
		{name: "get beside exec", who: "noexec", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"pods"}}}},
		{name: "proxy of nodes is not proxy of all", who: "nodes", policy: rules{{Verbs: []string{"proxy"}, ResourceKinds: []string{"*/proxy"}}}, want: "pods/proxy: no rule allows it"},
		{name: "proxy of nodes", who: "nodes", policy: rules{{Verbs: []string{"proxy"}, ResourceKinds: []string{"nodes./proxy"}}}},
		{name: "an unserved kind need not have the plural one thinks", who: "gadget", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"*", "-Gadget"}}}, want: "get gadgets: no rule allows it"},
		{name: "the plural itself", who: "gadget", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"*", "-gadgets"}}}},
		{name: "all that is named is not all", who: "somebody", rbac: []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}, want: "list any other resource: no rule allows it"},
		{name: "one of what is named", who: "somebody", rbac: []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{"*"}, Resources: []string{"pods"}}}},
		{name: "all subresources that are named are not all", who: "somebody", policy: rules{{Verbs: []string{"list"}, ResourceKinds: []string{"pods./*"}}}, want: "list pods/any other subresource: no rule allows it"},
		{name: "one subresource", who: "somebody", policy: rules{{Verbs: []string{"list"}, ResourceKinds: []string{"pods./status"}}}},
		{name: "all verbs that are named are not all", who: "verbs", policy: rules{{Verbs: []string{"*"}, ResourceKinds: []string{"secrets"}}}, want: "any other verb secrets: no rule allows it"},
		{name: "all verbs that are named", who: "verbs", policy: rules{{Verbs: []string{"get", "patch", "deletecollection"}, ResourceKinds: []string{"secrets"}}}},
		{name: "impersonate is not all of impersonation", who: "verbs", policy: rules{{Verbs: []string{"impersonate*"}, ResourceKinds: []string{"users"}}}, want: "impersonate* users: no rule allows it"},
		{name: "a path is not what is below it", who: "urls", policy: rules{{Verbs: []string{"get"}, NonResourceURLs: []string{"/debug/*"}}}, want: "get /debug/*: no rule allows it"},
		{name: "below a prefix", who: "urls", policy: rules{{Verbs: []string{"get"}, NonResourceURLs: []string{"/debug/", "/logs/kubelet*"}}}},
		{name: "one subresource is not another", who: "create", policy: rules{{Verbs: []string{"create"}, ResourceKinds: []string{"pods./exec", "pods./attach"}}}, want: "create pods/attach: no rule allows it"},
		{name: "that subresource", who: "create", policy: rules{{Verbs: []string{"create"}, ResourceKinds: []string{"pods./exec"}}}},
		{name: "denied", who: "create", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"nodes"}}}, want: "get nodes: denied by Role \"master/create\", rule 1"},
		{name: "RBAC counts", who: "rbacca", ns: "hammer", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"pods."}}}},
		{name: "RBAC's group of a built-in name", who: "rbacca", ns: "hammer", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"pods", "Pod"}}}},
		{name: "RBAC is one group", who: "rbacca", ns: "hammer", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"gadgets"}}}, want: "get gadgets in any other API group: no rule allows it"},
		{name: "a name is less than a star", who: "namer", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"gizmos", "Gizmo"}}}},
		{name: "a name stops short of guarded groups", who: "namer", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"gizmos.certificates.k8s.io"}}}, want: "get gizmos in certificates.k8s.io: no rule allows it"},
		{name: "and RBAC does not", who: "namer", rbac: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{"*"}, Resources: []string{"gizmos"}}}, want: "get gizmos: no rule allows it"},
		{name: "a kind that is not served", who: "rbacca", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"Gizmo.other.io"}}}, want: "gizmo"},
		{name: "conditional deny", who: "denied", policy: rules{{Verbs: []string{"delete"}, ResourceKinds: []string{"deployments.apps"}}}, want: "denies it under a condition"},
		{name: "beside the conditional deny", who: "denied", policy: rules{{Verbs: []string{"update"}, ResourceKinds: []string{"deployments.apps"}}}},
		{name: "same condition", who: "edgar", ns: "hammer", policy: rules{{Verbs: []string{"update"}, ResourceKinds: []string{"deployments.apps"}, When: "object.spec.replicas < 5", AttributeRestrictions: labels}}},
		{name: "condition dropped", who: "edgar", ns: "hammer", policy: rules{{Verbs: []string{"update"}, ResourceKinds: []string{"deployments.apps"}, When: "object.spec.replicas < 5"}}, want: "not known to imply"},
		{name: "condition changed", who: "edgar", ns: "hammer", policy: rules{{Verbs: []string{"update"}, ResourceKinds: []string{"deployments.apps"}, When: "object.spec.replicas < 9", AttributeRestrictions: labels}}, want: "not known to imply"},
		{name: "condition about the caller", who: "botty", ns: "hammer", policy: rules{{Verbs: []string{"create"}, ResourceKinds: []string{"pods."}, When: `request.user == "botty"`}}, want: "without asking who the caller is"},
		{name: "elsewhere", who: "edgar", ns: "anvil", policy: rules{{Verbs: []string{"update"}, ResourceKinds: []string{"deployments.apps"}, When: "object.spec.replicas < 5", AttributeRestrictions: labels}}, want: "no rule allows it"},
		{name: "unreadable", who: "clark", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"pod*"}}}, want: "cannot tell"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := Covers(ix, Grant{User: &user.DefaultInfo{Name: test.who}, Namespace: test.ns, Policy: test.policy, RBAC: test.rbac})
			switch {
			case test.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	if err := Covers(ix, Grant{User: &user.DefaultInfo{Name: "x", Groups: []string{"system:masters"}}, Policy: rules{{Verbs: specials, ResourceKinds: []string{"*"}}}}); err != nil {
		t.Errorf("system:masters: %v", err)
	}
}

// PO-12: when one condition is known to imply another.
func TestSameCondition(t *testing.T) {
	type restrictions = policyv1alpha1.AttributeRestrictions
	for _, test := range []struct {
		name         string
		wanted, held policyv1alpha1.PolicyRule
		want         bool
	}{
		{"equal", policyv1alpha1.PolicyRule{Where: "a", When: "b"}, policyv1alpha1.PolicyRule{Where: "a", When: "b"}, true},
		{"one more", policyv1alpha1.PolicyRule{Where: "a", When: "b"}, policyv1alpha1.PolicyRule{Where: "a"}, true},
		{"one less", policyv1alpha1.PolicyRule{Where: "a"}, policyv1alpha1.PolicyRule{Where: "a", When: "b"}, false},
		{"where is not when", policyv1alpha1.PolicyRule{Where: "a"}, policyv1alpha1.PolicyRule{When: "a"}, false},
		{"another version of the object", policyv1alpha1.PolicyRule{When: "a", APIVersion: "v2"}, policyv1alpha1.PolicyRule{When: "a", APIVersion: "v1"}, false},
		{"about the caller", policyv1alpha1.PolicyRule{When: "object.x == request.user"}, policyv1alpha1.PolicyRule{When: "object.x == request.user"}, false},
		{"a word that contains request", policyv1alpha1.PolicyRule{When: "object.requests < 1"}, policyv1alpha1.PolicyRule{When: "object.requests < 1"}, true},
		{"fewer fields", policyv1alpha1.PolicyRule{AttributeRestrictions: &restrictions{FieldsMutable: []string{"a"}}}, policyv1alpha1.PolicyRule{AttributeRestrictions: &restrictions{FieldsMutable: []string{"a", "b"}}}, true},
		{"more fields", policyv1alpha1.PolicyRule{AttributeRestrictions: &restrictions{FieldsMutable: []string{"a", "b"}}}, policyv1alpha1.PolicyRule{AttributeRestrictions: &restrictions{FieldsMutable: []string{"a"}}}, false},
		{"all fields", policyv1alpha1.PolicyRule{AttributeRestrictions: &restrictions{LabelsContain: []string{"a"}}}, policyv1alpha1.PolicyRule{AttributeRestrictions: &restrictions{FieldsMutable: []string{"a"}}}, false},
		{"more labels", policyv1alpha1.PolicyRule{AttributeRestrictions: &restrictions{LabelsContain: []string{"a", "b"}}}, policyv1alpha1.PolicyRule{AttributeRestrictions: &restrictions{LabelsContain: []string{"a"}}}, true},
		{"fewer labels", policyv1alpha1.PolicyRule{AttributeRestrictions: &restrictions{LabelsContain: []string{"a"}}}, policyv1alpha1.PolicyRule{AttributeRestrictions: &restrictions{LabelsContain: []string{"a", "b"}}}, false},
		{"no restrictions", policyv1alpha1.PolicyRule{When: "a"}, policyv1alpha1.PolicyRule{AttributeRestrictions: &restrictions{LabelsContain: []string{"a"}}}, false},
		{"the caller's node", policyv1alpha1.PolicyRule{AttributeRestrictions: &restrictions{SameNodeRestriction: true}}, policyv1alpha1.PolicyRule{AttributeRestrictions: &restrictions{SameNodeRestriction: true}}, false},
		{"nothing may change", policyv1alpha1.PolicyRule{AttributeRestrictions: &restrictions{FieldsMutable: []string{"a"}}}, policyv1alpha1.PolicyRule{AttributeRestrictions: &restrictions{FieldsMutable: []string{}}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := SameCondition(&test.wanted, &test.held); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}
