package enforce

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"proviso.dev/proviso/internal/request/requestctx"
)

// FP-16: of all requests, those two assign a pod, and those about revisions of apps carry a part of a set. A resource
// of that name in another group, or another subresource, does neither.
func TestWhichRequestsWriteElsewhere(t *testing.T) {
	bindings := []string{"create /bindings/", "create /pods/binding"}
	evictions := []string{"create /pods/eviction"}
	for _, op := range []admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect} {
		for _, group := range []string{"", "apps", "example.com"} {
			for _, resource := range []string{"pods", "bindings", "controllerrevisions"} {
				for _, sub := range []string{"", "binding", "eviction"} {
					attrs := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "hammer", "x", schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, sub, op, nil, false, nil)
					is := strings.ToLower(string(op)) + " " + group + "/" + resource + "/" + sub
					if got := isBinding(attrs); got != slices.Contains(bindings, is) {
						t.Errorf("%s assigns a pod: %v", is, got)
					}
					if got := evicts(attrs); got != slices.Contains(evictions, is) {
						t.Errorf("%s evicts a pod: %v", is, got)
					}
					if got := isRevision(attrs); got != (group == "apps" && resource == "controllerrevisions") {
						t.Errorf("%s is about a revision: %v", is, got)
					}
				}
			}
		}
	}
}

// FP-16: both sides of a revision are there to be compared. What its data says is in them, unless it has not changed.
func TestRevealedRevisions(t *testing.T) {
	revision := func(data string) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "r", Labels: map[string]string{"a": "b"}}, Data: runtime.RawExtension{Raw: []byte(data)}}
	}
	const small, large = `{"spec":{"replicas":1}}`, `{"spec":{"replicas":5}}`
	for _, c := range []struct {
		name     string
		old, new runtime.Object
		was, is  any // replicas
		unread   bool
	}{
		{"created", nil, revision(small), nil, int64(1), false},
		{"changed", revision(small), revision(large), int64(1), int64(5), false},
		{"unchanged", revision(small), revision(small), nil, nil, false},
		{"without data", nil, revision(""), nil, nil, false},
		{"data that came later", revision(""), revision(small), nil, int64(1), false},
		{"what cannot be read", revision(small), revision("{"), nil, nil, true},
		{"what could not be read before", revision("{"), revision(small), nil, nil, true},
	} {
		before, after, err := revealed(c.old, c.new)
		if (err != nil) != c.unread {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.unread {
			continue
		}
		if (before != nil) != (c.old != nil) {
			t.Errorf("%s: what is stored: %v", c.name, before)
			continue
		}
		for side, want := range map[*unstructured.Unstructured]any{before: c.was, after: c.is} {
			if side == nil {
				continue
			}
			got, found, err := unstructured.NestedFieldNoCopy(side.Object, "data", "spec", "replicas")
			if found != (want != nil) || want != nil && got != want || err != nil {
				t.Errorf("%s: replicas %v, %v; want %v", c.name, got, err, want)
			}
			if _, has := side.Object["data"]; has != (want != nil) {
				t.Errorf("%s: data is there: %v", c.name, has)
			}
			if side.GroupVersionKind() != appsv1.SchemeGroupVersion.WithKind("ControllerRevision") || side.GetLabels()["a"] != "b" {
				t.Errorf("%s: it is a %s with labels %v", c.name, side.GroupVersionKind(), side.GetLabels())
			}
		}
	}
}

// FP-16: an object goes to the version in which it is stored, and from there to each other one that is served; a
// version that the request has shown already is left out if nothing is converted on the way.
func TestVersionsBehindAWrite(t *testing.T) {
	kinds := runtime.NewScheme()
	for _, version := range []string{"v1", "v2", "v3"} {
		kinds.AddKnownTypeWithName(schema.GroupVersionKind{Group: "example.com", Version: version, Kind: "Widget"}, &unstructured.Unstructured{})
	}
	objects := adds{admission.NewObjectInterfacesFromScheme(kinds)}
	for _, c := range []struct{ storage, served, sub, want string }{
		{"", "v1", "", ""},
		{"", "v1 v2 v3", "", "v2 v3"},
		{"v1", "v1 v2 v3", "", "v2 v3"},
		{"v1", "v2", "status", "v2"},
		{"v2", "v1 v2 v3", "", "v2 v1 v3"},
		{"v2", "v1", "", "v2 v1"},
		{"v2", "", "", "v2"},
		{"v2", "v1 v2", "scale", ""},
	} {
		write := writeOf(admission.Update, c.sub, widget(nil), widget(nil))
		var got []string
		for _, v := range versionsBehind(knownBehind{versions: func(schema.GroupKind) (string, []string) { return c.storage, strings.Fields(c.served) }}, write, objects) {
			if got = append(got, v.version); v.err != nil {
				t.Errorf("%+v: %v", c, v.err)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: converted to %q", c, got)
		}
	}
}

// FP-16: a revision whose data nobody can read may carry every exclusive field; one that can be read carries what it
// says.
func TestFieldsOfRevisions(t *testing.T) {
	write := func(old, new runtime.Object) admission.Attributes {
		op := admission.Update
		if old == nil {
			op = admission.Create
		}
		return admission.NewAttributesRecord(new, old, appsv1.SchemeGroupVersion.WithKind("ControllerRevision"), "hammer", "r", appsv1.SchemeGroupVersion.WithResource("controllerrevisions"), "", op, nil, false, edgar)
	}
	revision := func(data string) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ControllerRevision"}, Data: runtime.RawExtension{Raw: []byte(data)}}
	}
	const plain, other = `{"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`, `{"spec":{"template":{"metadata":{"labels":{"a":"c"}}}}}`
	w, _ := withFields(t, "update", requestctx.Allowed())
	f := func(attrs admission.Attributes) *fieldWrite {
		f := &fieldWrite{Fields: w.plugin.cfg.Fields, ctx: w.context(t), known: w.factsOf(t, attrs)}
		f.holder, f.objects = requestctx.From(f.ctx), f.known.converted.objects
		return f
	}
	for name, c := range map[string]struct {
		old, new runtime.Object
		hidden   bool
	}{
		"created":                  {nil, revision(plain), false},
		"changed":                  {revision(plain), revision(other), false},
		"created, unreadable":      {nil, revision(`{"spec":[]}`), true},
		"changed to an unreadable": {revision(plain), revision(`{"spec":[]}`), true},
	} {
		attrs := write(c.old, c.new)
		if got := f(attrs).request(fieldTarget(w.snap.Served, attrs), 0).Hidden; got != c.hidden {
			t.Errorf("%s: hidden %v", name, got)
		}
		if c.hidden {
			continue
		}
		before, after, err := f(attrs).pair("")
		if err != nil || after == nil || (before != nil) != (c.old != nil) {
			t.Errorf("%s: compared %v with %v, %v", name, before, after, err)
		}
	}
}
