package sidecar

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/request/authorize"
)

// asides: anna may do everything under a condition, with every subresource that anybody could think of.
const asidePolicy = `apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: all, namespace: team}
rules:
- {verbs: [create, update, patch, delete], resourceKinds: ["*", "configmaps/*", "pods/*", "widgets.example.com", "widgets.example.com/*"], when: 'oldObject.metadata.?labels.size.orValue("") == "small"'}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: all, namespace: team}
roleRef: {namespace: team, name: all}
userNames: [anna]
---
`

// SC-17: conditions are honoured for what discovery lists. What the API server asks for purposes of its own, with no
// admission to follow, is answered as if no condition were met.
func TestConditionsOnWhatNobodyServes(t *testing.T) {
	withStatus := strings.Replace(widgets, "    storage: true\n", "    storage: true\n    subresources: {status: {}}\n", 1)
	w := newWorld(t, asidePolicy+withStatus)
	custom := func(a authorizer.AttributesRecord) authorizer.AttributesRecord {
		a.APIGroup = "example.com"
		return a
	}
	for what, tc := range map[string]struct {
		attrs authorizer.AttributesRecord
		want  bool
	}{
		"a resource":                        {asked("anna", "update", "configmaps", "team", "a"), true},
		"its delete":                        {asked("anna", "delete", "configmaps", "team", "a"), true},
		"finalizers, as owners ask":         {asked("anna", "update", "configmaps/finalizers", "team", "a"), false},
		"a subresource":                     {asked("anna", "update", "pods/status", "team", "a"), true},
		"a verb that it does not have":      {asked("anna", "delete", "pods/status", "team", "a"), false},
		"a subresource that nobody serves":  {asked("anna", "create", "pods/anything", "team", "a"), false},
		"a custom resource":                 {custom(asked("anna", "update", "widgets", "team", "a")), true},
		"its status":                        {custom(asked("anna", "update", "widgets/status", "team", "a")), true},
		"its scale, which it does not have": {custom(asked("anna", "update", "widgets/scale", "team", "a")), false},
		"its finalizers":                    {custom(asked("anna", "update", "widgets/finalizers", "team", "a")), false},
	} {
		got, err := w.decider.Access(t.Context(), "c", tc.attrs)
		if err != nil || (got.Decision == authorizer.DecisionAllow) != tc.want {
			t.Errorf("%s: %v, %v", what, got, err)
		}
		// As a plain review is answered.
		if plain, _, _ := authorize.NewRBAC(w.kernel.Store).Authorize(t.Context(), tc.attrs); !tc.want && plain != got.Decision {
			t.Errorf("%s: %v, a review says %v", what, got.Decision, plain)
		}
	}
}

// SC-17: a plugin asks for the delete of an object whose owner references are changed, in the words of a real delete.
// Where that has a condition, the object has to meet it before and after the change.
func TestOwnerReferencesNeedTheDelete(t *testing.T) {
	owners := []string{"", `,"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"1"}]`}
	object := func(size, owners string) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"team","labels":{"size":%q}%s}}`, size, owners)
	}
	free := strings.Replace(policy, "- {verbs: [update], resourceKinds: [configmaps], when: 'oldObject.metadata.?labels.size.orValue(\"\") == \"small\"'}", "- {verbs: [update], resourceKinds: [configmaps]}", 1)
	w := newWorld(t, free)
	for _, tc := range []struct {
		user, was, is string
		from, to      int
		want          bool
	}{
		{"anna", "small", "small", 0, 1, true},
		{"anna", "big", "big", 0, 0, true},
		{"anna", "big", "big", 1, 1, true},
		{"anna", "big", "big", 0, 1, false},
		{"anna", "big", "big", 1, 0, false},
		{"anna", "big", "small", 0, 1, false},
		{"anna", "small", "big", 0, 1, false},
		{"abac", "big", "big", 0, 1, true}, // whoever allowed that is asked about the delete
	} {
		a := asked(tc.user, "update", "configmaps", "team", "a")
		review := admitted(a, "ConfigMap", nil, nil)
		review.OldObject.Raw, review.Object.Raw = object(tc.was, owners[tc.from]), object(tc.is, owners[tc.to])
		if err := w.decider.Admit(t.Context(), review); (err == nil) != tc.want {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}
