package differ

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
)

// A managed cluster has no sidecar: what it enforces was compiled from the policy (MC-7). Its worlds have only what
// can be compiled, and every other one has roles of RBAC besides.

// NewManagedWorld makes a random policy that can be compiled. The same seed gives the same one.
func NewManagedWorld(seed uint64) *World {
	w := &World{seed: seed, managed: true, random: rand.New(rand.NewPCG(seed, 41))}
	for _, n := range append([]string{"master"}, namespaces...) {
		w.policy(n)
	}
	w.protect()
	w.markPolicy()
	w.compiled = len(w.text)
	w.add(keepers)
	w.add(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"keepers"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"keepers"},
		"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%q}]}`, w.pick(users...))
	for _, n := range append(slices.Clone(namespaces), "") {
		if seed%2 == 0 {
			w.rbac(n)
		} else {
			w.noRBAC(n)
		}
	}
	return w
}

// keepers is a role of RBAC that says there who is bound to it.
const keepers = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"keepers"},
	"rules":[{"apiGroups":["compile.proviso.dev"],"resources":["roles"],"resourceNames":["ClusterRole/keepers"],"verbs":["member"]}]}`

// protect protects labels and a field that objects have and requests set: by a role of Policy, which is bound to others
// in the cluster than in a namespace, and by one of RBAC. The right to the field is a verb.
func (w *World) protect() {
	w.add(keepers)
	w.add(`{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"Role","metadata":{"name":"owners","namespace":"master"},"rules":[{"verbs":["get"],"resourceKinds":["limitranges"]},
		{"verbs":["granular:example.com/free"],"resourceKinds":["configmaps","deployments.apps"]}]}`)
	for _, n := range []string{"master", "team"} {
		w.add(`{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"RoleBinding","metadata":{"name":"owners","namespace":%q},"roleRef":{"namespace":"master","name":"owners"},"userNames":%s}`, n, quoted(w.some(users...)))
	}
	protect := func(kind, namespace, name, rest, role string) {
		in := ""
		if namespace != "" {
			in = fmt.Sprintf(`"namespace":%q,`, namespace)
		}
		w.add(`{"apiVersion":"policy.proviso.dev/v1alpha1","kind":%q,"metadata":{%s"name":%q},"attributeKind":"Label",%s,"roleRef":%s}`, kind, in, name, rest, role)
	}
	const byPolicy, byRBAC = `{"apiGroup":"authorization.proviso.dev","kind":"Role","namespace":"master","name":"owners"}`, `{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"keepers"}`
	w.add(`{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"FieldPermission","metadata":{"name":"free"},"spec":{"resources":["configmaps","deployments.apps","widgets.example.com"],
		"field":".metadata.labels[free]","permission":"example.com/free","exclusive":true%s}}`, w.pick("", `,"exclusiveWhen":"self == '1'"`))
	only := w.pick("", "", `,"resources":["configmaps","pods"]`, `,"scope":"ObjectOnly"`)
	protect("ClusterProtectedAttribute", "", "owner", `"attributeName":"owner"`+only, w.pick(byPolicy, byRBAC))
	protect("ClusterProtectedAttribute", "", "gold", `"attributeName":"tier","protectedValues":["gold"]`+w.pick("", `,"unlistedValues":"Forbidden"`), byRBAC)
	protect("ClusterProtectedAttribute", "", "tier", `"attributeName":"tier"`+w.pick("", `,"protectedValues":["gold","lead"]`, `,"protectedValues":["lead"]`), byPolicy)
	protect("ProtectedAttribute", "team", "size", `"attributeName":"size","protectedValues":["huge"]`, w.pick(byPolicy, byRBAC))
}

// Compiled is the part of the policy that is compiled, and Besides what a stock server has as it is.
func (w *World) Compiled() string { return strings.Join(w.text[:w.compiled], "\n---\n") }

// Besides is the part that a stock server has as it is: RBAC.
func (w *World) Besides() string { return strings.Join(w.text[w.compiled:], "\n---\n") }

// noRBAC takes the roles of RBAC of the world before away.
func (w *World) noRBAC(namespace string) {
	role, in := "ClusterRole", ""
	if namespace != "" {
		role, in = "Role", fmt.Sprintf(`"namespace":%q,`, namespace)
	}
	for i := range 3 {
		w.add(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":%q,"metadata":{%s"name":"r%d"},"rules":[]}`, role, in, i)
	}
}

// managedConditions are conditions of rules that can be compiled. The last two fail for some objects.
var managedConditions = append(slices.Clone(conditions),
	`"attributeRestrictions":{"labelsContain":["owner"]}`,
	`"attributeRestrictions":{"labelsContain":["size=small"]}`,
	`"when":"request.name == 'small' || request.namespace == 'other'"`,
	`"when":"operation == 'CREATE' || has(request.user) && oldObject.metadata.?labels.size.orValue('') == 'big'"`,
	`"when":"request.userInfo.username != 'cyd'","where":"resource.metadata.?labels.size.orValue('') != 'huge'"`,
	`"when":"request.resource == 'widgets' || request.subresource == '' && request.apiGroup == ''"`,
	`"when":"request.groups.all(g, g != 'blue')"`,
	`"when":"object == null || oldObject == null || object.metadata.?labels == oldObject.metadata.?labels"`,
	`"where":"resource.metadata.labels.tier == 'gold'"`,
	`"when":"object.metadata.labels.owner == 'a'"`,
)

// managedCondition is one of them. What has no namespace, or is one, has no condition on it.
func (w *World) managedCondition(of []string) string {
	for {
		one := w.pick(managedConditions...)
		wide := slices.ContainsFunc(of, func(k string) bool {
			return slices.Contains([]string{"nodes", "priorityclasses.scheduling.k8s.io", "*", "-secrets"}, k)
		})
		if !wide || !strings.Contains(one, "request.namespace") {
			return one
		}
	}
}

// managedRule is a rule that can be compiled.
func (w *World) managedRule() string {
	var resources []string
	for _, k := range kinds {
		resources = append(resources, k.qualified())
	}
	of, writes := w.some(resources...), w.some("create", "update", "patch", "delete", "deletecollection")
	switch w.random.IntN(6) {
	case 0:
		of = w.some("pods/exec", "pods/log", "pods/status", "pods/eviction", "deployments.apps/scale", "deployments.apps/status", "serviceaccounts/token")
	case 1:
		of = []string{w.pick("*", "-secrets", "Pod", "Deployment", "widgets")}
	}
	if w.random.IntN(3) == 0 {
		writes = []string{"create", "update", "delete"}
	}
	conditional := w.random.IntN(4) > 0 && !strings.Contains(of[0], "/")
	deny := w.random.IntN(4) == 0 && !(conditional && (of[0] == "*" || of[0] == "-secrets"))
	if !deny && !conditional {
		writes = append(writes, w.some("get", "list", "watch")...)
	}
	rule := fmt.Sprintf(`"deny":%t,"verbs":%s,"resourceKinds":%s`, deny, quoted(writes), quoted(of))
	if w.random.IntN(5) == 0 {
		rule += `,"resourceNames":` + quoted(w.some("small", "gold", "new"))
	}
	if conditional {
		rule += "," + w.managedCondition(of)
	}
	return "{" + rule + "}"
}

// managedListed is the kind of what only a managed cluster refuses, by the words of the guide; empty if it lists none
// such.
func (w *World) managedListed(r *Request, here answer) string {
	if here.code == http.StatusForbidden && r.Connects && strings.Contains(here.message, "cannot ") {
		return "conditions on connections"
	}
	if here.code == http.StatusForbidden && r.Resource == "pods/binding" && strings.Contains(here.message, "is protected by") {
		return "a Binding with a protected attribute"
	}
	unmet := here.code == http.StatusForbidden && strings.Contains(here.message, "was not met") ||
		here.code == http.StatusUnprocessableEntity && strings.Contains(here.message, "resulted in error")
	if unmet && w.seed%2 == 0 {
		return "another grant of the same right is held to the condition"
	}
	return ""
}

// managedLooser is the kind of what only a server of ours refuses, by the words of the guide.
func managedLooser(r *Request, there answer) string {
	switch {
	case r.Resource == "pods/eviction":
		return "denies under a condition do not hold by effect"
	case r.Verb == "deletecollection" && strings.Contains(there.message, "cannot be used with these selectors"):
		return "selectors of a deletecollection under a condition"
	}
	return ""
}

// Markers of Policy alone: that what was compiled is known.
func (w *World) policyMarkers(gone bool) (all []Marker) {
	id := fmt.Sprintf("w%d", w.seed)
	want := func(a answer) bool { return a.code == http.StatusNotFound }
	if gone {
		want = func(a answer) bool { return a.code == http.StatusForbidden }
	}
	for _, n := range append([]string{"master"}, namespaces...) {
		place := n
		if n == "master" {
			place = "other"
		}
		all = append(all, Marker{&Request{User: id + "-" + n, Method: http.MethodGet, Path: "/api/v1/namespaces/" + place + "/configmaps/" + id}, want})
	}
	return all
}

// Gone is what has to hold when the policy is no longer known.
func (w *World) Gone() []Marker { return w.policyMarkers(true) }

// Unguarded is what has to hold when a compiled policy is no longer enforced.
func Unguarded(policy string) Marker {
	return Marker{&Request{Method: http.MethodPost, Path: "/api/v1/namespaces/default/configmaps?dryRun=All", Body: fmt.Sprintf(`{"metadata":{"name":%q}}`, policy)},
		func(a answer) bool { return a.code == http.StatusCreated }}
}

// Ask sends one request as a user, and returns the code and the message of the answer.
func Ask(ctx context.Context, e End, user, method, path, body string) (code int, message string, err error) {
	a, err := e.send(ctx, &Request{User: user, Method: method, Path: path, Body: body})
	return a.code, a.message, err
}

// Creates are random requests to create objects in a namespace, with nothing but what they say to decide about.
func (w *World) Creates(n int) (all []*Request) {
	g := requests{rand.New(rand.NewPCG(w.seed, 5))}
	for len(all) < n {
		if r := g.next(); r.Verb == "create" && !r.Connects && strings.Contains(r.Path, "/namespaces/") && !strings.Contains(r.Resource, "/") {
			all = append(all, r)
		}
	}
	return all
}

// Allowed sends a request, and reports whether it is allowed.
func Allowed(ctx context.Context, e End, r *Request) (bool, error) {
	a, err := e.send(ctx, r)
	return a.passes(r), err
}
