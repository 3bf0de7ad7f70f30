package fieldfilter

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// unstructuredCreater creates objects of any kind, for responses about custom resources.
type unstructuredCreater struct{}

// New implements runtime.ObjectCreater.
func (unstructuredCreater) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	if strings.HasSuffix(kind.Kind, "List") {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		return list, nil
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	return o, nil
}

// unstructuredTyper reads their kinds from the objects.
type unstructuredTyper struct{}

// ObjectKinds implements runtime.ObjectTyper.
func (unstructuredTyper) ObjectKinds(o runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	kind := o.GetObjectKind().GroupVersionKind()
	if kind.Kind == "" {
		return nil, false, runtime.NewMissingKindErr("unstructured object has no kind")
	}
	return []schema.GroupVersionKind{kind}, false, nil
}

// Recognizes implements runtime.ObjectTyper.
func (unstructuredTyper) Recognizes(schema.GroupVersionKind) bool { return true }
