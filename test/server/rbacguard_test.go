package server

import (
	"fmt"
	"strings"
	"testing"
)

// PO-12: what is handed out by RBAC is held against Policy and RBAC together. Each refusal has a twin that differs in
// one thing.
func TestGrantsByRBAC(t *testing.T) {
	t.Parallel()
	s := plugged.get(t) // its denies reach everybody
	g := &rbacWorld{s: s, admin: newCaller(t, s.admin)}
	for _, ns := range []string{"forge", "mint"} {
		g.admin.must(t, "POST", "/api/v1/namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: "+ns+"}}")
		g.admin.must(t, "POST", containersIn(ns, "policies"), policyYAML(ns, "default"))
		g.admin.must(t, "POST", containersIn(ns, "policybindings"), "{apiVersion: policy.proviso.dev/v1alpha1, kind: PolicyBinding, metadata: {name: "+ns+"}}")
	}
	t.Run("of what Policy allows", g.allowed)
	t.Run("of what Policy denies", g.denied)
	t.Run("of what Policy denies to whom RBAC allows everything", g.superuser)
	t.Run("of what everybody is denied", g.shared)
	t.Run("and who sees the conditions", g.sight)
}

type rbacWorld struct {
	s     *instance
	admin *caller
}

// rbacIn is where RBAC's namespaced objects are, and rbacEverywhere where the others are.
func rbacIn(ns, resource string) string {
	return "/apis/rbac.authorization.k8s.io/v1/namespaces/" + ns + "/" + resource
}

func rbacEverywhere(resource string) string {
	return "/apis/rbac.authorization.k8s.io/v1/" + resource
}

// rbacRole is a Role or ClusterRole with one rule on resources of the core group.
func rbacRole(kind, name, verb, resources, more string) string {
	return fmt.Sprintf("{apiVersion: rbac.authorization.k8s.io/v1, kind: %s, metadata: {name: %s}, rules: [{verbs: [%s], apiGroups: [''], resources: [%s]}]%s}", kind, name, verb, resources, more)
}

func rbacBinding(kind, name, refKind, ref, subjects string) string {
	return fmt.Sprintf("{apiVersion: rbac.authorization.k8s.io/v1, kind: %s, metadata: {name: %s}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %s, name: %s}, subjects: [%s]}", kind, name, refKind, ref, subjects)
}

const bot = "{kind: ServiceAccount, name: bot, namespace: forge}"

// bind gives a user a role of Policy in a namespace.
func (g *rbacWorld) bind(t *testing.T, ns, name, roleNamespace, role, users, groups string) {
	t.Helper()
	g.admin.must(t, "POST", viewsIn(ns, "rolebindings"), fmt.Sprintf("{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: %s}, roleRef: {namespace: %s, name: %s}, userNames: [%s], groupNames: [%s]}",
		name, roleNamespace, role, users, groups))
}

func (g *rbacWorld) await(t *testing.T, what string, c *caller, path string, want int) {
	t.Helper()
	g.s.await(what, func() (bool, error) {
		code, _, _ := c.do(t, "GET", path, "")
		return code == want, nil
	})
}

func refuses(t *testing.T, what string, c *caller, method, path, body string, want ...string) {
	t.Helper()
	code, message, _ := c.do(t, method, path, body)
	for _, w := range want {
		if !strings.Contains(message, w) {
			t.Errorf("%s: got %q, want %q in it", what, message, w)
		}
	}
	if code != 403 {
		t.Errorf("%s: %d %s", what, code, message)
	}
}

// allowed: whoever holds something by Policy can grant it by RBAC, as charts do, and nothing else.
func (g *rbacWorld) allowed(t *testing.T) {
	g.bind(t, "forge", "hubert", "master", "admin", "hubert", "")
	hubert := newCaller(t, g.s.as("hubert"))
	g.await(t, "the role", hubert, "/api/v1/namespaces/forge/secrets", 200)

	hubert.must(t, "POST", rbacIn("forge", "roles"), rbacRole("Role", "chart", "get, list, watch, update", "configmaps, secrets", ""))
	hubert.must(t, "POST", rbacIn("forge", "rolebindings"), rbacBinding("RoleBinding", "chart", "Role", "chart", bot))
	account := newCaller(t, g.s.as("system:serviceaccount:forge:bot", "system:serviceaccounts", "system:serviceaccounts:forge"))
	g.await(t, "the chart's role", account, "/api/v1/namespaces/forge/secrets", 200)
	for _, role := range []string{"view", "edit", "admin"} { // Kubernetes' own, gathered by a controller that does not run here
		hubert.must(t, "POST", rbacIn("forge", "rolebindings"), rbacBinding("RoleBinding", role, "ClusterRole", role, "{kind: User, name: edgar}"))
	}
	refuses(t, "quotas", hubert, "POST", rbacIn("forge", "roles"), rbacRole("Role", "quotas", "delete", "resourcequotas", ""),
		"delete resourcequotas: no rule allows it", "needs the verb escalate on roles.rbac.authorization.k8s.io in namespace forge")
	refuses(t, "cluster-admin", hubert, "POST", rbacIn("forge", "rolebindings"), rbacBinding("RoleBinding", "all", "ClusterRole", "cluster-admin", bot),
		`needs the verb bind on clusterroles.rbac.authorization.k8s.io "cluster-admin" in namespace forge`)
	refuses(t, "another namespace", hubert, "POST", rbacIn("mint", "rolebindings"), rbacBinding("RoleBinding", "chart", "ClusterRole", "view", bot))
	if code, message, _ := hubert.do(t, "POST", rbacIn("forge", "rolebindings"), rbacBinding("RoleBinding", "none", "Role", "none", bot)); code != 404 {
		t.Errorf("a role that is missing: %d %s", code, message)
	}

	// What is held under a condition cannot be handed out by RBAC, which has none.
	g.admin.must(t, "POST", viewsIn("mint", "roles"), roleYAML("some", `{verbs: [create], resourceKinds: [configmaps.], when: 'object.metadata.name == "x"'}, {verbs: [get], resourceKinds: [configmaps.]}, {verbs: [create], resourceKinds: [roles.rbac.authorization.k8s.io]}`))
	g.bind(t, "mint", "some", "mint", "some", "carla", "")
	carla := newCaller(t, g.s.as("carla"))
	g.await(t, "the role", carla, "/api/v1/namespaces/mint/configmaps/x", 404)
	carla.must(t, "POST", rbacIn("mint", "roles"), rbacRole("Role", "get", "get", "configmaps", ""))
	refuses(t, "under a condition", carla, "POST", rbacIn("mint", "roles"), rbacRole("Role", "create", "create", "configmaps", ""), "RBAC has no conditions")
}

// denied: whoever is denied something by Policy cannot grant it by RBAC, in whatever way it is written and whatever
// RBAC allows.
func (g *rbacWorld) denied(t *testing.T) {
	g.admin.must(t, "POST", viewsIn("mint", "roles"), roleYAML("guard-no-secrets", "{deny: true, verbs: ['*'], resourceKinds: [secrets]}"))
	g.bind(t, "mint", "guard-no-secrets", "mint", "guard-no-secrets", "dan", "")
	g.admin.must(t, "POST", rbacIn("mint", "rolebindings"), rbacBinding("RoleBinding", "dan", "ClusterRole", "dan", "{kind: User, name: dan}"))
	g.admin.must(t, "POST", rbacEverywhere("clusterroles"), "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: dan}, rules: ["+
		"{verbs: [get, list], apiGroups: [''], resources: [secrets, configmaps]}, {verbs: [get, create, update, patch], apiGroups: [rbac.authorization.k8s.io], resources: [roles, rolebindings]}]}")
	g.admin.must(t, "POST", rbacIn("mint", "roles"), rbacRole("Role", "reader", "get", "secrets", ""))
	g.admin.must(t, "POST", rbacIn("mint", "rolebindings"), rbacBinding("RoleBinding", "readers", "Role", "reader", "{kind: User, name: rita}"))
	dan := newCaller(t, g.s.as("dan"))
	g.await(t, "the roles", dan, "/api/v1/namespaces/mint/configmaps", 200)
	g.await(t, "the deny", dan, "/api/v1/namespaces/mint/secrets", 403)

	const denied = `denied by Role "mint/guard-no-secrets", rule 0`
	dan.must(t, "POST", rbacIn("mint", "roles"), rbacRole("Role", "mine", "get", "configmaps", ""))
	dan.must(t, "POST", rbacIn("mint", "rolebindings"), rbacBinding("RoleBinding", "mine", "Role", "mine", bot))
	refuses(t, "create a role", dan, "POST", rbacIn("mint", "roles"), rbacRole("Role", "secret", "get", "secrets", ""), denied)
	refuses(t, "update a role", dan, "PUT", rbacIn("mint", "roles")+"/mine", rbacRole("Role", "mine", "get", "secrets", ""), denied)
	refuses(t, "widen a role", dan, "PUT", rbacIn("mint", "roles")+"/mine", rbacRole("Role", "mine", "'*'", "'*'", ""), "no rule allows it")
	refuses(t, "patch a role", dan, "PATCH", rbacIn("mint", "roles")+"/mine", `{"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]}`, denied)
	refuses(t, "apply a role", dan, "PATCH", rbacIn("mint", "roles")+"/new?fieldManager=dan", rbacRole("Role", "new", "get", "secrets", ""), denied)
	refuses(t, "bind a role", dan, "POST", rbacIn("mint", "rolebindings"), rbacBinding("RoleBinding", "secret", "Role", "reader", bot), denied)
	refuses(t, "join a binding", dan, "PUT", rbacIn("mint", "rolebindings")+"/readers", rbacBinding("RoleBinding", "readers", "Role", "reader", bot), denied)
	refuses(t, "bind Kubernetes' edit", dan, "POST", rbacIn("mint", "rolebindings"), rbacBinding("RoleBinding", "edit", "ClusterRole", "edit", bot), denied)
	dan.must(t, "PUT", rbacIn("mint", "roles")+"/mine", rbacRole("Role", "mine", "get, list", "configmaps", ""))
}

// superuser: who has everything by RBAC's * may escalate and bind, as in Kubernetes, but not what Policy denies; who
// has the verb by name may.
func (g *rbacWorld) superuser(t *testing.T) {
	g.admin.must(t, "POST", viewsIn("master", "roles"), roleYAML("guard-no-secrets", "{deny: true, verbs: [get, list], resourceKinds: [secrets]}"))
	g.bind(t, "master", "guard-no-secrets", "master", "guard-no-secrets", "sam, nina", "")
	g.admin.must(t, "POST", rbacEverywhere("clusterrolebindings"), rbacBinding("ClusterRoleBinding", "sam", "ClusterRole", "cluster-admin", "{kind: User, name: sam}, {kind: User, name: root}, {kind: User, name: nina}"))
	g.admin.must(t, "POST", rbacEverywhere("clusterroles"), "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: granters}, rules: [{verbs: [escalate, bind], apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles]}]}")
	g.admin.must(t, "POST", rbacEverywhere("clusterrolebindings"), rbacBinding("ClusterRoleBinding", "granters", "ClusterRole", "granters", "{kind: User, name: nina}"))
	g.admin.must(t, "POST", rbacEverywhere("clusterroles"), rbacRole("ClusterRole", "secrets", "get", "secrets", ""))
	sam, root, nina := newCaller(t, g.s.as("sam")), newCaller(t, g.s.as("root")), newCaller(t, g.s.as("nina"))
	g.await(t, "the roles", root, "/api/v1/namespaces/mint/secrets", 200)
	g.await(t, "the deny", sam, "/api/v1/namespaces/mint/secrets", 403)
	g.await(t, "the deny", nina, "/api/v1/namespaces/mint/secrets", 403)

	const denied = `denied by Role "master/guard-no-secrets", rule 0`
	for i, write := range []struct{ what, path, object string }{
		{"a cluster role", rbacEverywhere("clusterroles"), rbacRole("ClusterRole", "new", "get", "secrets", "")},
		{"a cluster role that gathers", rbacEverywhere("clusterroles"), "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: new}, aggregationRule: {clusterRoleSelectors: [{matchLabels: {gather: these}}]}}"},
		{"a role", rbacIn("mint", "roles"), rbacRole("Role", "new", "get", "secrets", "")},
		{"a cluster role binding", rbacEverywhere("clusterrolebindings"), rbacBinding("ClusterRoleBinding", "new", "ClusterRole", "cluster-admin", bot)},
		{"a role binding", rbacIn("mint", "rolebindings"), rbacBinding("RoleBinding", "new", "ClusterRole", "secrets", bot)},
	} {
		refuses(t, write.what, sam, "POST", write.path, write.object, denied, "by its name and not by *")
		root.must(t, "POST", write.path, strings.ReplaceAll(write.object, "{name: new}", fmt.Sprintf("{name: new-%d}", i)))
		if !strings.HasSuffix(write.path, "/roles") { // nina's verbs are about cluster roles
			nina.must(t, "POST", write.path, strings.ReplaceAll(write.object, "{name: new}", fmt.Sprintf("{name: nina-%d}", i)))
		}
	}
	refuses(t, "a label that others gather", sam, "PATCH", rbacEverywhere("clusterroles")+"/secrets", `{"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}}`, denied)
	refuses(t, "a role of Policy", sam, "POST", viewsIn("mint", "roles"), roleYAML("new", "{verbs: [get], resourceKinds: [secrets]}"), denied)
	sam.must(t, "POST", rbacEverywhere("clusterroles"), rbacRole("ClusterRole", "fine", "'*'", "configmaps", ""))
	sam.must(t, "POST", rbacIn("mint", "rolebindings"), rbacBinding("RoleBinding", "same", "ClusterRole", "secrets", "{kind: User, name: nina}")) // who is denied as well
	sam.must(t, "POST", viewsIn("mint", "roles"), roleYAML("fine", "{verbs: [delete], resourceKinds: [secrets]}"))
}

// shared: a deny that reaches everybody, with or without a condition, does not end delegation.
func (g *rbacWorld) shared(t *testing.T) {
	g.admin.must(t, "POST", viewsIn("master", "roles"), roleYAML("keep", "{deny: true, verbs: [delete], resourceKinds: [secrets], when: 'oldObject.metadata.name == \"keep\"'}, {deny: true, verbs: [get], resourceKinds: [limitranges]}"))
	g.bind(t, "master", "keep", "master", "keep", "", "'system:authenticated'")
	hubert := newCaller(t, g.s.as("hubert"))
	g.await(t, "the deny", hubert, "/api/v1/namespaces/forge/limitranges/x", 403)
	hubert.must(t, "POST", rbacIn("forge", "roles"), rbacRole("Role", "deleter", "delete", "secrets", ""))
	hubert.must(t, "POST", rbacIn("forge", "rolebindings"), rbacBinding("RoleBinding", "edit-too", "ClusterRole", "edit", "{kind: User, name: emil}"))
	hubert.must(t, "POST", viewsIn("forge", "rolebindings"), strings.Replace(bindingYAML("editors", "master", "edit"), "roleRef: {namespace: master, name: edit}", "referencesGlobalRole: true, roleName: edit", 1))
	refuses(t, "to strangers", hubert, "POST", rbacIn("forge", "rolebindings"), rbacBinding("RoleBinding", "public", "ClusterRole", "edit", "{kind: User, name: 'system:anonymous'}"), "denies it under a condition")
	refuses(t, "to strangers, by Policy", hubert, "POST", viewsIn("forge", "rolebindings"), strings.Replace(bindingYAML("public", "master", "edit"), "[edgar]", "['system:anonymous']", 1), "denies it under a condition")
}

// sight: an admin of a namespace asks about others, and does not read the conditions of the whole cluster by it
// (CA-10).
func (g *rbacWorld) sight(t *testing.T) {
	const ours = "{apiVersion: authorization.proviso.dev/v1alpha1, kind: SubjectAccessReview, spec: {verb: delete, resourceKind: secrets, resourceName: x, userName: emil, trace: true}}"
	const stock = "{apiVersion: authorization.k8s.io/v1, kind: LocalSubjectAccessReview, metadata: {namespace: forge}, spec: {user: emil, groups: ['system:authenticated'], " +
		"resourceAttributes: {namespace: forge, verb: delete, version: v1, resource: secrets, name: x}, conditionalAuthorization: {mode: HumanReadable}}}"
	const condition = `oldObject.metadata.name ==`
	hubert := newCaller(t, g.s.as("hubert"))
	for path, body := range map[string]string{viewsIn("forge", "subjectaccessreviews"): ours, "/apis/authorization.k8s.io/v1/namespaces/forge/localsubjectaccessreviews": stock} {
		if shown := string(hubert.must(t, "POST", path, body)); strings.Contains(shown, condition) {
			t.Errorf("%s shows an admin of the namespace:\n%s", path, shown)
		}
		if shown := string(g.admin.must(t, "POST", path, body)); !strings.Contains(shown, condition) {
			t.Errorf("%s does not show a cluster admin the condition:\n%s", path, shown)
		}
	}
}
