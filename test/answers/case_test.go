package answers

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Case is a policy and a change of it. Manifests in YAML.
type Case struct {
	Policy string
	// Change is applied to it, and Delete names objects of the policy, as kind/name, that are deleted.
	Change string
	Delete []string
}

// subjects are those who ask.
func subjects() []Subject {
	return []Subject{
		{User: "bob", Groups: []string{"dev"}},
		{User: "agent:7", Groups: []string{"ops"}},
		{User: "carol", Groups: []string{"dev", "ops"}, Extra: map[string][]string{"team": {"a"}}},
		{User: "dave"},
	}
}

// aggregate is the label of cluster roles that the aggregated one gathers.
const aggregate = "answers/aggregate"

var (
	drawnVerbs = [][]string{{"get", "list"}, {"create"}, {"patch"}, {"update", "patch"}, {"delete"}, {"*"}, {"get"}, {"create", "patch", "delete", "deletecollection"},
		{"granular", "granular:labels"}, {"granular", "granular:label(team)"}, {"granular", "granular:metadata"}, {"granular", "granular:replicas"}, {"granular", "granular:specification"},
		{"granular", "granular:answers.example/data"}, {"granular:answers.example/data"}, {"impersonate"}}
	drawnResources = []string{"configmaps", "configmaps", "secrets", "namespaces", "namespaces", "deployments", "deployments/scale", "pods/exec", "pods/log", "namespaces/status",
		"serviceaccounts/token", "users", "groups", "uids", "userextras/scope", "*"}
	drawnConditions = []string{`where: resource.metadata.labels.team == "a"`, `where: resource.metadata.labels.owner == request.user`, `when: request.user.startsWith("agent:")`,
		`when: '"ops" in request.groups'`, `when: '"a" in request.extra["team"]'`, `when: request.namespace == "team"`, `when: request.name == "one"`, `where: '!("env" in resource.metadata.labels)'`,
		`where: resource.metadata.name != "two"`, `when: 'has(request.extra.team) && request.user != "bob"'`, `when: '!("dev" in request.groups)'`}
	drawnNames = []string{"one", "team", "web", "victim", "applied"}
)

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

func list(all []string) string {
	quoted := make([]string, len(all))
	for i, s := range all {
		quoted[i] = fmt.Sprintf("%q", s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// groupOf is the API group of a resource in rules.
func groupOf(resource string) string {
	main, _, _ := strings.Cut(resource, "/")
	switch main {
	case "deployments":
		return "apps"
	case "uids", "userextras":
		return "authentication.k8s.io"
	case "*":
		return "*"
	}
	return ""
}

// somebody draws who a role is bound to.
func somebody(r *rand.Rand) (users, groups []string) {
	if r.IntN(2) == 0 {
		return nil, []string{pick(r, []string{"dev", "ops", "system:authenticated"})}
	}
	return []string{pick(r, []string{"bob", "agent:7", "carol", "dave"})}, nil
}

// rbacRules draws rules of RBAC.
func rbacRules(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(3) {
		resource := pick(r, drawnResources)
		fmt.Fprintf(&b, "- {verbs: %s, apiGroups: [%q], resources: [%q]", list(pick(r, drawnVerbs)), groupOf(resource), resource)
		if r.IntN(4) == 0 {
			fmt.Fprintf(&b, ", resourceNames: [%q]", pick(r, drawnNames))
		}
		b.WriteString("}\n")
	}
	return b.String()
}

func rbacSubjects(users, groups []string) string {
	var all []string
	for _, u := range users {
		all = append(all, fmt.Sprintf("{apiGroup: rbac.authorization.k8s.io, kind: User, name: %q}", u))
	}
	for _, g := range groups {
		all = append(all, fmt.Sprintf("{apiGroup: rbac.authorization.k8s.io, kind: Group, name: %q}", g))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// drawRBAC draws a role of RBAC and its binding.
func drawRBAC(r *rand.Rand, name string) string {
	users, groups := somebody(r)
	local := r.IntN(2) == 0
	kind, in, labels := "ClusterRole", "", ""
	if !local && r.IntN(3) == 0 {
		labels = fmt.Sprintf(", labels: {%s: \"yes\"}", aggregate)
	}
	roleKind := kind
	if local {
		in = ", namespace: team"
		if roleKind = "Role"; r.IntN(3) == 0 {
			roleKind = "ClusterRole"
		}
	}
	roleIn := in
	if roleKind == "ClusterRole" {
		roleIn = ""
	}
	bindingKind := "ClusterRoleBinding"
	if local {
		bindingKind = "RoleBinding"
	}
	role := fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata: {name: %s%s%s}\nrules:\n%s", roleKind, name, roleIn, labels, rbacRules(r))
	if labels != "" && r.IntN(2) == 0 {
		return role // it counts by aggregation only
	}
	return role + fmt.Sprintf("\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata: {name: %s%s}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: %s, name: %s}\nsubjects: %s\n",
		bindingKind, name, in, roleKind, name, rbacSubjects(users, groups))
}

// drawAggregated draws an aggregated cluster role and its binding.
func drawAggregated(r *rand.Rand) string {
	users, groups := somebody(r)
	return fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: answers-sum}\naggregationRule: {clusterRoleSelectors: [{matchLabels: {%s: \"yes\"}}]}\n"+
		"---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: answers-sum}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: answers-sum}\nsubjects: %s\n",
		aggregate, rbacSubjects(users, groups))
}

// drawPolicy draws a role of Policy and its binding.
func drawPolicy(r *rand.Rand, name string) string {
	ns := pick(r, []string{"team", "team", "master"})
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: authorization.proviso.dev/v1alpha1\nkind: Role\nmetadata: {name: %s, namespace: %s}\nrules:\n", name, ns)
	for range 1 + r.IntN(2) {
		resource := pick(r, drawnResources)
		main, sub, _ := strings.Cut(resource, "/")
		kind := main
		if g := groupOf(resource); g != "" && g != "*" {
			kind += "." + g
		}
		if sub != "" {
			kind += "/" + sub
		}
		fmt.Fprintf(&b, "- verbs: %s\n  resourceKinds: [%q]\n", list(pick(r, drawnVerbs)), kind)
		if r.IntN(5) == 0 {
			fmt.Fprintf(&b, "  resourceNames: [%q]\n", pick(r, drawnNames))
		}
		if deny := r.IntN(4) == 0; deny {
			b.WriteString("  deny: true\n")
		} else if r.IntN(2) == 0 {
			fmt.Fprintf(&b, "  %s\n", pick(r, drawnConditions))
		}
	}
	users, groups := somebody(r)
	fmt.Fprintf(&b, "---\napiVersion: authorization.proviso.dev/v1alpha1\nkind: RoleBinding\nmetadata: {name: %s, namespace: %s}\nroleRef: {namespace: %s, name: %s}\nuserNames: %s\ngroupNames: %s\n",
		name, ns, ns, name, list(users), list(groups))
	return b.String()
}

// drawGuard draws a protected attribute or an exclusive field, sometimes with somebody who may pass it.
func drawGuard(r *rand.Rand) string {
	var text string
	switch r.IntN(3) {
	case 0:
		text = "apiVersion: policy.proviso.dev/v1alpha1\nkind: FieldPermission\nmetadata: {name: answers-data}\nspec:\n  resources: [configmaps]\n  field: .data\n  permission: answers.example/data\n"
		if r.IntN(3) > 0 {
			text += "  exclusive: true\n"
		}
		return text
	case 1:
		users, groups := somebody(r)
		text = fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: answers-guard}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: answers-guard}\nsubjects: %s\n---\n", rbacSubjects(users, groups))
	}
	return text + "apiVersion: policy.proviso.dev/v1alpha1\nkind: ClusterProtectedAttribute\nmetadata: {name: answers-env}\nattributeKind: Label\nattributeName: env\nprotectedValues: [prod]\n" +
		"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: answers-guard}\n"
}

// draw makes a case.
func draw(seed uint64) Case {
	r := rand.New(rand.NewPCG(seed, 1))
	var parts []string
	for i := range 2 + r.IntN(5) {
		if name := fmt.Sprint("answers-", i); r.IntN(2) == 0 {
			parts = append(parts, drawRBAC(r, name))
		} else {
			parts = append(parts, drawPolicy(r, name))
		}
	}
	if r.IntN(3) == 0 {
		parts = append(parts, drawAggregated(r))
	}
	if r.IntN(3) == 0 {
		parts = append(parts, drawGuard(r))
	}
	r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	if r.IntN(4) == 0 { // the last part goes away
		gone := parts[len(parts)-1]
		return Case{Policy: strings.Join(parts, "\n---\n"), Delete: namesIn(gone)}
	}
	n := 1 + r.IntN(2)
	n = max(0, len(parts)-n)
	return Case{Policy: strings.Join(parts[:n], "\n---\n"), Change: strings.Join(parts[n:], "\n---\n")}
}

// namesIn are the names of the objects of manifests, as Case.Delete has them.
func namesIn(text string) (names []string) {
	for _, part := range strings.Split(text, "\n---\n") {
		var kind, name string
		for _, line := range strings.Split(part, "\n") {
			if k, ok := strings.CutPrefix(line, "kind: "); ok {
				kind = k
			}
			if m, ok := strings.CutPrefix(line, "metadata: {name: "); ok {
				name, _, _ = strings.Cut(strings.NewReplacer(",", " ", "}", " ").Replace(m), " ")
			}
		}
		if key := kind + "/" + name; !slices.Contains(names, key) {
			names = append(names, key)
		}
	}
	return names
}
