package matrix

import (
	"fmt"
	"math/rand/v2"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/ruleset"
)

var (
	tried      = []string{"get", "list", "create", "update", "patch", "delete"}
	kinds      = []string{"configmaps", "secrets", "pods", "pods/log", "*"}
	namespaces = []string{"master", "ns", "other"}
	names      = []string{"a", "b"}
	resources  = []plan.Resource{{Version: "v1", Resource: "configmaps", Namespaced: true}, {Version: "v1", Resource: "secrets", Namespaced: true}, {Version: "v1", Resource: "pods", Namespaced: true},
		{Version: "v1", Resource: "pods", Subresource: "log", Namespaced: true}, {Version: "v1", Resource: "nodes"}}
	subjects = []ruleset.Subject{{Name: "u1"}, {Name: "u2"}, {Name: "nobody"}, {Group: true, Name: "g"}, {Group: true, Name: "system:authenticated"}}
)

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// server takes every request as it is, and for one verb alone.
type server struct{}

// Scoped implements plan.Server.
func (server) Scoped(a authorizer.Attributes) authorizer.Attributes { return a }

// AlsoNeeds implements plan.Server.
func (server) AlsoNeeds(authorizer.Attributes) string { return "" }

type mark struct{}

// RuleCondition implements ruleset.Condition.
func (mark) RuleCondition() {}

// random makes Policy with denies, names and conditions, and RBAC.
func random(r *rand.Rand) *ruleset.Index {
	in := ruleset.Input{MasterNamespace: "master", CompileRule: func(ruleset.RoleRef, int, *policyv1alpha1.PolicyRule) (ruleset.Condition, error) { return mark{}, nil }}
	var served []ruleset.Served
	for _, res := range resources {
		if res.Subresource == "" {
			served = append(served, ruleset.Served{Resource: res.Resource, Kind: "K" + res.Resource, Builtin: true})
		}
	}
	in.Kinds = ruleset.NewKinds(served)
	someone := func() (users, groups []string) {
		if s := pick(r, subjects); s.Group {
			return nil, []string{s.Name}
		} else if s.Name != "nobody" {
			return []string{s.Name}, nil
		}
		return []string{"u1", "u2"}, []string{"g"}
	}
	for _, ns := range []string{"master", "ns"} {
		p := &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: ns}, Roles: map[string]policyv1alpha1.PolicyRole{}}
		b := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: ns, Namespace: ns}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{}}
		for i := range 1 + r.IntN(4) {
			rule := policyv1alpha1.PolicyRule{Deny: r.IntN(3) == 0, Verbs: []string{pick(r, tried)}, ResourceKinds: []string{pick(r, kinds)}}
			if r.IntN(3) == 0 {
				rule.ResourceNames = []string{pick(r, names)}
			}
			if r.IntN(4) == 0 {
				rule.When = "true"
			}
			name := fmt.Sprint("r", i)
			p.Roles[name] = policyv1alpha1.PolicyRole{Rules: []policyv1alpha1.PolicyRule{rule}}
			users, groups := someone()
			b.RoleBindings[name] = policyv1alpha1.PolicyRoleBinding{RoleName: name, UserNames: users, GroupNames: groups}
		}
		in.Policies, in.PolicyBindings = append(in.Policies, p), append(in.PolicyBindings, b)
	}
	for i := range r.IntN(3) {
		name := fmt.Sprint("c", i)
		in.ClusterRoles = append(in.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{Verbs: []string{pick(r, tried)}, APIGroups: []string{""}, Resources: []string{pick(r, kinds)}}}})
		users, groups := someone()
		var to []rbacv1.Subject
		for _, u := range users {
			to = append(to, rbacv1.Subject{Kind: "User", Name: u})
		}
		for _, g := range groups {
			to = append(to, rbacv1.Subject{Kind: "Group", Name: g})
		}
		if ref := (rbacv1.RoleRef{Kind: "ClusterRole", Name: name}); r.IntN(2) == 0 {
			in.ClusterRoleBindings = append(in.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: ref, Subjects: to})
		} else {
			in.RoleBindings = append(in.RoleBindings, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}, RoleRef: ref, Subjects: to})
		}
	}
	return ruleset.Build(in)
}

// asked is a subject as a caller.
func asked(s ruleset.Subject) user.Info {
	if s.Group {
		return &user.DefaultInfo{Groups: []string{s.Name, "system:authenticated"}}
	}
	return &user.DefaultInfo{Name: s.Name, Groups: []string{"system:authenticated"}}
}

// TR-11: every cell, those that are not there included, is what the engine decides for every name.
func TestCellsAreWhatIsDecided(t *testing.T) {
	counts, shared := map[plan.Effect]int{}, 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 11))
		ix := random(r)
		cells, err := Cells(t.Context(), Input{Index: ix, Server: server{}, Resources: resources, Verbs: tried, Namespaces: append([]string{"", Elsewhere}, namespaces...), Names: names, Subjects: subjects})
		if err != nil {
			t.Fatal(err)
		}
		type key struct {
			s                  ruleset.Subject
			ns, res, sub, verb string
		}
		got := map[key]plan.Effect{}
		for _, c := range cells {
			for _, s := range c.Subjects {
				at := key{s, c.Namespace, c.Resource, c.Subresource, c.Verb}
				if got[at] != "" || len(c.By) == 0 {
					t.Fatalf("seed %d: %+v is there twice, or without a rule", seed, c)
				}
				got[at] = c.Access
			}
			shared += min(1, len(c.Subjects)-1)
		}
		for _, s := range subjects {
			for _, res := range resources {
				for _, ns := range append([]string{"", Elsewhere}, namespaces...) {
					if (ns != "") != res.Namespaced {
						continue
					}
					for _, verb := range tried {
						want := bruteForce(ix, s, res, ns, verb)
						counts[want]++
						access := got[key{s, ns, res.Resource, res.Subresource, verb}]
						if access == "" {
							access = plan.No
						}
						if access != want {
							t.Fatalf("seed %d: %v %s %s/%s in %q: %s, want %s", seed, s, verb, res.Resource, res.Subresource, ns, access, want)
						}
					}
				}
			}
		}
	}
	for _, e := range []plan.Effect{plan.Yes, plan.If, plan.No, plan.Denied} {
		if counts[e] < 100 {
			t.Errorf("only %d cells are %s", counts[e], e)
		}
	}
	if shared < 100 {
		t.Errorf("only %d cells are of several subjects", shared)
	}
}

// bruteForce asks the engine as a caller would, name by name.
func bruteForce(ix *ruleset.Index, s ruleset.Subject, res plan.Resource, ns, verb string) plan.Effect {
	if ns == Elsewhere {
		ns = "unheard-of"
	}
	tried := []string{"a", "b", "zzz"}
	switch {
	case res.Subresource != "":
	case verb == "create":
		tried = []string{""}
	case verb == "list": // by a field selector, or of all objects
		tried = append(tried, "")
	}
	yes, no, denied := 0, 0, 0
	for _, name := range tried {
		v := ix.Decide(authorizer.AttributesRecord{User: asked(s), Verb: verb, APIVersion: "v1", Resource: res.Resource, Subresource: res.Subresource, Namespace: ns, Name: name, ResourceRequest: true})
		switch v.Certainty {
		case ruleset.Always:
			yes++
		case ruleset.Never:
			no++
			if v.Deny.Found() {
				denied++
			}
		}
	}
	switch {
	case yes == len(tried):
		return plan.Yes
	case no < len(tried):
		return plan.If
	case denied > 0:
		return plan.Denied
	}
	return plan.No
}

// TR-11: a list or watch can name its object by a field selector, and a rule with names allows that.
func TestListsByName(t *testing.T) {
	ix := ruleset.Build(ruleset.Input{MasterNamespace: "master",
		Roles: []*rbacv1.Role{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"},
			Rules: []rbacv1.PolicyRule{{Verbs: []string{"list", "watch", "deletecollection"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"a"}}}}},
		RoleBindings: []*rbacv1.RoleBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "u"}}}}})
	cells, err := Cells(t.Context(), Input{Index: ix, Server: server{}, Resources: resources, Verbs: []string{"list", "watch", "deletecollection"}, Namespaces: []string{"ns"}, Names: names})
	if err != nil || len(cells) != 2 || cells[0].Verb != "list" || cells[0].Access != plan.If || cells[1].Verb != "watch" || cells[1].Access != plan.If {
		t.Errorf("%+v, %v", cells, err)
	}
}

// Without a list of subjects everybody who is bound is there.
func TestEverybodyWhoIsBound(t *testing.T) {
	ix := random(rand.New(rand.NewPCG(1, 2)))
	all, err := Cells(t.Context(), Input{Index: ix, Server: server{}, Resources: resources, Verbs: tried, Namespaces: namespaces, Names: names})
	if err != nil || len(all) == 0 {
		t.Fatal(len(all), err)
	}
	some, err := Cells(t.Context(), Input{Index: ix, Server: server{}, Resources: resources, Verbs: tried, Namespaces: namespaces, Names: names, Subjects: all[0].Subjects[:1]})
	if err != nil || len(some) == 0 || len(some) > len(all) {
		t.Fatal(len(some), len(all), err)
	}
	for _, c := range some {
		if len(c.Subjects) != 1 || c.Subjects[0] != all[0].Subjects[0] {
			t.Errorf("%+v", c)
		}
	}
}
