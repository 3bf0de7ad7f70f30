package accessreview

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
)

// form is the form in which a caller wants a conditional answer.
type form int

const (
	// unconditional is for callers that ask for no conditions. They get the answer of a server that knows none.
	unconditional form = iota
	// own is the same for callers who ask about themselves: their lists show what they may see (RD-11).
	own
	// chainForPeople shows the whole chain, with descriptions.
	chainForPeople
	// chainForMachines shows the chain up to the first possible Allow, without descriptions.
	chainForMachines
	// tree shows the whole decision in the dialect that Kubernetes is converging on.
	tree
)

// formOf reads a question that validateQuestion has accepted.
func formOf(q *reviewv1.Question) form {
	switch {
	case q.ConditionalAuthorization != nil && q.ConditionalAuthorization.Mode == reviewv1.HumanReadable:
		return chainForPeople
	case q.ConditionalAuthorization != nil && q.ConditionalAuthorization.Mode == reviewv1.Optimized:
		return chainForMachines
	case q.AuthorizationOptions != nil && handles(q.AuthorizationOptions, reviewv1.DecisionConditionsMap) &&
		handles(q.AuthorizationOptions, reviewv1.DecisionUnion):
		return tree
	}
	return unconditional
}

func handles(o *reviewv1.AuthorizationOptions, t reviewv1.DecisionType) bool {
	return slices.Contains(o.HandledDecisionTypes, t)
}

var modes = []reviewv1.ConditionsMode{reviewv1.HumanReadable, reviewv1.Optimized}

func validateQuestion(q *reviewv1.Question) field.ErrorList {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	if t := q.Time; t != nil && t.IsZero() {
		errs = append(errs, field.Invalid(spec.Child("time"), t.Time, "is not an instant; leave the field out to ask about now"))
	}
	if c := q.ConditionalAuthorization; c != nil {
		mode := spec.Child("conditionalAuthorization", "mode")
		switch {
		case c.Mode == "":
			errs = append(errs, field.Required(mode, "say HumanReadable or Optimized"))
		case !slices.Contains(modes, c.Mode):
			errs = append(errs, field.NotSupported(mode, c.Mode, modes))
		}
	}
	if o := q.AuthorizationOptions; o != nil {
		if q.ConditionalAuthorization != nil {
			errs = append(errs, field.Forbidden(spec.Child("authorizationOptions"),
				"may not be set together with conditionalAuthorization: they ask for the same in two forms"))
		}
		if handles(o, reviewv1.DecisionConditionsMap) != handles(o, reviewv1.DecisionUnion) {
			errs = append(errs, field.Invalid(spec.Child("authorizationOptions", "handledDecisionTypes"), o.HandledDecisionTypes,
				"must list both ConditionsMap and Union, or neither"))
		}
	}
	return errs
}
