package law

import (
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/test/refmodel"
)

// facts is everything about one request that authorization does not know and admission does.
type facts struct {
	operation   admission.Operation
	kind        schema.GroupVersionKind
	object, old map[string]any // nil: none
	options     map[string]any // nil: none
	// ownKind tells that the bodies are of the resource's own kind, served that the kind has a preferred version.
	ownKind, served bool
	namespace       any // what namespaceObject is: a map, nil or an error
	// target is what a connection goes to, which is served or not; nil if the request is none.
	target       map[string]any
	targetServed bool
}

var errNoNamespace = errors.New("no such namespace")

// bodies are how the drawn objects come out: fields are missing, of another type, or the same before and after.
func drawBody(p refmodel.Pick, kind schema.GroupVersionKind, name string) map[string]any {
	meta := map[string]any{"name": name}
	if name == "" {
		meta = map[string]any{"generateName": "x-"}
	}
	if labels := drawLabels(p); labels != nil {
		meta["labels"] = labels
	}
	body := map[string]any{"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind, "metadata": meta}
	if p(8) == 0 {
		return body
	}
	spec := map[string]any{"replicas": int64(p(5)), "list": []any{"good", "alice"}[:p(3)]}
	if p(4) != 0 {
		spec["nodeName"] = []string{"n1", "n2"}[p(2)]
	}
	if p(4) == 0 {
		spec["list"] = []any{"bad", int64(7), "good"}[:1+p(3)]
	}
	if p(8) == 0 {
		spec["replicas"] = "many"
	}
	body["spec"] = spec
	return body
}

func drawLabels(p refmodel.Pick) map[string]any {
	if p(5) == 0 {
		return nil
	}
	labels := map[string]any{"env": []string{"dev", "prod", "bad"}[p(3)]}
	if p(2) == 0 {
		labels["team"] = []string{"team-a", "team-b"}[p(2)]
	}
	if p(3) == 0 {
		labels["alice"] = "yes"
	}
	return labels
}

// drawFacts draws what a request turns out to be about.
func drawFacts(p refmodel.Pick, w *world, r *refmodel.Request) *facts {
	f := &facts{kind: schema.GroupVersionKind{Group: r.APIGroup, Version: "v1", Kind: "Other"}}
	if i := slices.IndexFunc(w.Served, func(s refmodel.Resource) bool { return s.Group == r.APIGroup && s.Plural == r.Resource }); i >= 0 {
		f.kind.Kind, f.ownKind, f.served = w.Served[i].Kind, true, true
	}
	switch r.Subresource {
	case "scale":
		f.kind, f.ownKind, f.served = schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}, false, true
	case "exec", "attach":
		f.target, f.targetServed = drawBody(p, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, r.Name), f.served
		f.kind, f.ownKind, f.served = schema.GroupVersionKind{Version: "v1", Kind: "PodExecOptions"}, false, true
	}
	name := r.Name
	if name == "" {
		name = refmodel.Names[p(3)]
	}
	switch r.Verb {
	case "create":
		f.operation, f.object = admission.Create, drawBody(p, f.kind, name)
	case "delete", "deletecollection":
		f.operation, f.old = admission.Delete, drawBody(p, f.kind, name)
	default:
		f.operation, f.object, f.old = admission.Update, drawBody(p, f.kind, name), drawBody(p, f.kind, name)
		switch p(4) {
		case 0:
			f.object = f.old
		case 1: // only the labels change
			f.object = relabelled(f.old, drawLabels(p))
		}
	}
	if p(2) == 0 {
		f.options = map[string]any{"fieldManager": []string{"alice", "bob"}[p(2)]}
	}
	if f.target != nil {
		// Admission has the options of a connection as its object. Conditions have them as options, and no object
		// (CA-9).
		f.operation, f.options, f.object = admission.Connect, f.object, nil
	}
	switch ns, known := w.namespaces[r.Namespace]; {
	case r.Namespace == "":
	case known:
		f.namespace = ns
	default:
		f.namespace = errNoNamespace
	}
	return f
}

func relabelled(body, labels map[string]any) map[string]any {
	next := runtime.DeepCopyJSON(body)
	meta := next["metadata"].(map[string]any)
	if delete(meta, "labels"); labels != nil {
		meta["labels"] = labels
	}
	return next
}

func object(content map[string]any) runtime.Object {
	if content == nil {
		return nil
	}
	return &unstructured.Unstructured{Object: content}
}

// admitted is the admission of the facts.
func (f *facts) admitted(r *refmodel.Request) admission.Attributes {
	body := f.object
	if f.operation == admission.Connect {
		body = f.options
	}
	return admission.NewAttributesRecord(object(body), object(f.old), f.kind, r.Namespace, r.Name,
		schema.GroupVersionResource{Group: r.APIGroup, Version: r.APIVersion, Resource: r.Resource}, r.Subresource, f.operation, object(f.options), false, r.User)
}

// drawRequest draws a write of one concrete resource: what conditions reach (CA-6).
func drawRequest(p refmodel.Pick) *refmodel.Request {
	r := p.Request()
	r.ResourceRequest, r.APIVersion, r.Path, r.Subresource = true, "v1", "/some/path", ""
	r.Verb = []string{"create", "create", "update", "patch", "delete", "deletecollection"}[p(6)]
	if r.Resource == "" {
		r.APIGroup, r.Resource = "", "pods"
	}
	switch p(10) {
	case 0:
		r.Subresource = "scale"
		r.Verb = []string{"update", "patch"}[p(2)]
	case 1, 2:
		r.APIGroup, r.Resource, r.Subresource, r.Verb = "", "pods", []string{"exec", "exec", "attach"}[p(3)], "create"
	}
	r.Name = refmodel.Names[1+p(len(refmodel.Names)-1)]
	if r.Subresource == "" && (r.Verb == "create" || r.Verb == "deletecollection") {
		r.Name = ""
	}
	u := &user.DefaultInfo{Name: r.User.GetName(), Groups: r.User.GetGroups()}
	switch p(5) {
	case 0:
		u.Name, u.Groups = "system:node:n1", append(u.Groups, "system:nodes")
	case 1:
		u.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {"n2"}, "team": {"blue"}}
	}
	r.User = u
	return r
}

// discovered is what discovery says of the served resources.
func discovered(served []refmodel.Resource) *snapshot.Served {
	from := snapshot.Sources{Local: []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods/exec", Kind: "PodExecOptions"}}},
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{{Name: "deployments/scale", Group: "autoscaling", Version: "v1", Kind: "Scale"}}},
	}}
	for _, r := range served {
		list := &metav1.APIResourceList{GroupVersion: schema.GroupVersion{Group: r.Group, Version: "v1"}.String(),
			APIResources: []metav1.APIResource{{Name: r.Plural, Kind: r.Kind}}}
		if r.Builtin() {
			from.Local = append(from.Local, list)
		} else {
			from.Custom = append(from.Custom, list)
		}
	}
	return from.Served()
}
