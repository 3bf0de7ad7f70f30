package managed

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
)

// gives is a role of Policy with rules, bound to ann where it is.
func gives(namespace, name, rules string) string {
	return fmt.Sprintf(`---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: %[2]s, namespace: %[1]s}
rules: [%[3]s]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: %[2]s, namespace: %[1]s}
roleRef: {namespace: %[1]s, name: %[2]s}
userNames: [ann]
`, namespace, name, rules)
}

// besides is a cluster role of RBAC with a rule, bound to ann everywhere.
func besides(rule string) string {
	return `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: besides}
rules: [` + rule + `]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: besides}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: besides}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}]
`
}

// MC-2: a compiled policy yields to a right only if that right includes the request itself. Each case has a twin in
// which it does.
func TestPoliciesYieldToTheRequestItself(t *testing.T) {
	deny := func(verbs, kinds string) string {
		return gives("team", "r", fmt.Sprintf("{verbs: [%[1]s], resourceKinds: [%[2]s]}, {deny: true, verbs: [%[1]s], resourceKinds: [%[2]s]}", verbs, kinds))
	}
	create := Question{Verb: "create", Kind: "configmaps", Name: "x"}
	proxy := Question{Verb: "get", Kind: "pods/proxy", Name: "x"}
	evict := Question{Verb: "create", Kind: "pods/eviction", Name: "x"}
	for name, test := range map[string]struct {
		policy, no, yes string
		ask             Question
	}{
		"a deny of creates": {deny("create", "configmaps"),
			besides(`{apiGroups: [""], resources: [configmaps], resourceNames: [x], verbs: [create]}`),
			besides(`{apiGroups: [""], resources: [configmaps], verbs: [create]}`), create},
		"a condition": {gives("team", "r", `{verbs: [create], resourceKinds: [configmaps], where: 'has(resource.data)'}`),
			besides(`{apiGroups: [""], resources: [configmaps], resourceNames: [x], verbs: ["*"]}`),
			besides(`{apiGroups: [""], resources: [configmaps], verbs: ["*"]}`), create},
		"a deny of connections": {deny("proxy", "pods"),
			gives("master", "m", "{verbs: [create], resourceKinds: [pods/proxy]}"),
			gives("master", "m", "{verbs: [proxy], resourceKinds: [pods]}"), proxy},
		"a deny of connections, beside RBAC": {deny("proxy", "pods"),
			besides(`{apiGroups: [""], resources: [pods/proxy], verbs: [create]}`),
			besides(`{apiGroups: [""], resources: [pods/proxy], verbs: [create, get, update, patch, delete]}`), proxy},
		"an eviction": {gives("team", "r", "{verbs: [create], resourceKinds: [pods/eviction]}, {deny: true, verbs: [delete], resourceKinds: [pods]}"),
			gives("master", "m", "{verbs: [create], resourceKinds: [pods/eviction]}"),
			gives("master", "m", "{verbs: [create], resourceKinds: [pods/eviction]}, {verbs: [delete], resourceKinds: [pods]}"), evict},
		"an eviction, beside RBAC": {gives("team", "r", "{verbs: [create], resourceKinds: [pods/eviction]}, {deny: true, verbs: [delete], resourceKinds: [pods]}"),
			besides(`{apiGroups: [""], resources: [pods/eviction], verbs: [create]}`),
			besides(`{apiGroups: [""], resources: [pods/eviction], verbs: [create]}, {apiGroups: [""], resources: [pods], verbs: [delete]}`), evict},
	} {
		t.Run(name, func(t *testing.T) {
			for other, want := range map[string]string{test.no: "Deny", test.yes: "Allow"} {
				_, there := both(t, test.policy+other)
				q := test.ask
				q.User, q.Namespace = &user.DefaultInfo{Name: "ann", Groups: []string{user.AllAuthenticated}}, "team"
				if q.Kind == "configmaps" {
					q.Object = map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x", "namespace": "team"}}
				}
				if got, err := there.Decide(t.Context(), q); err != nil || got.Decision != want {
					t.Errorf("%+v, %v, want %s\n%s", got, err, want, other)
				}
			}
		})
	}
}

const widgets = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {plural: widgets, singular: widget, kind: Widget}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// MC-2: a right of the master namespace to one kind does not lift a deny from a kind that is served later.
func TestDeniesOfKindsThatAreServedLater(t *testing.T) {
	policy := gives("team", "r", "{deny: true, verbs: [create], resourceKinds: [secrets, widgets.example.com]}") +
		gives("master", "m", "{verbs: [create], resourceKinds: [secrets]}")
	result, err := compiled(t, policy)
	if err != nil || len(result.Impossible()) > 0 {
		t.Fatalf("%v, %v", err, result)
	}
	documents, err := manifests.Read([]string{"-"}, strings.NewReader(widgets+`---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: writer, namespace: team}
rules: [{apiGroups: [example.com], resources: [widgets], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: writer, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: writer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}]
`))
	if err != nil {
		t.Fatal(err)
	}
	there, err := FromCompiled(result, documents, "master")
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]string{"widgets.example.com": "Deny", "secrets": "Allow"} {
		q := Question{User: &user.DefaultInfo{Name: "ann", Groups: []string{user.AllAuthenticated}}, Verb: "create", Kind: kind, Namespace: "team"}
		if got, err := there.Decide(t.Context(), q); err != nil || got.Decision != want {
			t.Errorf("%s: %+v, %v", kind, got, err)
		}
	}
}

// MC-2: a deny by kind, or by a plural that another group serves, too, holds for what is served only after compiling.
func TestDeniesByKindOfWhatIsServedLater(t *testing.T) {
	for kinds, want := range map[string]string{"Widget": "Deny", "widget": "Deny", "Widget.example.com": "Deny", "widgets": "Deny",
		"Widget.example.org": "Allow", "Gadget": "Allow"} {
		result, err := compiled(t, gives("master", "r", "{deny: true, verbs: [create], resourceKinds: ["+kinds+"]}"))
		if err != nil || len(result.Impossible()) > 0 {
			t.Fatalf("%s: %v, %v", kinds, err, result)
		}
		documents, err := manifests.Read([]string{"-"}, strings.NewReader(widgets+besides(`{apiGroups: [example.com], resources: [widgets], verbs: [create]}`)))
		if err != nil {
			t.Fatal(err)
		}
		there, err := FromCompiled(result, documents, "master")
		if err != nil {
			t.Fatal(err)
		}
		q := Question{User: &user.DefaultInfo{Name: "ann", Groups: []string{user.AllAuthenticated}}, Verb: "create", Kind: "widgets.example.com", Namespace: "team"}
		if got, err := there.Decide(t.Context(), q); err != nil || got.Decision != want {
			t.Errorf("%s: %+v, %v, want %s", kinds, got, err, want)
		}
	}
	// Its subresources have other bodies, and cannot be told.
	if result, err := compiled(t, gives("master", "r", "{deny: true, verbs: [update], resourceKinds: [Widget/scale]}"), "master/r/0"); err != nil || !strings.Contains(result.Assessments[0].Text(), "subresources by a kind") {
		t.Errorf("%v, %v", result, err)
	}
}

// MC-7: who-can lists, under conditions, whom a policy refuses only because not everything is known of the caller.
func TestWhoCanAmongUnknownCallers(t *testing.T) {
	grant := strings.Replace(besides(`{apiGroups: [""], resources: [configmaps], verbs: [create]}`), "kind: User, name: ann", "kind: Group, name: dev", 1)
	for when, conditional := range map[string]bool{`!("oncall" in request.groups)`: true, `request.user != "ann"`: true, `request.namespace == "team"`: false} {
		policy := strings.Replace(gives("master", "r", `{deny: true, verbs: [create], resourceKinds: [configmaps], when: '`+when+`'}`), "userNames: [ann]", `groupNames: [dev]`, 1)
		_, there := both(t, policy+grant)
		got, err := there.WhoCan(t.Context(), "team", authz.ResourceAccessReviewSpec{Verb: "create", ResourceKind: "configmaps"})
		listed := slices.ContainsFunc(got.Conditional, func(s authz.ConditionalSubject) bool { return s.GroupName == "dev" && len(s.Conditions) > 0 })
		if err != nil || listed != conditional || slices.Contains(got.GroupNames, "dev") {
			t.Errorf("%s: %+v, %v", when, got, err)
		}
	}
}
