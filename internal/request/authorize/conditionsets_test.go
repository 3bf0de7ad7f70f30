package authorize

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// typedCondition is a condition of a type, with a result.
func typedCondition(id, kind string, result authorizer.ConditionEvaluationResult) authorizer.Condition {
	return authorizer.GenericCondition{ID: "test.proviso.dev/" + id, Type: kind, Condition: "x", EvaluateFunc: func(context.Context, authorizer.ConditionsData) authorizer.ConditionEvaluationResult {
		return result
	}}
}

// CA-1, CA-7: however many conditions there are, the decision that upstream gets is the one that they make together:
// any deny that holds or fails denies, or else one allow that holds allows.
func TestManyConditionsDecideAlike(t *testing.T) {
	const limit = authorizer.MaxConditionsPerMap
	random := rand.New(rand.NewPCG(3, 5))
	for _, n := range [][2]int{{0, 1}, {1, 0}, {limit, 0}, {0, limit}, {limit - 1, 1}, {limit, 1}, {limit + 1, 0}, {limit + 1, 1}, {limit + 5, limit + 5}, {0, limit + 1}, {3, 2 * limit}, {limit - 1, 2}, {2 * limit, 3}} {
		for round := range 6 {
			var denies, allows []authorizer.Condition
			want := authorizer.DecisionNoOpinion
			add := func(list *[]authorizer.Condition, effect string, i, from int, decides bool) {
				result := results[1]
				if decides && round > 0 && (i == from-1 || random.IntN(from) == 0) {
					result = results[[]int{0, 2}[random.IntN(2)]]
					if effect == "deny" {
						want = authorizer.DecisionDeny
					} else if want == authorizer.DecisionNoOpinion && result.IsTrue() {
						want = authorizer.DecisionAllow
					}
				}
				*list = append(*list, typedCondition(fmt.Sprintf("%s-%d", effect, i), "t", result))
			}
			for i := range n[0] {
				add(&denies, "deny", i, n[0], round%2 == 0)
			}
			for i := range n[1] {
				add(&allows, "allow", i, n[1], true)
			}
			doubled := append(slices.Clone(allows), allows...) // each counts once
			d := conditionSets(slices.Clone(denies), doubled)
			if d.IsUnion() != (min(n[0], limit)+n[1] > limit) {
				t.Errorf("%v: it is a union: %v", n, d.IsUnion())
			}
			if got, _, _ := evaluateSets(t.Context(), "test", d, nil); got != want {
				t.Errorf("%v, round %d: %v, want %v", n, round, got, want)
			}
			ids := conditionIDs(d)
			if len(ids) != min(n[0], limit)+n[1] {
				t.Errorf("%v: %d conditions are shown", n, len(ids))
			}
			if n[0] > 0 && n[0] <= limit && !slices.Contains(ids, fmt.Sprintf("test.proviso.dev/deny-%d", n[0]-1)) {
				t.Errorf("%v: a deny that fits is put together with others", n)
			}
			if n[0] <= limit && !slices.Contains(append(ids, ""), "test.proviso.dev/deny-0") && n[0] > 0 || n[1] > 0 && !slices.Contains(ids, "test.proviso.dev/allow-0") {
				t.Errorf("%v: the conditions do not have their names back: %v", n, ids[:1])
			}
		}
	}
}

// CA-1: what does not fit into a set of denies denies together. One that holds says why, rather than one that fails.
func TestFurtherDenies(t *testing.T) {
	for name, c := range map[string]struct {
		of          []int
		denies, err bool
	}{"none": {[]int{1, 1}, false, false}, "one holds": {[]int{1, 0}, true, false}, "one fails": {[]int{1, 2, 1}, true, true}, "one fails, one holds": {[]int{2, 1, 0}, true, false}, "one holds, one fails": {[]int{0, 2}, true, false}} {
		var all []authorizer.Condition
		for i, r := range c.of {
			all = append(all, typedCondition(fmt.Sprint(i), "t", results[r]))
		}
		got := anyOf(all).Evaluate(t.Context(), nil)
		if got.IsFalse() == c.denies || (got.Error() != nil) != c.err || got.IsTrue() != (c.denies && !c.err) {
			t.Errorf("%s: %v", name, got)
		}
		if text := anyOf(all).GetCondition(); text != fmt.Sprintf("any of %d further deny rules applies", len(c.of)) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// CA-21: metrics and audit name every type of condition once, in order.
func TestTypesOfConditions(t *testing.T) {
	one := func(kinds ...string) (list []authorizer.Condition) {
		for i, kind := range kinds {
			list = append(list, typedCondition(fmt.Sprintf("%s-%d", strings.ToLower(kind)+"x", i), kind, results[1]))
		}
		return list
	}
	union := authorizer.ConditionsAwareDecisionUnion{}
	union.Add("a", authorizer.ConditionsAwareDecisionConditionsMap(one("z"), nil, nil))
	union.Add("b", authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, one("b", "z")))
	for name, c := range map[string]struct {
		set  *openSet
		d    authorizer.ConditionsAwareDecision
		want string
	}{
		"a set":               {&openSet{denies: one("b"), allows: one("a", "b", "a")}, authorizer.ConditionsAwareDecision{}, "a,b"},
		"a set of one type":   {&openSet{denies: one("b"), allows: one("b")}, authorizer.ConditionsAwareDecision{}, "b"},
		"a set without types": {&openSet{allows: one("", "")}, authorizer.ConditionsAwareDecision{}, ""},
		"a map":               {nil, authorizer.ConditionsAwareDecisionConditionsMap(one("c"), one("b"), one("a")), "a,b,c"},
		"a union":             {nil, union.ToDecision(), "b,z"},
		"no conditions":       {nil, authorizer.ConditionsAwareDecisionAllow("", nil), ""},
		"three":               {&openSet{denies: one("c", "a"), allows: one("", "b", "c")}, authorizer.ConditionsAwareDecision{}, "a,b,c"},
	} {
		var s typeSet
		s.add(c.set, &c.d)
		if got := s.String(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	// What waits and what was resolved both say it.
	chain, err := NewChain(Link{Name: "a", Authorizer: &scripted{decision: authorizer.ConditionsAwareDecisionConditionsMap(one("d"), nil, nil)}},
		Link{Name: "b", Authorizer: &scripted{decision: authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, one("a"))}})
	if err != nil {
		t.Fatal(err)
	}
	v := chain.Decide(t.Context(), asks("create"))
	if v.Types != "a,d" || v.Decision != authorizer.DecisionNoOpinion || v.Pending == nil {
		t.Errorf("%+v", v)
	}
	if out := v.Pending.Resolve(t.Context(), nil); out.Types != "a,d" || len(out.Conditions) != 2 {
		t.Errorf("%+v", out)
	}
}

// CA-10: what is said of a condition is bounded, and refusals name the conditions apart.
func TestWhatIsSaidOfConditions(t *testing.T) {
	text, description := strings.Repeat("x", expr.MaxLength), strings.Repeat("x", expr.MaxDescription)
	for _, c := range []struct {
		text, description string
		ok                bool
	}{{"", "", true}, {text, description, true}, {text + "x", description, false}, {text, description + "x", false}} {
		if err := CheckCondition(c.text, c.description); (err == nil) != c.ok {
			t.Errorf("%d and %d bytes: %v", len(c.text), len(c.description), err)
		}
	}
	two := authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, []authorizer.Condition{typedCondition("a", "t", results[1]), typedCondition("b", "t", results[1])})
	if got := Unmet(two.ConditionsMap()); got != `condition "test.proviso.dev/a" was not met; condition "test.proviso.dev/b" was not met` {
		t.Errorf("%s", got)
	}
}

// policyTier is the tier of a namespace with these rules for edgar.
func policyTier(t *testing.T, rules ...policyv1alpha1.PolicyRule) (*Tier, context.Context) {
	t.Helper()
	store := storeWith(t, &published{index: world(t, rules)})
	return NewPolicyNamespace(store, nil).ServedBy(servedHere), requestctx.With(t.Context(), store.Current())
}

// CA-10: a refusal by a deny rule says what its author wrote.
func TestDeniesAreDescribed(t *testing.T) {
	for description, want := range map[string]string{"": `"`, "only good ones": `: only good ones`} {
		tier, ctx := policyTier(t, policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"create"}, ResourceKinds: []string{"configmaps"}, When: `request.user == "edgar"`, Description: description},
			policyv1alpha1.PolicyRule{Verbs: []string{"create"}, ResourceKinds: []string{"configmaps"}})
		decision, reason, _ := tier.Authorize(ctx, asks("create"))
		before, _, _ := strings.Cut(reason, "; without that: ")
		if decision != authorizer.DecisionDeny || !strings.HasSuffix(before, want) || !strings.Contains(before, "denied by condition") {
			t.Errorf("%q: %v, %q", description, decision, reason)
		}
	}
}

// SV-6: people are told the values of the parts of a rule's condition, and of no other.
func TestValuesOfConditions(t *testing.T) {
	tier, ctx := policyTier(t, policyv1alpha1.PolicyRule{Verbs: []string{"create"}, ResourceKinds: []string{"configmaps"}, Where: `resource.metadata.labels["good"] == "yes" && resource.metadata.name == "x"`})
	_, set := tier.open(ctx, asks("create"), lists{})
	if set == nil || len(set.allows) != 1 {
		t.Fatalf("%+v", set)
	}
	if got := Values(ctx, set.allows[0], created("no")); len(got) == 0 {
		t.Error("no values")
	}
	if got := Values(ctx, typedCondition("a", "t", results[0]), created("no")); got != nil {
		t.Errorf("of a foreign condition: %v", got)
	}
}

// PO-20: a rule that denies a delete is asked about an eviction with the pod that it deletes; where that is not known,
// it denies.
func TestEvictionsWithoutAPod(t *testing.T) {
	store := storeWith(t, &published{index: world(t, []policyv1alpha1.PolicyRule{{Verbs: []string{"*"}, ResourceKinds: []string{"*", "pods/eviction"}},
		{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"pods"}, Where: `resource.metadata.labels["good"] == "yes"`}})})
	chain := tiers(t, store)
	ctx := requestctx.With(t.Context(), store.Current())
	attrs := asks("create")
	attrs.Resource, attrs.Subresource, attrs.Name = "pods", "eviction", "p"
	v := chain.Decide(ctx, attrs)
	if v.Pending == nil {
		t.Fatalf("decided without the pod: %+v", v)
	}
	for label, want := range map[string]authorizer.Decision{"yes": authorizer.DecisionDeny, "no": authorizer.DecisionAllow} {
		if out := v.Pending.Resolve(ctx, evicting{created(label), FactsOf(ctx, deletionOf(label))}); out.Decision != want {
			t.Errorf("good=%s: %+v", label, out)
		}
	}
	out := v.Pending.Resolve(ctx, created("no"))
	if out.Decision != authorizer.DecisionDeny {
		t.Errorf("without the pod: %+v", out)
	}
	if len(out.Conditions) == 0 || !slices.ContainsFunc(out.Conditions, func(id string) bool { return strings.Contains(id, "evict") }) {
		t.Errorf("the condition has the name of that on a delete: %v", out.Conditions)
	}
	if set := v.rest.walk.kept[0].set; set != nil {
		if got := Values(ctx, set.denies[0], created("no")); got != nil {
			t.Errorf("values of what is about a pod that is not there: %v", got)
		}
	}
}

// evicting is an admission that knows the pod.
type evicting struct {
	authorizer.ConditionsData
	pod *expr.Data
}

func (e evicting) Evicted(context.Context) *expr.Data { return e.pod }

func deletionOf(label string) authorizer.ConditionsData {
	o := created(label).GetObject()
	return admission.NewAttributesRecord(nil, o, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, "hammer", "x", schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "", admission.Delete, nil, false, nil)
}

// CA-2, CA-7: what is not to be trusted denies, and results that the decision could not have produced do, too.
func TestDataThatIsNotTrusted(t *testing.T) {
	chain, err := NewChain(Link{Name: "a", Authorizer: &scripted{decision: authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, []authorizer.Condition{condition("c", results[0])})}})
	if err != nil {
		t.Fatal(err)
	}
	v := chain.Decide(t.Context(), asks("create"))
	for _, c := range []struct {
		err  error
		want authorizer.Decision
	}{{nil, authorizer.DecisionAllow}, {errors.New("another path than it says"), authorizer.DecisionDeny}} {
		out := v.Pending.Resolve(t.Context(), doubtful{created("yes"), c.err})
		if out.Decision != c.want || c.err != nil && out.Reason != c.err.Error() {
			t.Errorf("%v: %+v", c.err, out)
		}
	}
}

type doubtful struct {
	authorizer.ConditionsData
	err error
}

func (d doubtful) Expr() *expr.Data { return FactsOf(context.Background(), d.ConditionsData) }
func (d doubtful) Trusted() error   { return d.err }

// A chain has links with names of their own, and another chain of the same names is a chain.
func TestChainsOfLinks(t *testing.T) {
	one := &scripted{decision: authorizer.ConditionsAwareDecisionAllow("", nil)}
	for name, links := range map[string][]Link{"none": nil, "no name": {{Authorizer: one}}, "no authorizer": {{Name: "a"}}, "twice": {{Name: "a", Authorizer: one}, {Name: "b", Authorizer: one}, {Name: "a", Authorizer: one}}} {
		if _, err := NewChain(links...); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	chain, err := NewChain(Link{Name: "a", Authorizer: one}, Link{Name: "b", Type: TypeNode, Authorizer: one})
	if err != nil {
		t.Fatal(err)
	}
	no := &scripted{decision: authorizer.ConditionsAwareDecisionDeny("", nil)}
	other := chain.Relinked(func(at int, link Link) authorizer.Authorizer {
		if link.Name != []string{"a", "b"}[at] {
			t.Errorf("%d is %s", at, link.Name)
		}
		return no
	})
	if d, _, _ := other.Authorize(t.Context(), asks("get")); d != authorizer.DecisionDeny {
		t.Errorf("relinked: %v", d)
	}
	if d, _, _ := chain.Authorize(t.Context(), asks("get")); d != authorizer.DecisionAllow {
		t.Errorf("the chain it came from: %v", d)
	}
	for _, c := range []struct {
		link Link
		want bool
	}{{Link{Name: "rbac", Type: TypeNode}, true}, {Link{Name: "node"}, true}, {Link{Name: "node", Type: TypeWebhook}, false}, {Link{Name: "rbac"}, false}, {Link{Name: "token"}, true}} {
		if got := c.link.GrantsAreKnown(); got != c.want {
			t.Errorf("%+v: %v", c.link, got)
		}
	}
}

// lister lists rules.
type lister struct {
	*scripted
	incomplete bool
	err        error
}

func (l lister) RulesFor(context.Context, user.Info, string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return []authorizer.ResourceRuleInfo{&authorizer.DefaultResourceRuleInfo{Verbs: []string{"get"}}}, []authorizer.NonResourceRuleInfo{&authorizer.DefaultNonResourceRuleInfo{Verbs: []string{"get"}}}, l.incomplete, l.err
}

// SelfSubjectRulesReview: the lists of all links that have one, incomplete as soon as one is, with every error.
func TestRulesOfAChain(t *testing.T) {
	no := &scripted{decision: authorizer.ConditionsAwareDecisionNoOpinion("", nil)}
	for _, c := range []struct {
		links      []lister
		incomplete bool
		fails      bool
	}{{[]lister{{no, false, nil}, {no, false, nil}}, false, false}, {[]lister{{no, true, nil}, {no, false, nil}}, true, false}, {[]lister{{no, false, nil}, {no, true, errors.New("boom")}}, true, true}} {
		links := []Link{{Name: "silent", Authorizer: no}}
		for i, l := range c.links {
			links = append(links, Link{Name: fmt.Sprint(i), Authorizer: l})
		}
		chain, err := NewChain(links...)
		if err != nil {
			t.Fatal(err)
		}
		rules, paths, incomplete, err := chain.RulesFor(t.Context(), &user.DefaultInfo{}, "hammer")
		if len(rules) != 2 || len(paths) != 2 || incomplete != c.incomplete || (err != nil) != c.fails {
			t.Errorf("%+v: %d rules, %d paths, incomplete %v, %v", c, len(rules), len(paths), incomplete, err)
		}
	}
	store := storeWith(t, &published{index: world(t, []policyv1alpha1.PolicyRule{{Verbs: []string{"get"}, ResourceKinds: []string{"configmaps"}}}, readMaps)})
	for name, c := range map[string]struct {
		tier *Tier
		want int
	}{"all of Policy, by its first link": {NewPolicyMaster(store), 1}, "its second": {NewPolicyNamespace(store, nil), 0}, "RBAC": {NewRBAC(store), 1}} {
		rules, _, _, err := c.tier.RulesFor(t.Context(), asks("get").User, "hammer")
		if len(rules) != c.want || err != nil {
			t.Errorf("%s: %d rules, %v", name, len(rules), err)
		}
		if _, _, incomplete, err := c.tier.RulesFor(requestctx.With(t.Context(), &snapshot.Snapshot{}), asks("get").User, "hammer"); !incomplete || err == nil {
			t.Errorf("%s, before there are rules: incomplete %v, %v", name, incomplete, err)
		}
	}
}
