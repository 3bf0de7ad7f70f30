package managed

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
)

// topic is what random rules and requests are about: few kinds, so that rules meet.
type topic struct {
	// kinds are as rules name them, rbac as RBAC does, and places those of requests.
	kinds, rbac []string
	places      []place
}

var topics = []topic{
	{[]string{"[configmaps]"}, []string{"configmaps"}, []place{{"configmaps", "v1", "ConfigMap"}}},
	{[]string{"[configmaps]", "[secrets]", "[configmaps, secrets]"}, []string{"configmaps", "secrets", "configmaps, secrets"}, []place{{"configmaps", "v1", "ConfigMap"}, {"secrets", "v1", "Secret"}}},
	{[]string{"[pods]", "[pods/eviction]", "[pods, pods/eviction]"}, []string{"pods", "pods/eviction", "pods, pods/eviction"}, []place{{"pods", "v1", "Pod"}, {"pods/eviction", "policy/v1", "Eviction"}}},
	{[]string{"[deployments.apps]", "[deployments.apps/status]", "[deployments.apps, deployments.apps/status]"}, []string{"deployments", "deployments/status", "deployments, deployments/status"},
		[]place{{"deployments.apps", "apps/v1", "Deployment"}, {"deployments.apps/status", "apps/v1", "Deployment"}}},
	{[]string{"[namespaces]"}, []string{"namespaces"}, []place{{"namespaces", "v1", "Namespace"}}},
}

// ruled is a random policy of rules that allow and deny, in the master namespace and in one other, beside RBAC.
func ruled(r *rand.Rand, of topic) string {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	rule := func() string {
		deny, kinds := "", pick(of.kinds...)
		if r.IntN(3) == 0 {
			deny = "deny: true, "
		}
		text := fmt.Sprintf("{%sverbs: [%s], resourceKinds: %s", deny, pick("create", "update", "delete", "patch", "create, update, delete", "create, update, delete", "update, delete", "deletecollection"), kinds)
		if r.IntN(4) == 0 {
			text += ", resourceNames: [" + pick("x", "w", "x, w") + "]"
		}
		if !strings.Contains(kinds, "eviction") {
			text += pick("", "", ", where: 'resource.metadata.?labels.env.orValue(\"\") == \"prod\"'", ", where: 'has(resource.metadata.labels)'", ", when: '\"dev\" in request.groups'",
				", when: 'request.name == \"x\"'", ", when: 'operation == \"CREATE\" || oldObject.metadata.?labels.env.orValue(\"\") == \"prod\"'",
				", attributeRestrictions: {labelsContain: [free]}")
		}
		return text + "}"
	}
	var out strings.Builder
	for _, place := range []string{"master", "team"} {
		for i := range r.IntN(3) {
			rules := []string{rule()}
			for range r.IntN(3) {
				rules = append(rules, rule())
			}
			name := fmt.Sprintf("r%d", i)
			fmt.Fprintf(&out, "---\napiVersion: authorization.proviso.dev/v1alpha1\nkind: Role\nmetadata: {name: %[2]s, namespace: %[1]s}\nrules: [%[3]s]\n---\napiVersion: authorization.proviso.dev/v1alpha1\n"+
				"kind: RoleBinding\nmetadata: {name: %[2]s, namespace: %[1]s}\nroleRef: {namespace: %[1]s, name: %[2]s}\n%[4]s\n", place, name, strings.Join(rules, ", "),
				pick("userNames: [ann]", "userNames: [ann, bob]", "groupNames: [dev]", "groupNames: [ops]\nuserNames: [bob]"))
		}
	}
	for i := range r.IntN(4) {
		kind, place, subject := pick("Role", "ClusterRole"), "", pick("kind: User, name: ann", "kind: User, name: bob", "kind: Group, name: dev", `kind: Group, name: "system:authenticated"`)
		if kind == "Role" {
			place = ", namespace: team"
		}
		fmt.Fprintf(&out, "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: %[1]s\nmetadata: {name: b%[2]d%[3]s}\nrules: [{apiGroups: [\"\", apps], resources: [%[4]s], verbs: [%[5]s]%[6]s}]\n---\n"+
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: %[1]sBinding\nmetadata: {name: b%[2]d%[3]s}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: %[1]s, name: b%[2]d}\nsubjects: [{apiGroup: rbac.authorization.k8s.io, %[7]s}]\n",
			kind, i, place, pick(of.rbac...), pick("create", "update, patch", "delete", "create, update, patch, delete, deletecollection", `"*"`), pick("", "", ", resourceNames: [x]"), subject)
	}
	return out.String()
}

// about is a random request.
func about(r *rand.Rand, of topic) Question {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	at, name := of.places[r.IntN(len(of.places))], pick("x", "w", "v")
	q := Question{User: &user.DefaultInfo{Name: pick("ann", "ann", "bob"), Groups: []string{user.AllAuthenticated, pick("dev", "ops", "none")}}, Kind: at.kind, Namespace: pick("team", "team", "other"),
		Verb: pick("create", "update", "patch", "delete", "deletecollection")}
	switch {
	case at.kind == "pods/eviction":
		q.Verb = "create"
	case strings.Contains(at.kind, "/"):
		q.Verb = pick("update", "patch")
	case at.kind == "namespaces" && q.Verb == "deletecollection":
		q.Verb = "delete" // namespaces have none
	}
	written := func() map[string]any {
		m := map[string]any{"name": name}
		if at.kind != "namespaces" {
			m["namespace"] = q.Namespace
		}
		if at.kind != "pods/eviction" && r.IntN(3) > 0 {
			m["labels"] = map[string]any{pick("env", "free"): pick("prod", "test")}
		}
		return object(at.apiVersion, at.name, m)
	}
	if at.kind == "namespaces" {
		if q.Namespace = ""; q.Verb != "create" {
			name = pick("team", "other")
			q.Namespace = name
		}
	}
	if q.Verb != "create" && q.Verb != "deletecollection" || at.kind == "pods/eviction" {
		q.Name = name
	}
	switch q.Object = written(); q.Verb {
	case "update", "patch":
		q.OldObject = written()
	case "delete", "deletecollection":
		q.Object, q.OldObject = nil, q.Object
	}
	return q
}

// MC-2, MC-7: rules that are compiled, in the evaluator of Kubernetes, allow nothing that the engine refuses.
// PROVISO_MANAGED_LAW is how many requests there are.
func TestCompiledRulesLaw(t *testing.T) {
	total, err := strconv.Atoi(cmp.Or(os.Getenv("PROVISO_MANAGED_LAW"), "1200"))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for seed, n := uint64(1), 0; n < total; seed++ {
		r := rand.New(rand.NewPCG(seed, 7))
		of := topics[r.IntN(len(topics))]
		text := ruled(r, of)
		if text == "" {
			continue
		}
		if result, err := compiled(t, text); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		} else if len(result.Impossible()) > 0 {
			counts["impossible"]++
			continue
		}
		host, there := both(t, text)
		for range 40 {
			n++
			q := about(r, of)
			want, why := here(t, host, q)
			got, err := there.Decide(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(why, "the pod that the eviction would delete is not known") {
				counts["not known here"]++ // the report says that such a deny does not reach evictions
				continue
			}
			allowed := got.Decision == "Allow"
			counts[fmt.Sprintf("%v %v", want, allowed)]++
			if allowed && !want {
				old, _ := json.Marshal(q.OldObject)
				object, _ := json.Marshal(q.Object)
				t.Errorf("seed %d: %s %v may %s %s %q in %q: here %v (%s), there %+v\n%s\n%s\n%s", seed, q.User.GetName(), q.User.GetGroups(), q.Verb, q.Kind, q.Name, q.Namespace, want, why, got, old, object, text)
				break
			}
		}
	}
	t.Log(counts)
	if counts["true true"] == 0 || counts["false false"] == 0 {
		t.Error("it decides nothing")
	}
}
