package webhooks

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/admission"

	"proviso.dev/proviso/internal/features/feature"
)

// Objects reads what is admitted into what the enforcer of a server would see: the internal version of a built-in kind,
// a custom one as it is.
type Objects struct {
	Schemes []feature.Scheme
	// Definitions finds the definition of a custom kind.
	Definitions Definitions
}

// Definitions finds the definition of a custom kind; nil if there is none.
type Definitions interface {
	Definition(schema.GroupKind) *apiextensionsv1.CustomResourceDefinition
}

// scheme finds the scheme of a kind; nil for a custom one.
func (o *Objects) scheme(kind schema.GroupVersionKind) *feature.Scheme {
	for i := range o.Schemes {
		if o.Schemes[i].Recognizes(kind) {
			return &o.Schemes[i]
		}
	}
	return nil
}

// Interfaces are those of the kind.
func (o *Objects) Interfaces(kind schema.GroupVersionKind) admission.ObjectInterfaces {
	if s := o.scheme(kind); s != nil {
		return admission.NewObjectInterfacesFromScheme(s.Scheme)
	}
	c := custom{o.Definitions}
	return &admission.RuntimeObjectInterfaces{ObjectCreater: c, ObjectDefaulter: c, ObjectConvertor: c, ObjectTyper: unstructuredscheme.NewUnstructuredObjectTyper(),
		EquivalentResourceMapper: runtime.NewEquivalentResourceRegistry()}
}

// read decodes an object; nil if there is none.
func (o *Objects) read(raw []byte, kind schema.GroupVersionKind) (runtime.Object, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if s := o.scheme(kind); s != nil {
		object, found, err := s.Codecs.UniversalDecoder().Decode(raw, nil, nil)
		if err != nil {
			return nil, err
		}
		if *found != kind {
			return nil, fmt.Errorf("the review is about %s, and its object is %s", kind, *found)
		}
		return object, nil
	}
	u := &unstructured.Unstructured{}
	// Integers stay integers, as in the API server: as floats, two that differ beyond 2^53 would be equal.
	if err := json.Unmarshal(raw, &u.Object); err != nil {
		return nil, err
	}
	if u.GroupVersionKind() != kind {
		return nil, fmt.Errorf("the review is about %s, and its object is %s", kind, u.GroupVersionKind())
	}
	return u, nil
}

// custom are the interfaces of a kind that a definition defines. Converting it by a webhook is the stock server's
// business: here it fails.
type custom struct {
	definitions Definitions
}

// New implements runtime.ObjectCreater.
func (custom) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, nil
}

// Convert implements runtime.ObjectConvertor: without a webhook, only the version differs.
func (c custom) Convert(in, out, _ any) error {
	from, ok := in.(*unstructured.Unstructured)
	to, ok2 := out.(*unstructured.Unstructured)
	if !ok || !ok2 {
		return fmt.Errorf("a %T cannot be converted to a %T", in, out)
	}
	kind := to.GroupVersionKind()
	crd := c.definitions.Definition(kind.GroupKind())
	switch {
	case from.GroupVersionKind().GroupKind() != kind.GroupKind():
		return fmt.Errorf("%s is not a version of %s", from.GroupVersionKind(), kind.GroupKind())
	case crd == nil:
		return fmt.Errorf("%s cannot be converted: no definition of it is known", kind.GroupKind())
	case crd.Spec.Conversion != nil && crd.Spec.Conversion.Strategy != apiextensionsv1.NoneConverter:
		return fmt.Errorf("%s is converted by a webhook, which only the API server asks", kind.GroupKind())
	}
	to.Object = from.DeepCopy().Object
	to.SetGroupVersionKind(kind)
	return nil
}

// ConvertToVersion implements runtime.ObjectConvertor.
func (custom) ConvertToVersion(runtime.Object, runtime.GroupVersioner) (runtime.Object, error) {
	return nil, fmt.Errorf("a custom object is converted kind by kind")
}

// ConvertFieldLabel implements runtime.ObjectConvertor.
func (custom) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// Default implements runtime.ObjectDefaulter: what is admitted has its defaults, and to know no more of them is to
// refuse more.
func (custom) Default(runtime.Object) {}
