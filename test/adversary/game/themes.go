package game

// theme is a part of the grammar: which rights, objects and steps a case is drawn from. A theme is an alphabet and no
// script: what is done in which order is drawn.
type theme struct {
	name   string
	prey   []string
	styles []string
	powers []power
	moves  []move
	// denied are further things to deny, besides what concerns the prey.
	denied []string
	// accounts: there is a service account.
	accounts bool
	// attributes and kept are percentages: of cases with guarded attributes, and of objects with a finalizer.
	attributes, kept int
	// access and tokens are, too: of cases in which some may ask for access, and of actors with a narrowed token.
	access, tokens int
}

// power is a right beyond the prey.
type power struct {
	verbs, kinds []string
	// cluster: it is about something that has no namespace.
	cluster bool
}

// move draws one step; false if it has nothing to offer now.
type move func(*draw, *Actor) (Step, bool)

var (
	plain = []string{ByClusterRole, ByLocalRole, ByMaster, ByNamespace}
	local = []string{ByLocalRole, ByNamespace, ByLocalRole, ByNamespace, "edit", "admin"}
)

var themes = []theme{
	{name: "names", prey: []string{"configmaps", "secrets", "services"}, styles: []string{ByClusterRole, ByMaster, "star", "star", "edit", "nothing"},
		powers: []power{{verbs: []string{"create", "update", "delete"}, kinds: []string{"customresourcedefinitions.apiextensions.k8s.io"}, cluster: true}},
		moves:  []move{touch, touch, touch, define, define, instance}},
	{name: "kinds", prey: []string{customPrey, customPrey, "configmaps"}, styles: append([]string{"nothing"}, plain...),
		powers: []power{
			{verbs: []string{"delete", "deletecollection"}, kinds: []string{definitions}, cluster: true},
			{verbs: []string{"update", "patch"}, kinds: []string{definitions}, cluster: true},
		},
		moves: []move{redefine, redefine, redefine, touch, touch, own, remove}},
	{name: "defaults", prey: []string{"configmaps", "resourcequotas", "limitranges", "pods", "roles.rbac.authorization.k8s.io", "services"}, styles: []string{"view", "edit", "edit", "admin"},
		moves: []move{touch, touch, life, life, bind, author, pods, anything, anything}},
	{name: "life", prey: []string{"configmaps", "secrets", "serviceaccounts"}, styles: local, kept: 50, accounts: true,
		powers: []power{
			{verbs: []string{"create", "delete", "get"}, kinds: []string{"namespaces"}, cluster: true},
			{verbs: []string{"update"}, kinds: []string{"namespaces/finalize"}, cluster: true},
			{verbs: []string{"delete", "get"}, kinds: []string{"rolebindings.authorization.proviso.dev", "rolebindings.rbac.authorization.k8s.io"}},
		},
		moves: []move{life, life, life, touch, touch, touch, unbind}},
	{name: "grants", prey: []string{"secrets", "configmaps"}, styles: plain, accounts: true,
		powers: []power{
			{verbs: []string{"create", "update", "delete"}, kinds: []string{"roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io"}},
			{verbs: []string{"create", "update", "delete"}, kinds: []string{"roles.authorization.proviso.dev", "rolebindings.authorization.proviso.dev"}},
			{verbs: []string{"create"}, kinds: []string{"serviceaccounts/token"}},
			{verbs: []string{"create", "update"}, kinds: []string{"clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io"}, cluster: true},
		},
		moves: []move{author, author, bind, bind, bind, token, touch, touchAs, touchAs, unbind}},
	{name: "people", prey: []string{"configmaps", "secrets"}, styles: append([]string{"nothing", "nothing", "nothing", "nothing"}, plain...), access: 100, tokens: 10,
		powers: []power{
			{verbs: []string{"create"}, kinds: []string{Approval, Revocation}},
			{verbs: []string{"approve"}, kinds: []string{accessRules}, cluster: true},
			{verbs: []string{"create", "update"}, kinds: []string{"roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io"}},
			{verbs: []string{"impersonate"}, kinds: []string{"users"}, cluster: true},
		},
		moves: []move{ask, ask, decide, decide, decide, decide, touch, touch, touch, touch, again, again, bind, author, inquire}},
	{name: "tokens", prey: []string{"configmaps", "secrets", "deployments.apps", "pods"}, styles: append([]string{"star", "edit", "admin"}, plain...), access: 25, tokens: 75, accounts: true,
		powers: []power{
			{verbs: []string{"create", "update", "delete"}, kinds: []string{"roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io"}},
			{verbs: []string{"create", "update", "delete"}, kinds: []string{"roles.authorization.proviso.dev", "rolebindings.authorization.proviso.dev"}},
			{verbs: []string{"create"}, kinds: []string{"serviceaccounts/token"}},
			{verbs: []string{"create", "get"}, kinds: []string{"pods/exec", "services/proxy", "pods/proxy"}},
			{verbs: []string{"impersonate"}, kinds: []string{"users"}, cluster: true},
		},
		moves: []move{touch, touch, touch, touchAs, makeOne, token, author, bind, unbind, connect, inquire, anything, ask, decide}},
	{name: "garbage", prey: []string{"configmaps", "secrets", "pods", "services", "deployments.apps", policyRoles}, styles: append([]string{"granular", "edit"}, plain...),
		moves: []move{touch, touch, own, own, own, makeOne, remove}},
	{name: "fields", prey: []string{"configmaps", "pods", "secrets", "deployments.apps"}, styles: append([]string{"granular", "granular", "star", "star", "edit"}, plain...), attributes: 90,
		powers: []power{{verbs: []string{"create", "get"}, kinds: []string{"nodes"}, cluster: true}},
		moves:  []move{touch, touch, label, label, label, managers, managers, node, makeOne}},
	{name: "pods", prey: []string{"pods"}, styles: append([]string{"edit"}, plain...), attributes: 60,
		powers: []power{
			{verbs: []string{"create"}, kinds: []string{"pods/binding"}},
			{verbs: []string{"create"}, kinds: []string{"bindings"}},
			{verbs: []string{"create"}, kinds: []string{"pods/eviction"}},
			{verbs: []string{"update", "patch"}, kinds: []string{"pods/status"}},
		},
		moves: []move{pods, pods, pods, pods, touch, makeOne}},
	{name: "connect", prey: []string{"services", "pods"}, styles: plain,
		powers: []power{
			{verbs: []string{"get", "create", "update", "patch", "delete"}, kinds: []string{"services/proxy", "pods/proxy"}},
			{verbs: []string{"create", "get"}, kinds: []string{"pods/exec", "pods/attach", "pods/portforward"}},
		},
		denied: []string{"services/proxy", "pods/proxy", "pods/exec", "services/proxy"},
		moves:  []move{connect, connect, connect, touch, makeOne}},
	{name: "questions", prey: []string{"secrets", "configmaps"}, styles: append([]string{"edit", "admin", "view", "nothing"}, plain...), accounts: true,
		powers: []power{
			{verbs: []string{"create"}, kinds: []string{"subjectaccessreviews.authorization.k8s.io", "localsubjectaccessreviews.authorization.k8s.io", "resourceaccessreviews.authorization.proviso.dev"}, cluster: true},
		},
		moves: []move{inquire, inquire, inquire, touch, bind, author}},
	{name: "cost", prey: []string{"configmaps"}, styles: []string{"admin", "admin", ByNamespace, ByMaster},
		powers: []power{{verbs: []string{"create", "update", "delete", "deny"}, kinds: []string{"roles.authorization.proviso.dev", "rolebindings.authorization.proviso.dev"}}},
		moves:  []move{burden, burden, touch, bind, author}},
	{name: "any", prey: []string{"configmaps", "secrets", "pods", "services", "serviceaccounts", "deployments.apps", "persistentvolumeclaims", "leases.coordination.k8s.io", "networkpolicies.networking.k8s.io"},
		styles: append([]string{"edit", "admin", "view", "star", "granular", "nothing"}, plain...), attributes: 40, kept: 10, accounts: true,
		powers: []power{
			{verbs: []string{"create", "delete"}, kinds: []string{"customresourcedefinitions.apiextensions.k8s.io"}, cluster: true},
			{verbs: []string{"create", "delete"}, kinds: []string{"namespaces"}, cluster: true},
			{verbs: []string{"create"}, kinds: []string{"serviceaccounts/token"}},
			{verbs: []string{"create", "update"}, kinds: []string{"roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io", "roles.authorization.proviso.dev", "rolebindings.authorization.proviso.dev"}},
		},
		moves: []move{touch, touch, makeOne, anything, anything, anything, define, instance, life, author, bind, unbind, token, touchAs, own, label, managers, pods, connect, inquire}},
}

// Themes lists their names.
func Themes() []string {
	var out []string
	for _, t := range themes {
		out = append(out, t.name)
	}
	return out
}
