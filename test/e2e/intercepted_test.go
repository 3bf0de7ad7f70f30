package e2e

import (
	"strings"
	"testing"
)

// SV-13, CA-15, PO-14: an admission policy that matches everything, and refuses it, does not keep anybody from asking
// what he may do: reviews of ours are out of its reach as Kubernetes' own are. Everything else is within it.
func TestAdmissionPoliciesDoNotSeeReviews(t *testing.T) {
	t.Parallel()
	s := serve(t, tempDir(t)+"/d")
	s.apply(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: nothing}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}
  validations: [{expression: "false", message: nothing goes}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: nothing}
spec: {policyName: nothing, validationActions: [Deny]}
`)
	s.await("the policy", func() bool {
		out, err := s.try("", "create", "configmap", "c", "--dry-run=server")
		return err != nil && strings.Contains(out, "nothing goes")
	})
	for _, review := range []string{
		`{apiVersion: authorization.k8s.io/v1, kind: SelfSubjectAccessReview, spec: {resourceAttributes: {verb: get, resource: pods}}}`,
		`{apiVersion: authorization.proviso.dev/v1alpha1, kind: ResourceAccessReview, metadata: {namespace: default}, spec: {verb: get, resourceKind: pods}}`,
		`{apiVersion: authorization.proviso.dev/v1alpha1, kind: SubjectAccessReview, metadata: {namespace: default}, spec: {verb: get, resourceKind: pods, userName: edgar}}`,
		`{apiVersion: authorization.k8s.io/v1alpha1, kind: AuthorizationConditionsReview, request: {operation: CREATE, conditionSet: {conditions: [{id: a, effect: Allow, type: k8s.io/authorization-cel, condition: "true"}]}}}`,
	} {
		if out, err := s.try(review, "create", "-o", "yaml", "-f", "-"); err != nil {
			t.Errorf("%s: %v\n%s", review, err, out)
		}
	}
}
