package policychange

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/state/journal"
)

func roleNamed(name string, verbs ...any) map[string]any {
	return map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": name},
		"rules": []any{map[string]any{"verbs": verbs, "apiGroups": []any{""}, "resources": []any{"pods"}}}}
}

func raw(t *testing.T, content map[string]any) json.RawMessage {
	t.Helper()
	if content == nil {
		return nil
	}
	text, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TR-15: whatever is changed in whatever order, undoing the journal gives the policy of every revision, and putting the
// difference into effect leads back to it.
func TestAsOf(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		live := map[string]map[string]any{}
		var entries []journal.Entry
		states := map[uint64]string{}
		print := func() string {
			var all []string
			for _, name := range []string{"a", "b", "c"} {
				if live[name] != nil {
					all = append(all, string(raw(t, live[name])))
				}
			}
			return strings.Join(all, "\n")
		}
		for revision := uint64(10); revision < 22; revision++ {
			name := string(rune('a' + rng.IntN(3)))
			e := journal.Entry{Revision: revision, Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: name, Before: raw(t, live[name])}
			if live[name] != nil && rng.IntN(3) == 0 {
				delete(live, name)
			} else {
				live[name] = roleNamed(name, fmt.Sprint(revision))
				e.After = raw(t, live[name])
			}
			entries = append(entries, e)
			states[revision] = print()
		}
		var now []manifests.Document
		for _, content := range live {
			now = append(now, manifests.Of(&unstructured.Unstructured{Object: content}))
		}
		for revision, want := range states {
			then, err := AsOf(now, entries, revision)
			if err != nil {
				t.Fatal(err)
			}
			put, remove := difference(now, then)
			after, err := Applied(now, put, false, false)
			if err != nil {
				t.Fatal(err)
			}
			if len(remove) > 0 {
				if after, err = Applied(after, remove, true, false); err != nil {
					t.Fatal(err)
				}
			}
			live = map[string]map[string]any{}
			for _, d := range after {
				live[d.Object.GetName()] = d.Object.Object
			}
			if got := print(); got != want {
				t.Fatalf("at %d\n%s\nwant\n%s", revision, got, want)
			}
		}
	}
}

// A change of which nobody knows whether it was made is undone if it was; one that was too large ends the way back; and
// nothing is shown of what the journal does not reach, or does not show.
func TestAsOfLimits(t *testing.T) {
	now := []manifests.Document{manifests.Of(&unstructured.Unstructured{Object: roleNamed("a", "get")})}
	entry := journal.Entry{Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "a", Before: raw(t, roleNamed("a", "list"))}
	for want, after := range map[string]map[string]any{"list": roleNamed("a", "get"), "get": roleNamed("a", "watch")} {
		e := entry
		e.After = raw(t, after)
		// Entries without a revision have their place by when they were written, which only the server knows: undo all.
		history := []journal.Entry{e}
		then, err := asOfAll(now, history)
		if err != nil || len(then) != 1 || !strings.Contains(string(essence(then[0].Object)), want) {
			t.Errorf("want %s: %v %v", want, then, err)
		}
	}
	large := entry
	large.Revision, large.TooLarge = 20, true
	if _, err := AsOf(now, []journal.Entry{large}, 10); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("too large: %v", err)
	}
	known := &journal.History{Entries: []journal.Entry{{Revision: 20}, {Revision: 30}}}
	for name, want := range map[string]string{"19": "begins at revision 20", "x": "is not a revision", "20": "", "25": "", "30": "", "31": "the newest change is revision 30", "99999999": "there is no revision", "now": ""} {
		if _, err := RevisionOf(name, known); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := RevisionOf("25", &journal.History{Entries: known.Entries, Hidden: 3}); err == nil || !strings.Contains(err.Error(), "3 changes of objects that you may not get") {
		t.Errorf("hidden: %v", err)
	}
}

// TR-15: roles and role bindings of Policy are rolled back one by one, what binds after what is bound.
func TestSteps(t *testing.T) {
	object := func(text string) manifests.Document {
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		return manifests.Of(o)
	}
	policy := func(roles string) manifests.Document {
		return object(`{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"Policy","metadata":{"name":"default","namespace":"a","resourceVersion":"9"},"roles":` + roles + `}`)
	}
	binding := object(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"b","namespace":"a","resourceVersion":"7"}}`)
	role := object(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"r","namespace":"a"}}`)
	other := object(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"b","namespace":"a"},"roleRef":{"name":"other"}}`)
	rule := object(`{"apiVersion":"access.proviso.dev/v1alpha1","kind":"AccessRule","metadata":{"name":"on-call"}}`)
	bindings := func(policyOf, text string) manifests.Document {
		return object(`{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"PolicyBinding","metadata":{"name":"` + policyOf + `","namespace":"a"},"policyRef":{"namespace":"` + policyOf + `"},"roleBindings":` + text + `}`)
	}
	for _, test := range []struct {
		name             string
		now, put, remove []manifests.Document
		want             string
	}{
		{"an object", []manifests.Document{binding}, []manifests.Document{binding, role}, nil, "create Role.rbac.authorization.k8s.io a/r; update RoleBinding.rbac.authorization.k8s.io a/b"},
		{"a rule by which a role is asked for", nil, []manifests.Document{rule, role}, nil, "create Role.rbac.authorization.k8s.io a/r; create AccessRule.access.proviso.dev on-call"},
		{"deletions of them", []manifests.Document{rule, role}, nil, []manifests.Document{role, rule}, "delete AccessRule.access.proviso.dev on-call; delete Role.rbac.authorization.k8s.io a/r"},
		{"deletions", []manifests.Document{binding, role}, nil, []manifests.Document{role, binding}, "delete RoleBinding.rbac.authorization.k8s.io a/b; delete Role.rbac.authorization.k8s.io a/r"},
		{"inside a container", []manifests.Document{policy(`{"x":{"rules":[1]},"y":{},"z":{}}`)}, []manifests.Document{policy(`{"x":{"rules":[2]},"y":{},"w":{}}`)}, nil,
			"create Role.authorization.proviso.dev a/w; update Role.authorization.proviso.dev a/x; delete Role.authorization.proviso.dev a/z"},
		{"a container that is gone", nil, []manifests.Document{policy(`{"x":{}}`)}, nil, "create Policy.policy.proviso.dev a/default; create Role.authorization.proviso.dev a/x"},
		{"a container that was not there", []manifests.Document{policy(`{"x":{}}`)}, nil, []manifests.Document{policy(`{"x":{}}`)}, "delete Role.authorization.proviso.dev a/x; delete Policy.policy.proviso.dev a/default"},
		{"a binding of another role", []manifests.Document{binding}, []manifests.Document{other, role}, nil,
			"create Role.rbac.authorization.k8s.io a/r; delete RoleBinding.rbac.authorization.k8s.io a/b; create RoleBinding.rbac.authorization.k8s.io a/b"},
		{"a binding that moves to another container", []manifests.Document{bindings("a", `{"b":{"roleName":"r"}}`), bindings("master", `{}`)}, []manifests.Document{bindings("a", `{}`), bindings("master", `{"b":{"roleName":"r"}}`)}, nil,
			"delete RoleBinding.authorization.proviso.dev a/b; create RoleBinding.authorization.proviso.dev a/b"},
	} {
		var got []string
		for _, s := range steps(test.now, test.put, test.remove) {
			got = append(got, s.verb+" "+manifests.Key(s.object))
			if resource, err := resourceOf(s.object); err != nil || resource.Resource == "" {
				t.Errorf("%s: %v", test.name, err)
			}
		}
		if strings.Join(got, "; ") != test.want {
			t.Errorf("%s: %s\nwant %s", test.name, strings.Join(got, "; "), test.want)
		}
	}
}

// A role binding of Policy names its role as its container says, and as it was written.
func TestViews(t *testing.T) {
	c := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(`{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"PolicyBinding","metadata":{"name":"master","namespace":"a"},"policyRef":{"namespace":"master"},
		"roleBindings":{"x":{"roleName":"view","userNames":["vera"]},"y":{"roleName":"view","spellings":["roleName","referencesGlobalRole"]},
		"z":{"roleName":"edit","roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"edit"},"notAfter":"2997-01-01T00:00:00Z","userNames":["vera"]}}}`), &c.Object); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"x": `{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"RoleBinding","metadata":{"name":"x","namespace":"a"},"roleRef":{"name":"view","namespace":"master"},"userNames":["vera"]}`,
		"y": `{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"RoleBinding","metadata":{"name":"y","namespace":"a"},"referencesGlobalRole":true,"roleName":"view","roleRef":{"name":"view","namespace":"master"}}`,
		"z": `{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"RoleBinding","metadata":{"name":"z","namespace":"a"},"notAfter":"2997-01-01T00:00:00Z","roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"edit"},"userNames":["vera"]}`,
	} {
		if got := essence(views(c, "roleBindings")[name]); string(got) != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// What a server serves is as much part of an earlier policy as of today's.
func TestAsOfKeepsWhatIsServed(t *testing.T) {
	now := []manifests.Document{manifests.Of(&unstructured.Unstructured{Object: roleNamed("a", "get")})}
	for _, version := range []string{"v1", "apps/v1"} {
		now = append(now, manifests.Of(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": version}}))
	}
	then, err := AsOf(now, []journal.Entry{{Revision: 20, Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "a", After: raw(t, roleNamed("a", "get"))}}, 10)
	if err != nil || len(then) != 2 || then[0].Key() == then[1].Key() {
		t.Errorf("%v %v", then, err)
	}
}

// What changed in a container is named.
func TestInside(t *testing.T) {
	e := journal.Entry{Resource: "policies", Before: json.RawMessage(`{"roles":{"a":{"rules":[1]},"b":{},"c":{}}}`), After: json.RawMessage(`{"roles":{"a":{"rules":[2]},"b":{},"d":{}}}`)}
	if got := Inside(&e); got != "~a -c +d" {
		t.Error(got)
	}
}
