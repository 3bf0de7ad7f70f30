package v1

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is Kubernetes' API group of access reviews.
const GroupName = authorizationv1.GroupName

// SchemeGroupVersion is the version that Kubernetes serves too.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1"}

var (
	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers the reviews in the place of Kubernetes' own types: a scheme can have one or the other.
	AddToScheme = schemeBuilder.AddToScheme
)

// Resource returns the group-qualified resource.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

// KnownTypes lists every object of this version, for schemes that register the types under another version as well. The
// rules review is Kubernetes' own type: nothing is added to it.
func KnownTypes() []runtime.Object {
	return []runtime.Object{
		&SubjectAccessReview{},
		&SelfSubjectAccessReview{},
		&LocalSubjectAccessReview{},
		&authorizationv1.SelfSubjectRulesReview{},
	}
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, KnownTypes()...)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
