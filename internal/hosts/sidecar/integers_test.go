package sidecar

import (
	"fmt"
	"testing"
)

// widgets is a custom resource with an integer, an exclusive field or a condition on it, and somebody whom RBAC lets
// write it.
const widgets = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {count: {type: integer}}}}}}
status:
  acceptedNames: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  conditions: [{type: NamesAccepted, status: "True", reason: x, message: x, lastTransitionTime: null}, {type: Established, status: "True", reason: x, message: x, lastTransitionTime: null}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: widgets, namespace: team}
rules: [{verbs: [update], resourceKinds: [widgets.example.com], when: 'object.spec.count == oldObject.spec.count'}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: widgets, namespace: team}
roleRef: {namespace: team, name: widgets}
userNames: [anna]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: widgets, namespace: team}
rules: [{apiGroups: [example.com], resources: [widgets], verbs: [get, update, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: widgets, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: widgets}
subjects: [{kind: User, name: rob, apiGroup: rbac.authorization.k8s.io}]
`

const exclusiveNumber = `---
apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermission
metadata: {name: number}
spec: {resources: [widgets.example.com], field: ".spec.count", permission: example.com/count, exclusive: true}
`

// SC-18: integers that differ beyond 2^53 differ, for conditions and for exclusive fields.
func TestLargeIntegersAreCompared(t *testing.T) {
	for name, tc := range map[string]struct{ policy, user string }{"a condition": {widgets, "anna"}, "an exclusive field": {widgets + exclusiveNumber, "rob"}} {
		w := newWorld(t, tc.policy)
		a := asked(tc.user, "update", "widgets", "team", "a")
		a.APIGroup = "example.com"
		for now, want := range map[int64]bool{9007199254740992: true, 9007199254740993: false, 7: false} {
			object := func(n int64) []byte {
				return fmt.Appendf(nil, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","namespace":"team"},"spec":{"count":%d}}`, n)
			}
			review := admitted(a, "Widget", nil, nil)
			review.Kind.Group, review.Resource.Group = "example.com", "example.com"
			review.OldObject.Raw, review.Object.Raw = object(9007199254740992), object(now)
			if got := w.beside(t, a, review); got != want {
				t.Errorf("%s, to %d: %v (%v)", name, now, got, w.decider.Admit(t.Context(), review))
			}
		}
	}
}
