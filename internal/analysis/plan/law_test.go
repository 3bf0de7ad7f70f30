package plan

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/compare"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/whocan"
)

var compiler = sync.OnceValue(func() *rulecondition.Compiler {
	c, err := expr.New(expr.Config{})
	if err != nil {
		panic(err)
	}
	return &rulecondition.Compiler{CEL: c, Cache: expr.NewCache(c)}
})

// server takes every request as it is, and for one verb alone.
type server struct{}

// Scoped implements Server.
func (server) Scoped(a authorizer.Attributes) authorizer.Attributes { return a }

// AlsoNeeds implements Server.
func (server) AlsoNeeds(authorizer.Attributes) string { return "" }

func build(policies []*policyv1alpha1.Policy, bindings []*policyv1alpha1.PolicyBinding) *ruleset.Index {
	return ruleset.Build(ruleset.Input{MasterNamespace: "master", CompileRule: compiler().CompileRule, Limits: ruleset.DefaultLimits(), Policies: policies, PolicyBindings: bindings})
}

var (
	conditions = []string{"", "", "", `resource.metadata.name == "a"`, `resource.metadata.name in ["a", "b"]`, `has(resource.data)`, `"k" in resource.?data.orValue({})`,
		`resource.data["k"] == "v"`, `resource.metadata.name.startsWith("a")`, `request.user == "u1"`, `!(resource.metadata.name == "a")`}
	tried      = []string{"create", "update", "delete", "get", "list"}
	namespaces = []string{"master", "ns", "ns2"}
	users      = []string{"u1", "u2", "u3"}
	groups     = []string{"g", "system:authenticated"}
)

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// random makes a policy: in each namespace some roles, and bindings of them.
func random(r *rand.Rand) (policies []*policyv1alpha1.Policy, bindings []*policyv1alpha1.PolicyBinding) {
	for _, ns := range namespaces {
		p := &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: ns}, Roles: map[string]policyv1alpha1.PolicyRole{}}
		b := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: ns, Namespace: ns}, PolicyRef: policyv1alpha1.PolicyReference{Namespace: ns}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{}}
		for i := range 1 + r.IntN(3) {
			role := policyv1alpha1.PolicyRole{}
			for range 1 + r.IntN(2) {
				rule := policyv1alpha1.PolicyRule{Deny: r.IntN(4) == 0, Verbs: []string{pick(r, tried)}, ResourceKinds: []string{"configmaps"}, Where: pick(r, conditions)}
				if r.IntN(5) == 0 {
					rule.ResourceNames = []string{"a"}
				}
				role.Rules = append(role.Rules, rule)
			}
			name := fmt.Sprint("r", i)
			p.Roles[name] = role
			bound := policyv1alpha1.PolicyRoleBinding{RoleName: name}
			switch r.IntN(4) {
			case 0:
				bound.UserNames = []string{pick(r, users)}
			case 1:
				bound.UserNames = users[:1+r.IntN(len(users))]
			default:
				bound.GroupNames = []string{pick(r, groups)}
			}
			b.RoleBindings[name] = bound
		}
		policies, bindings = append(policies, p), append(bindings, b)
	}
	return policies, bindings
}

// changed replaces the policy, the bindings, or a role of one namespace.
func changed(r *rand.Rand, policies []*policyv1alpha1.Policy, bindings []*policyv1alpha1.PolicyBinding) ([]*policyv1alpha1.Policy, []*policyv1alpha1.PolicyBinding) {
	others, otherBindings := random(r)
	policies, bindings = slices.Clone(policies), slices.Clone(bindings)
	i := r.IntN(len(policies))
	switch r.IntN(3) {
	case 0:
		policies[i] = others[i]
	case 1:
		bindings[i] = otherBindings[i]
	default:
		p := policies[i].DeepCopy()
		for name, role := range others[i].Roles {
			p.Roles[name] = role
			break
		}
		policies[i] = p
	}
	return policies, bindings
}

var resource = Resource{Version: "v1", Resource: "configmaps", Namespaced: true, Shape: compare.FromGo(reflect.TypeFor[corev1.ConfigMap]()), Own: true}

// objects are samples of every class that the conditions tell apart.
func objects(verb, name string) (out []map[string]any) {
	names := []string{"a", "b", "ab", "c"}
	switch {
	case name != "":
		names = []string{name}
	case verb == "create":
		names = append(names, "") // the server will give it one
	}
	for _, n := range names {
		for _, data := range []map[string]any{nil, {"k": "v"}, {"k": "w"}, {"x": "v"}} {
			o := map[string]any{"metadata": map[string]any{}}
			if n != "" {
				o["metadata"] = map[string]any{"name": n}
			}
			if data != nil {
				o["data"] = data
			}
			out = append(out, o)
		}
	}
	return out
}

// allowed decides one object by the walk, without package compare.
func allowed(t *testing.T, ix *ruleset.Index, a Action, subject ruleset.Subject, member string, object map[string]any) bool {
	s := standing(ix, a.attributes(resource), subject)
	if s.Certainty != ruleset.Sometimes {
		return s.Certainty == ruleset.Always
	}
	name, _ := object["metadata"].(map[string]any)["name"].(string)
	req := &expr.Request{Verb: a.Verb, APIVersion: "v1", Resource: "configmaps", Namespace: a.attributes(resource).Namespace, Name: name}
	for _, is := range whocan.Judged(subject) {
		if is.Group {
			req.Groups = append(req.Groups, is.Name)
		} else {
			req.User = is.Name
		}
	}
	if subject.Group {
		req.User = member
	}
	w := &compare.Witness{Request: req}
	operation := operations[a.Verb]
	if operation != "DELETE" {
		w.Object = object
	}
	if operation != "CREATE" {
		w.OldObject = object
	}
	for _, h := range s.Conditions {
		c := rulecondition.Of(h).Condition
		if names := h.Names(); names != nil {
			c = rulecondition.Named(names, c)
		}
		effect := expr.Allow
		if h.Effect() == ruleset.Denies {
			effect = expr.Deny
		}
		holds, err := c.Evaluate(context.Background(), req, effect, w.Data(operation, true))
		if holds || err != nil && effect == expr.Deny {
			return effect == expr.Allow
		}
	}
	return s.Allow.Found() && !s.Deny.Found()
}

// TR-2, TR-5: what a plan says is what brute force finds: every subject, action and sample object, before and after.
func TestChangesEqualBruteForce(t *testing.T) {
	counts, judged, unknown, reads := map[compare.Relation]int{}, 0, 0, 0
	comparer := &compare.Comparer{Cache: compiler().Cache}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 5))
		policies, bindings := random(r)
		newPolicies, newBindings := changed(r, policies, bindings)
		in := Input{Before: build(policies, bindings), After: build(newPolicies, newBindings), Server: server{}, Comparer: comparer, Resources: []Resource{resource}, Verbs: tried}
		got, err := Changes(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range got {
			counts[c.Relation] += len(c.Subjects)
		}
		// The same comes out if one index came from the other.
		var steps []ruleset.Change
		for i := range newPolicies {
			steps = append(steps, ruleset.Put(newPolicies[i]), ruleset.Put(newBindings[i]))
		}
		in.After = in.Before.Apply(steps...)
		if again, err := Changes(t.Context(), in); err != nil || fmt.Sprintf("%+v", plain(again)) != fmt.Sprintf("%+v", plain(got)) {
			t.Fatalf("seed %d: %v: %+v, want %+v", seed, err, plain(again), plain(got))
		}
		for _, user := range append(users, groups...) {
			subject := ruleset.Subject{Name: user, Group: slices.Contains(groups, user)}
			for _, verb := range []string{"create", "update", "delete"} {
				for _, ns := range append(slices.Clone(namespaces), Other, "") {
					for _, name := range []string{"", "a"} {
						if name != "" && (verb == "create" || !mentioned(subject, verb, policies, bindings) && !mentioned(subject, verb, newPolicies, newBindings)) {
							continue // what is so for every name, for some object, need not be so for each
						}
						a := Action{Verb: verb, Resource: "configmaps", Namespace: ns, Name: name}
						gained, lost := false, false
						concerned := false
						for _, ix := range []*ruleset.Index{in.Before, in.After} {
							ix.Everyone(a.attributes(resource), func(h ruleset.Hit) { concerned = concerned || h.Subject() == subject })
						}
						if !concerned {
							continue // what others have by their groups is the groups'
						}
						for _, o := range objects(verb, name) {
							for _, member := range []string{"somebody", "u1"} {
								before, after := allowed(t, in.Before, a, subject, member, o), allowed(t, in.After, a, subject, member, o)
								gained, lost = gained || after && !before, lost || before && !after
							}
						}
						c, is := covering(t, got, subject, a)
						if is && c.Relation == compare.Unclear {
							unknown++
							continue
						}
						judged++
						want := compare.Equivalent
						switch {
						case gained && lost:
							want = compare.Neither
						case gained:
							want = compare.Wider
						case lost:
							want = compare.Narrower
						}
						if is && c.Relation != want || !is && want != compare.Equivalent {
							t.Fatalf("seed %d: %v %+v: plan says %+v, brute force %s; witness %+v", seed, subject, a, c, want, c.Witness)
						}
					}
				}
			}
			reads += readsAsDecided(t, seed, in, got, subject)
		}
	}
	t.Logf("%v, %d answers, %d unknown, %d reads", counts, judged, unknown, reads)
	if reads < 1000 {
		t.Errorf("only %d reads are decided without a condition", reads)
	}
	if unknown > judged/100 || counts[compare.Wider] == 0 || counts[compare.Narrower] == 0 || counts[compare.Neither] == 0 {
		t.Errorf("nothing is proven: %v", counts)
	}
}

// readsAsDecided: of reads, which send no object, a plan says what the index decides for each name, and for none. It
// returns how many do not depend on conditions.
func readsAsDecided(t *testing.T, seed uint64, in Input, got []Change, subject ruleset.Subject) (n int) {
	for _, verb := range []string{"get", "list"} {
		for _, ns := range append(slices.Clone(namespaces), Other, "") {
			for _, name := range []string{"", "a"} {
				a := Action{Verb: verb, Resource: "configmaps", Namespace: ns, Name: name}
				if attrs := a.attributes(resource); !in.Before.Concerns(attrs, subject) && !in.After.Concerns(attrs, subject) {
					continue // what others have by their groups is the groups'
				}
				before, after := effect(standing(in.Before, a.attributes(resource), subject)), effect(standing(in.After, a.attributes(resource), subject))
				c, is := covering(t, got, subject, a)
				if before == If && after == If {
					continue
				}
				n++
				if is != (before != after) || is && (c.Before != before || c.After != after) {
					t.Fatalf("seed %d: %v %+v: plan says %+v, and it was %s and is %s", seed, subject, a, c, before, after)
				}
			}
		}
	}
	return n
}

// plain leaves out the witnesses, which are pointers.
func plain(changes []Change) (out []Change) {
	for _, c := range changes {
		c.Witness = nil
		out = append(out, c)
	}
	return out
}

// covering is the change that says something about an action of a subject. There is one at most.
func covering(t *testing.T, changes []Change, subject ruleset.Subject, a Action) (found Change, is bool) {
	for _, c := range changes {
		where := c.Action.Namespace == a.Namespace || (c.Action.Namespace == Everywhere || c.Action.Namespace == Other && a.Namespace != "") && !slices.Contains(c.ExceptNamespaces, a.Namespace)
		name := c.Action.Name == a.Name || c.Action.Name == "" && !slices.Contains(c.ExceptNames, a.Name)
		if !where || !name || c.Action.Verb != a.Verb || !slices.Contains(c.Subjects, subject) {
			continue
		}
		if is {
			t.Fatalf("%v %+v: %+v and %+v", subject, a, found, c)
		}
		found, is = c, true
	}
	return found, is
}

// mentioned reports whether a rule of somebody names objects.
func mentioned(subject ruleset.Subject, verb string, policies []*policyv1alpha1.Policy, bindings []*policyv1alpha1.PolicyBinding) bool {
	for i := range bindings {
		for _, b := range bindings[i].RoleBindings {
			for _, is := range whocan.Judged(subject) {
				if !is.Group && slices.Contains(b.UserNames, is.Name) || is.Group && slices.Contains(b.GroupNames, is.Name) {
					for _, rule := range policies[i].Roles[b.RoleName].Rules {
						if slices.Contains(rule.Verbs, verb) && len(rule.ResourceNames) > 0 {
							return true
						}
					}
				}
			}
		}
	}
	return false
}
