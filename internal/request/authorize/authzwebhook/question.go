package authzwebhook

import (
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/request/authorize"
)

// conditionalVerbs are those whose objects admission sees (CA-6). A connect request is asked about as create.
var conditionalVerbs = []string{"create", "update", "patch", "delete", "deletecollection", fieldperm.Verb}

// isConditional reports whether a condition can be enforced on a verb: on those above, and on verbs of field
// permissions, which are asked about once the object is known (FP-8).
func isConditional(verb string) bool {
	return slices.Contains(conditionalVerbs, verb) || strings.HasPrefix(verb, fieldperm.VerbPrefix) || strings.HasPrefix(verb, fieldperm.RevealPrefix)
}

// enforceable reports whether a condition can be enforced on a request: in admission, or in the impersonation filter,
// where conditions are about the impersonated request (CA-19). For all others the webhook should give a final answer.
func enforceable(a authorizer.Attributes) bool {
	if authorize.ConditionalImpersonation(a.GetVerb()) {
		return true
	}
	if !a.IsResourceRequest() || !isConditional(a.GetVerb()) {
		return false
	}
	for _, part := range []string{a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(), a.GetSubresource()} {
		if part == "*" {
			return false
		}
	}
	return a.GetResource() != ""
}

// question describes the request. Without conditions it is, byte for byte, what upstream sends (CA-20).
func question(a authorizer.Attributes, conditional bool) *reviewv1.SubjectAccessReview {
	review := &reviewv1.SubjectAccessReview{}
	spec := &review.Spec
	if u := a.GetUser(); u != nil {
		spec.User, spec.UID, spec.Groups = u.GetName(), u.GetUID(), u.GetGroups()
		if extra := u.GetExtra(); extra != nil {
			spec.Extra = make(map[string]authorizationv1.ExtraValue, len(extra))
			for k, v := range extra {
				spec.Extra[k] = v
			}
		}
	}
	if a.IsResourceRequest() {
		spec.ResourceAttributes = resourceOf(a)
	} else {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: a.GetPath(), Verb: a.GetVerb()}
	}
	if conditional {
		// Descriptions are needed: a refusal names the conditions that were not met (CA-10).
		spec.ConditionalAuthorization = &reviewv1.ConditionalAuthorization{Mode: reviewv1.HumanReadable}
	}
	return review
}

// resourceOf leaves out selectors that the review cannot express. That can only make the question broader, never
// narrower.
func resourceOf(a authorizer.Attributes) *authorizationv1.ResourceAttributes {
	r := &authorizationv1.ResourceAttributes{
		Namespace: a.GetNamespace(), Verb: a.GetVerb(), Group: a.GetAPIGroup(), Version: a.GetAPIVersion(),
		Resource: a.GetResource(), Subresource: a.GetSubresource(), Name: a.GetName(),
	}
	byField, _ := a.GetFieldSelector()
	if said := fieldRequirements(byField); len(said) > 0 {
		r.FieldSelector = &authorizationv1.FieldSelectorAttributes{Requirements: said}
	}
	byLabel, _ := a.GetLabelSelector()
	if said := labelRequirements(byLabel); len(said) > 0 {
		r.LabelSelector = &authorizationv1.LabelSelectorAttributes{Requirements: said}
	}
	return r
}

func fieldRequirements(all fields.Requirements) (said []metav1.FieldSelectorRequirement) {
	operators := map[selection.Operator]metav1.FieldSelectorOperator{
		selection.Equals: metav1.FieldSelectorOpIn, selection.DoubleEquals: metav1.FieldSelectorOpIn, selection.In: metav1.FieldSelectorOpIn,
		selection.NotEquals: metav1.FieldSelectorOpNotIn, selection.NotIn: metav1.FieldSelectorOpNotIn,
	}
	for _, r := range all {
		if operator, ok := operators[r.Operator]; ok {
			said = append(said, metav1.FieldSelectorRequirement{Key: r.Field, Operator: operator, Values: []string{r.Value}})
		}
	}
	return said
}

func labelRequirements(all labels.Requirements) (said []metav1.LabelSelectorRequirement) {
	operators := map[selection.Operator]metav1.LabelSelectorOperator{
		selection.Equals: metav1.LabelSelectorOpIn, selection.DoubleEquals: metav1.LabelSelectorOpIn, selection.In: metav1.LabelSelectorOpIn,
		selection.NotEquals: metav1.LabelSelectorOpNotIn, selection.NotIn: metav1.LabelSelectorOpNotIn,
		selection.Exists: metav1.LabelSelectorOpExists, selection.DoesNotExist: metav1.LabelSelectorOpDoesNotExist,
	}
	for i := range all {
		if operator, ok := operators[all[i].Operator()]; ok {
			said = append(said, metav1.LabelSelectorRequirement{Key: all[i].Key(), Operator: operator, Values: all[i].ValuesUnsorted()})
		}
	}
	return said
}
