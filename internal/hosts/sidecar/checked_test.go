package sidecar

import (
	"errors"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// checkedPolicy is what admission checks whatever the chain says.
const checkedPolicy = policy + `---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterProtectedAttribute
metadata: {name: owner}
attributeKind: Label
attributeName: owner
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: keepers}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermission
metadata: {name: tier}
spec: {resources: [configmaps, secrets], field: ".metadata.labels[tier]", permission: example.com/tier, exclusive: true}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: labels, namespace: team}
rules: [{apiGroups: [""], resources: [configmaps, pods], verbs: [granular, "granular:label(y)"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: labels, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: labels}
subjects: [{kind: User, name: finn, apiGroup: rbac.authorization.k8s.io}]
`

// SC-7: what admission checks without any condition is not let pass either, while nobody knows that it is asked.
// Nothing else is in the way of whoever RBAC allows.
func TestNothingIsUncheckedWithoutProof(t *testing.T) {
	for name, tc := range map[string]struct {
		policy string
		attrs  authorizer.AttributesRecord
		proof  error
		want   authorizer.Decision
	}{
		"nothing of ours":               {policy, asked("rob", "create", "configmaps", "other", ""), errors.New("no"), authorizer.DecisionNoOpinion},
		"a protected label":             {checkedPolicy, asked("rob", "create", "pods", "other", ""), errors.New("no"), authorizer.DecisionDeny},
		"a protected label, allowed":    {checkedPolicy, asked("anna", "patch", "configmaps", "team", "a"), errors.New("no"), authorizer.DecisionDeny},
		"with proof":                    {checkedPolicy, asked("rob", "create", "pods", "other", ""), nil, authorizer.DecisionNoOpinion},
		"a read":                        {checkedPolicy, asked("rob", "get", "pods", "other", "a"), errors.New("no"), authorizer.DecisionNoOpinion},
		"who is denied some deletes":    {policy, asked("rob", "update", "configmaps", "team", "a"), errors.New("no"), authorizer.DecisionDeny},
		"the namespaces that we need":   {policy, asked("abac", "delete", "namespaces", "master", "master"), errors.New("no"), authorizer.DecisionDeny},
		"who is denied none, elsewhere": {policy, asked("abac", "delete", "configmaps", "other", "a"), errors.New("no"), authorizer.DecisionNoOpinion},
	} {
		w := newWorld(t, tc.policy)
		w.proof.err = tc.proof
		if got, err := w.decider.Access(t.Context(), "c", tc.attrs); err != nil || got.Decision != tc.want {
			t.Errorf("%s: %v (%s), %v; want %v", name, got.Decision, got.Reason, err, tc.want)
		}
	}
}

// FP-11 beside a stock server: whoever has rights to single fields writes those, and no others.
func TestFieldPermissionsBeside(t *testing.T) {
	w := newWorld(t, checkedPolicy)
	for _, tc := range []struct {
		user     string
		old, new map[string]string
		want     bool
	}{
		{"finn", map[string]string{"x": "1"}, map[string]string{"x": "1", "y": "1"}, true},
		{"finn", map[string]string{"x": "1"}, map[string]string{"x": "2"}, false},
		{"finn", map[string]string{"x": "1"}, map[string]string{"x": "1", "tier": "gold"}, false},
		{"rob", map[string]string{"x": "1"}, map[string]string{"x": "2"}, true},
		{"rob", map[string]string{"owner": "a"}, map[string]string{"x": "1"}, false},
	} {
		a := asked(tc.user, "patch", "configmaps", "team", "a")
		if got := w.beside(t, a, admitted(a, "ConfigMap", tc.old, tc.new)); got != tc.want {
			t.Errorf("%s, from %v to %v: %v", tc.user, tc.old, tc.new, got)
		}
	}
}
