package escalation

import (
	"fmt"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/test/law"
	"proviso.dev/proviso/test/refmodel"
)

// everyRequest enumerates a small universe of requests in a namespace (or cluster-wide), with names that no rule
// mentions in every place.
func everyRequest(ns string, visit func(*refmodel.Request)) {
	for _, verb := range []string{"get", "create", "update", "patch", "delete", "deletecollection", "escalate", "impersonate", "impersonate:other", "granular", "granular:labels", "granular:other", "reveal:other", "frobnicate"} {
		for _, group := range []string{"", "apps", "example.com", "other.io", refmodel.Guarded} {
			for _, res := range []string{"pods", "deployments", "widgets", "gizmos", "nodes", "secrets", "secret", "requests"} {
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

// PO-12: nobody gains power through a grant that Covers lets pass. A writer grants a random role to somebody who has
// other roles of their own; whatever that somebody can do afterwards and could not do before, the writer could do
// before, for every request of a small universe, for both ways in which conditions come out, and also after more kinds
// are served.
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
	to := grantees[pick(len(grantees))]
	g := Grant{User: writing, Namespace: ns, Policy: grantable(pick, w, writing, ns), Grantees: to.named(pick), Lifted: pick(4) == 0}
	if Covers(ruleset.Build(inputOf(w)), g) != nil {
		return 0, 0
	}
	return 1, requireNoGain(t, seed, w, granted(w, g, to), g, to)
}

// PO-12: what the rules of the writer only allow by its name does not matter. A grant passes exactly if it passes when
// every name that any rule mentions is looked at.
func TestOnlySomeNamesMatter(t *testing.T) {
	accepted, refused := 0, 0
	law.Rounds(t, 1000, func(seed int64) int {
		pick := picker(seed)
		w := pick.World()
		empower(pick, w)
		ns := []string{"hammer", "master", ""}[pick(3)]
		g := Grant{User: writing, Namespace: ns, Policy: grantable(pick, w, writing, ns), Grantees: grantees[pick(len(grantees))].named(pick), Lifted: pick(4) == 0}
		if pick(4) == 0 {
			g.Policy, g.RBAC = nil, []rbacv1.PolicyRule{pick.RBACRule(), pick.RBACRule()}
		}
		ix := ruleset.Build(inputOf(w))
		short, long := Covers(ix, g), (&comparison{index: ix, everyName: true}).covers(g)
		if (short == nil) != (long == nil) {
			t.Errorf("seed %d: %v, and with every name %v", seed, short, long)
		}
		if short == nil {
			accepted++
		} else {
			refused++
		}
		return 1
	})
	if accepted < 50 || refused < 50 {
		law.TooFew(t, "%d grants were accepted and %d refused: too few to prove anything", accepted, refused)
	}
}

// writing is who writes the grants.
var writing = &user.DefaultInfo{Name: "bob", Groups: []string{"team-b", "system:authenticated"}}

// grantee is somebody who gets rights: by whom a binding names, and as whom he makes requests.
type grantee struct {
	subject ruleset.Subject
	user    user.DefaultInfo
}

var grantees = []grantee{
	{ruleset.Subject{Name: "alice"}, user.DefaultInfo{Name: "alice", Groups: []string{"system:authenticated"}}},
	{ruleset.Subject{Name: "alice"}, user.DefaultInfo{Name: "alice", Groups: []string{"team-a", "system:authenticated"}}},
	{ruleset.Subject{Group: true, Name: "team-a"}, user.DefaultInfo{Name: "carol", Groups: []string{"team-a", "system:authenticated"}}},
	{ruleset.Subject{Name: "system:serviceaccount:hammer:bot"}, user.DefaultInfo{Name: "system:serviceaccount:hammer:bot",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:hammer", "system:authenticated"}}},
	{ruleset.Subject{Name: "system:anonymous"}, user.DefaultInfo{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}},
}

// named is the grantee of a binding, or nobody: the check of a role, which holds for whoever has logged in.
func (g grantee) named(pick refmodel.Pick) []ruleset.Subject {
	if pick(2) == 0 && g.subject.Name != "system:anonymous" {
		return nil
	}
	return []ruleset.Subject{g.subject}
}

func (g grantee) rbac() []rbacv1.Subject {
	kind := "User"
	if g.subject.Group {
		kind = "Group"
	}
	return []rbacv1.Subject{{Kind: kind, Name: g.subject.Name}}
}

// empower gives the writer broad rights with a few exceptions, so that there is something to grant.
func empower(pick refmodel.Pick, w *refmodel.World) {
	broad := policyv1alpha1.PolicyRule{Verbs: []string{"*"}, ResourceKinds: []string{"*"}}
	for _, e := range []string{"-get", "-delete", "-exec", "escalate", "impersonate*", "granular:*", "reveal:*"} {
		if pick(5) == 0 {
			broad.Verbs = append(broad.Verbs, e)
		}
	}
	for _, e := range []string{"-pods", "-secrets", "-Widget", "-*.apps", "-*/scale", "-Gizmo", "-*." + refmodel.Guarded, "-requests." + refmodel.Guarded} {
		if pick(6) == 0 {
			broad.ResourceKinds = append(broad.ResourceKinds, e)
		}
	}
	broad.When = []string{"", "", "a"}[pick(3)]
	if pick(4) == 0 {
		broad.Where = refmodel.Whole
	}
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
	if pick(4) != 0 {
		ban(pick, w)
	}
}

// ban denies the writer something in the master namespace, and perhaps others as well.
func ban(pick refmodel.Pick, w *refmodel.World) {
	deny := policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{[]string{"get", "create", "*", "update"}[pick(4)]}, ResourceKinds: []string{[]string{"pods", "secrets", "*"}[pick(3)]},
		When: []string{"", "a", refmodel.Personal}[pick(3)]}
	to := []policyv1alpha1.PolicyRoleBinding{
		{GroupNames: []string{"system:authenticated"}}, {UserNames: []string{"bob", "alice"}}, {UserNames: []string{"bob"}, GroupNames: []string{"system:serviceaccounts"}},
		{GroupNames: []string{"team-b"}}, {UserNames: []string{"bob"}, GroupNames: []string{"team-a"}}}[pick(5)]
	to.RoleName = "ban"
	i := slices.IndexFunc(w.Policies, func(p *policyv1alpha1.Policy) bool { return p.Namespace == w.Master })
	if i < 0 {
		i = len(w.Policies)
		w.Policies = append(w.Policies, &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: w.Master, Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{}})
	}
	w.Policies[i].Roles["ban"] = policyv1alpha1.PolicyRole{Rules: []policyv1alpha1.PolicyRule{deny}}
	where := w.Master
	if pick(4) == 0 {
		where = "hammer"
	}
	w.PolicyBindings = slices.DeleteFunc(w.PolicyBindings, func(b *policyv1alpha1.PolicyBinding) bool { return b.Namespace == where && b.Name == w.Master })
	w.PolicyBindings = append(w.PolicyBindings, &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: where, Name: w.Master},
		RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"ban": to}})
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
			switch pick(8) {
			case 0:
				r.ResourceKinds = append(r.ResourceKinds, pick.PolicyRule().ResourceKinds...)
			case 1:
				r.Verbs = pick.PolicyRule().Verbs
			case 2:
				r.ResourceNames = []string{"web"}
			case 3:
				r.When = "b"
			case 5:
				r.ResourceKinds = append(r.ResourceKinds, []string{"pods/exec", "*/exec", "nodes/proxy", "Pod/exec"}[pick(4)])
			case 6:
				r.Verbs = append(r.Verbs, []string{"exec", "proxy"}[pick(2)])
			case 4:
				r.ResourceKinds = []string{[]string{"Gizmo", "gizmos", "pods", "Secret"}[pick(4)]}
			}
		}
		if pick(8) == 0 && r.NonResourceURLs == nil {
			r.Where = refmodel.Whole
		}
		r.Deny = pick(8) == 0
		rules = append(rules, r)
	}
	return rules
}

// granted is the world after somebody has been given the rules of Policy.
func granted(before *refmodel.World, g Grant, to grantee) *refmodel.World {
	after, ns := *before, g.Namespace
	after.Policies = slices.Clone(before.Policies)
	i := slices.IndexFunc(after.Policies, func(p *policyv1alpha1.Policy) bool { return p.Namespace == ns })
	if i < 0 {
		i = len(after.Policies)
		after.Policies = append(after.Policies, &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{}})
	}
	after.Policies[i] = after.Policies[i].DeepCopy()
	after.Policies[i].Roles["new"] = policyv1alpha1.PolicyRole{Rules: g.Policy}
	binding := policyv1alpha1.PolicyRoleBinding{RoleName: "new", UserNames: []string{to.subject.Name}}
	if to.subject.Group {
		binding.UserNames, binding.GroupNames = nil, binding.UserNames
	}
	after.PolicyBindings = append(slices.Clone(before.PolicyBindings), &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: ns},
		RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"new": binding}})
	return &after
}

// grantedRBAC is the world after somebody has been given the rules of RBAC, in a namespace or everywhere.
func grantedRBAC(before *refmodel.World, g Grant, to grantee) *refmodel.World {
	after := *before
	after.ClusterRoles = append(slices.Clone(before.ClusterRoles), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "new"}, Rules: g.RBAC})
	ref := rbacv1.RoleRef{Kind: "ClusterRole", Name: "new"}
	if g.Namespace == "" {
		after.ClusterRoleBindings = append(slices.Clone(before.ClusterRoleBindings), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "new"}, RoleRef: ref, Subjects: to.rbac()})
	} else {
		after.RoleBindings = append(slices.Clone(before.RoleBindings), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "new", Namespace: g.Namespace}, RoleRef: ref, Subjects: to.rbac()})
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
		to := grantees[pick(len(grantees))]
		g := Grant{User: writing, Namespace: []string{"hammer", ""}[pick(2)], Grantees: to.named(pick), Lifted: pick(4) == 0}
		for range 1 + pick(2) {
			r := pick.RBACRule()
			if pick(3) != 0 { // something small, which is more often held
				r = rbacv1.PolicyRule{Verbs: []string{refmodel.Verbs[pick(7)]}, APIGroups: []string{refmodel.APIGroups[pick(3)]}, Resources: []string{refmodel.Plurals[pick(5)]}}
			}
			g.RBAC = append(g.RBAC, r)
		}
		if Covers(ruleset.Build(inputOf(w)), g) != nil {
			return 1
		}
		accepted++
		gained += requireNoGain(t, seed, w, grantedRBAC(w, g, to), g, to)
		return 1
	})
	if accepted < 5 || gained < 200 {
		law.TooFew(t, "%d grants were accepted and %d requests gained: too few to prove anything", accepted, gained)
	}
}

// requireNoGain looks at everything that somebody can do after a grant. It returns how many requests he has gained.
func requireNoGain(t *testing.T, seed int64, before, after *refmodel.World, g Grant, to grantee) (gained int) {
	t.Helper()
	futures := [][]refmodel.Resource{before.Served}
	for _, kinds := range [][]string{{"gizmos", "Gizmo", "deployments", "Deployment"}, {"gizmos", "Widget", "secrets", "Gizmo"}, {"gizmos", "Secrets", "secret", "Widgets", "pods", "Secret"}} {
		served := slices.Clone(before.Served)
		for i := 0; i < len(kinds); i += 2 {
			served = append(served, refmodel.Resource{Group: "other.io", Plural: kinds[i], Kind: kinds[i+1]})
		}
		futures = append(futures, served)
	}
	certainties := assignments(after)
	for _, served := range futures {
		b, a := *before, *after
		b.Served, a.Served = served, served
		for _, scope := range scopesOf(g.Namespace) {
			everyRequest(scope, func(r *refmodel.Request) {
				r.User = &to.user
				now := a.Hits(r)
				if len(now.Master)+len(now.Local)+len(now.Cluster)+len(now.RBAC) == 0 {
					return
				}
				was := b.Hits(r)
				r.User = g.User
				held := b.Hits(r)
				ways := certainties
				if !now.Conditional() && !was.Conditional() && !held.Conditional() {
					ways = ways[:1]
				}
				for _, holds := range ways {
					if !now.Allowed(holds.grantee) || was.Allowed(holds.grantee) {
						continue
					}
					gained++
					if g.Lifted && held.Denied(holds.writer) || !g.Lifted && !held.Allowed(holds.writer) {
						t.Fatalf("seed %d: in %q %s gained %+v, which the writer does not hold, through\n%+v", seed, g.Namespace, to.subject, r.AttributesRecord, g)
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

// assignment is one way in which conditions come out, for the grantee and for the writer: the same, unless they ask who
// it is.
type assignment struct{ grantee, writer func(refmodel.Hit) bool }

// assignments are the ways in which the conditions of a world can come out. A name is unknown both ways.
func assignments(w *refmodel.World) (out []assignment) {
	text, where, wheres := map[string]string{}, map[string]bool{}, 1
	for _, p := range w.Policies {
		for name, r := range p.Roles {
			for i := range r.Rules {
				id := fmt.Sprint("Policy ", p.Namespace, "/", name, "#", i)
				text[id], where[id] = r.Rules[i].When, r.Rules[i].Where != ""
				if where[id] {
					wheres = 4
				}
			}
		}
	}
	for bits := range 16 * wheres {
		holds := func(personal int) func(h refmodel.Hit) bool {
			return func(h refmodel.Hit) bool {
				id := fmt.Sprint(h.Role, "#", h.Rule)
				if where[id] && !map[refmodel.About]bool{refmodel.Object: bits&16 != 0, refmodel.Target: bits&32 != 0, refmodel.Nothing: h.Deny}[h.About] {
					return false // CA-26
				}
				when := text[id]
				return h.Answer == refmodel.IfName || when == "" && where[id] || when == "a" && bits&1 != 0 || when == "b" && bits&2 != 0 || when == refmodel.Personal && bits&personal != 0
			}
		}
		out = append(out, assignment{holds(4), holds(8)})
	}
	return out
}

// PO-12: everybody can grant what they have: a role without deny rules and without conditions about the caller, where
// it is bound to them.
func TestCoversIsReflexive(t *testing.T) {
	law.Rounds(t, 400, func(seed int64) int {
		pick := picker(seed)
		var rules []policyv1alpha1.PolicyRule
		for range 1 + pick(3) {
			if r := pick.PolicyRule(); r.When != refmodel.Broken && r.When != refmodel.Personal {
				r.Deny = false
				rules = append(rules, r)
			}
		}
		w := pick.World()
		w.Policies = []*policyv1alpha1.Policy{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{"own": {Rules: rules}}}}
		w.PolicyBindings = []*policyv1alpha1.PolicyBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "hammer"},
			RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"own": {RoleName: "own", UserNames: []string{"bob"}}}}}
		if err := Covers(ruleset.Build(inputOf(w)), Grant{User: &user.DefaultInfo{Name: "bob"}, Namespace: "hammer", Policy: rules}); err != nil {
			t.Fatalf("seed %d: %v\n%+v", seed, err, rules)
		}
		return 1
	})
}
