package server

import (
	"fmt"
	"strings"
	"testing"
)

// CA-24: a LocalSubjectAccessReview shows the conditions of roles that its caller may read, in the namespace and of the
// cluster, and says of others that they are there. Of what is not served here, no review shows conditions.
func TestLocalReviewsShowReadableRoles(t *testing.T) {
	t.Parallel()
	s := plain.get(t)
	admin := newCaller(t, s.admin)
	const ns = "wharf"
	admin.must(t, "POST", "/api/v1/namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: "+ns+"}}")
	admin.must(t, "POST", containersIn(ns, "policies"), policyYAML(ns, "default"))
	admin.must(t, "POST", containersIn(ns, "policybindings"), "{apiVersion: policy.proviso.dev/v1alpha1, kind: PolicyBinding, metadata: {name: "+ns+"}}")
	role := func(ns, name, rule string, users ...string) {
		admin.must(t, "POST", viewsIn(ns, "roles"), roleYAML(name, rule))
		admin.must(t, "POST", viewsIn(ns, "rolebindings"), fmt.Sprintf("{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: %s}, roleRef: {namespace: %s, name: %s}, userNames: [%s]}",
			name, ns, name, strings.Join(users, ", ")))
	}
	role(ns, "wharf-local", "{verbs: [create], resourceKinds: [configmaps], where: resource.metadata.name == 'local-text'}", "wendy")
	role("master", "wharf-cluster", "{verbs: [create], resourceKinds: ['*'], where: resource.metadata.name == 'cluster-text'}", "wendy")
	const asks = "{verbs: [create], resourceKinds: [localsubjectaccessreviews.authorization.k8s.io]}"
	role(ns, "wharf-asks", asks, "bob", "ruth", "carl")
	role(ns, "wharf-reads", "{verbs: [get], resourceKinds: [roles.authorization.proviso.dev]}", "ruth")
	role("master", "wharf-reads-all", "{verbs: [get], resourceKinds: [roles.authorization.proviso.dev]}", "carl")

	review := func(who, group, version, resource string) string {
		return string(newCaller(t, s.as(who)).must(t, "POST", "/apis/authorization.k8s.io/v1/namespaces/"+ns+"/localsubjectaccessreviews", fmt.Sprintf(
			"{apiVersion: authorization.k8s.io/v1, kind: LocalSubjectAccessReview, metadata: {namespace: %s}, spec: {user: wendy, groups: ['system:authenticated'], "+
				"resourceAttributes: {namespace: %[1]s, verb: create, group: %q, version: %q, resource: %s}, conditionalAuthorization: {mode: HumanReadable}}}", ns, group, version, resource)))
	}
	for _, tt := range []struct {
		who            string
		local, cluster bool
	}{{"bob", false, false}, {"ruth", true, false}, {"carl", true, true}} {
		s.await("the rules of "+tt.who, func() (bool, error) {
			got := review(tt.who, "", "v1", "configmaps")
			// Other tests have rules and protections in the same server, of which more may be there to be hidden.
			return strings.Contains(got, "local-text") == tt.local && strings.Contains(got, "cluster-text") == tt.cluster &&
				strings.Count(got, `"effect":"Allow"`) >= 2 && (tt.cluster || strings.Contains(got, "you need the right")), nil
		})
	}
	for _, target := range [][3]string{{"", "v1", "nothings"}, {"", "v7", "configmaps"}, {"example.com", "v1", "things"}, {"", "v1", "nothings/status"}} {
		for _, who := range []string{"bob", "carl"} {
			if got := review(who, target[0], target[1], target[2]); strings.Contains(got, "conditionsChain") || !strings.Contains(got, `"allowed":false`) {
				t.Errorf("%s is shown conditions on %v, which nobody serves: %s", who, target, got)
			}
		}
	}
}
