package policycodec

import (
	"bytes"
	"strings"
	"testing"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// PO-25: what the writer of an object lists as harmless is ignored, at every level; the same without the list is not.
func TestIgnorable(t *testing.T) {
	const auditing = `{"apiVersion":"auditregistration.k8s.io/v1alpha1",`
	for _, tc := range []struct{ name, list, object string }{
		{"of a policy", `".note"`, current + storedPolicy + `,"note":{"a":1},` + goodRoles},
		{"of metadata", `".metadata.later"`, strings.Replace(current+storedPolicy, `"uid"`, `"later":[],"uid"`, 1) + `,` + goodRoles},
		{"of a status", `".status.roles[].rules[].later"`, current + storedPolicy + `,"status":{"roles":{"guard":{"rules":[{"rule":0,"later":1}]}}},` + goodRoles},
		{"of a role", `".roles[].note"`, current + storedPolicy + `,"roles":{"guard":{"note":1,"rules":[` + denyRule + `]}}`},
		{"of a rule", `".roles[].rules[].note"`, current + storedPolicy + `,"roles":{"guard":{"rules":[{"note":"x","deny":true,"verbs":["delete"],"resourceKinds":["pods"]}]}}`},
		{"a restriction", `".roles[].rules[].attributeRestrictions.note"`, current + storedPolicy + `,"roles":{"guard":{"rules":[{"verbs":["delete"],"resourceKinds":["pods"],"attributeRestrictions":{"note":"x"}}]}}`},
		{"of a binding", `".roleBindings[].note"`, current + storedBinding + `,"roleBindings":{"b":{"roleName":"r","note":["x"]}}`},
		{"of a field permission", `".spec.note"`, current + `"kind":"FieldPermission","metadata":{"name":"f"},"spec":{"resources":["pods"],"field":".spec.x","permission":"a.b/c","note":1}`},
		{"of a protected attribute", `".roleRef.note"`, current + `"kind":"ClusterProtectedAttribute","metadata":{"name":"a"},"attributeKind":"Label","attributeName":"env","roleRef":{"kind":"ClusterRole","name":"x","note":1}`},
		{"of a sink", `".spec.policy.note"`, auditing + `"kind":"AuditSink","metadata":{"name":"s"},"spec":{"policy":{"level":"Metadata","note":1}}`},
		{"of a class", `".spec.rules[].note"`, auditing + `"kind":"AuditClass","metadata":{"name":"c"},"spec":{"rules":[{"verbs":["get"],"note":1}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			listed := stored(t, tc.object+`,"ignorable":[`+tc.list+`]}`)
			if problems := notUnderstood(listed); len(problems) > 0 || len(*ignorableOf(listed)) != 1 {
				t.Errorf("listed: %v", problems)
			}
			if problems := notUnderstood(stored(t, tc.object+`}`)); len(problems) == 0 {
				t.Error("not listed, and ignored all the same")
			}
			if problems := notUnderstood(stored(t, tc.object+`,"ignorable":[".else"]}`)); len(problems) == 0 {
				t.Error("another field is listed")
			}
			// What is written has no such field any more, and lists none.
			var text bytes.Buffer
			if err := StorageCodec().Encode(listed, &text); err != nil || strings.Contains(text.String(), "ignorable") || strings.Contains(text.String(), `"note"`) {
				t.Errorf("stored again: %v %s", err, text.String())
			}
		})
	}
}

// PO-25: nothing that counts can be called harmless.
func TestKnownFieldsAreNeverHarmless(t *testing.T) {
	p := stored(t, current+storedPolicy+`,"ignorable":[".roles[].rules[].Deny",".roles[].Rules",".roles[].rules"],"roles":{"a":{"Rules":[`+denyRule+`]},"b":{"rules":[{"Deny":true,"verbs":["get"],"resourceKinds":["pods"]}]},"c":{"rules":[],"rules":[]}}}`).(*policy.Policy)
	for name, role := range p.Roles {
		if len(role.Rules) == 0 || len(role.Rules[0].Unrecognized) == 0 {
			t.Errorf("role %q: %+v", name, role)
		}
	}
	for path, want := range map[string]bool{".roles": true, ".roles[].rules[].deny": true, ".roles[].rules[].DENY": true, ".metadata.labels": true, ".metadata.labels[]": true,
		".metadata.managedFields[].fieldsV1.x": true, ".roles[].rules[].attributeRestrictions.fieldsMutatable": true, "": false, "roles": false, ".roles[].note": false, ".note": false} {
		if got := shapeOf(policy.Kind("Policy")).has(path); got != want {
			t.Errorf("%q is known: %v, want %v", path, got, want)
		}
	}
}
