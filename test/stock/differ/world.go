package differ

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// The users and objects of every world.
var (
	users      = []string{"ann", "bob", "cyd", "dan", "eve"}
	groups     = []string{"red", "blue"}
	namespaces = []string{"team", "other"}
	objects    = []string{"small", "big", "owned", "gold"}
)

// kind is a kind of objects that requests are about.
type kind struct {
	resource, group, version, kind string
	cluster                        bool
	// spec is the rest of an object.
	spec string
}

var kinds = []kind{
	{resource: "configmaps", version: "v1", kind: "ConfigMap", spec: `"data":{"a":"b"}`},
	{resource: "secrets", version: "v1", kind: "Secret", spec: `"data":{"a":"Yg=="}`},
	{resource: "pods", version: "v1", kind: "Pod", spec: `"spec":{"containers":[{"name":"app","image":"app"}]}`},
	{resource: "serviceaccounts", version: "v1", kind: "ServiceAccount", spec: `"automountServiceAccountToken":false`},
	{resource: "deployments", group: "apps", version: "v1", kind: "Deployment",
		spec: `"spec":{"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"app","image":"app"}]}}}`},
	{resource: "widgets", group: "example.com", version: "v1", kind: "Widget", spec: `"spec":{"size":1}`},
	{resource: "priorityclasses", group: "scheduling.k8s.io", version: "v1", kind: "PriorityClass", cluster: true, spec: `"value":7`},
	{resource: "nodes", version: "v1", kind: "Node", cluster: true, spec: `"spec":{}`},
}

func (k kind) apiVersion() string {
	if k.group == "" {
		return k.version
	}
	return k.group + "/" + k.version
}

// qualified is the name that policy has for the resource.
func (k kind) qualified() string {
	if k.group == "" {
		return k.resource
	}
	return k.resource + "." + k.group
}

// labelsOf are those of the objects that every world has.
func labelsOf(name string) string {
	switch name {
	case "owned":
		return `{"size":"small","owner":"a"}`
	case "gold":
		return `{"size":"big","tier":"gold"}`
	}
	return fmt.Sprintf(`{"size":%q}`, name)
}

// Population is what both have, whatever the policy is. Nothing of it is changed.
func Population() string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, n := range namespaces {
		add(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, n)
		add(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default","namespace":%q}}`, n)
	}
	add(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
		"names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`)
	return strings.Join(all, "\n---\n")
}

// Objects are the objects of each kind.
func Objects() string {
	var all []string
	for _, k := range kinds {
		for _, name := range objects {
			for _, n := range k.places() {
				all = append(all, k.object(n, name, labelsOf(name)))
			}
		}
	}
	return strings.Join(all, "\n---\n")
}

// places are the namespaces that objects of the kind are in.
func (k kind) places() []string {
	if k.cluster {
		return []string{""}
	}
	return namespaces
}

func (k kind) object(namespace, name, labels string) string {
	in := ""
	if namespace != "" {
		in = fmt.Sprintf(`"namespace":%q,`, namespace)
	}
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{%s"name":%q,"labels":%s},%s}`, k.apiVersion(), k.kind, in, name, labels, k.spec)
}

// World is one policy.
type World struct {
	seed   uint64
	text   []string
	random *rand.Rand
	// managed tells that the other end has no sidecar, and compiled how much of the text is compiled for it.
	managed  bool
	compiled int
}

// NewWorld makes a random policy. The same seed gives the same one.
func NewWorld(seed uint64) *World {
	w := &World{seed: seed, random: rand.New(rand.NewPCG(seed, 14))}
	for _, n := range append([]string{"master"}, namespaces...) {
		w.policy(n)
	}
	for _, n := range namespaces {
		w.rbac(n)
	}
	w.rbac("")
	keeper := users[w.random.IntN(len(users))]
	w.add(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"keepers"},"rules":[]}`)
	w.add(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"keepers"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"keepers"},
		"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%q}]}`, keeper)
	w.add(`{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"ClusterProtectedAttribute","metadata":{"name":"owner"},"attributeKind":"Label","attributeName":"owner",
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"keepers"}}`)
	w.add(`{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"FieldPermission","metadata":{"name":"tier"},"spec":{"resources":["configmaps","secrets","widgets.example.com"],
		"field":".metadata.labels[tier]","permission":"example.com/tier","exclusive":true}}`)
	w.mark()
	return w
}

// Policy is the manifest of the world.
func (w *World) Policy() string { return strings.Join(w.text, "\n---\n") }

func (w *World) add(format string, args ...any) {
	w.text = append(w.text, fmt.Sprintf(format, args...))
}

func (w *World) pick(from ...string) string { return from[w.random.IntN(len(from))] }

// some are some of these, at least one.
func (w *World) some(from ...string) []string {
	var out []string
	for _, one := range from {
		if w.random.IntN(3) == 0 {
			out = append(out, one)
		}
	}
	if len(out) == 0 {
		out = append(out, w.pick(from...))
	}
	return out
}

func quoted(all []string) string {
	var out []string
	for _, one := range all {
		out = append(out, fmt.Sprintf("%q", one))
	}
	return "[" + strings.Join(out, ",") + "]"
}

// conditions that rules have. Those of resource are evaluated on what is read, written and deleted alike.
var conditions = []string{
	`"where":"resource.metadata.?labels.size.orValue('') == 'small'"`,
	`"where":"!('owner' in resource.metadata.?labels.orValue({}))"`,
	`"where":"resource.metadata.name != 'big'"`,
	`"when":"request.user in ['ann', 'bob']"`,
	`"when":"'red' in request.groups"`,
}

// subresources that rules name.
var subresources = []string{"pods/exec", "pods/log", "pods/status", "pods/eviction", "deployments.apps/scale", "deployments.apps/status", "serviceaccounts/token"}

// policy writes the roles of a namespace, and binds them.
func (w *World) policy(namespace string) {
	w.add(`{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"Policy","metadata":{"name":"default","namespace":%q}}`, namespace)
	w.add(`{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"PolicyBinding","metadata":{"name":%q,"namespace":%q}}`, namespace, namespace)
	for i := range 3 {
		var rules []string
		for range 1 + w.random.IntN(3) {
			if w.managed {
				rules = append(rules, w.managedRule())
			} else {
				rules = append(rules, w.rule())
			}
		}
		name := fmt.Sprintf("r%d", i)
		w.add(`{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"Role","metadata":{"name":%q,"namespace":%q},"rules":[%s]}`, name, namespace, strings.Join(rules, ","))
		w.add(`{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"RoleBinding","metadata":{"name":%q,"namespace":%q},"roleRef":{"namespace":%q,"name":%q},"userNames":%s,"groupNames":%s}`,
			name, namespace, namespace, name, quoted(w.some(users...)), quoted(w.some(groups...)[:1]))
	}
}

func (w *World) rule() string {
	var resources []string
	for _, k := range kinds {
		resources = append(resources, k.qualified())
	}
	verbs := w.some("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
	if w.random.IntN(3) == 0 {
		verbs = []string{"create", "update", "patch"}
	}
	of := w.some(resources...)
	if w.random.IntN(3) == 0 {
		of = w.some(subresources...)
	}
	rule := fmt.Sprintf(`"verbs":%s,"resourceKinds":%s`, quoted(verbs), quoted(of))
	conditional := w.random.IntN(5) > 0 && !strings.Contains(of[0], "/")
	if w.random.IntN(4) == 0 {
		rule += `,"deny":true`
		if conditional {
			rule = fmt.Sprintf(`"deny":true,"verbs":%s,"resourceKinds":%s`, quoted(w.some("create", "update", "patch", "delete", "deletecollection")), quoted(of))
		}
	}
	if conditional {
		rule += "," + w.pick(conditions...)
	}
	return "{" + rule + "}"
}

// rbac writes roles of RBAC, in a namespace or for the cluster.
func (w *World) rbac(namespace string) {
	role, in, resources := "ClusterRole", "", []string{"priorityclasses", "nodes"}
	if namespace != "" {
		role, in, resources = "Role", fmt.Sprintf(`"namespace":%q,`, namespace), []string{"configmaps", "secrets", "pods", "serviceaccounts", "deployments", "widgets", "pods/exec", "deployments/scale", "pods/eviction"}
	}
	for i := range 3 {
		verbs := w.some("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
		switch w.random.IntN(4) {
		case 0:
			verbs = []string{"*"}
		case 1:
			if w.managed { // it has no rights to single fields
				break
			}
			verbs = append(verbs, "granular", "granular:label(y.example.com)")
		}
		name := fmt.Sprintf("r%d", i)
		w.add(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":%q,"metadata":{%s"name":%q},"rules":[{"apiGroups":["*"],"resources":%s,"verbs":%s}]}`, role, in, name, quoted(w.some(resources...)), quoted(verbs))
		w.add(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":%q,"metadata":{%s"name":%q},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":%q,"name":%q},
			"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%q}]}`, role+"Binding", in, name, role, name, w.pick(users...))
	}
}
