package escalation

import (
	"reflect"
	"strings"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// SameCondition reports whether the condition of wanted holds only where that of held does, by comparing the texts:
// every part of held has to be in wanted too, which may have more. A condition about the caller means something else
// for another caller, so one that asks who the caller is (or which node) implies nothing.
func SameCondition(wanted, held *policyv1alpha1.PolicyRule) bool {
	for _, text := range []struct{ wanted, held string }{{wanted.Where, held.Where}, {wanted.When, held.When}} {
		if text.held == "" {
			continue
		}
		if text.wanted != text.held || personal(text.held) || wanted.APIVersion != held.APIVersion {
			return false
		}
	}
	return restrictionsImply(wanted.AttributeRestrictions, held.AttributeRestrictions)
}

func restrictionsImply(wanted, held *policyv1alpha1.AttributeRestrictions) bool {
	if held == nil {
		return true
	}
	if wanted == nil || held.SameNodeRestriction || len(held.Unrecognized) > 0 {
		return false
	}
	if len(held.FieldsMutable) == 0 && len(held.LabelsContain) == 0 || held.FieldsMutable != nil && len(held.FieldsMutable) == 0 {
		return reflect.DeepEqual(wanted, held)
	}
	if len(held.FieldsMutable) > 0 && (len(wanted.FieldsMutable) == 0 || !matching.Subset(wanted.FieldsMutable, held.FieldsMutable)) {
		return false
	}
	return matching.Subset(held.LabelsContain, wanted.LabelsContain)
}

// mentions reports whether an identifier occurs in an expression, as a word. It may be in a string or a field name:
// then the answer is also yes, which errs on the safe side.
func mentions(expression, identifier string) bool { return wordAt(expression, identifier) >= 0 }

// wordAt returns where a word first begins in an expression, or -1.
func wordAt(expression, word string) int {
	letter := func(b byte) bool {
		return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
	}
	for from := 0; ; {
		i := strings.Index(expression[from:], word)
		if i < 0 {
			return -1
		}
		i += from
		end := i + len(word)
		if (i == 0 || !letter(expression[i-1])) && (end == len(expression) || !letter(expression[end])) {
			return i
		}
		from = i + 1
	}
}
