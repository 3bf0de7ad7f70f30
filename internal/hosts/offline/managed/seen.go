package managed

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/analysis/compile"
	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/hosts/offline"
)

// operations are what admission calls the verbs.
var operations = map[string]admission.Operation{verbs.Create: admission.Create, verbs.Update: admission.Update, verbs.Patch: admission.Update,
	verbs.Delete: admission.Delete, verbs.DeleteCollection: admission.Delete}

// seen is a request as the admission policies of a cluster see it.
type seen struct {
	*admission.VersionedAttributes
	// blind is the request with empty objects, if its objects are not known; nil if they are.
	blind *admission.VersionedAttributes
	// place is the namespace, and somewhere is true if the request is in one that is not known.
	place     *corev1.Namespace
	somewhere bool
	// unidentified is true if not everything is known of the caller.
	unidentified bool
}

// complete fills in what a server fills in before admission, and what a question leaves out: the name and the namespace
// of an object, the stored object of an update that is asked about with one object.
func (q Question) complete(at offline.Resource) Question {
	if q.Verb == verbs.Update || q.Verb == verbs.Patch {
		if q.OldObject == nil {
			q.OldObject = q.Object
		} else if q.Object == nil {
			q.Object = q.OldObject
		}
	}
	for _, content := range []map[string]any{q.Object, q.OldObject} {
		if metadata, ok := content["metadata"].(map[string]any); ok && q.Name == "" && q.Verb != verbs.DeleteCollection {
			q.Name, _ = metadata["name"].(string)
		}
	}
	q.Object, q.OldObject = placed(q.Object, at, q.Namespace), placed(q.OldObject, at, q.Namespace)
	return q
}

// placed is an object with its namespace.
func placed(content map[string]any, at offline.Resource, namespace string) map[string]any {
	metadata, _ := content["metadata"].(map[string]any)
	if content == nil || !at.Namespaced || namespace == "" || metadata["namespace"] != nil {
		return content
	}
	content = maps.Clone(content)
	if metadata = maps.Clone(metadata); metadata == nil {
		metadata = map[string]any{}
	}
	metadata["namespace"], content["metadata"] = namespace, metadata
	return content
}

// see is what admission sees; nil if the request is not admitted, or by no policy.
func (e *Enforced) see(attrs authorizer.Attributes, at offline.Resource, q Question) *seen {
	operation, admitted := operations[q.Verb]
	if connect.Of(attrs.GetAPIGroup(), attrs.GetResource(), attrs.GetSubresource()) != connect.None {
		operation, admitted = admission.Connect, true
	}
	if !admitted || compile.Exempt(attrs.GetAPIGroup(), attrs.GetResource()) || e.rbac.Elsewhere(attrs.GetAPIGroup(), attrs.GetResource()) {
		return nil
	}
	object, old := q.Object, q.OldObject
	switch {
	case operation == admission.Delete && old == nil:
		object, old = nil, object
	case operation == admission.Delete, operation == admission.Connect:
		object = nil
	case operation == admission.Create:
		old = nil
	}
	out := &seen{place: e.places[q.Namespace], unidentified: q.unidentified}
	if at.Body.Group == "" && at.Body.Kind == "Namespace" {
		out.place = nil // a namespace is not in itself
	} else {
		out.somewhere = q.Namespace != "" && out.place == nil
	}
	of := func(object, old map[string]any) *admission.VersionedAttributes {
		return versioned(attrs, at, operation, q, object, old)
	}
	out.VersionedAttributes = of(object, old)
	if object == nil && old == nil {
		empty := map[string]any{}
		switch operation {
		case admission.Create, admission.Connect:
			out.blind = of(empty, nil)
		case admission.Delete:
			out.blind = of(nil, empty)
		default:
			out.blind = of(empty, empty)
		}
	}
	return out
}

// versioned is a request for upstream's evaluator. A request is in the version of its object.
func versioned(attrs authorizer.Attributes, at offline.Resource, operation admission.Operation, q Question, object, old map[string]any) *admission.VersionedAttributes {
	resource, kind := at.GroupVersion.WithResource(attrs.GetResource()), at.Body
	for _, content := range []map[string]any{old, object} {
		text, _ := content["apiVersion"].(string)
		if gv, err := schema.ParseGroupVersion(text); err == nil && gv.Version != "" && gv.Group == kind.Group && attrs.GetSubresource() == "" {
			resource.Version, kind.Version = gv.Version, gv.Version
		}
	}
	body := func(content map[string]any) runtime.Object {
		if content == nil {
			return nil
		}
		return &unstructured.Unstructured{Object: content}
	}
	name := q.Name
	if q.Verb == verbs.DeleteCollection {
		name = ""
	}
	record := admission.NewAttributesRecord(body(object), body(old), kind, attrs.GetNamespace(), name, resource, attrs.GetSubresource(), operation, nil, false, q.User)
	out := &admission.VersionedAttributes{Attributes: record, VersionedKind: kind}
	if object != nil {
		out.VersionedObject = admission.NewLazyObject(body(object))
	}
	if old != nil {
		out.VersionedOldObject = admission.NewLazyObject(body(old))
	}
	return out
}
