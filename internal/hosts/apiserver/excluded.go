package apiserver

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/kubernetes/pkg/kubeapiserver/admission/exclusion"
	kubeapiserveroptions "k8s.io/kubernetes/pkg/kubeapiserver/options"

	authorizationv1alpha1 "proviso.dev/proviso/api/authorization/v1alpha1"
)

// reviews are the questions that only we serve. They are stored nowhere.
var reviews = []schema.GroupResource{
	{Group: authorizationv1.GroupName, Resource: "authorizationconditionsreviews"},
	{Group: authorizationv1alpha1.GroupName, Resource: "resourceaccessreviews"},
	{Group: authorizationv1alpha1.GroupName, Resource: "subjectaccessreviews"},
}

// excludeReviews keeps admission webhooks and policies from our reviews, as upstream keeps them from its own: a broken
// one that matches everything must not stop users from asking why. Upstream's list is fixed, so each plugin gets a new
// list once it exists.
func excludeReviews(o *kubeapiserveroptions.AdmissionOptions) {
	tell := admission.DecoratorFunc(func(plugin admission.Interface, _ string) admission.Interface {
		if wants, ok := plugin.(initializer.WantsExcludedAdmissionResources); ok {
			wants.SetExcludedAdmissionResources(append(exclusion.Excluded(), reviews...))
		}
		return plugin
	})
	generic := o.GenericAdmission
	generic.Decorators = append(admission.Decorators{tell}, generic.Decorators...)
}
