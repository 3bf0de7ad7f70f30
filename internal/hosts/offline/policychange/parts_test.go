package policychange

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/state/journal"
)

// holding is a container of Policy with roles, each with one verb.
func holding(namespace string, roles map[string]string) map[string]any {
	inside := map[string]any{}
	for name, verb := range roles {
		inside[name] = map[string]any{"metadata": map[string]any{"name": name, "namespace": namespace}, "rules": []any{map[string]any{"verbs": []any{verb}, "resourceKinds": []any{"pods"}}}}
	}
	return map[string]any{"apiVersion": "policy.proviso.dev/v1alpha1", "kind": "Policy", "metadata": map[string]any{"name": "default", "namespace": namespace}, "roles": inside}
}

func said(documents []manifests.Document) string {
	var lines []string
	for _, d := range documents {
		lines = append(lines, d.Key()+" "+string(essence(d.Object)))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TR-20: on random changes, what is selected is what it was, and the rest is as it is; an undone change leaves no
// trace, and takes nothing with it but later changes of the same roles.
func TestPartsGoBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	namespaces, names := []string{"a", "b"}, []string{"dev", "ops", "qa"}
	for range 200 {
		live := map[string]map[string]string{"a": {}, "b": {}}
		documents := func() (out []manifests.Document) {
			for _, namespace := range namespaces {
				out = append(out, manifests.Of(&unstructured.Unstructured{Object: holding(namespace, live[namespace])}))
			}
			return Parts(out)
		}
		states := []string{said(documents())}
		texts := [][]manifests.Document{documents()}
		var entries []journal.Entry
		for i := range 12 {
			namespace, name := namespaces[rng.IntN(2)], names[rng.IntN(3)]
			before := raw(t, holding(namespace, live[namespace]))
			if _, there := live[namespace][name]; there && rng.IntN(2) == 0 {
				delete(live[namespace], name)
			} else {
				live[namespace][name] = fmt.Sprintf("verb%d", i)
			}
			entries = append(entries, journal.Entry{Revision: uint64(10 + i), Time: time.Unix(int64(1000+i), 0), Verb: "update", Group: "policy.proviso.dev", Resource: "policies", Namespace: namespace, Name: "default",
				Before: before, After: raw(t, holding(namespace, live[namespace]))})
			states, texts = append(states, said(documents())), append(texts, documents())
		}
		now := documents()
		at := rng.IntN(12)
		all, err := PartsAsOf(now, entries, uint64(10+at), Selection{})
		if err != nil || said(all) != states[at+1] {
			t.Fatalf("%v\n%s\nwant\n%s", err, said(all), states[at+1])
		}
		some, err := PartsAsOf(now, entries, uint64(10+at), Selection{Namespace: "a", Roles: []string{"dev"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"dev", "ops", "qa"} {
			for _, namespace := range namespaces {
				want := texts[at+1]
				if namespace != "a" || key != "dev" {
					want = now
				}
				if got, want := only(some, namespace, key), only(want, namespace, key); got != want {
					t.Fatalf("%s/%s is %s, want %s", namespace, key, got, want)
				}
			}
		}
		then, with, err := Undo(now, entries, uint64(10+at))
		if err != nil {
			t.Fatal(err)
		}
		touched, err := undoneBy(&entries[at])
		if err != nil {
			t.Fatal(err)
		}
		for _, namespace := range namespaces {
			for _, key := range names {
				want := now
				if slices.ContainsFunc(touched, func(u undone) bool { return strings.HasSuffix(u.key, " "+namespace+"/"+key) }) {
					want = texts[at]
				}
				if got, want := only(then, namespace, key), only(want, namespace, key); got != want {
					t.Fatalf("undo %d: %s/%s is %s, want %s (with %d others)", at, namespace, key, got, want, len(with))
				}
			}
		}
	}
}

// only is one role.
func only(documents []manifests.Document, namespace, name string) string {
	return said(slices.DeleteFunc(slices.Clone(documents), func(d manifests.Document) bool {
		return d.Object.GetKind() != "Role" || d.Object.GetNamespace() != namespace || d.Object.GetName() != name
	}))
}

// TR-20: a moment is a revision or a time, and what the journal does not know is an error.
func TestMoments(t *testing.T) {
	clock := time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
	history := &journal.History{Entries: []journal.Entry{{Revision: 10, Time: clock.Add(-3 * time.Hour)}, {Revision: 20, Time: clock.Add(-time.Hour)}}}
	for text, want := range map[string]uint64{"10": 10, "15": 15, "20": 20, "2h": 10, "30m": 20, "2026-11-17T10:30:00Z": 10, "2026-11-17 11:30": 20} {
		if got, err := MomentOf(text, history, clock); err != nil || got != want {
			t.Errorf("%s: %d %v, want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{"99999999": "there is no revision", "9": "begins at revision 10", "4h": "does not reach back", "3d": "does not reach back", "2027-01-01": "in the future", "soon": "neither a revision"} {
		if _, err := MomentOf(text, history, clock); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TR-20: undoing the creation of a role takes the bindings of it away.
func TestUndoTakesBindingsAlong(t *testing.T) {
	role := roleNamed("new", "get")
	binding := map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": "b"},
		"roleRef": map[string]any{"kind": "ClusterRole", "name": "new", "apiGroup": "rbac.authorization.k8s.io"}}
	other := map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": "c"},
		"roleRef": map[string]any{"kind": "ClusterRole", "name": "old", "apiGroup": "rbac.authorization.k8s.io"}}
	var now []manifests.Document
	for _, o := range []map[string]any{role, binding, other, roleNamed("old", "get")} {
		now = append(now, manifests.Of(&unstructured.Unstructured{Object: o}))
	}
	entries := []journal.Entry{{Revision: 5, Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "new", After: raw(t, role)}}
	then, _, err := Undo(now, entries, 5)
	if err != nil || len(then) != 2 || strings.Contains(said(then), "new") {
		t.Fatalf("%v\n%s", err, said(then))
	}
	if _, _, err := Undo(now, entries, 6); err == nil || !strings.Contains(err.Error(), "no change that you may see has revision 6") {
		t.Errorf("%v", err)
	}
}

// TR-15, TR-20, TM-1: a binding of Policy to a ClusterRole, with an end, goes back exactly: it does not bind a role of
// Policy with the same name, and the plan says who gains by it.
func TestBindingsOfClusterRolesGoBack(t *testing.T) {
	const stored = `{roleName: r, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}, notAfter: "2997-01-01T00:00:00Z", userNames: [bob]}`
	const want = "authorization.proviso.dev/v1alpha1 RoleBinding shop/b map[apiGroup:rbac.authorization.k8s.io kind:ClusterRole name:r] <nil> 2997-01-01T00:00:00Z"
	container := func(bindings string) string {
		return "apiVersion: policy.proviso.dev/v1alpha1\nkind: PolicyBinding\nmetadata: {name: master, namespace: shop}\npolicyRef: {namespace: master}\nroleBindings: {" + bindings + "}"
	}
	// What a role of Policy of the same name allows must not be what comes back.
	others := role("r", "", `{verbs: [get], apiGroups: [""], resources: [pods]}`) + `
---
apiVersion: policy.proviso.dev/v1alpha1
kind: Policy
metadata: {name: default, namespace: master}
roles: {r: {rules: [{verbs: [delete], resourceKinds: [secrets]}]}}
---
`
	entry := func(before, after string) []journal.Entry {
		return []journal.Entry{
			{Revision: 5, Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "unrelated", After: raw(t, roleNamed("unrelated", "get"))},
			{Revision: 6, Verb: "update", Group: "policy.proviso.dev", Resource: "policybindings", Namespace: "shop", Name: "master",
				Before: raw(t, documents(t, before)[0].Object.Object), After: raw(t, documents(t, after)[0].Object.Object)},
		}
	}
	with, without := container("b: "+stored), container("")
	now := Parts(documents(t, others+without))
	rolled, err := PartsAsOf(now, entry(with, without), 5, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	undone, _, err := Undo(now, entry(with, without), 6)
	if err != nil {
		t.Fatal(err)
	}
	for name, then := range map[string][]manifests.Document{"rollback": rolled, "undo": undone} {
		all := Steps(now, then)
		if len(all) != 1 || all[0].verb != "create" {
			t.Fatalf("%s: %v", name, all)
		}
		o := all[0].object
		if got := fmt.Sprint(o.GetAPIVersion(), " ", o.GetKind(), " ", o.GetNamespace(), "/", o.GetName(), " ", o.Object["roleRef"], " ", o.Object["roleName"], " ", o.Object["notAfter"]); got != want {
			t.Errorf("%s: %s\nwant %s", name, got, want)
		}
		report, err := Compare(t.Context(), now, then, "master")
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Changes) != 1 || report.Changes[0].Verb != "get" || report.Changes[0].Resource != "pods" {
			t.Errorf("%s: the plan is %+v and %q", name, report.Changes, report.Unknown)
		}
	}
}

// TR-20: undoing the creation of a ClusterRole takes away the bindings of Policy to it, too.
func TestUndoTakesBindingsOfPolicyAlong(t *testing.T) {
	const bound = `
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: b, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}
userNames: [bob]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: c, namespace: shop}
roleRef: {namespace: master, name: r}
userNames: [bob]`
	made := role("r", "", "")
	entries := []journal.Entry{{Revision: 5, Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "r", After: raw(t, documents(t, made)[0].Object.Object)}}
	then, _, err := Undo(documents(t, made+bound), entries, 5)
	if err != nil || len(then) != 1 || then[0].Object.GetName() != "c" {
		t.Errorf("%v\n%s", err, said(then))
	}
}

// TR-15, TK-6: revocations of tokens are left as they are: those that were made since cannot be deleted, and those that
// the server has deleted since are over. A change of one cannot be undone.
func TestRevocationsStay(t *testing.T) {
	revocation := func(name string) string {
		return "apiVersion: access.proviso.dev/v1alpha1\nkind: TokenRevocation\nmetadata: {name: " + name + "}\nspec: {userNames: [mona]}"
	}
	of := func(name string, e journal.Entry) journal.Entry {
		e.Group, e.Resource, e.Name = "access.proviso.dev", "tokenrevocations", name
		return e
	}
	content := func(name string) json.RawMessage { return raw(t, documents(t, revocation(name))[0].Object.Object) }
	entries := []journal.Entry{
		{Revision: 5, Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "unrelated", After: raw(t, roleNamed("unrelated", "get"))},
		{Revision: 6, Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "r", Before: raw(t, roleNamed("r", "get")), After: raw(t, roleNamed("r", "list"))},
		of("new", journal.Entry{Revision: 7, Verb: journal.Create, After: content("new")}),
		of("swept", journal.Entry{Revision: 8, Verb: journal.Delete, Before: content("swept")}),
		of("large", journal.Entry{Revision: 9, Verb: journal.Create, TooLarge: true}),
	}
	now := Parts(append(documents(t, revocation("new")+"\n---\n"+revocation("large")), manifests.Of(&unstructured.Unstructured{Object: roleNamed("r", "list")})))
	then, err := PartsAsOf(now, entries, 5, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(Steps(now, then)); got != "[update ClusterRole.rbac.authorization.k8s.io r]" {
		t.Error(got)
	}
	for revision := range uint64(3) {
		if _, _, err := Undo(now, entries, 7+revision); err == nil || !strings.Contains(err.Error(), "a revocation cannot be undone") {
			t.Errorf("undo %d: %v", 7+revision, err)
		}
	}
}
