package rulecondition

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// crowded is an index in which one tenant has stored as many costly conditions as the limits let him, some of them
// beyond what compiles at all.
type crowded struct {
	*Compiler
	rules int // that the writer was asked to compile
}

func (c *crowded) compile(role ruleset.RoleRef, index int, rule *policyv1alpha1.PolicyRule) (ruleset.Condition, error) {
	c.rules++
	return c.CompileRule(role, index, rule)
}

const tenants = 20

func (c *crowded) build(bombs int) *ruleset.Index {
	in := ruleset.Input{MasterNamespace: "master", CompileRule: c.compile, Limits: ruleset.DefaultLimits()}
	for i := range tenants {
		p, b := tenant(fmt.Sprint("bombs", i))
		role := policyv1alpha1.PolicyRole{}
		for n := range bombs {
			when := strings.Repeat("[", 240) + fmt.Sprint(n) + strings.Repeat("]", 240) + " == []"
			if n%2 == 0 {
				when = strings.Repeat("[object.a].exists(x, x == request.user + \"", 3) + fmt.Sprint(i, "-", n) + strings.Repeat("\")", 3)
			}
			role.Rules = append(role.Rules, policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"*"}, When: when})
		}
		p.Roles["bombs"] = role
		b.RoleBindings["bombs"] = policyv1alpha1.PolicyRoleBinding{RoleName: "bombs", GroupNames: []string{user.AllAuthenticated}}
		in.Policies, in.PolicyBindings = append(in.Policies, p), append(in.PolicyBindings, b)
	}
	p, b := tenant("quiet")
	in.Policies, in.PolicyBindings = append(in.Policies, p), append(in.PolicyBindings, b)
	return ruleset.Build(in)
}

func tenant(ns string) (*policyv1alpha1.Policy, *policyv1alpha1.PolicyBinding) {
	p := &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{
		"dev": {Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"get"}, ResourceKinds: []string{"*"}}}}}}
	b := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: ns}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{
		"dev": {RoleName: "dev", UserNames: []string{"edgar"}}}}
	return p, b
}

// grant and revoke are what somebody else changes.
func grant(who string) ruleset.Change {
	_, b := tenant("quiet")
	b.RoleBindings["dev"] = policyv1alpha1.PolicyRoleBinding{RoleName: "dev", UserNames: []string{who}}
	return ruleset.Put(b)
}

func (c *crowded) may(ix *ruleset.Index, who string) bool {
	return ix.Decide(authorizer.AttributesRecord{User: &user.DefaultInfo{Name: who}, Verb: "get", Namespace: "quiet", APIVersion: "v1", Resource: "pods", ResourceRequest: true}).Certainty == ruleset.Always
}

// PO-21: what a tenant stores costs a grant or a revocation elsewhere nothing, counted and not timed: the writer
// compiles no expression at all, and looks at no rule but those of the objects that change.
func TestBombsCostOthersNothing(t *testing.T) {
	const bombs = 100
	c := &crowded{Compiler: compiler(t)}
	c.Cache = expr.NewCache(c.CEL)
	ix := c.build(bombs)
	pending := len(c.Cache.Pending())
	if c.rules < tenants*bombs || pending == 0 {
		t.Fatalf("%d rules, %d expressions: nothing is proven", c.rules, pending)
	}
	for i, who := range []string{"alice", "bob"} {
		c.rules = 0
		ix = ix.Apply(grant(who))
		if !c.may(ix, who) || c.may(ix, "edgar") || i > 0 && c.may(ix, "alice") {
			t.Errorf("the change for %s is not effective", who)
		}
		if c.rules != 0 || len(c.Cache.Pending()) != pending {
			t.Errorf("a change of a binding compiled %d rules, and %d expressions are left of %d", c.rules, len(c.Cache.Pending()), pending)
		}
	}
	// A role: its own rules. One more bomb: its own rules, and nothing is compiled.
	p, _ := tenant("quiet")
	c.rules = 0
	ix = ix.Apply(ruleset.Put(p))
	if own := len(p.Roles["dev"].Rules); c.rules > own || len(c.Cache.Pending()) != pending {
		t.Errorf("a change of a role with %d rules compiled %d, and %d expressions are left of %d", own, c.rules, len(c.Cache.Pending()), pending)
	}
	p.Roles["bombs"] = policyv1alpha1.PolicyRole{Rules: []policyv1alpha1.PolicyRule{{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"*"}, When: "object.fresh == 1"}}}
	c.rules = 0
	ix.Apply(ruleset.Put(p))
	if c.rules > 2 || len(c.Cache.Pending()) < pending {
		t.Errorf("storing a condition compiled %d rules, and %d expressions are left of %d", c.rules, len(c.Cache.Pending()), pending)
	}
}

// BenchmarkChangeBesideBombs is the time of a change with and without them; docs/explanation/results.md has a figure.
func BenchmarkChangeBesideBombs(b *testing.B) {
	for _, bombs := range []int{0, 100} {
		b.Run(fmt.Sprint(bombs*tenants, " bombs"), func(b *testing.B) {
			c := &crowded{Compiler: compiler(b)}
			c.Cache = expr.NewCache(c.CEL)
			ix, i := c.build(bombs), 0
			for b.Loop() {
				ix, i = ix.Apply(grant([2]string{"alice", "bob"}[i%2])), i+1
			}
		})
	}
}

// BenchmarkConditionsOfAWrite compiles as many conditions as one write may add: 128, of 64 KiB together.
func BenchmarkConditionsOfAWrite(b *testing.B) {
	c := compiler(b)
	when := strings.TrimSuffix(strings.Repeat(`object.data.x == "a" || `, 21), " || ")
	for b.Loop() {
		for range 128 {
			if _, errs := c.Rule(&policyv1alpha1.PolicyRule{When: when}, nil, false); len(errs) > 0 {
				b.Fatal(errs)
			}
		}
	}
}
