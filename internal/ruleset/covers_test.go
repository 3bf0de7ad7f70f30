package ruleset

import (
	"fmt"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/ruleset/refmodel"
	"proviso.dev/proviso/test/law"
)

// everyRequest enumerates a small universe of requests in a namespace (or cluster-wide), with names that no rule mentions
// in every place.
func everyRequest(ns string, visit func(*refmodel.Request)) {
	for _, verb := range []string{"get", "create", "update", "patch", "delete", "deletecollection", "escalate", "impersonate", "impersonate:other", "granular", "granular:labels", "granular:other", "frobnicate"} {
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
	law.Rounds(t, 40, func(seed int64) int {
		a, g := coversGainsNothing(t, seed, picker(seed))
		accepted, gained = accepted+a, gained+g
		return 1
	})
	if accepted < 5 || gained < 500 {
		law.TooFew(t, "%d grants were accepted and %d requests gained: too few to prove anything", accepted, gained)
	}
}

func FuzzCoversNeverLetsPowerBeGained(f *testing.F) {
	law.Fuzz(f, func(t *testing.T, pick func(int) int) { coversGainsNothing(t, 0, pick) })
}

// coversGainsNothing tries the law on one world: whether the grant was let pass, and how much was gained by it.
func coversGainsNothing(t *testing.T, seed int64, pick refmodel.Pick) (accepted, gained int) {
	w := pick.World()
	empower(pick, w)
	ns := []string{"hammer", "master"}[pick(2)]
	writer := &user.DefaultInfo{Name: "bob", Groups: []string{"team-b", "system:authenticated"}}
	rules := grantable(pick, w, writer, ns)
	ix := Build(inputOf(w))
	if ix.Covers(Grant{User: writer, Namespace: ns, Policy: rules}) != nil {
		return 0, 0
	}
	return 1, requireNoGain(t, seed, w, granted(w, ns, rules), writer, ns, rules)
}

// empower gives the writer broad rights with a few exceptions, so that there is something to grant.
func empower(pick refmodel.Pick, w *refmodel.World) {
	broad := policyv1alpha1.PolicyRule{Verbs: []string{"*"}, ResourceKinds: []string{"*"}}
	for _, e := range []string{"-get", "-delete", "-exec", "escalate", "impersonate*", "granular:*"} {
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
	law.Rounds(t, 80, func(seed int64) int {
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
			return 1
		}
		accepted++
		gained += requireNoGain(t, seed, w, grantedRBAC(w, ns, rules), writer, ns, rules)
		return 1
	})
	if accepted < 5 || gained < 200 {
		law.TooFew(t, "%d grants were accepted and %d requests gained: too few to prove anything", accepted, gained)
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
	law.Rounds(t, 400, func(seed int64) int {
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
		return 1
	})
}
