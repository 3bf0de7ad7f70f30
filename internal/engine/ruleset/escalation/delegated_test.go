package escalation

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/test/refmodel"
)

// PO-2, PO-12, PO-13: the delegated admin of the story writes roles with the names of built-in kinds and of custom
// ones, served or not, although his own role keeps out the guarded groups.
func TestDelegatedAdminWritesRoles(t *testing.T) {
	admin := []string{"*", "-clusterroles.rbac.authorization.k8s.io", "-roles.rbac.authorization.k8s.io/status", "-nodes.", "-*.storage.k8s.io", "-*.storagemigration.k8s.io"}
	for _, g := range matching.Guarded {
		admin = append(admin, "-*."+g)
	}
	w := refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{"hubert": {{Verbs: []string{"*"}, ResourceKinds: admin}}}, nil)
	in := inputOf(w)
	builtin := []matching.Served{{Resource: "pods", Kind: "Pod", Builtin: true}, {Resource: "events", Kind: "Event", Builtin: true}, {Group: "events.k8s.io", Resource: "events", Kind: "Event", Builtin: true},
		{Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Kind: "ClusterRole", Builtin: true}, {Group: "rbac.authorization.k8s.io", Resource: "roles", Kind: "Role", Builtin: true},
		{Group: "authorization.proviso.dev", Resource: "roles", Kind: "Role", Builtin: true}, {Group: "certificates.k8s.io", Resource: "certificatesigningrequests", Kind: "CertificateSigningRequest", Builtin: true},
		{Resource: "nodes", Kind: "Node", Builtin: true}, {Group: "storage.k8s.io", Resource: "storageclasses", Kind: "StorageClass", Builtin: true}}
	served := append(slices.Clone(builtin), matching.Served{Group: "apps.openshift.io", Resource: "deploymentconfigs", Kind: "DeploymentConfig"})
	for _, kinds := range [][]matching.Served{builtin, served} {
		in.Kinds = matching.NewKinds(kinds, "storagemigration.k8s.io")
		ix := ruleset.Build(in)
		for _, test := range []struct{ entry, want string }{
			{entry: "pods"}, {entry: "Pod"}, {entry: "events"}, {entry: "roles"},
			{entry: "DeploymentConfig"}, {entry: "deploymentconfigs"}, {entry: "DeploymentConfig.apps.openshift.io"}, {entry: "certificatesigningrequests"},
			{"certificatesigningrequests.certificates.k8s.io", "certificates.k8s.io: no rule allows it"},
			{"clusterroles", "get clusterroles in rbac.authorization.k8s.io: no rule allows it"},
			{"storageclasses", "get storageclasses in storage.k8s.io: no rule allows it"},
			{"*", "get nodes: no rule allows it"},
		} {
			err := Covers(ix, Grant{User: &user.DefaultInfo{Name: "hubert"}, Namespace: "hammer", Policy: rules{allow("get", test.entry)}})
			if got := "accepted"; test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				if err != nil {
					got = err.Error()
				}
				t.Errorf("%s with %d served: %s, want %q", test.entry, len(kinds), got, test.want)
			}
		}
		// What the name of a guarded resource grants is nothing of the guarded group.
		a := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "edgar"}, Verb: "get", APIGroup: "certificates.k8s.io", Resource: "certificatesigningrequests", ResourceRequest: true}
		named := inputOf(refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{"edgar": {allow("get", "certificatesigningrequests")}}, nil))
		named.Kinds = in.Kinds
		if got := ruleset.Build(named).Decide(a).Certainty; got != ruleset.Never {
			t.Errorf("a name without a group reaches a guarded group: %v", got)
		}
	}
}
