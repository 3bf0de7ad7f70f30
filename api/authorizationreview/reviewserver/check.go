package reviewserver

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
)

// What a set may have.
const (
	MaxConditions  = 128
	MaxText        = 10240 // bytes of a condition
	MaxDescription = 1024  // bytes of its description
)

// Check reports what is wrong with a set of conditions, as an API server would find it. A set with a fault decides
// nothing: the API server denies if it holds a Deny, and else has no opinion.
func Check(set *reviewv1.SubjectAccessReviewConditionSet) error {
	switch set.FailureMode {
	case "", reviewv1.FailureModeDeny, reviewv1.FailureModeNoOpinion:
	default:
		return fmt.Errorf("failureMode %q is unknown", set.FailureMode)
	}
	switch n := len(set.Conditions); {
	case set.Allowed || set.Denied:
		return errors.New("a set that is allowed or denied has no conditions")
	case n == 0:
		return errors.New("there are no conditions")
	case n > MaxConditions:
		return fmt.Errorf("there are %d conditions, the limit is %d", n, MaxConditions)
	}
	seen := map[string]bool{}
	for i := range set.Conditions {
		c := &set.Conditions[i]
		if err := checkCondition(c); err != nil {
			return fmt.Errorf("condition %d: %w", i, err)
		}
		if seen[c.ID] {
			return fmt.Errorf("condition %d: id %q is not unique", i, c.ID)
		}
		seen[c.ID] = true
	}
	return nil
}

func checkCondition(c *reviewv1.SubjectAccessReviewCondition) error {
	if faults := content.IsLabelKey(c.ID); len(faults) > 0 {
		return fmt.Errorf("id %q: %s", c.ID, strings.Join(faults, "; "))
	}
	if faults := content.IsLabelKey(c.Type); c.Type != "" && len(faults) > 0 {
		return fmt.Errorf("type %q: %s", c.Type, strings.Join(faults, "; "))
	}
	switch c.Effect {
	case reviewv1.EffectAllow, reviewv1.EffectDeny, reviewv1.EffectNoOpinion:
	default:
		return fmt.Errorf("effect %q is unknown", c.Effect)
	}
	switch {
	case len(c.Condition) > MaxText:
		return fmt.Errorf("its text has %d bytes, the limit is %d", len(c.Condition), MaxText)
	case len(c.Description) > MaxDescription:
		return fmt.Errorf("its description has %d bytes, the limit is %d", len(c.Description), MaxDescription)
	}
	return nil
}

// canDeny also counts effects that are unknown.
func canDeny(set *reviewv1.SubjectAccessReviewConditionSet) bool {
	for i := range set.Conditions {
		if e := set.Conditions[i].Effect; e != reviewv1.EffectAllow && e != reviewv1.EffectNoOpinion {
			return true
		}
	}
	return set.Denied
}
