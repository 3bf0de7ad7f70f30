package accessreview

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	reviewv1alpha1 "proviso.dev/proviso/api/authorizationreview/v1alpha1"
)

// AddToScheme registers the served versions, and nothing else. A namer of OpenAPI definitions needs a scheme with
// these: with the internal version of newScheme, the published kinds would claim to be internal ones too.
func AddToScheme(scheme *runtime.Scheme) error {
	if err := reviewv1.AddToScheme(scheme); err != nil {
		return err
	}
	return reviewv1alpha1.AddToScheme(scheme)
}

// newScheme returns a scheme in which the external types are also the internal ones, so nothing is ever converted.
func newScheme() (*runtime.Scheme, serializer.CodecFactory, runtime.ParameterCodec, error) {
	scheme := runtime.NewScheme()
	fail := func(err error) (*runtime.Scheme, serializer.CodecFactory, runtime.ParameterCodec, error) {
		return nil, serializer.CodecFactory{}, nil, err
	}
	if err := AddToScheme(scheme); err != nil {
		return fail(err)
	}
	hub := schema.GroupVersion{Group: reviewv1.GroupName, Version: runtime.APIVersionInternal}
	scheme.AddKnownTypes(hub, reviewv1.KnownTypes()...)
	scheme.AddKnownTypes(hub, reviewv1alpha1.KnownTypes()...)

	// Options and errors are of the core version, whatever the group.
	core := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(scheme, core)
	scheme.AddUnversionedTypes(core, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})

	if err := scheme.SetVersionPriority(reviewv1.SchemeGroupVersion, reviewv1alpha1.SchemeGroupVersion); err != nil {
		return fail(err)
	}
	return scheme, serializer.NewCodecFactory(scheme), runtime.NewParameterCodec(scheme), nil
}
