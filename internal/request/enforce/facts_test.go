package enforce

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes/scheme"

	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// factsOf are the facts of one admission in a world without a pass.
func (w *world) factsOf(t *testing.T, attrs admission.Attributes) *facts {
	t.Helper()
	return w.plugin.facts(requestctx.From(w.context(t)), attrs, admission.NewObjectInterfacesFromScheme(scheme.Scheme))
}

// connectTo is a connection whose options admission has as its object.
func connectTo(options runtime.Object, kind schema.GroupVersionKind) admission.Attributes {
	return admission.NewAttributesRecord(options, nil, kind, "hammer", "p", schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "proxy", admission.Connect, nil, false, nil)
}

// CA-9: a condition sees the options of a connection as options and no object, and decides nothing about a path that
// means another one than it says.
func TestConnectionsShowTheirOptions(t *testing.T) {
	at := func(kind string) schema.GroupVersionKind { return schema.GroupVersionKind{Version: "v1", Kind: kind} }
	pod := func(path string) runtime.Object {
		return &corev1.PodProxyOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodProxyOptions"}, Path: path}
	}
	for _, c := range []struct {
		options runtime.Object
		kind    string
		url     string
		trusted bool
	}{
		{pod("/a"), "PodProxyOptions", "/api/v1/x/proxy/a", true},
		{pod(""), "PodProxyOptions", "/api/v1/x//proxy", true},
		{pod("/a/../b"), "PodProxyOptions", "", false},
		{pod("/a/"), "PodProxyOptions", "", false},
		{pod("/a"), "PodProxyOptions", "/api/v1/x/proxy//a", false},
		{&corev1.NodeProxyOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeProxyOptions"}, Path: "/a/./b"}, "NodeProxyOptions", "", false},
		{&corev1.NodeProxyOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeProxyOptions"}, Path: "/b"}, "NodeProxyOptions", "", true},
		{&corev1.ServiceProxyOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceProxyOptions"}, Path: "a//b"}, "ServiceProxyOptions", "", false},
		{&corev1.ServiceProxyOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceProxyOptions"}, Path: "a"}, "ServiceProxyOptions", "", true},
		{pod("/a"), "Unknown", "", false}, // options that cannot be converted
	} {
		w := newWorld("", requestctx.Allowed())
		w.snap.Served = nil
		f := New(Config{}).facts(withURL(w.context(t), c.url), connectTo(c.options, at(c.kind)), admission.NewObjectInterfacesFromScheme(scheme.Scheme))
		// Nothing says in which version the options of what is not served are seen.
		if f.Trusted() == nil {
			t.Errorf("%s: trusted without knowing the version", c.kind)
		}
		lists := []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod"}, {Name: "pods/proxy", Kind: "PodProxyOptions"},
			{Name: "nodes/proxy", Kind: "NodeProxyOptions"}, {Name: "services/proxy", Kind: "ServiceProxyOptions"}}}}
		w.snap.Served = snapshot.Sources{Local: lists}.Served()
		f = New(Config{}).facts(withURL(w.context(t), c.url), connectTo(c.options, at(c.kind)), admission.NewObjectInterfacesFromScheme(scheme.Scheme))
		if (f.Trusted() == nil) != c.trusted {
			t.Errorf("%s %v at %q: trusted: %v, want %v", c.kind, c.options, c.url, f.Trusted(), c.trusted)
		}
		if f.GetObject() != nil || c.trusted && f.GetOperationOptions() == nil {
			t.Errorf("%s: object %v, options %v", c.kind, f.GetObject(), f.GetOperationOptions())
		}
	}
	if f := newWorld("", requestctx.Allowed()).factsOf(t, writeOf(admission.Update, "", widget(nil), widget(nil))); f.GetObject() == nil || f.Trusted() != nil {
		t.Error("an update shows no object")
	}
}

func withURL(ctx context.Context, url string) *requestctx.State {
	holder := requestctx.From(ctx)
	if url != "" {
		holder.Put(requestctx.Request, authorizer.AttributesRecord{Path: url}, requestctx.Allowed())
	}
	return holder
}

// CA-11: conditions see objects in the version they are written for; what is not served, or cannot be converted, fails.
func TestObjectsInTheVersionOfConditions(t *testing.T) {
	w := newWorld("update", requestctx.Allowed())
	f := w.factsOf(t, writeOf(admission.Update, "", widget(nil), widget(map[string]string{"a": "b"})))
	if o, err := f.data.Object(""); err != nil || o == nil {
		t.Errorf("preferred version: %v %v", o, err)
	}
	if o, err := f.data.OldObject("v1"); err != nil || o == nil {
		t.Errorf("its own version: %v %v", o, err)
	}
	if o, err := f.data.Object("v9"); err == nil {
		t.Errorf("a version that does not exist: %v", o)
	}
	w.snap.Served = nil
	if o, err := w.factsOf(t, writeOf(admission.Update, "", widget(nil), widget(nil))).data.Object(""); err == nil {
		t.Errorf("a kind that is not served: %v", o)
	}
	if o, err := w.factsOf(t, writeOf(admission.Delete, "", widget(nil), nil)).data.Object(""); o != nil || err != nil {
		t.Errorf("no object: %v %v", o, err)
	}
}

// CA-11: a condition on an object is about the resource's own kind; a body of another kind is none.
func TestOwnKind(t *testing.T) {
	w := newWorld("update", requestctx.Allowed())
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	for _, c := range []struct {
		kind schema.GroupVersionKind
		op   admission.Operation
		own  bool
	}{
		{schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, admission.Update, true},
		{schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, admission.Connect, false},
		{schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}, admission.Update, false},
		{schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Widget"}, admission.Update, false},
		{schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Scale"}, admission.Update, false},
	} {
		f := w.factsOf(t, admission.NewAttributesRecord(widget(nil), widget(nil), c.kind, "hammer", "w", widgets, "", c.op, nil, false, nil))
		if got := f.data.OwnKind(); got != c.own {
			t.Errorf("%s %s: own kind %v", c.op, c.kind, got)
		}
	}
}

// PO-20: an eviction whose pod is not known lets every condition about the pod fail.
func TestEvictedWithoutAPod(t *testing.T) {
	f := newWorld("create", requestctx.Allowed()).factsOf(t, writeOf(admission.Create, "eviction", nil, widget(nil)))
	d := f.Evicted(t.Context())
	if o, err := d.OldObject(""); err == nil {
		t.Errorf("an object of nothing: %v", o)
	}
	if !d.OwnKind() {
		t.Error("a deletion is not about its own kind: conditions would be passed by")
	}
}
