package ruleset

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/ruleset/refmodel"
)

// everyRequest enumerates a small universe of requests in a namespace (or cluster-wide), with names that no rule mentions
// in every place.
func everyRequest(ns string, visit func(*refmodel.Request)) {
	for _, verb := range []string{"get", "create", "update", "patch", "delete", "deletecollection", "escalate", "impersonate", "impersonate:other", "granular", "frobnicate"} {
		for _, group := range []string{"", "apps", "example.com", "other.io"} {
			for _, res := range []string{"pods", "deployments", "widgets", "gizmos", "nodes", "secrets"} {
				for _, sub := range []string{"", "exec", "proxy", "scale", "odd"} {
					for _, name := range []string{"", "web", "other"} {
						visit(&refmodel.Request{AttributesRecord: authorizer.AttributesRecord{Verb: verb, Namespace: ns, APIGroup: group,
							Resource: res, Subresource: sub, Name: name, ResourceRequest: true}})
					}
				}
			}
		}
		for _, path := range []string{"/metrics", "/debug/pprof", "/debug", "/", "/other"} {
			if ns == "" {
				visit(&refmodel.Request{AttributesRecord: authorizer.AttributesRecord{Verb: verb, Path: path}})
			}
		}
	}
}

// PO-12: nobody gains power through a grant that Covers lets pass. A writer grants a random role to somebody who has other
// roles of their own; whatever that somebody can do afterwards and could not do before, the writer could do before, for
// every request of a small universe, for both ways in which conditions come out, and also after more kinds are served.
func TestCoversNeverLetsPowerBeGained(t *testing.T) {
	accepted, gained := 0, 0
	for seed := range int64(rounds(400) / 10) {
		pick := picker(seed)
		w := pick.World()
		empower(pick, w)
		ns := []string{"hammer", "master"}[pick(2)]
		writer := &user.DefaultInfo{Name: "bob", Groups: []string{"team-b", "system:authenticated"}}
		rules := grantable(pick, w, writer, ns)
		ix := Build(inputOf(w))
		if ix.Covers(Grant{User: writer, Namespace: ns, Policy: rules}) != nil {
			continue
		}
		accepted++
		gained += requireNoGain(t, seed, w, granted(w, ns, rules), writer, ns, rules)
	}
	if accepted < 5 || gained < 500 {
		t.Fatalf("%d grants were accepted and %d requests gained: too few to prove anything", accepted, gained)
	}
}

// empower gives the writer broad rights with a few exceptions, so that there is something to grant.
func empower(pick refmodel.Pick, w *refmodel.World) {
	broad := policyv1alpha1.PolicyRule{Verbs: []string{"*"}, ResourceKinds: []string{"*"}}
	for _, e := range []string{"-get", "-delete", "-exec", "escalate", "impersonate*"} {
		if pick(5) == 0 {
			broad.Verbs = append(broad.Verbs, e)
		}
	}
	for _, e := range []string{"-pods", "-secrets", "-Widget", "-*.apps", "-*/scale", "-Gizmo"} {
		if pick(6) == 0 {
			broad.ResourceKinds = append(broad.ResourceKinds, e)
		}
	}
	broad.When = []string{"", "", "a"}[pick(3)]
	power := []policyv1alpha1.PolicyRule{broad}
	for range pick(3) {
		power = append(power, pick.PolicyRule())
	}
	ns := refmodel.Namespaces[[]int{0, 2}[pick(2)]]
	w.Policies = slices.DeleteFunc(w.Policies, func(p *policyv1alpha1.Policy) bool { return p.Namespace == ns })
	p := pick.Policy(ns)
	p.Roles["power"] = policyv1alpha1.PolicyRole{Rules: power}
	w.Policies = append(w.Policies, p)
	c := pick.PolicyBinding(ns, ns)
	c.RoleBindings["power"] = policyv1alpha1.PolicyRoleBinding{RoleName: "power", UserNames: []string{"bob"}}
	w.PolicyBindings = slices.DeleteFunc(w.PolicyBindings, func(b *policyv1alpha1.PolicyBinding) bool { return b.Namespace == ns && b.Name == ns })
	w.PolicyBindings = append(w.PolicyBindings, c)
}

// grantable draws rules that have a chance of being held: random ones, or variations of what the writer has.
func grantable(pick refmodel.Pick, w *refmodel.World, writer user.Info, ns string) (rules []policyv1alpha1.PolicyRule) {
	var own []policyv1alpha1.PolicyRule
	for _, c := range w.PolicyBindings {
		for _, b := range c.RoleBindings {
			if c.Namespace != ns && c.Namespace != w.Master || !slices.Contains(b.UserNames, writer.GetName()) {
				continue
			}
			for _, p := range w.Policies {
				if p.Namespace == c.Name {
					own = append(own, p.Roles[b.RoleName].Rules...)
				}
			}
		}
	}
	for range 1 + pick(2) {
		r := pick.PolicyRule()
		if len(own) > 0 && pick(5) != 0 {
			r = *own[pick(len(own))].DeepCopy()
			switch pick(6) {
			case 0:
				r.ResourceKinds = append(r.ResourceKinds, pick.PolicyRule().ResourceKinds...)
			case 1:
				r.Verbs = pick.PolicyRule().Verbs
			case 2:
				r.ResourceNames = []string{"web"}
			case 3:
				r.When = "b"
			case 4:
				r.ResourceKinds = []string{"Gizmo"}
			}
		}
		r.Deny = pick(8) == 0
		rules = append(rules, r)
	}
	return rules
}

// granted is the world after alice has been given Policy rules in a namespace.
func granted(before *refmodel.World, ns string, rules []policyv1alpha1.PolicyRule) *refmodel.World {
	after := *before
	after.Policies = slices.Clone(before.Policies)
	i := slices.IndexFunc(after.Policies, func(p *policyv1alpha1.Policy) bool { return p.Namespace == ns })
	if i < 0 {
		i = len(after.Policies)
		after.Policies = append(after.Policies, &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{}})
	}
	after.Policies[i] = after.Policies[i].DeepCopy()
	after.Policies[i].Roles["new"] = policyv1alpha1.PolicyRole{Rules: rules}
	after.PolicyBindings = append(slices.Clone(before.PolicyBindings), &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: ns},
		RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"new": {RoleName: "new", UserNames: []string{"alice"}}}})
	return &after
}

// grantedRBAC is the world after alice has been given rules of RBAC, in a namespace or everywhere.
func grantedRBAC(before *refmodel.World, ns string, rules []rbacv1.PolicyRule) *refmodel.World {
	after := *before
	after.ClusterRoles = append(slices.Clone(before.ClusterRoles), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "new"}, Rules: rules})
	ref, subjects := rbacv1.RoleRef{Kind: "ClusterRole", Name: "new"}, []rbacv1.Subject{{Kind: "User", Name: "alice"}}
	if ns == "" {
		after.ClusterRoleBindings = append(slices.Clone(before.ClusterRoleBindings), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "new"}, RoleRef: ref, Subjects: subjects})
	} else {
		after.RoleBindings = append(slices.Clone(before.RoleBindings), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "new", Namespace: ns}, RoleRef: ref, Subjects: subjects})
	}
	return &after
}

// PO-12: the same for rules of RBAC, which the writer may hold through Policy, with denies applied.
func TestCoversNeverLetsPowerBeGainedByRBAC(t *testing.T) {
	accepted, gained := 0, 0
	for seed := range int64(rounds(500) / 10) {
		pick := picker(seed)
		w := pick.World()
		empower(pick, w)
		ns := []string{"hammer", ""}[pick(2)]
		writer := &user.DefaultInfo{Name: "bob", Groups: []string{"team-b", "system:authenticated"}}
		var rules []rbacv1.PolicyRule
		for range 1 + pick(2) {
			r := pick.RBACRule()
			if pick(3) != 0 { // something small, which is more often held
				r = rbacv1.PolicyRule{Verbs: []string{refmodel.Verbs[pick(7)]}, APIGroups: []string{refmodel.APIGroups[pick(3)]}, Resources: []string{refmodel.Plurals[pick(5)]}}
			}
			rules = append(rules, r)
		}
		if Build(inputOf(w)).Covers(Grant{User: writer, Namespace: ns, RBAC: rules}) != nil {
			continue
		}
		accepted++
		gained += requireNoGain(t, seed, w, grantedRBAC(w, ns, rules), writer, ns, rules)
	}
	if accepted < 5 || gained < 200 {
		t.Fatalf("%d grants were accepted and %d requests gained: too few to prove anything", accepted, gained)
	}
}

// requireNoGain looks at everything that alice can do after a grant. It returns how many requests alice has gained.
func requireNoGain(t *testing.T, seed int64, before, after *refmodel.World, writer user.Info, ns string, rules any) (gained int) {
	t.Helper()
	alice := &user.DefaultInfo{Name: "alice"}
	if seed%2 == 0 {
		alice.Groups = []string{"team-a"}
	}
	futures := [][]refmodel.Resource{before.Served, append(slices.Clone(before.Served), refmodel.Resource{Group: "other.io", Plural: "gizmos", Kind: "Gizmo"},
		refmodel.Resource{Group: "other.io", Plural: "deployments", Kind: "Deployment"})}
	if !slices.ContainsFunc(before.Served, func(r refmodel.Resource) bool { return r.Plural == "widgets" }) {
		futures = append(futures, append(slices.Clone(before.Served), refmodel.Resource{Group: "other.io", Plural: "gizmos", Kind: "Widget"}))
	}
	outcomes := assignments(after)
	for _, served := range futures {
		b, a := *before, *after
		b.Served, a.Served = served, served
		for _, scope := range scopesOf(ns) {
			everyRequest(scope, func(r *refmodel.Request) {
				r.User = alice
				now := a.Hits(r)
				if len(now.Master)+len(now.Local)+len(now.Cluster)+len(now.RBAC) == 0 {
					return
				}
				was := b.Hits(r)
				r.User = writer
				held := b.Hits(r)
				ways := outcomes
				if !now.Conditional() && !was.Conditional() && !held.Conditional() {
					ways = ways[:1]
				}
				for _, holds := range ways {
					if !now.Allowed(holds) || was.Allowed(holds) {
						continue
					}
					gained++
					if !held.Allowed(holds) {
						t.Fatalf("seed %d: in %q alice gained %+v, which the writer does not hold, through\n%+v", seed, ns, r.AttributesRecord, rules)
					}
				}
			})
		}
	}
	return gained
}

func scopesOf(ns string) []string {
	if ns == "master" || ns == "" {
		return []string{"", "anvil", "master"}
	}
	return []string{ns}
}

// assignments are the ways in which the conditions of the worlds, a and b, can come out. A name is unknown both ways.
func assignments(w *refmodel.World) (out []func(refmodel.Hit) bool) {
	text := map[string]string{}
	for _, p := range w.Policies {
		for name, r := range p.Roles {
			for i := range r.Rules {
				text[fmt.Sprint("Policy ", p.Namespace, "/", name, "#", i)] = r.Rules[i].When
			}
		}
	}
	for bits := range 4 {
		out = append(out, func(h refmodel.Hit) bool {
			when := text[fmt.Sprint(h.Role, "#", h.Rule)]
			return h.Answer == refmodel.IfName || when == "a" && bits&1 != 0 || when == "b" && bits&2 != 0
		})
	}
	return out
}

// PO-12: everybody can grant what they have: a role without deny rules and without conditions about the caller, where it
// is bound to them.
func TestCoversIsReflexive(t *testing.T) {
	for seed := range int64(rounds(400)) {
		pick := picker(seed)
		var rules []policyv1alpha1.PolicyRule
		for range 1 + pick(3) {
			if r := pick.PolicyRule(); r.When != refmodel.Broken {
				r.Deny = false
				rules = append(rules, r)
			}
		}
		w := pick.World()
		w.Policies = []*policyv1alpha1.Policy{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{"own": {Rules: rules}}}}
		w.PolicyBindings = []*policyv1alpha1.PolicyBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "hammer"},
			RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"own": {RoleName: "own", UserNames: []string{"bob"}}}}}
		if err := Build(inputOf(w)).Covers(Grant{User: &user.DefaultInfo{Name: "bob"}, Namespace: "hammer", Policy: rules}); err != nil {
			t.Fatalf("seed %d: %v\n%+v", seed, err, rules)
		}
	}
}

func policyWorld(master, hammer map[string][]policyv1alpha1.PolicyRule) *refmodel.World {
	w := &refmodel.World{Master: "master", Served: []refmodel.Resource{{Plural: "pods", Kind: "Pod"}, {Plural: "nodes", Kind: "Node"}, {Plural: "secrets", Kind: "Secret"},
		{Group: "apps", Plural: "deployments", Kind: "Deployment"}, {Group: "x.io", Plural: "gadgets", Kind: "Thing"}, {Group: "authorization.proviso.dev", Plural: "roles", Kind: "Role"}}}
	for ns, roles := range map[string]map[string][]policyv1alpha1.PolicyRule{"master": master, "hammer": hammer} {
		p := &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{}}
		b := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: ns}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{}}
		for name, rules := range roles {
			p.Roles[name] = policyv1alpha1.PolicyRole{Rules: rules}
			b.RoleBindings[name] = policyv1alpha1.PolicyRoleBinding{RoleName: name, UserNames: []string{name}}
		}
		w.Policies, w.PolicyBindings = append(w.Policies, p), append(w.PolicyBindings, b)
	}
	return w
}

type rules = []policyv1alpha1.PolicyRule

// PO-12: what people are told, and what people can do.
func TestCoversByExample(t *testing.T) {
	specials := []string{"*", "escalate", "bind", "deny", "impersonate*", "unsafe-delete-ignore-read-errors"}
	w := policyWorld(map[string][]policyv1alpha1.PolicyRule{
		"clark":  {{Verbs: specials, ResourceKinds: []string{"*"}}, {Verbs: specials, NonResourceURLs: []string{"*"}}},
		"edwina": {{Verbs: []string{"*"}, ResourceKinds: []string{"*", "-roles", "-secrets"}}},
		"noexec": {{Verbs: []string{"*", "-exec"}, ResourceKinds: []string{"*"}}},
		"nodes":  {{Verbs: []string{"proxy"}, ResourceKinds: []string{"nodes"}}},
		"gadget": {{Verbs: []string{"get"}, ResourceKinds: []string{"*", "-gadgets"}}},
		"verbs":  {{Verbs: []string{"get", "list", "watch", "create", "update", "delete", "exec", "proxy", "escalate", "bind", "deny", "impersonate", "unsafe-delete-ignore-read-errors"}, ResourceKinds: []string{"*"}}},
		"urls":   {{Verbs: []string{"get"}, NonResourceURLs: []string{"/debug/", "/logs*"}}},
		"denied": {{Verbs: specials, ResourceKinds: []string{"*"}}, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"deployments.apps"}, When: "a"}},
	}, map[string][]policyv1alpha1.PolicyRule{
		"edgar": {{Verbs: []string{"update"}, ResourceKinds: []string{"deployments.apps"}, When: "object.spec.replicas < 5",
			AttributeRestrictions: &policyv1alpha1.AttributeRestrictions{FieldsMutable: []string{"labels", ".spec.replicas"}}}},
		"botty": {{Verbs: []string{"create"}, ResourceKinds: []string{"pods."}, When: `request.user == "botty"`}},
	})
	w.ClusterRoles = []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}}}
	w.ClusterRoleBindings = []*rbacv1.ClusterRoleBinding{{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "pods"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "rbacca"}}}}
	w.ClusterRoles = append(w.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "some"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"list"}, APIGroups: []string{"*"}, Resources: []string{"pods", "services", "nodes", "pods/status"}}}})
	w.ClusterRoleBindings = append(w.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "some"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "some"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "somebody"}}})
	ix := Build(inputOf(w))
	labels := &policyv1alpha1.AttributeRestrictions{FieldsMutable: []string{"labels"}}
	for _, test := range []struct {
		name, who, ns string
		policy        rules
		rbac          []rbacv1.PolicyRule
		want          string // part of the refusal; empty: accepted
	}{
		{name: "cluster admin grants everything", who: "clark", policy: rules{{Verbs: specials, ResourceKinds: []string{"*"}}, {Verbs: []string{"get"}, NonResourceURLs: []string{"/x*"}}}},
		{name: "cluster admin grants everything of RBAC", who: "clark", rbac: []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}, {Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}}},
		{name: "deny rules grant nothing", who: "nobody", policy: rules{{Deny: true, Verbs: []string{"*"}, ResourceKinds: []string{"*"}}}},
		{name: "editor grants a part", who: "edwina", policy: rules{{Verbs: []string{"get", "exec"}, ResourceKinds: []string{"pods", "Deployment.apps"}}}},
		{name: "a kind of any group can become anything", who: "edwina", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"Deployment"}}}, want: "get roles (should its kind become deployment"},
		{name: "editor grants what they have", who: "edwina", policy: rules{{Verbs: []string{"*"}, ResourceKinds: []string{"-secrets", "-roles"}}}},
		{name: "editor cannot grant the exception", who: "edwina", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"secrets"}}}, want: "get secrets: no rule allows it"},
		{name: "editor cannot grant without the exception", who: "edwina", policy: rules{{Verbs: []string{"*"}, ResourceKinds: []string{"*", "-roles"}}}, want: "secrets"},
		{name: "editor cannot grant special verbs", who: "edwina", policy: rules{{Verbs: []string{"bind"}, ResourceKinds: []string{"pods"}}}, want: "bind pods"},
		{name: "RBAC's star has the special verbs", who: "edwina", rbac: []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"pods"}}}, want: "bind pods: no rule allows it"},
		{name: "exec through the parent", who: "noexec", policy: rules{{Verbs: []string{"exec"}, ResourceKinds: []string{"pods"}}}, want: "pods/exec: no rule allows it"},
		{name: "get beside exec", who: "noexec", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"pods"}}}},
		{name: "proxy of nodes is not proxy of all", who: "nodes", policy: rules{{Verbs: []string{"proxy"}, ResourceKinds: []string{"*/proxy"}}}, want: "pods/proxy: no rule allows it"},
		{name: "proxy of nodes", who: "nodes", policy: rules{{Verbs: []string{"proxy"}, ResourceKinds: []string{"nodes./proxy"}}}},
		{name: "an unserved kind need not have the plural one thinks", who: "gadget", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"*", "-Gadget"}}}, want: "get gadgets: no rule allows it"},
		{name: "the plural itself", who: "gadget", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"*", "-gadgets"}}}},
		{name: "all that is named is not all", who: "somebody", rbac: []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}, want: "list any other resource: no rule allows it"},
		{name: "one of what is named", who: "somebody", rbac: []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{"*"}, Resources: []string{"pods"}}}},
		{name: "all subresources that are named are not all", who: "somebody", policy: rules{{Verbs: []string{"list"}, ResourceKinds: []string{"pods./*"}}}, want: "list pods/any other subresource: no rule allows it"},
		{name: "one subresource", who: "somebody", policy: rules{{Verbs: []string{"list"}, ResourceKinds: []string{"pods./status"}}}},
		{name: "all verbs that are named are not all", who: "verbs", policy: rules{{Verbs: []string{"*"}, ResourceKinds: []string{"secrets"}}}, want: "any other verb secrets: no rule allows it"},
		{name: "all verbs that are named", who: "verbs", policy: rules{{Verbs: []string{"get", "patch", "deletecollection"}, ResourceKinds: []string{"secrets"}}}},
		{name: "impersonate is not all of impersonation", who: "verbs", policy: rules{{Verbs: []string{"impersonate*"}, ResourceKinds: []string{"users"}}}, want: "impersonate* users: no rule allows it"},
		{name: "a path is not what is below it", who: "urls", policy: rules{{Verbs: []string{"get"}, NonResourceURLs: []string{"/debug/*"}}}, want: "get /debug/*: no rule allows it"},
		{name: "below a prefix", who: "urls", policy: rules{{Verbs: []string{"get"}, NonResourceURLs: []string{"/debug/", "/logs/kubelet*"}}}},
		{name: "RBAC counts", who: "rbacca", ns: "hammer", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"pods."}}}},
		{name: "RBAC is one group", who: "rbacca", ns: "hammer", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"pods"}}}, want: "get pods in any other API group: no rule allows it"},
		{name: "a kind that is not served", who: "rbacca", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"Gizmo.other.io"}}}, want: "gizmo"},
		{name: "conditional deny", who: "denied", policy: rules{{Verbs: []string{"delete"}, ResourceKinds: []string{"deployments.apps"}}}, want: "denies it under a condition"},
		{name: "beside the conditional deny", who: "denied", policy: rules{{Verbs: []string{"update"}, ResourceKinds: []string{"deployments.apps"}}}},
		{name: "same condition", who: "edgar", ns: "hammer", policy: rules{{Verbs: []string{"update"}, ResourceKinds: []string{"deployments.apps"}, When: "object.spec.replicas < 5", AttributeRestrictions: labels}}},
		{name: "condition dropped", who: "edgar", ns: "hammer", policy: rules{{Verbs: []string{"update"}, ResourceKinds: []string{"deployments.apps"}, When: "object.spec.replicas < 5"}}, want: "not known to imply"},
		{name: "condition changed", who: "edgar", ns: "hammer", policy: rules{{Verbs: []string{"update"}, ResourceKinds: []string{"deployments.apps"}, When: "object.spec.replicas < 9", AttributeRestrictions: labels}}, want: "not known to imply"},
		{name: "condition about the caller", who: "botty", ns: "hammer", policy: rules{{Verbs: []string{"create"}, ResourceKinds: []string{"pods."}, When: `request.user == "botty"`}}, want: "without using request"},
		{name: "elsewhere", who: "edgar", ns: "anvil", policy: rules{{Verbs: []string{"update"}, ResourceKinds: []string{"deployments.apps"}, When: "object.spec.replicas < 5", AttributeRestrictions: labels}}, want: "no rule allows it"},
		{name: "unreadable", who: "clark", policy: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"pod*"}}}, want: "cannot tell"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := ix.Covers(Grant{User: &user.DefaultInfo{Name: test.who}, Namespace: test.ns, Policy: test.policy, RBAC: test.rbac})
			switch {
			case test.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	if err := ix.Covers(Grant{User: &user.DefaultInfo{Name: "x", Groups: []string{"system:masters"}}, Policy: rules{{Verbs: specials, ResourceKinds: []string{"*"}}}}); err != nil {
		t.Errorf("system:masters: %v", err)
	}
}
