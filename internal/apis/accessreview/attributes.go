package accessreview

import (
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// attributesOf is the request that a review is about. One of resource and path is set, which validation has seen to.
func attributesOf(who user.Info, resource *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) authorizer.AttributesRecord {
	if resource == nil {
		return authorizer.AttributesRecord{User: who, Verb: path.Verb, Path: path.Path}
	}
	attrs := authorizer.AttributesRecord{
		User:            who,
		Verb:            resource.Verb,
		Namespace:       resource.Namespace,
		APIGroup:        resource.Group,
		APIVersion:      resource.Version,
		Resource:        resource.Resource,
		Subresource:     resource.Subresource,
		Name:            resource.Name,
		ResourceRequest: true,
	}
	if attrs.APIVersion == "" {
		attrs.APIVersion = "*"
	}
	if s := resource.LabelSelector; s != nil {
		attrs.LabelSelectorRequirements, attrs.LabelSelectorParsingErr = labelRequirements(s)
	}
	if s := resource.FieldSelector; s != nil {
		attrs.FieldSelectorRequirements, attrs.FieldSelectorParsingErr = fieldRequirements(s)
	}
	return attrs
}

// Asked is the request that a subject access review is about; an error if it is about none, or about two.
func Asked(spec *authorizationv1.SubjectAccessReviewSpec) (authorizer.AttributesRecord, error) {
	if (spec.ResourceAttributes == nil) == (spec.NonResourceAttributes == nil) {
		return authorizer.AttributesRecord{}, errors.New("a review is about a resource or about a path, and not about both")
	}
	return attributesOf(subjectOf(spec), spec.ResourceAttributes, spec.NonResourceAttributes), nil
}

// subjectOf is the user that a review is about, if it is not about the caller.
func subjectOf(spec *authorizationv1.SubjectAccessReviewSpec) user.Info {
	who := &user.DefaultInfo{Name: spec.User, UID: spec.UID, Groups: spec.Groups}
	if spec.Extra != nil {
		who.Extra = make(map[string][]string, len(spec.Extra))
		for k, v := range spec.Extra {
			who.Extra[k] = v
		}
	}
	return who
}

var labelOperators = map[metav1.LabelSelectorOperator]selection.Operator{
	metav1.LabelSelectorOpIn:           selection.In,
	metav1.LabelSelectorOpNotIn:        selection.NotIn,
	metav1.LabelSelectorOpExists:       selection.Exists,
	metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
}

// labelRequirements reads a selector. A requirement that cannot be understood is left out and reported: requirements
// only narrow a request, so without it the question is broader and the answer stricter.
func labelRequirements(s *authorizationv1.LabelSelectorAttributes) (labels.Requirements, error) {
	if len(s.Requirements) == 0 {
		if s.RawSelector == "" {
			return nil, nil
		}
		selector, err := labels.Parse(s.RawSelector)
		if err != nil {
			return nil, err
		}
		requirements, _ := selector.Requirements()
		return requirements, nil
	}
	var known labels.Requirements
	var errs []error
	for _, r := range s.Requirements {
		operator, ok := labelOperators[r.Operator]
		if !ok {
			errs = append(errs, fmt.Errorf("%q is not a valid label selector operator", r.Operator))
			continue
		}
		requirement, err := labels.NewRequirement(r.Key, operator, r.Values)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		known = append(known, *requirement)
	}
	return known, utilerrors.NewAggregate(errs)
}

// fieldRequirements does the same for fields, which can only be compared with one value.
func fieldRequirements(s *authorizationv1.FieldSelectorAttributes) (fields.Requirements, error) {
	if len(s.Requirements) == 0 {
		if s.RawSelector == "" {
			return nil, nil
		}
		selector, err := fields.ParseSelector(s.RawSelector)
		if err != nil {
			return nil, err
		}
		return selector.Requirements(), nil
	}
	var known fields.Requirements
	var errs []error
	for _, r := range s.Requirements {
		requirement, err := fieldRequirement(r)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		known = append(known, requirement)
	}
	return known, utilerrors.NewAggregate(errs)
}

func fieldRequirement(r metav1.FieldSelectorRequirement) (fields.Requirement, error) {
	var operator selection.Operator
	switch r.Operator {
	// The operators are those of a parsed selector, which authorizers know.
	case metav1.FieldSelectorOpIn:
		operator = selection.Equals
	case metav1.FieldSelectorOpNotIn:
		operator = selection.NotEquals
	default:
		return fields.Requirement{}, fmt.Errorf("field selector operator %q is not supported", r.Operator)
	}
	if len(r.Values) != 1 {
		return fields.Requirement{}, errors.New("a field selector requirement must have one value")
	}
	return fields.Requirement{Field: r.Key, Operator: operator, Value: r.Values[0]}, nil
}

// evaluationError joins what the authorizers reported with what was left out of the selectors, in Kubernetes' words.
func evaluationError(err error, attrs *authorizer.AttributesRecord) string {
	var all []string
	if err != nil {
		all = append(all, err.Error())
	}
	ignored := func(selector string, understood int) {
		part := ""
		if understood > 0 {
			part = "partially "
		}
		all = append(all, "spec.resourceAttributes."+selector+" "+part+"ignored due to parse error")
	}
	if attrs.FieldSelectorParsingErr != nil {
		ignored("fieldSelector", len(attrs.FieldSelectorRequirements))
	}
	if attrs.LabelSelectorParsingErr != nil {
		ignored("labelSelector", len(attrs.LabelSelectorRequirements))
	}
	return strings.Join(all, "; ")
}
