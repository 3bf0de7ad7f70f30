package ruleset

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// PO-2: whatever somebody else serves, under whatever plural and kind, a deny rule and a negation keep their names, and
// an allow rule that names something built in does not get wider.
func TestNamesCannotBeTakenAway(t *testing.T) {
	builtin := []Served{{"", "configmaps", "ConfigMap", true}, {"", "secrets", "Secret", true}, {"", "pods", "Pod", true}}
	hostile := append(slices.Clone(builtin),
		Served{"evil.io", "configmap", "Thing", false}, Served{"evil.io", "secret", "Other", false}, Served{"evil.io", "things", "Secrets", false},
		Served{"evil.io", "pods", "Harmless", false}, Served{"evil.io", "pod", "Pods", false},
		Served{"", "secret", "Secret2", false}, Served{"", "secrets", "Harmless", false}) // as if another server spoke for a group of ours
	for _, test := range []struct {
		name            string
		rules           rules
		group, resource string
		want            Certainty
	}{
		{"deny by kind", rules{allow("get", "*"), deny("get", "ConfigMap")}, "", "configmaps", Never},
		{"deny by plural", rules{allow("get", "*"), deny("get", "secrets")}, "", "secrets", Never},
		{"negation of a kind", rules{{Verbs: []string{"get"}, ResourceKinds: []string{"*", "-Secret"}}}, "", "secrets", Never},
		{"negation of a plural", rules{{Verbs: []string{"get"}, ResourceKinds: []string{"*", "-secrets"}}}, "", "secrets", Never},
		{"and everything else stays", rules{{Verbs: []string{"get"}, ResourceKinds: []string{"*", "-secrets"}}}, "", "pods", Always},
		{"an exception of a deny", rules{allow("get", "*"), {Deny: true, Verbs: []string{"get"}, ResourceKinds: []string{"*", "-Pod"}}}, "", "pods", Always},
		{"is not for others", rules{allow("get", "*"), {Deny: true, Verbs: []string{"get"}, ResourceKinds: []string{"*", "-Pod"}}}, "evil.io", "pod", Never},
		{"whatever their plural", rules{allow("get", "*"), {Deny: true, Verbs: []string{"get"}, ResourceKinds: []string{"*", "-pods"}}}, "evil.io", "pods", Never},
		{"allow by plural", rules{allow("get", "pods")}, "", "pods", Always},
		{"does not reach another group", rules{allow("get", "pods")}, "evil.io", "pods", Never},
		{"nor another's kind", rules{allow("get", "pods")}, "evil.io", "pod", Never},
		{"allow by kind", rules{allow("get", "Pod")}, "", "pods", Always},
		{"does not reach another's plural", rules{allow("get", "Pod")}, "evil.io", "pod", Never},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, served := range [][]Served{builtin, hostile} {
				in := inputOf(policyWorld(map[string][]policyv1alpha1.PolicyRule{"alice": test.rules}, nil))
				in.Kinds = NewKinds(served)
				a := ask("alice", "get", test.resource)
				a.APIGroup = test.group
				if got := Build(in).Decide(a).Certainty; got != test.want {
					t.Errorf("%v with %d served, want %v", got, len(served), test.want)
				}
			}
		})
	}
}

// PO-2: a resource whose plural nobody can guess is denied by its kind from the moment that it is known.
func TestIrregularPlural(t *testing.T) {
	in := inputOf(policyWorld(map[string][]policyv1alpha1.PolicyRule{"alice": {allow("get", "*"), deny("get", "Ox")}}, nil))
	a := ask("alice", "get", "oxen")
	a.APIGroup = "farm.io"
	before := Build(in)
	after := before.Apply(SetKinds(NewKinds([]Served{{"farm.io", "oxen", "Ox", false}})))
	if x, y := before.Decide(a).Certainty, after.Decide(a).Certainty; x != Always || y != Never {
		t.Errorf("before it is served %v, after %v", x, y)
	}
}

// PO-2, PO-12, PO-13: the delegated admin of the story writes roles with the names of built-in kinds and of custom
// ones, served or not, although his own role keeps out the guarded groups.
func TestDelegatedAdminWritesRoles(t *testing.T) {
	admin := []string{"*", "-clusterroles.rbac.authorization.k8s.io", "-roles.rbac.authorization.k8s.io/status", "-nodes.", "-*.storage.k8s.io", "-*.storagemigration.k8s.io"}
	for _, g := range Guarded {
		admin = append(admin, "-*."+g)
	}
	w := policyWorld(map[string][]policyv1alpha1.PolicyRule{"hubert": {{Verbs: []string{"*"}, ResourceKinds: admin}}}, nil)
	in := inputOf(w)
	builtin := []Served{{"", "pods", "Pod", true}, {"", "events", "Event", true}, {"events.k8s.io", "events", "Event", true},
		{"rbac.authorization.k8s.io", "clusterroles", "ClusterRole", true}, {"rbac.authorization.k8s.io", "roles", "Role", true},
		{"authorization.proviso.dev", "roles", "Role", true}, {"certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest", true},
		{"", "nodes", "Node", true}, {"storage.k8s.io", "storageclasses", "StorageClass", true}}
	served := append(slices.Clone(builtin), Served{"apps.openshift.io", "deploymentconfigs", "DeploymentConfig", false})
	for _, kinds := range [][]Served{builtin, served} {
		in.Kinds = NewKinds(kinds, "storagemigration.k8s.io")
		ix := Build(in)
		for _, test := range []struct{ entry, want string }{
			{entry: "pods"}, {entry: "Pod"}, {entry: "events"}, {entry: "roles"},
			{entry: "DeploymentConfig"}, {entry: "deploymentconfigs"}, {entry: "DeploymentConfig.apps.openshift.io"}, {entry: "certificatesigningrequests"},
			{"certificatesigningrequests.certificates.k8s.io", "certificates.k8s.io: no rule allows it"},
			{"clusterroles", "get clusterroles in rbac.authorization.k8s.io: no rule allows it"},
			{"storageclasses", "get storageclasses in storage.k8s.io: no rule allows it"},
			{"*", "get nodes: no rule allows it"},
		} {
			err := ix.Covers(Grant{User: &user.DefaultInfo{Name: "hubert"}, Namespace: "hammer", Policy: rules{allow("get", test.entry)}})
			if got := "accepted"; test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				if err != nil {
					got = err.Error()
				}
				t.Errorf("%s with %d served: %s, want %q", test.entry, len(kinds), got, test.want)
			}
		}
		// What the name of a guarded resource grants is nothing of the guarded group.
		a := ask("edgar", "get", "certificatesigningrequests")
		a.APIGroup = "certificates.k8s.io"
		named := inputOf(policyWorld(map[string][]policyv1alpha1.PolicyRule{"edgar": {allow("get", "certificatesigningrequests")}}, nil))
		named.Kinds = in.Kinds
		if got := Build(named).Decide(a).Certainty; got != Never {
			t.Errorf("a name without a group reaches a guarded group: %v", got)
		}
	}
}

// PO-10: custom resources that belong to no namespace can be taken out together, whatever they are called, as they come
// and go; one that is called like that takes nothing along.
func TestClusterScoped(t *testing.T) {
	served := []Served{{"", "pods", "Pod", true}, {"", "nodes", "Node", true}, {"ex.io", "fleets", "Fleet", false}, {"ex.io", "widgets", "Widget", false}, {"ex.io", "cluster-scoped", "Trap", false}}
	rule := policyv1alpha1.PolicyRule{Verbs: []string{"*"}, ResourceKinds: []string{"*", "-" + ClusterScoped}}
	in := inputOf(policyWorld(map[string][]policyv1alpha1.PolicyRule{
		"alice": {rule}, "dora": {allow("*", "*"), deny("*", ClusterScoped)}, "bob": {allow("*", ClusterScoped)},
	}, nil))
	in.Kinds = NewKinds(served)
	before := Build(in)
	after := before.Apply(SetKinds(NewKinds(served).Scoped([]schema.GroupResource{{Group: "ex.io", Resource: "fleets"}, {Resource: "nodes"}, {Group: "ex.io", Resource: "unknown"}})))
	for _, tt := range []struct {
		who, group, resource, sub string
		before, after             Certainty
	}{
		{"alice", "ex.io", "fleets", "", Always, Never},
		{"alice", "ex.io", "fleets", "status", Always, Never},
		{"alice", "ex.io", "widgets", "", Always, Always},
		{"alice", "ex.io", "cluster-scoped", "", Always, Always},
		{"alice", "", "pods", "", Always, Always},
		{"alice", "", "nodes", "", Always, Always}, // built in: roles name them
		{"dora", "ex.io", "fleets", "", Always, Never},
		{"dora", "ex.io", "widgets", "", Always, Always},
		{"bob", "ex.io", "fleets", "", Never, Never},
	} {
		a := ask(tt.who, "get", tt.resource)
		a.APIGroup, a.Subresource = tt.group, tt.sub
		if got := before.Decide(a).Certainty; got != tt.before {
			t.Errorf("%+v before: %v", tt, got)
		}
		if got := after.Decide(a).Certainty; got != tt.after {
			t.Errorf("%+v after: %v", tt, got)
		}
	}
}
