package suggest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/verbs"
)

var (
	tried      = []string{"get", "list", "create", "update", "patch", "delete", "deletecollection"}
	held       = append(slices.Clone(tried), "granular", "granular:label(a.com)", "granular:metadata")
	kinds      = []string{"configmaps", "secrets", "pods", "pods/exec", "*"}
	namespaces = []string{"master", "ns", "other"}
	names      = []string{"a", "b", "c"}
	conditions = []string{"", "", "", `object.x == 1`, `object.y == 1`}
	resources  = []plan.Resource{{Version: "v1", Resource: "configmaps", Namespaced: true}, {Version: "v1", Resource: "secrets", Namespaced: true}, {Version: "v1", Resource: "pods", Namespaced: true},
		{Version: "v1", Resource: "pods", Subresource: "exec", Namespaced: true}, {Version: "v1", Resource: "nodes"}}
)

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// server takes every request as it is.
type server struct{}

// Scoped implements plan.Server.
func (server) Scoped(a authorizer.Attributes) authorizer.Attributes { return a }

// AlsoNeeds implements plan.Server.
func (server) AlsoNeeds(authorizer.Attributes) string { return "" }

type mark struct{}

// RuleCondition implements ruleset.Condition.
func (mark) RuleCondition() {}

func empty() ruleset.Input {
	var served []ruleset.Served
	for _, res := range resources {
		if res.Subresource == "" {
			served = append(served, ruleset.Served{Resource: res.Resource, Kind: "K" + res.Resource, Builtin: true})
		}
	}
	return ruleset.Input{MasterNamespace: "master", Kinds: ruleset.NewKinds(served), CompileRule: func(ruleset.RoleRef, int, *policyv1alpha1.PolicyRule) (ruleset.Condition, error) { return mark{}, nil }}
}

// random makes policy for the user dora, who is in the group team.
func random(r *rand.Rand) ruleset.Input {
	in := empty()
	someone := func() (users, groups []string) {
		switch r.IntN(4) {
		case 0:
			return nil, []string{"team"}
		case 1:
			return nil, []string{"system:authenticated"}
		}
		return []string{"dora"}, nil
	}
	for _, ns := range []string{"master", "ns"} {
		p := &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: ns}, Roles: map[string]policyv1alpha1.PolicyRole{}}
		b := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: ns, Namespace: ns}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{}}
		for i := range 1 + r.IntN(4) {
			rule := policyv1alpha1.PolicyRule{Deny: r.IntN(5) == 0, Verbs: []string{pick(r, held), pick(r, held)}, ResourceKinds: []string{pick(r, kinds)}, When: pick(r, conditions)}
			if r.IntN(4) == 0 {
				rule.ResourceNames = []string{pick(r, names)}
			}
			name := fmt.Sprint("r", i)
			p.Roles[name] = policyv1alpha1.PolicyRole{Rules: []policyv1alpha1.PolicyRule{rule}}
			users, groups := someone()
			b.RoleBindings[name] = policyv1alpha1.PolicyRoleBinding{RoleName: name, UserNames: users, GroupNames: groups}
		}
		in.Policies, in.PolicyBindings = append(in.Policies, p), append(in.PolicyBindings, b)
	}
	for i := range r.IntN(4) {
		name := fmt.Sprint("c", i)
		in.ClusterRoles = append(in.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{Verbs: []string{pick(r, held), pick(r, held)}, APIGroups: []string{""}, Resources: []string{pick(r, kinds)}}}})
		to := []rbacv1.Subject{{Kind: "User", Name: "dora"}, {Kind: "User", Name: "bob"}}
		if ref := (rbacv1.RoleRef{Kind: "ClusterRole", Name: name}); r.IntN(2) == 0 {
			in.ClusterRoleBindings = append(in.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: ref, Subjects: to})
		} else {
			in.RoleBindings = append(in.RoleBindings, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}, RoleRef: ref, Subjects: to})
		}
	}
	return in
}

// everything are all requests that rules tell apart.
func everything() (all []Use) {
	for _, res := range resources {
		for _, ns := range append([]string{""}, namespaces...) {
			if !res.Namespaced && ns != "" {
				continue
			}
			for _, verb := range tried {
				for _, name := range append([]string{"", "z"}, names...) {
					if name != "" && res.Subresource == "" && (verb == "create" || verb == "list" || verb == "deletecollection") {
						continue
					}
					all = append(all, Use{Verb: verb, Resource: res.Resource, Subresource: res.Subresource, Namespace: ns, Name: name})
				}
			}
		}
	}
	return all
}

// TR-10: on random policies and random traffic, no request that was seen breaks, and nothing is allowed with the
// suggestion that was not allowed before.
func TestSuggestionsBreakAndWidenNothing(t *testing.T) {
	all := everything()
	who := &user.DefaultInfo{Name: "dora", Groups: []string{"team", "system:authenticated"}}
	made, conditional, fields, wheres := 0, 0, 0, 0
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 10))
		policy := random(r)
		ix := ruleset.Build(policy)
		in := Input{Subject: ruleset.Subject{Name: "dora"}, Who: who, Index: ix, Server: server{}, Policies: policy.Policies, PolicyBindings: policy.PolicyBindings, RoleBindings: policy.RoleBindings,
			ClusterRoleBindings: policy.ClusterRoleBindings, Policy: r.IntN(2) == 0, Name: "suggested", MaxNames: 2, Resources: resources, Verbs: tried, Namespaces: namespaces}
		for range 40 {
			in.Uses = append(in.Uses, pick(r, all))
		}
		for range 30 { // more objects than names are listed
			one := pick(r, all)
			if conditioned(one.Verb) && one.Subresource == "" && ix.Decide(one.attributes(who)).Certainty == ruleset.Always {
				for _, one.Name = range names {
					in.Uses = append(in.Uses, one)
				}
				break
			}
		}
		recorded := withBodies(t, r, &in)
		recorded.annotate()
		result, err := Make(in)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(result.Broken) > 0 {
			t.Fatalf("seed %d: %s breaks: %+v", seed, result.Broken[0], result.Parts)
		}
		if again, err := Make(in); err != nil || !reflect.DeepEqual(again.Parts, result.Parts) {
			t.Fatalf("seed %d: another time it is another suggestion: %v", seed, err)
		}
		for _, u := range all {
			held, given := ix.Decide(u.attributes(who)).Certainty, result.after.Decide(u.attributes(who)).Certainty
			if given > held {
				t.Fatalf("seed %d: %s is granted and not held: %+v", seed, u, result.Parts)
			}
			for _, w := range recorded.probes { // and by effect, with fields
				if u.Subresource != "" || u.Verb != "create" && !verbs.Updates(u.Verb) {
					continue
				}
				if was, is := recorded.allowed(ix, u.attributes(who), w), recorded.allowed(result.after, u.attributes(who), w); is > was {
					t.Fatalf("seed %d: %s, which writes %v, is %v and was %v: %+v", seed, u, w, is, was, result.Parts)
				}
			}
		}
		for _, u := range in.Uses {
			was, is := ix.Decide(u.attributes(who)).Certainty, result.after.Decide(u.attributes(who)).Certainty
			if was == ruleset.Always && is != was && verbs.Updates(u.Verb) && len(recorded.of[u]) == 0 {
				t.Fatalf("seed %d: nothing is known of the object of %s, and it is %v: %+v", seed, u, is, result.Parts)
			}
			for _, w := range recorded.of[u] {
				was, is := recorded.allowed(ix, u.attributes(who), w), recorded.allowed(result.after, u.attributes(who), w)
				if is < was && !recorded.holds(t, result.after.Decide(u.attributes(who)), u) {
					t.Fatalf("seed %d: %s, which wrote %v, was %v and is %v: %+v", seed, u, w, was, is, result.Parts)
				}
			}
		}
		taken := 0
		for _, l := range result.Lost {
			taken += len(l.Verbs) * len(l.Resources)
		}
		if taken != result.Before-result.After {
			t.Fatalf("seed %d: %d rights before, %d after, and %d are said to be taken away", seed, result.Before, result.After, taken)
		}
		fields, wheres = fields+len(result.Fields), wheres+result.Wheres
		for _, p := range result.Parts {
			made++
			for _, rule := range p.RBAC {
				check(t, rule.Verbs, rule.Resources, rule.ResourceNames)
			}
			for _, rule := range p.Policy {
				check(t, rule.Verbs, rule.ResourceKinds, rule.ResourceNames)
				if rule.When != "" {
					conditional++
				}
			}
		}
	}
	if made < 150 || conditional < 25 || fields < 20 || wheres < 5 {
		t.Errorf("only %d parts, %d conditions, %d places with fields and %d wheres", made, conditional, fields, wheres)
	}
}

// check: names only where the verb can have one, and not too many.
func check(t *testing.T, verbs, resources, names []string) {
	t.Helper()
	if len(names) > 2 {
		t.Errorf("%d names", len(names))
	}
	for _, v := range verbs {
		if len(names) > 0 && v == "create" && resources[0] != "pods/exec" {
			t.Errorf("create of %v with names %v", resources, names)
		}
	}
}
