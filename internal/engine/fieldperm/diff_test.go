package fieldperm

import (
	"math/rand"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// changed lists changed fields as text.
func changed(t testing.TB, old, new *typed.TypedValue) []string {
	t.Helper()
	paths, err := changedFields(old, new)
	if err != nil {
		t.Fatal(err)
	}
	texts := make([]string, len(paths))
	for i, p := range paths {
		texts[i] = p.String()
	}
	return texts
}

// FP-7: sets, maps and keyed lists are compared as such, atomic and schemaless values as one, identity never counts.
func TestChangedFields(t *testing.T) {
	for _, tc := range []struct{ name, old, new, want string }{
		{"nothing", "spec: {level: a}", "spec: {level: a}", ""},
		{"scalar", "spec: {level: a}", "spec: {level: b}", ".spec.level"},
		{"added and removed", "spec: {level: a}", "spec: {count: 1}", ".spec.count .spec.level"},
		{"identity", "metadata: {name: a, namespace: n, uid: u, resourceVersion: '1', generation: 1, creationTimestamp: x, managedFields: [], deletionTimestamp: x, deletionGracePeriodSeconds: 1, selfLink: s}", "{metadata: {name: b}}", ""},
		{"generateName", "metadata: {generateName: a}", "metadata: {generateName: b}", ".metadata.generateName"},
		{"labels", "metadata: {labels: {a: '1', b: '2'}}", "metadata: {labels: {b: '3', example.com/c: '4'}}", ".metadata.labels[a] .metadata.labels[b] .metadata.labels[example.com/c]"},
		{"finalizers reordered", "metadata: {finalizers: [a, b]}", "metadata: {finalizers: [b, a]}", ""},
		{"finalizers", "metadata: {finalizers: [a, b]}", "metadata: {finalizers: [b, x.com/c]}", ".metadata.finalizers[a] .metadata.finalizers[x.com/c]"},
		{"owner", "metadata: {ownerReferences: [{uid: u, name: a}]}", "metadata: {ownerReferences: [{uid: u, name: b}]}", ".metadata.ownerReferences[u].name"},
		{"set reordered", "spec: {tags: [a, b]}", "spec: {tags: [b, a]}", ""},
		{"set", "spec: {tags: [a, b]}", "spec: {tags: [c, a]}", ".spec.tags[b] .spec.tags[c]"},
		{"set with a double", "spec: {tags: [a]}", "spec: {tags: [a, a]}", ".spec.tags[a]"},
		{"list is one value", "spec: {args: [a, b]}", "spec: {args: [b, a]}", ".spec.args"},
		{"map", "spec: {limits: {cpu: '1'}}", "spec: {limits: {cpu: '2', mem: x}}", ".spec.limits[cpu] .spec.limits[mem]"},
		{"keyed list reordered", "spec: {parts: [{name: a, size: 1}, {name: b}]}", "spec: {parts: [{name: b}, {name: a, size: 1}]}", ""},
		{"keyed list", "spec: {parts: [{name: a, size: 1}, {name: b}]}", "spec: {parts: [{name: b, size: 3}, {name: a, size: 2}]}", ".spec.parts[a].size .spec.parts[b].size"},
		{"element added", "spec: {parts: [{name: a}]}", "spec: {parts: [{name: a}, {name: b, size: 1}]}", ".spec.parts[b].name .spec.parts[b].size"},
		{"element removed", "spec: {parts: [{name: a}, {name: b, size: 1}]}", "spec: {parts: [{name: a}]}", ".spec.parts[b].name .spec.parts[b].size"},
		{"two keys, one by default", "spec: {ports: [{port: 80, note: a}]}", "spec: {ports: [{port: 80, protocol: TCP, note: b}]}", `.spec.ports[port=80,protocol=TCP].note .spec.ports[port=80,protocol=TCP].protocol`},
		{"same port, other protocol", "spec: {ports: [{port: 80, protocol: TCP}]}", "spec: {ports: [{port: 80, protocol: UDP}]}",
			".spec.ports[port=80,protocol=TCP].port .spec.ports[port=80,protocol=TCP].protocol .spec.ports[port=80,protocol=UDP].port .spec.ports[port=80,protocol=UDP].protocol"},
		{"element without a key", "spec: {parts: [{size: 1}]}", "spec: {parts: [{size: 2}]}", ".spec.parts"},
		{"atomic object", "spec: {colour: {r: 1}}", "spec: {colour: {r: 2}}", ".spec.colour"},
		{"schemaless", "spec: {config: {a: {b: 1}}}", "spec: {config: {a: {b: 2}}}", ".spec.config"},
		{"unknown beside known", "spec: {partly: {known: a, x: {y: 1}}}", "spec: {partly: {known: b, x: {y: 2}}}", ".spec.partly.known .spec.partly.x"},
		{"absent and empty object", "spec: {}", "spec: {colour: {}}", ".spec.colour"},
		{"absent and empty map", "spec: {level: a}", "spec: {level: a, limits: {}}", ".spec.limits"},
		{"null and empty map", "spec: {limits: null}", "spec: {limits: {}}", ""},
		{"null and empty set", "spec: {tags: null}", "spec: {tags: []}", ""},
		{"null and empty, nullable", "spec: {maybe: null}", "spec: {maybe: []}", ".spec.maybe"},
		{"null and empty object", "spec: {partly: null}", "spec: {partly: {}}", ".spec.partly"},
		{"null and absent", "spec: {level: null}", "spec: {count: 1}", ".spec.count .spec.level"},
		{"null and null", "spec: {level: null}", "spec: {level: null}", ""},
		{"emptied map", "spec: {limits: {a: b}}", "spec: {limits: {}}", ".spec.limits[a]"},
		{"map becomes null", "spec: {limits: {a: b}}", "spec: {limits: null}", ".spec.limits[a]"},
		{"another sort of value", "spec: {limits: {a: b}}", "spec: {limits: [1]}", ".spec.limits"},
		{"whole and float", "spec: {count: 1}", "spec: {count: 1.0}", ""},
		{"condition", "status: {conditions: [{type: Ready, status: 'True'}]}", "status: {conditions: [{type: Ready, status: 'False'}]}", ".status.conditions[Ready].status"},
		{"create", "", "{metadata: {name: a, generateName: b, labels: {x: y}}, spec: {level: a, colour: {}}}", ".metadata.labels[x] .spec.colour .spec.level"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := strings.Join(changed(t, widget(t, tc.old), widget(t, tc.new)), " "); got != tc.want {
				t.Errorf("\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

// FP-7: an object without any schema still has metadata, and each of its other fields is one value.
func TestSchemalessObject(t *testing.T) {
	value := func(labels map[string]interface{}, data any) *typed.TypedValue {
		v, err := typed.DeducedParseableType.FromUnstructured(map[string]interface{}{
			"kind": "X", "metadata": map[string]interface{}{"labels": labels, "finalizers": []interface{}{"a"}}, "data": data,
		})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	old := value(map[string]interface{}{"a": "1"}, map[string]interface{}{"x": int64(1), "y": int64(2)})
	new := value(map[string]interface{}{"a": "2"}, map[string]interface{}{"x": int64(2), "y": int64(2)})
	if got := strings.Join(changed(t, old, new), " "); got != ".data .metadata.labels[a]" {
		t.Errorf("got %s", got)
	}
}

// FP-7: lists and maps that a Go client leaves nil and Kubernetes reads back empty are no change.
func TestNilAndEmptyInStructs(t *testing.T) {
	old := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
	new := old.DeepCopy()
	new.Rules = []rbacv1.PolicyRule{}
	if got := changed(t, typedOf(t, old), typedOf(t, new)); len(got) > 1 || len(got) == 1 && got[0] != ".rules" {
		t.Errorf("changed: %v", got)
	}
	oldPod, newPod := &corev1.Pod{}, &corev1.Pod{}
	newPod.Labels = map[string]string{}
	newPod.Spec.Containers = []corev1.Container{}
	if got := changed(t, typedOf(t, oldPod), typedOf(t, newPod)); len(got) > 0 {
		t.Errorf("changed: %v", got)
	}
}

// smdLeaves is what structured-merge-diff itself says has changed, as names only.
func smdLeaves(t testing.TB, old, new *typed.TypedValue) []string {
	t.Helper()
	c, err := old.Compare(new)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, set := range []*fieldpath.Set{c.Added, c.Removed, c.Modified} {
		set.Leaves().Iterate(func(p fieldpath.Path) {
			path := make(Path, len(p))
			for i, e := range p {
				path[i] = Key(smdName(e))
			}
			if !neverCounts(path) {
				all = append(all, path.String())
			}
		})
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func smdName(e fieldpath.PathElement) string {
	switch {
	case e.FieldName != nil:
		return *e.FieldName
	case e.Value != nil:
		return keyText(*e.Value)
	}
	var parts []string
	for _, k := range *e.Key {
		if len(*e.Key) == 1 {
			return keyText(k.Value)
		}
		parts = append(parts, k.Name+"="+keyText(k.Value))
	}
	return strings.Join(parts, ",")
}

// FP-7: on random objects with the schemas of Kubernetes, exactly the fields that structured-merge-diff reports change,
// read from structs and from JSON; an object never differs from itself; the order of keyed lists and sets means
// nothing.
func TestAgreesWithStructuredMergeDiff(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range lawRuns(150) {
		old, new := randomDeployment(r), randomDeployment(r)
		before, after := typedOf(t, old), typedOf(t, new)
		want := smdLeaves(t, before, after)
		check := func(before, after *typed.TypedValue) {
			t.Helper()
			paths, err := changedFields(before, after)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range paths {
				names := make(Path, len(p))
				for i, e := range p {
					names[i] = Key(e.Name)
				}
				got = append(got, names.String())
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("\n got %v\nwant %v", got, want)
			}
		}
		check(before, after)
		check(loosely(t, before, old), loosely(t, after, new))
		for _, same := range []*typed.TypedValue{before, after} {
			if got := changed(t, same, same); len(got) > 0 {
				t.Fatalf("differs from itself in %v", got)
			}
		}
		shuffled := new.DeepCopy()
		slices.Reverse(shuffled.Finalizers)
		slices.Reverse(shuffled.OwnerReferences)
		slices.Reverse(shuffled.Spec.Template.Spec.Containers)
		slices.Reverse(shuffled.Status.Conditions)
		if got := changed(t, after, typedOf(t, shuffled)); len(got) > 0 {
			t.Fatalf("another order is a change of %v", got)
		}
		if got := changed(t, loosely(t, after, new), after); len(got) > 0 {
			t.Fatalf("as JSON it differs in %v", got)
		}
	}
}

// loosely is the same object as decoded JSON.
func loosely(t testing.TB, like *typed.TypedValue, obj runtime.Object) *typed.TypedValue {
	t.Helper()
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	return typed.AsTypedUnvalidated(value.NewValueInterface(m), like.Schema(), like.TypeRef())
}
