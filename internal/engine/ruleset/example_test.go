package ruleset

import (
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/test/refmodel"
)

// one decides a request under a single rule that alice has in the master namespace.
func one(t *testing.T, r policyv1alpha1.PolicyRule, kinds *matching.Kinds, verb, group, resource, sub, name string) Match {
	t.Helper()
	in := inputOf(refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{"alice": {r}}, nil))
	in.Kinds = kinds
	return Build(in).PolicyMaster(authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "alice"}, Verb: verb, Namespace: "hammer",
		APIGroup: group, Resource: resource, Subresource: sub, Name: name, ResourceRequest: true})
}

var someKinds = matching.NewKinds([]matching.Served{{Resource: "pods", Kind: "Pod", Builtin: true}, {Resource: "nodes", Kind: "Node", Builtin: true}, {Group: "apps", Resource: "deployments", Kind: "Deployment", Builtin: true}, {Group: "apps.openshift.io", Resource: "deploymentconfigs", Kind: "DeploymentConfig"}})

// PO-1, PO-2, PO-9: what verbs and kinds mean, each with a twin that differs in one thing.
func TestRuleMeaning(t *testing.T) {
	for _, test := range []struct {
		name                              string
		verbs, kinds                      []string
		verb, group, resource, sub, oname string
		want                              bool
	}{
		{name: "verb", verbs: []string{"get"}, kinds: []string{"pods"}, verb: "get", resource: "pods", want: true},
		{name: "another verb", verbs: []string{"get"}, kinds: []string{"pods"}, verb: "list", resource: "pods"},
		{name: "another kind", verbs: []string{"get"}, kinds: []string{"pods"}, verb: "get", resource: "secrets"},
		{name: "negated kind", verbs: []string{"get"}, kinds: []string{"*", "-roles"}, verb: "get", resource: "roles"},
		{name: "beside the negated kind", verbs: []string{"get"}, kinds: []string{"*", "-roles"}, verb: "get", resource: "pods", want: true},
		{name: "negation first", verbs: []string{"get"}, kinds: []string{"-roles", "*"}, verb: "get", resource: "roles"},
		{name: "only negations", verbs: []string{"get"}, kinds: []string{"-roles"}, verb: "get", resource: "pods", want: true},
		{name: "only negations, the negated", verbs: []string{"get"}, kinds: []string{"-roles"}, verb: "get", resource: "roles"},
		{name: "negation beats a name", verbs: []string{"get"}, kinds: []string{"pods", "-pods"}, verb: "get", resource: "pods"},
		{name: "negation takes subresources", verbs: []string{"create"}, kinds: []string{"*", "-serviceaccounts"}, verb: "create", resource: "serviceaccounts", sub: "token"},
		{name: "negated subresource leaves the resource", verbs: []string{"get"}, kinds: []string{"*", "-pods/log"}, verb: "get", resource: "pods", want: true},
		{name: "only negated verbs", verbs: []string{"-delete"}, kinds: []string{"pods"}, verb: "get", resource: "pods", want: true},
		{name: "negated verb", verbs: []string{"*", "-deletecollection"}, kinds: []string{"pods"}, verb: "deletecollection", resource: "pods"},
		{name: "negated deletecollection leaves delete", verbs: []string{"*", "-deletecollection"}, kinds: []string{"pods"}, verb: "delete", resource: "pods", want: true},
		{name: "negated delete takes deletecollection", verbs: []string{"*", "-delete"}, kinds: []string{"pods"}, verb: "deletecollection", resource: "pods"},
		{name: "update is also patch", verbs: []string{"update"}, kinds: []string{"pods"}, verb: "patch", resource: "pods", want: true},
		{name: "patch is not update", verbs: []string{"patch"}, kinds: []string{"pods"}, verb: "update", resource: "pods"},
		{name: "negated update takes patch", verbs: []string{"*", "-update"}, kinds: []string{"pods"}, verb: "patch", resource: "pods"},
		{name: "delete is also deletecollection", verbs: []string{"delete"}, kinds: []string{"pods"}, verb: "deletecollection", resource: "pods", want: true},
		{name: "exec of pods", verbs: []string{"exec"}, kinds: []string{"pods"}, verb: "create", resource: "pods", sub: "exec", want: true},
		{name: "exec of pods/exec", verbs: []string{"exec"}, kinds: []string{"pods/exec"}, verb: "get", resource: "pods", sub: "exec", want: true},
		{name: "exec is attach", verbs: []string{"exec"}, kinds: []string{"pods/attach"}, verb: "create", resource: "pods", sub: "attach", want: true},
		{name: "exec is not proxy", verbs: []string{"exec"}, kinds: []string{"*"}, verb: "create", resource: "pods", sub: "proxy"},
		{name: "exec is not create of pods", verbs: []string{"exec"}, kinds: []string{"pods"}, verb: "create", resource: "pods"},
		{name: "exec of one subresource only", verbs: []string{"exec"}, kinds: []string{"pods/attach"}, verb: "create", resource: "pods", sub: "exec"},
		{name: "exec of pods, but not by create", verbs: []string{"exec", "-create"}, kinds: []string{"pods"}, verb: "create", resource: "pods", sub: "exec"},
		{name: "exec of pods, by get", verbs: []string{"exec", "-create"}, kinds: []string{"pods"}, verb: "get", resource: "pods", sub: "exec", want: true},
		{name: "proxy of nodes", verbs: []string{"proxy"}, kinds: []string{"nodes"}, verb: "get", resource: "nodes", sub: "proxy", want: true},
		{name: "proxy of nodes is not of services", verbs: []string{"proxy"}, kinds: []string{"nodes"}, verb: "get", resource: "services", sub: "proxy"},
		{name: "get is no connect", verbs: []string{"get"}, kinds: []string{"*"}, verb: "get", resource: "pods", sub: "exec"},
		{name: "get of another subresource", verbs: []string{"get"}, kinds: []string{"*"}, verb: "get", resource: "pods", sub: "log", want: true},
		{name: "create is connect when named", verbs: []string{"create"}, kinds: []string{"pods/exec"}, verb: "create", resource: "pods", sub: "exec", want: true},
		{name: "create on pods is not on pods/exec", verbs: []string{"create"}, kinds: []string{"pods"}, verb: "create", resource: "pods", sub: "exec"},
		{name: "star is connect", verbs: []string{"*"}, kinds: []string{"*"}, verb: "get", resource: "pods", sub: "exec", want: true},
		{name: "star without exec", verbs: []string{"*", "-exec"}, kinds: []string{"*"}, verb: "create", resource: "pods", sub: "exec"},
		{name: "star without exec has proxy", verbs: []string{"*", "-exec"}, kinds: []string{"*"}, verb: "create", resource: "pods", sub: "proxy", want: true},
		{name: "star has no escalate", verbs: []string{"*"}, kinds: []string{"*"}, verb: "escalate", resource: "roles"},
		{name: "escalate when named", verbs: []string{"*", "escalate"}, kinds: []string{"*"}, verb: "escalate", resource: "roles", want: true},
		{name: "negations have no bind", verbs: []string{"-get"}, kinds: []string{"*"}, verb: "bind", resource: "roles"},
		{name: "star has no impersonate-on", verbs: []string{"*"}, kinds: []string{"*"}, verb: "impersonate-on:user-info:list", resource: "pods"},
		{name: "impersonate* has impersonate-on", verbs: []string{"impersonate*"}, kinds: []string{"*"}, verb: "impersonate-on:user-info:list", resource: "pods", want: true},
		{name: "star has the right to ask for fields", verbs: []string{"*"}, kinds: []string{"*"}, verb: "granular", resource: "pods", want: true},
		{name: "star has no right to a field", verbs: []string{"*"}, kinds: []string{"*"}, verb: "granular:label(example.com)", resource: "pods"},
		{name: "negations have no right to a field", verbs: []string{"-delete"}, kinds: []string{"*"}, verb: "granular:labels", resource: "pods"},
		// HF-1
		{name: "star reveals nothing", verbs: []string{"*"}, kinds: []string{"*"}, verb: "reveal:example.com/secretData", resource: "pods"},
		{name: "negations reveal nothing", verbs: []string{"-delete"}, kinds: []string{"*"}, verb: "reveal:example.com/secretData", resource: "pods"},
		{name: "granular:* reveals nothing", verbs: []string{"granular:*"}, kinds: []string{"*"}, verb: "reveal:example.com/secretData", resource: "pods"},
		{name: "reveal:* reveals every field", verbs: []string{"reveal:*"}, kinds: []string{"pods"}, verb: "reveal:example.com/secretData", resource: "pods", want: true},
		{name: "reveal literally", verbs: []string{"reveal:example.com/secretData"}, kinds: []string{"pods"}, verb: "reveal:example.com/secretData", resource: "pods", want: true},
		{name: "reveal:* but one field", verbs: []string{"reveal:*", "-reveal:example.com/secretData"}, kinds: []string{"pods"}, verb: "reveal:example.com/secretData", resource: "pods"},
		{name: "granular:* has every field", verbs: []string{"granular:*"}, kinds: []string{"pods"}, verb: "granular:label(example.com)", resource: "pods", want: true},
		{name: "granular:* is not granular", verbs: []string{"granular:*"}, kinds: []string{"pods"}, verb: "granular", resource: "pods"},
		{name: "granular:* but one field", verbs: []string{"granular:*", "-granular:labels"}, kinds: []string{"pods"}, verb: "granular:labels", resource: "pods"},
		{name: "one field but granular:*", verbs: []string{"granular:labels", "-granular:*"}, kinds: []string{"pods"}, verb: "granular:labels", resource: "pods"},
		{name: "all verbs of a review are not in a star", verbs: []string{"*"}, kinds: []string{"*"}, verb: "*", resource: "pods"},
		{name: "all verbs of a review when all are named", verbs: append([]string{"*", "impersonate*", "granular:*", "reveal:*"}, matching.NamedSpecials...), kinds: []string{"*"}, verb: "*", resource: "pods", want: true},
		{name: "granular literally", verbs: []string{"granular:labels"}, kinds: []string{"pods"}, verb: "granular:labels", resource: "pods", want: true},
		{name: "granular is not every granular", verbs: []string{"granular"}, kinds: []string{"pods"}, verb: "granular:labels", resource: "pods"},
		{name: "kind", verbs: []string{"get"}, kinds: []string{"Pod"}, verb: "get", resource: "pods", want: true},
		{name: "kind in any case", verbs: []string{"get"}, kinds: []string{"dEPLOYMENTcONFIG"}, verb: "get", group: "apps.openshift.io", resource: "deploymentconfigs", want: true},
		{name: "kind in its group", verbs: []string{"get"}, kinds: []string{"Deployment"}, verb: "get", group: "example.com", resource: "deployments"},
		{name: "qualified kind", verbs: []string{"get"}, kinds: []string{"Deployment.apps"}, verb: "get", group: "apps", resource: "deployments", want: true},
		{name: "kind has no subresources", verbs: []string{"get"}, kinds: []string{"Pod"}, verb: "get", resource: "pods", sub: "log"},
		{name: "kind with subresource", verbs: []string{"get"}, kinds: []string{"Pod/log"}, verb: "get", resource: "pods", sub: "log", want: true},
		{name: "built-in plural in its group", verbs: []string{"get"}, kinds: []string{"deployments"}, verb: "get", group: "apps", resource: "deployments", want: true},
		{name: "built-in plural in no other group", verbs: []string{"get"}, kinds: []string{"deployments"}, verb: "get", group: "example.com", resource: "deployments"},
		{name: "other plural in any group", verbs: []string{"get"}, kinds: []string{"gadgets"}, verb: "get", group: "example.com", resource: "gadgets", want: true},
		{name: "but in no guarded group", verbs: []string{"get"}, kinds: []string{"gadgets"}, verb: "get", group: "certificates.k8s.io", resource: "gadgets"},
		{name: "unless it is named", verbs: []string{"get"}, kinds: []string{"gadgets.certificates.k8s.io"}, verb: "get", group: "certificates.k8s.io", resource: "gadgets", want: true},
		{name: "a star has the guarded groups", verbs: []string{"get"}, kinds: []string{"*"}, verb: "get", group: "certificates.k8s.io", resource: "gadgets", want: true},
		{name: "negated plural in any group", verbs: []string{"get"}, kinds: []string{"*", "-deployments"}, verb: "get", group: "example.com", resource: "deployments"},
		{name: "qualified plural", verbs: []string{"get"}, kinds: []string{"deployments.apps"}, verb: "get", group: "example.com", resource: "deployments"},
		{name: "core group", verbs: []string{"get"}, kinds: []string{"pods."}, verb: "get", group: "metrics.k8s.io", resource: "pods"},
		{name: "a whole group", verbs: []string{"get"}, kinds: []string{"*", "-*.apps"}, verb: "get", group: "apps", resource: "deployments"},
		{name: "beside a whole group", verbs: []string{"get"}, kinds: []string{"*", "-*.apps"}, verb: "get", resource: "pods", want: true},
		{name: "every scale", verbs: []string{"update"}, kinds: []string{"*/scale"}, verb: "patch", group: "apps", resource: "deployments", sub: "scale", want: true},
		{name: "scale only", verbs: []string{"update"}, kinds: []string{"*/scale"}, verb: "patch", group: "apps", resource: "deployments"},
		{name: "unserved kind, allowed, not in advance", verbs: []string{"get"}, kinds: []string{"Gadget"}, verb: "get", group: "new.io", resource: "gadgets"},
	} {
		t.Run(test.name, func(t *testing.T) {
			rule := policyv1alpha1.PolicyRule{Verbs: test.verbs, ResourceKinds: test.kinds}
			m := one(t, rule, someKinds, test.verb, test.group, test.resource, test.sub, test.oname)
			if m.Allow.Found() != test.want {
				t.Errorf("allowed %v, want %v", m.Allow.Found(), test.want)
			}
		})
	}
}

// PO-9: in a deny rule * is every verb, and so is all but some; what an allow rule has to name is denied without.
func TestDenyOfEveryVerb(t *testing.T) {
	for _, test := range []struct {
		name  string
		verbs []string
		verb  string
		want  bool
	}{
		{"star denies escalate", []string{"*"}, "escalate", true},
		{"star denies impersonation", []string{"*"}, "impersonate-on:user-info:list", true},
		{"star denies fields", []string{"*"}, "granular:labels", true},
		{"all but get denies bind", []string{"-get"}, "bind", true},
		{"all but bind does not", []string{"-bind"}, "bind", false},
		{"all but fields does not", []string{"-granular:*"}, "granular:labels", false},
		{"one verb is one verb", []string{"delete"}, "escalate", false},
		{"a review about all verbs", []string{"escalate"}, "*", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			rule := policyv1alpha1.PolicyRule{Deny: true, Verbs: test.verbs, ResourceKinds: []string{"*"}}
			if m := one(t, rule, someKinds, test.verb, "", "pods", "", ""); m.Deny.Found() != test.want {
				t.Errorf("denied %v, want %v", m.Deny.Found(), test.want)
			}
		})
	}
}

// PO-1: API groups and names limit a rule.
func TestRuleLimits(t *testing.T) {
	rule := policyv1alpha1.PolicyRule{Verbs: []string{"get", "list"}, ResourceKinds: []string{"*"}, APIGroups: []string{"apps"}, ResourceNames: []string{"web"}}
	for _, test := range []struct {
		name, verb, group, object string
		want                      bool
	}{
		{"in the group", "get", "apps", "web", true},
		{"in another group", "get", "", "web", false},
		{"another name", "get", "apps", "db", false},
		{"list of one name", "list", "apps", "web", true},
		{"list of all", "list", "apps", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if m := one(t, rule, someKinds, test.verb, test.group, "deployments", "", test.object); m.Allow.Found() != test.want {
				t.Errorf("allowed %v, want %v", m.Allow.Found(), test.want)
			}
		})
	}
}

// PO-7: a deny rule that is limited to names is not slipped by a request that says no name.
func TestDenyByNameWithoutName(t *testing.T) {
	rule := policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"pods"}, ResourceNames: []string{"web"}}
	if m := one(t, rule, nil, "delete", "", "pods", "", "web"); !m.Deny.Found() {
		t.Error("delete of web is not denied")
	}
	if m := one(t, rule, nil, "delete", "", "pods", "", "db"); m.Denies() {
		t.Error("delete of db is denied")
	}
	in := inputOf(refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{"alice": {rule}}, nil))
	var q Query
	q.Reset(Build(in), ask("alice", "deletecollection", "pods"))
	m := q.PolicyMaster()
	if m.Deny.Found() || !m.ConditionalDeny {
		t.Fatalf("deletecollection: %+v, want a conditional deny", m)
	}
	hits := q.AppendConditional(nil, TierMaster, Denies)
	if len(hits) != 1 || len(hits[0].Names()) != 1 || hits[0].Names()[0] != "web" || hits[0].Condition() != nil {
		t.Errorf("hits %+v", hits)
	}
}
