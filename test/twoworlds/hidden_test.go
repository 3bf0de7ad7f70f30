package twoworlds

import (
	"net/http"
	"strings"
)

const (
	hiddenNote = "hid.example.com/x"
	hiddenVerb = "hid.example.com/see"
)

// hide puts the hidden field of an object into a body: which one it is depends on the kind.
func (o Object) hide(body map[string]any) map[string]any {
	at, key := []string{"metadata", "annotations"}, hiddenNote
	switch o.Kind {
	case "configmaps":
		at, key = []string{"data"}, "hid"
	case "secrets":
		at, key = []string{"stringData"}, "hid"
	case "widgets":
		at, key = []string{"spec"}, "hid"
	}
	in := body
	for _, name := range at {
		next, ok := in[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			in[name] = next
		}
		in = next
	}
	in[key] = o.Hid
	return body
}

// pointer is a field of an object that a patch is about.
func (d *draw) pointer(o Object) string {
	if o.Hid != "" && d.chance(60) {
		return pick(d, "/data/hid", "/data", "/stringData/hid", "/spec/hid", "/metadata/annotations/"+strings.ReplaceAll(hiddenNote, "/", "~1"), "/metadata/annotations")
	}
	return pick(d, "/data/v", "/metadata/annotations/v", "/spec/note", "/metadata/labels/tier", "/metadata/labels/team", "/spec/level", "/metadata/finalizers/0")
}

// hides declares fields that no caller sees, and waits until that is in effect.
func (w *world) hides() {
	for name, at := range map[string]struct {
		field     string
		resources []any
	}{
		"hid-data":  {".data[hid]", []any{"configmaps", "secrets"}},
		"hid-spec":  {".spec.hid", []any{"widgets." + group}},
		"hid-notes": {".metadata.annotations[" + hiddenNote + "]", []any{"pods", "services", "namespaces", "deployments.apps", "horizontalpodautoscalers.autoscaling"}},
	} {
		w.must("POST", ownGroup+"fieldpermissions", object{"metadata": named(name), "spec": object{"resources": at.resources, "field": at.field, "permission": hiddenVerb, "readExclusive": true}})
	}
	for _, kind := range []string{"configmaps", "services", "widgets"} {
		o := Object{Ref: Ref{kind, home, "probe"}, Team: "a", Value: "probe", Hid: "hid-of-probe"}
		w.must("POST", collection(kind, home), o.body(o.Value))
		w.poll("what is hidden of "+kind, func() bool {
			r := w.send("prober", Step{Method: "GET", Path: o.path()})
			return r.code == http.StatusOK && !strings.Contains(r.body, o.Hid)
		})
		w.sudo("DELETE", o.path(), nil)
	}
}
