package protectedattr

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var (
	releaseManagers = Role{Kind: KindClusterRole, Name: "release-managers"}
	testers         = Role{Kind: KindClusterRole, Name: "testers"}
	owners          = Role{Kind: KindRole, Namespace: "hammer", Name: "owners"}
)

// members makes a Member function that holds everywhere for the given roles.
func members(roles ...Role) func(string, Role) bool {
	return func(_ string, r Role) bool {
		for _, have := range roles {
			if have == r {
				return true
			}
		}
		return false
	}
}

func podWith(labels, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "hammer", Labels: labels, Annotations: annotations}}
}

func podRequest(roles ...Role) *Request {
	return &Request{User: "edgar", Groups: []string{"team-a"}, Resource: "pods", Namespace: "hammer", Name: "p", Member: members(roles...)}
}

func mustIndex(t testing.TB, protections ...Protection) *Index {
	t.Helper()
	ix, err := New(Config{Protections: protections})
	if err != nil {
		t.Fatal(err)
	}
	return ix
}

func clusterLabel(name, key string, role Role, values ...string) Protection {
	return Protection{Name: name, Attribute: Label, Key: key, Role: role, Values: values}
}

func namespaced(p Protection, namespace string) Protection {
	p.Namespace = namespace
	return p
}

type kv = map[string]string

// PA-2, PA-5: what is set, replaced or removed is checked, what stays is not, and values that nobody covers are free.
func TestSetReplaceRemove(t *testing.T) {
	ix := mustIndex(t,
		clusterLabel("env-prod", "env", releaseManagers, "prod", "live"),
		clusterLabel("env-test", "env", testers, "test", "dev"),
		clusterLabel("tier", "example.com/tier", testers),
		Protection{Name: "build", Attribute: Annotation, Key: "build.example.com/id", Role: releaseManagers})
	for _, tc := range []struct {
		name     string
		old, new *corev1.Pod
		member   []Role
		want     string // "" means allowed
	}{
		{name: "set", new: podWith(kv{"env": "prod"}, nil),
			want: `label env=prod is protected by ClusterProtectedAttribute "env-prod"; changing it requires being bound to ClusterRole "release-managers"`},
		{name: "set by a member", new: podWith(kv{"env": "prod"}, nil), member: []Role{releaseManagers}},
		{name: "set by a member of another role", new: podWith(kv{"env": "prod"}, nil), member: []Role{testers}, want: "label env=prod "},
		{name: "free value", new: podWith(kv{"env": "staging"}, nil)},
		{name: "free key", new: podWith(kv{"example.com/env": "prod"}, nil)},
		{name: "label of an annotation's name", new: podWith(kv{"build.example.com/id": "7"}, nil)},
		{name: "annotation of a label's name", new: podWith(nil, kv{"env": "prod"})},
		{name: "annotation, any value", new: podWith(nil, kv{"build.example.com/id": "7"}),
			want: `annotation build.example.com/id=7 is protected by ClusterProtectedAttribute "build"; changing it requires being bound to ClusterRole "release-managers"`},
		{name: "any value, empty", new: podWith(kv{"example.com/tier": ""}, nil), want: "label example.com/tier= is protected"},
		{name: "untouched", old: podWith(kv{"env": "prod", "a": "1"}, nil), new: podWith(kv{"env": "prod", "a": "2"}, nil)},
		{name: "removed", old: podWith(kv{"env": "prod"}, nil), new: podWith(nil, nil), want: "label env=prod is protected"},
		{name: "removed by a member", old: podWith(kv{"env": "prod"}, nil), new: podWith(nil, nil), member: []Role{releaseManagers}},
		{name: "free value removed", old: podWith(kv{"env": "staging"}, nil), new: podWith(nil, nil)},
		{name: "replaced by a free value", old: podWith(kv{"env": "prod"}, nil), new: podWith(kv{"env": "staging"}, nil), want: "label env=prod is protected"},
		{name: "free value replaced by a protected one", old: podWith(kv{"env": "staging"}, nil), new: podWith(kv{"env": "prod"}, nil), want: "label env=prod is protected"},
		{name: "replaced across two roles, member of one", old: podWith(kv{"env": "test"}, nil), new: podWith(kv{"env": "prod"}, nil),
			member: []Role{releaseManagers}, want: `label env=test is protected by ClusterProtectedAttribute "env-test"; changing it requires being bound to ClusterRole "testers"`},
		{name: "replaced across two roles, member of both", old: podWith(kv{"env": "test"}, nil), new: podWith(kv{"env": "prod"}, nil), member: []Role{releaseManagers, testers}},
		{name: "replaced within one role", old: podWith(kv{"env": "live"}, nil), new: podWith(kv{"env": "prod"}, nil), member: []Role{releaseManagers}},
		{name: "empty value is not no value", old: podWith(kv{"example.com/tier": ""}, nil), new: podWith(nil, nil), want: "label example.com/tier= is protected"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var old any
			if tc.old != nil {
				old = tc.old
			}
			expect(t, ix.Check(podRequest(tc.member...), old, tc.new), tc.want)
		})
	}
}

// expect compares a result with the beginning of its message; an empty one means allowed.
func expect(t *testing.T, v Result, want string) {
	t.Helper()
	switch {
	case want == "" && !v.Allowed():
		t.Errorf("refused: %s", v.Reason())
	case want == "" && v.Reason() != "":
		t.Errorf("allowed with a reason: %s", v.Reason())
	case want != "" && v.Allowed():
		t.Errorf("allowed, want %s", want)
	case want != "" && !strings.HasPrefix(v.Reason(), want):
		t.Errorf("message\n got %s\nwant %s", v.Reason(), want)
	}
}

// PA-2: "role A may use dev and test, role B anything" is two objects.
func TestTwoObjectsOnOneAttribute(t *testing.T) {
	ix := mustIndex(t, clusterLabel("a", "env", testers, "dev", "test"), clusterLabel("b", "env", releaseManagers))
	for _, tc := range []struct {
		value string
		role  Role
		want  string
	}{
		{"dev", testers, ""},
		{"dev", releaseManagers, ""},
		{"prod", releaseManagers, ""},
		{"prod", testers, `label env=prod is protected by ClusterProtectedAttribute "b"; changing it requires being bound to ClusterRole "release-managers"`},
		{"dev", owners, `label env=dev is protected by ClusterProtectedAttribute "a" and ClusterProtectedAttribute "b"; changing it requires being bound to ClusterRole "testers" or ClusterRole "release-managers"`},
	} {
		expect(t, ix.Check(podRequest(tc.role), nil, podWith(kv{"env": tc.value}, nil)), tc.want)
	}
}

// PA-3: membership is asked in the namespace of the resource, and for a cluster-scoped one, a Namespace among them,
// without one. system:masters are members of everything, a role that cannot be bound has no member.
func TestMembership(t *testing.T) {
	ix := mustIndex(t, clusterLabel("env-prod", "env", releaseManagers, "prod"),
		clusterLabel("broken", "broken", Role{Kind: "Group", Name: "release-managers"}))
	asked := ""
	only := func(namespace string) func(string, Role) bool {
		return func(ns string, r Role) bool { asked = ns; return ns == namespace && r == releaseManagers }
	}
	labelled := podWith(kv{"env": "prod"}, nil)
	req := podRequest()
	req.Member = only("hammer")
	expect(t, ix.Check(req, nil, labelled), "")
	req.Member = only("anvil")
	expect(t, ix.Check(req, nil, labelled), "label env=prod")

	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "hammer", Labels: kv{"env": "prod"}}}
	nsReq := &Request{User: "edgar", Resource: "namespaces", Name: "hammer", Namespace: "hammer", Member: only("")}
	expect(t, ix.Check(nsReq, nil, ns), "")
	if asked != "" {
		t.Errorf("membership for a Namespace was asked in namespace %q", asked)
	}

	req = podRequest()
	req.Member = nil
	expect(t, ix.Check(req, nil, labelled), "label env=prod")
	req.Groups = append(req.Groups, "system:masters")
	expect(t, ix.Check(req, nil, labelled), "")

	broken := podWith(kv{"broken": "x"}, nil)
	everyone := podRequest()
	everyone.Member = func(string, Role) bool { return true }
	expect(t, ix.Check(everyone, nil, broken), "label broken=x")
}

// PA-4: each level is satisfied on its own, and a namespace's objects reach no other namespace.
func TestLevels(t *testing.T) {
	both := mustIndex(t, clusterLabel("env", "env", releaseManagers), namespaced(clusterLabel("local", "env", owners), "hammer"))
	labelled := podWith(kv{"env": "prod"}, nil)
	expect(t, both.Check(podRequest(), nil, labelled), `label env=prod is protected by ClusterProtectedAttribute "env"`)
	expect(t, both.Check(podRequest(owners), nil, labelled), `label env=prod is protected by ClusterProtectedAttribute "env"`)
	expect(t, both.Check(podRequest(releaseManagers), nil, labelled),
		`label env=prod is protected by ProtectedAttribute "local"; changing it requires being bound to Role "owners"`)
	expect(t, both.Check(podRequest(releaseManagers, owners), nil, labelled), "")

	local := mustIndex(t, namespaced(clusterLabel("local", "env", owners), "hammer"))
	elsewhere := podRequest()
	elsewhere.Namespace = "anvil"
	expect(t, local.Check(elsewhere, nil, labelled), "")
	expect(t, local.Check(podRequest(), nil, labelled), `label env=prod is protected by ProtectedAttribute "local"`)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "hammer", Labels: kv{"env": "prod"}}}
	expect(t, local.Check(&Request{Resource: "namespaces", Name: "hammer", Namespace: "hammer"}, nil, ns), "")
}

// PA-7: of several refusals the message names the one that is first in the object, whatever the order of maps.
func TestRefusalIsDeterministic(t *testing.T) {
	ix := mustIndex(t, clusterLabel("a", "aaa", testers), clusterLabel("b", "bbb", testers), clusterLabel("z", "zzz", testers),
		Protection{Name: "n", Attribute: Annotation, Key: "aa", Role: testers})
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Labels: kv{"zzz": "1", "bbb": "2", "x": "3"}, Annotations: kv{"aa": "4"}}}
	d.Spec.Template.Labels = kv{"aaa": "0"}
	req := &Request{User: "edgar", Group: "apps", Resource: "deployments", Namespace: "hammer"}
	for range 50 {
		expect(t, ix.Check(req, nil, d), "label bbb=2 is protected")
	}
}

// PA-7: values that are not fit for a line are quoted and cut.
func TestRefusalStaysReadable(t *testing.T) {
	ix := mustIndex(t, Protection{Name: "n", Attribute: Annotation, Key: "note", Role: testers})
	v := ix.Check(podRequest(), nil, podWith(nil, kv{"note": strings.Repeat("x\n", 100_000)}))
	if v.Allowed() || len(v.Reason()) > 500 || strings.Contains(v.Reason(), "\n") {
		t.Errorf("allowed %v, message of %d bytes", v.Allowed(), len(v.Reason()))
	}
}

// PA-9: nothing is protected by default, also by an index that was never built.
func TestNothingProtected(t *testing.T) {
	for _, ix := range []*Index{nil, mustIndex(t)} {
		expect(t, ix.Check(podRequest(), nil, podWith(kv{"env": "prod"}, nil)), "")
		if got := ix.Conditions(podRequest()); got != nil {
			t.Errorf("conditions %v", got)
		}
		if ix.GuardsRole(releaseManagers, "") {
			t.Error("guards a role")
		}
	}
}

// A result that nobody has filled in refuses.
func TestZeroVerdictRefuses(t *testing.T) {
	var v Result
	if v.Allowed() || v.Reason() == "" {
		t.Errorf("zero result: allowed %v, reason %q", v.Allowed(), v.Reason())
	}
}

// Bodies that cannot be examined are refused, and null reads as Kubernetes decodes it.
func TestMalformedBodies(t *testing.T) {
	ix := mustIndex(t, clusterLabel("env", "env", releaseManagers))
	body := func(metadata any) map[string]interface{} { return map[string]interface{}{"metadata": metadata} }
	labels := func(v any) map[string]interface{} {
		return body(map[string]interface{}{"labels": map[string]interface{}{"env": v}})
	}
	var nilPod *corev1.Pod
	for _, tc := range []struct {
		name     string
		old, new any
		want     string
	}{
		{"no metadata", nil, map[string]interface{}{}, ""},
		{"metadata is text", nil, body("x"), "protected attributes could not be examined: metadata is not an object"},
		{"labels are a list", nil, body(map[string]interface{}{"labels": []interface{}{}}), "protected attributes could not be examined: metadata.labels is not a map"},
		{"protected value is a number", nil, labels(int64(1)), `protected attributes could not be examined: label "env": its value is not a string`},
		{"stored value is a number", labels(int64(1)), labels("x"), "protected attributes could not be examined"},
		{"null is a value", nil, labels(nil), "label env= is protected"},
		{"null and empty are the same", labels(nil), labels(""), ""},
		{"unprotected value is a number", nil, body(map[string]interface{}{"labels": map[string]interface{}{"x": int64(1)}}), ""},
		{"not an object", nil, 7, "protected attributes could not be examined: object of type int"},
		{"nothing at all", nil, nil, ""},
		{"typed nil", nilPod, nilPod, ""},
		{"typed nil is no object", nilPod, podWith(kv{"env": "x"}, nil), "label env=x is protected"},
		{"empty unstructured is no object", &unstructured.Unstructured{}, podWith(kv{"env": "x"}, nil), "label env=x is protected"},
		{"no metadata in the type", nil, &corev1.PodExecOptions{}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := &Request{User: "edgar", Resource: "widgets", Group: "example.com", Namespace: "hammer"}
			expect(t, ix.Check(req, tc.old, tc.new), tc.want)
		})
	}
}
