package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
)

// SchemeGroupVersion is the version in which conditions are evaluated.
var SchemeGroupVersion = schema.GroupVersion{Group: reviewv1.GroupName, Version: "v1alpha1"}

var (
	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers the kinds of this version.
	AddToScheme = schemeBuilder.AddToScheme
)

// KnownTypes lists every object of this version, for schemes that register the types under another version as well.
func KnownTypes() []runtime.Object {
	return []runtime.Object{&AuthorizationConditionsReview{}}
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, KnownTypes()...)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
