package authorize

import (
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// RD-12: which rules of the master namespace show the namespaces that they name: those that give a right there that is
// not impossible. Each is tried by a get and by a list, which agree.
func TestNamespacesThatRulesName(t *testing.T) {
	compile := compilerOf(t)
	rule := func(when, where string, kinds ...string) policyv1alpha1.PolicyRule {
		r := readRule("", when, where)
		if r.ResourceKinds = kinds; len(kinds) == 0 {
			r.ResourceKinds = []string{"secrets"}
		}
		return r
	}
	verbs := func(r policyv1alpha1.PolicyRule, verbs ...string) policyv1alpha1.PolicyRule {
		r.Verbs = verbs
		return r
	}
	for name, c := range map[string]struct {
		rules []policyv1alpha1.PolicyRule
		shown string
	}{
		"one":                               {[]policyv1alpha1.PolicyRule{rule(`request.namespace == "a"`, "")}, "a"},
		"two":                               {[]policyv1alpha1.PolicyRule{rule(`request.namespace in ["a", "b"]`, "")}, "a b"},
		"by two rules":                      {[]policyv1alpha1.PolicyRule{rule(`request.namespace == "a"`, ""), rule(`request.namespace == "b"`, "", "pods")}, "a b"},
		"all of them":                       {[]policyv1alpha1.PolicyRule{rule(`request.user == "edgar"`, "")}, ""},
		"by the namespace's object":         {[]policyv1alpha1.PolicyRule{rule(`request.namespace == "a" && namespaceObject.metadata.labels["x"] == "y"`, "")}, ""},
		"under a condition on objects":      {[]policyv1alpha1.PolicyRule{rule(`request.namespace == "a"`, `resource.metadata.labels["x"] == "y"`)}, "a"},
		"under a condition on names":        {[]policyv1alpha1.PolicyRule{rule(`request.namespace == "a" && request.name.startsWith("x")`, "")}, "a"},
		"of somebody else":                  {[]policyv1alpha1.PolicyRule{rule(`request.namespace == "a" && request.user == "eve"`, "")}, ""},
		"that fails":                        {[]policyv1alpha1.PolicyRule{rule(`request.namespace == "a" && request.extra["x"][0] == "y"`, "")}, ""},
		"by a verb that it has":             {[]policyv1alpha1.PolicyRule{rule(`request.namespace == "a" && request.verb == "list"`, "")}, "a"},
		"by a verb that it does not have":   {[]policyv1alpha1.PolicyRule{rule(`request.namespace == "a" && request.verb == "delete"`, "")}, ""},
		"by a resource that it has":         {[]policyv1alpha1.PolicyRule{rule(`request.namespace == "a" && request.resource == "pods"`, "", "secrets", "pods")}, "a"},
		"by a resource that it has not":     {[]policyv1alpha1.PolicyRule{rule(`request.namespace == "a" && request.resource == "configmaps"`, "", "secrets", "pods")}, ""},
		"by two actions of two rules":       {[]policyv1alpha1.PolicyRule{rule(`request.namespace == "a" && request.resource == "pods"`, "", "secrets", "pods"), rule(`request.namespace == "b" && request.resource == "secrets"`, "", "pods", "secrets")}, "a b"},
		"of a kind that is in no namespace": {[]policyv1alpha1.PolicyRule{rule(`request.namespace == "a"`, "", "nodes")}, ""},
		"what creates":                      {[]policyv1alpha1.PolicyRule{verbs(rule(`request.namespace == "a" && operation == "CREATE"`, ""), "create")}, "a"},
		"what updates":                      {[]policyv1alpha1.PolicyRule{verbs(rule(`request.namespace == "a" && operation == "UPDATE"`, ""), "update")}, "a"},
		"what deletes":                      {[]policyv1alpha1.PolicyRule{verbs(rule(`request.namespace == "a" && operation == "DELETE"`, ""), "delete")}, "a"},
		"what creates, and says otherwise":  {[]policyv1alpha1.PolicyRule{verbs(rule(`request.namespace == "a" && operation == "DELETE"`, ""), "create")}, ""},
		"what reads":                        {[]policyv1alpha1.PolicyRule{rule(`request.namespace == "a" && operation == "GET"`, "")}, "a"},
		"what deletes, and says otherwise":  {[]policyv1alpha1.PolicyRule{verbs(rule(`request.namespace == "a" && operation == "CREATE"`, ""), "delete")}, ""},
		"a deny":                            {[]policyv1alpha1.PolicyRule{rule(`request.namespace in ["a", "b"]`, ""), denyRule("namespaces", `request.namespace == "b"`)}, "a"},
		"a deny of what is in it":           {[]policyv1alpha1.PolicyRule{rule(`request.namespace in ["a", "b"]`, ""), denyRule("pods", `request.namespace == "b"`)}, "a b"},
		"a deny of the right":               {[]policyv1alpha1.PolicyRule{rule(`request.namespace == "a"`, ""), denyRule("secrets", `request.namespace == "a"`)}, "a"},
		"at a time that is over":            {[]policyv1alpha1.PolicyRule{rule(`request.namespace == "a" && request.time < timestamp("2020-01-01T00:00:00Z")`, "")}, ""},
		"at a time that is not over":        {[]policyv1alpha1.PolicyRule{rule(`request.namespace == "a" && request.time < timestamp("2040-01-01T00:00:00Z")`, "")}, "a"},
	} {
		w := newUnionWorld(t, compile).policy("master", c.rules...)
		snap := w.snapshot()
		v := w.gate.Decide(w.at(snap), listOf("namespaces"))
		var shown []string
		for _, place := range []string{"a", "b", "c"} {
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": place}}}
			listed := v.Answer == Open && w.shown(snap, v.Pass.Narrowing(), o, "namespaces")
			if listed {
				shown = append(shown, place)
			}
			if got := w.got(snap, o, "namespaces"); got != listed {
				t.Errorf("%s: %s is listed %v, got %v", name, place, listed, got)
			}
		}
		if strings.Join(shown, " ") != c.shown {
			t.Errorf("%s: shown %v, want %s", name, shown, c.shown)
		}
		if n := v.Pass.Narrowing(); n != nil && n.Each.LooksAtNamespace() {
			t.Errorf("%s: namespaces are in no namespace", name)
		}
	}
	// Without an instant nothing that asks for the time shows anything.
	w := newUnionWorld(t, compile).policy("master", rule(`request.namespace == "a" && request.time < timestamp("2040-01-01T00:00:00Z")`, ""))
	if v := w.gate.Decide(requestctx.With(t.Context(), w.snapshot()), listOf("namespaces")); v.Answer != Unanswered {
		t.Errorf("at no known time: %v", v.Answer)
	}
}

func denyRule(kind, when string) policyv1alpha1.PolicyRule {
	r := readRule(kind, when, "")
	r.Deny = true
	return r
}

// RD-12: a rule about namespaces themselves shows those that it names, and what it asks of their objects is asked.
func TestRulesAboutNamespacesThemselves(t *testing.T) {
	compile := compilerOf(t)
	for name, c := range map[string]struct {
		rule  policyv1alpha1.PolicyRule
		shown string
	}{
		"by the namespace": {readRule("namespaces", `request.namespace == "a"`, ""), "a"}, "by the name": {readRule("namespaces", `request.name == "a"`, ""), "a"}, "by an object": {readRule("namespaces", `request.namespace in ["a", "b"]`, `resource.metadata.labels.team == "x"`), ""},
		"by both":    {readRule("namespaces", `request.namespace == "a" && request.name == "a"`, ""), "a"},
		"of another": {readRule("namespaces", `request.namespace == "c"`, ""), ""}, "its status": {readRule("namespaces/status", `request.namespace == "a"`, ""), ""},
	} {
		w := newUnionWorld(t, compile).policy("master", c.rule)
		snap := w.snapshot()
		v := w.gate.Decide(w.at(snap), listOf("namespaces"))
		var shown []string
		for _, place := range []string{"a", "b"} {
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": place}}}
			if v.Answer == Open && w.shown(snap, v.Pass.Narrowing(), o, "namespaces") {
				shown = append(shown, place)
			}
		}
		if strings.Join(shown, " ") != c.shown {
			t.Errorf("%s: shown %v, want %s (%v)", name, shown, c.shown, v.Answer)
		}
	}
	for action, want := range map[ruleset.Action]bool{
		{Verb: "get", Resource: schema.GroupResource{Resource: "namespaces"}}: true, {Verb: "get", Resource: schema.GroupResource{Resource: "namespaces"}, Sub: "status"}: false,
		{Verb: "get", Resource: schema.GroupResource{Group: "example.com", Resource: "namespaces"}}: false, {Verb: "get", Resource: schema.GroupResource{Resource: "pods"}}: false,
		{Verb: "get", Resource: schema.GroupResource{Group: "example.com", Resource: "pods"}, Sub: "status"}: false,
	} {
		if isItself(action) != want {
			t.Errorf("%+v is about a namespace itself: %v", action, !want)
		}
	}
	for verb, want := range map[string]string{"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE", "deletecollection": "DELETE", "get": "GET", "list": "GET", "watch": "GET"} {
		if got := operationOf(verb); got != want {
			t.Errorf("%s is seen as %s", verb, got)
		}
	}
}

// RD-11: what a list over all namespaces needs to decide namespace by namespace, and what it does not.
func TestWhatIsDecidedElsewhere(t *testing.T) {
	compile := compilerOf(t)
	const b, data = `request.namespace == "b"`, `resource.data.k == "v"`
	spreadOf := func(w *unionWorld, resource string, wide bool) *spread {
		snap := w.snapshot()
		return w.gate.spread(w.at(snap), snap, listOf(resource), wide)
	}
	for name, c := range map[string]struct {
		rules             []policyv1alpha1.PolicyRule
		wide              bool
		elsewhere, denies bool
	}{
		"nothing": {nil, true, false, false}, "a rule for all": {[]policyv1alpha1.PolicyRule{readRule("configmaps", "", data)}, true, false, false}, "a rule for one": {[]policyv1alpha1.PolicyRule{readRule("configmaps", b, "")}, false, true, false},
		"of something else": {[]policyv1alpha1.PolicyRule{readRule("secrets", b, "")}, true, false, false}, "a deny for one": {[]policyv1alpha1.PolicyRule{denyRule("configmaps", b)}, true, true, true}, "a deny for one, of nothing": {[]policyv1alpha1.PolicyRule{denyRule("configmaps", b)}, false, false, false},
		"a deny that is not for one": {[]policyv1alpha1.PolicyRule{denyRule("configmaps", `request.user == "eve"`)}, true, false, false}, "both": {[]policyv1alpha1.PolicyRule{readRule("configmaps", b, ""), denyRule("configmaps", b)}, false, true, true},
	} {
		w := newUnionWorld(t, compile).rbac("a", readMaps)
		if len(c.rules) > 0 {
			w.policy("master", c.rules...)
		}
		u := spreadOf(w, "configmaps", c.wide)
		if u == nil || (u.elsewhere != nil) != c.elsewhere || c.elsewhere && u.elsewhere.denies != c.denies {
			t.Errorf("%s: %+v", name, u)
		}
		// What is not in the chain decides nothing.
		chain, err := NewChain(w.gate.Chain.Links()[1:]...)
		if err != nil {
			t.Fatal(err)
		}
		w.gate.Chain = chain
		if u := spreadOf(w, "configmaps", c.wide); u == nil || u.elsewhere != nil {
			t.Errorf("%s, without the master policy: %+v", name, u)
		}
	}
	for name, c := range map[string]struct {
		rules  []policyv1alpha1.PolicyRule
		wide   bool
		denied bool
	}{
		"no deny": {nil, true, false}, "a deny of a namespace": {[]policyv1alpha1.PolicyRule{denyRule("namespaces", b)}, true, true}, "a deny by name": {[]policyv1alpha1.PolicyRule{{Deny: true, Verbs: []string{"get"}, ResourceKinds: []string{"namespaces"}, ResourceNames: []string{"b"}}}, true, true},
		"a deny of what is in it": {[]policyv1alpha1.PolicyRule{denyRule("pods", b)}, true, false}, "nothing is shown by rules for all": {[]policyv1alpha1.PolicyRule{denyRule("namespaces", b)}, false, false}, "an allow": {[]policyv1alpha1.PolicyRule{readRule("namespaces", "", data)}, true, false},
	} {
		w := newUnionWorld(t, compile).rbac("a", readMaps)
		if len(c.rules) > 0 {
			w.policy("master", c.rules...)
		}
		snap := w.snapshot()
		if got := w.gate.deniedPlaces(w.at(snap), snap, listOf("namespaces"), c.wide); (got != nil) != c.denied {
			t.Errorf("%s: %+v", name, got)
		}
		if got := readsGate(t).Over(answersOf(t, silence)).deniedPlaces(w.at(snap), snap, listOf("namespaces"), c.wide); got != nil {
			t.Errorf("%s, without the master policy: %+v", name, got)
		}
	}
	// A namespace of which a binding says nothing is not decided about, and one whose get is denied shows nothing.
	w := newUnionWorld(t, compile).rbac("a", readMaps).rbac("b", rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}})
	if u := spreadOf(w, "namespaces", false); u == nil || !slices.Equal(u.decided, []string{"a"}) {
		t.Errorf("%+v", u)
	}
	if u := spreadOf(w, "configmaps", true); u == nil || !slices.Equal(u.decided, []string{"a"}) {
		t.Errorf("%+v", u)
	}
	if u := spreadOf(newUnionWorld(t, compile).rbac("b", rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}}), "namespaces", false); u != nil {
		t.Errorf("a right to nothing in it: %+v", u)
	}
	w = newUnionWorld(t, compile).policy("b", denyRule("namespaces", ""), readRule("pods", "", ""))
	if u := spreadOf(w, "namespaces", true); u == nil || !slices.Equal(u.decided, []string{"b"}) || len(u.order) != 0 {
		t.Errorf("a namespace that is denied: %+v", u)
	} else if shown, known := u.At("", "b"); shown || !known {
		t.Errorf("a namespace that is denied is shown %v, known %v", shown, known)
	}
	if u := spreadOf(newUnionWorld(t, compile).policy("b", denyRule("namespaces", "")), "namespaces", true); u == nil || !slices.Equal(u.decided, []string{"b"}) {
		t.Errorf("a namespace that is denied, and nothing in it is allowed: %+v", u)
	}
	if u := spreadOf(newUnionWorld(t, compile).rbac("a", readMaps).policy("b", denyRule("namespaces", "")), "namespaces", false); u == nil || !slices.Equal(u.decided, []string{"a"}) {
		t.Errorf("a namespace that is denied, and that nothing would show: %+v", u)
	}
	if u := spreadOf(newUnionWorld(t, compile).policy("b", denyRule("namespaces", "")).policy("master", readRule("secrets", b, "")), "namespaces", false); u == nil || !slices.Equal(u.decided, []string{"b"}) {
		t.Errorf("a namespace that is denied, and that a rule names: %+v", u)
	}
	if u := spreadOf(newUnionWorld(t, compile).policy("b", denyRule("configmaps", "")).policy("master", readRule("configmaps", b, "")), "configmaps", false); u == nil || !slices.Equal(u.decided, []string{"b"}) {
		t.Errorf("a namespace that denies what a rule allows there: %+v", u)
	}
	if u := spreadOf(newUnionWorld(t, compile).policy("b", denyRule("configmaps", ""), readRule("configmaps", "", "")), "configmaps", false); u != nil {
		t.Errorf("a namespace that denies what it allows: %+v", u)
	}
	for name, c := range map[string]struct {
		u     spread
		known bool
	}{"names of all namespaces": {spread{wide: &each{names: []string{"x"}}}, true}, "and conditions elsewhere": {spread{wide: &each{names: []string{"x"}}, elsewhere: &elsewhere{}}, false}, "and namespaces that are named": {spread{wide: &each{names: []string{"x"}}, named: &named{}}, false}, "conditions": {spread{wide: &each{names: []string{"x"}, rules: []*ruleCondition{{}}}}, false}} {
		if shown, known := c.u.At("b", "x"); !shown || !known {
			t.Errorf("%s: what is named is shown %v, known %v", name, shown, known)
		}
		if shown, known := c.u.At("b", "y"); shown || known != c.known {
			t.Errorf("%s: anything else is shown %v, known %v", name, shown, known)
		}
	}
	if u := spreadOf(newUnionWorld(t, compile).policy("b", denyRule("configmaps", "")), "configmaps", false); u != nil {
		t.Errorf("a deny of what nothing allows: %+v", u)
	}
	if u := spreadOf(newUnionWorld(t, compile).policy("b", denyRule("configmaps", "")), "configmaps", true); u == nil || !slices.Equal(u.decided, []string{"b"}) {
		t.Errorf("a deny of what rules for all allow: %+v", u)
	}
}

// RD-7: views differ by what denies, by what is served, by who asks if a rule looks at that.
func TestViewsOfPlaces(t *testing.T) {
	compile := compilerOf(t)
	view := func(resource string, groups []string, w *unionWorld) requestctx.View {
		t.Helper()
		attrs := listOf(resource)
		attrs.User = &user.DefaultInfo{Name: "edgar", Groups: append([]string{user.AllAuthenticated}, groups...)}
		v := w.gate.Decide(w.at(w.snapshot()), attrs)
		if v.Answer != Open {
			t.Fatalf("%s\n%v %q", strings.Join(w.said, "\n"), v.Answer, v.Reason)
		}
		return v.Pass.Narrowing().Each.View()
	}
	fresh := func(rules ...policyv1alpha1.PolicyRule) *unionWorld {
		w := newUnionWorld(t, compile).rbac("a", readMaps)
		if len(rules) > 0 {
			w.policy("master", rules...)
		}
		return w
	}
	const data = `resource.metadata.labels.team == "x"`
	star := readRule("*", `request.namespace == "b" && request.resource == "secrets"`, "")
	fewer := fresh(star)
	fewer.in.Kinds = snapshot.Sources{Local: []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap", Namespaced: true}, {Name: "namespaces", Kind: "Namespace"}}}}}.Served().Kinds()
	named := readRule("secrets", `request.namespace in ["b", "c"]`, "")
	byName := policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"get"}, ResourceKinds: []string{"namespaces"}, ResourceNames: []string{"b"}}
	for _, all := range []map[string]requestctx.View{
		{
			"named": view("namespaces", nil, fresh(named)), "named, in a group": view("namespaces", []string{"g"}, fresh(named)), "named, one denied": view("namespaces", nil, fresh(named, denyRule("namespaces", `request.namespace == "b"`))),
			"named, another denied": view("namespaces", nil, fresh(named, denyRule("namespaces", `request.namespace == "c"`))), "named, one denied by name": view("namespaces", nil, fresh(named, byName)),
			"named, all denied": view("namespaces", nil, fresh(named, policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"get"}, ResourceKinds: []string{"namespaces"}})),
			"of all kinds":      view("namespaces", nil, fresh(star)), "of fewer kinds": view("namespaces", nil, fewer),
		}, {
			"wide": view("namespaces", nil, fresh(readRule("namespaces", "", data))), "wide, one denied": view("namespaces", nil, fresh(readRule("namespaces", "", data), denyRule("namespaces", `request.namespace == "b"`))),
			"wide, another denied": view("namespaces", nil, fresh(readRule("namespaces", "", data), denyRule("namespaces", `request.namespace == "c"`))), "wide, one denied by name": view("namespaces", nil, fresh(readRule("namespaces", "", data), byName)),
			"wide, one denied, in a group": view("namespaces", []string{"g"}, fresh(readRule("namespaces", "", data), denyRule("namespaces", `request.namespace == "b"`))),
		}, {
			"elsewhere": view("configmaps", nil, fresh(readRule("configmaps", `request.namespace == "b"`, ""))), "elsewhere, in a group": view("configmaps", []string{"g"}, fresh(readRule("configmaps", `request.namespace == "b"`, ""))),
			"elsewhere, denied": view("configmaps", nil, fresh(readRule("configmaps", `request.namespace == "b"`, ""), denyRule("configmaps", `request.namespace == "c"`))),
		},
	} {
		seen := map[requestctx.View]string{}
		for name, v := range all {
			if other, ok := seen[v]; ok {
				t.Errorf("%q and %q are taken for the same", name, other)
			}
			seen[v] = name
		}
	}
	denying := func(ns string) requestctx.View {
		deny := denyRule("configmaps", "")
		deny.Where = data
		return view("configmaps", nil, newUnionWorld(t, compile).policy(ns, deny).policy("master", readRule("configmaps", "", data)))
	}
	if one, again := denying("a"), denying("a"); one == denying("b") || one != again {
		t.Error("which namespace shows nothing does not count")
	}
}

// RD-14: what was decided about a namespace is not decided again for the next of its objects.
func TestPlacesAreDecidedOnce(t *testing.T) {
	for resource, rule := range map[string]policyv1alpha1.PolicyRule{"configmaps": readRule("configmaps", `request.namespace == "b"`, ""), "namespaces": readRule("secrets", `request.namespace == "b"`, "")} {
		w := newUnionWorld(t, compilerOf(t)).policy("master", rule)
		last := &scripted{decision: authorizer.ConditionsAwareDecisionNoOpinion("", nil)}
		chain, err := w.gate.Chain.With(append([]Link{{Name: "first", Authorizer: last}}, w.gate.Chain.Links()...)...)
		if err != nil {
			t.Fatal(err)
		}
		w.gate.Chain = chain
		snap := w.snapshot()
		each := w.gate.Decide(w.at(snap), listOf(resource)).Pass.Narrowing().Each
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "o", "namespace": "b"}}}
		if resource == "namespaces" {
			o = &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "b"}}}
		}
		var asked []int
		for range 3 {
			before := last.asked
			if shown, err := each.Shows(w.at(snap), readState(o, resource)); !shown || err != nil {
				t.Errorf("%s: %v, %v", resource, shown, err)
			}
			asked = append(asked, last.asked-before)
		}
		if asked[0] == 0 || asked[1] != 0 || asked[2] != 0 {
			t.Errorf("%s: asked %v times", resource, asked)
		}
	}
}

// TR-6, PO-7: what is supposed of the master policy overrides a deny that only says that something cannot be read, as
// an allow that is there does, and so does the Node authorizer.
func TestUnreadableDeniesYield(t *testing.T) {
	lost := &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "master", Annotations: map[string]string{policyv1alpha1.AnnotationUnreadable: "x"}}, Roles: map[string]policyv1alpha1.PolicyRole{"r": {}}}
	ix := ruleset.Build(ruleset.Input{MasterNamespace: "master", CompileRule: compilerOf(t), Kinds: unionServed().Kinds(), Policies: []*policyv1alpha1.Policy{lost}, PolicyBindings: []*policyv1alpha1.PolicyBinding{bindingIn("master")}})
	var q ruleset.Query
	q.Reset(ix, asks("create"))
	if m := q.PolicyMaster(); !m.Deny.Found() || !m.Deny.Yields() {
		t.Skip("what cannot be read denies in another way")
	}
	hit := func(deny bool) ruleset.Hit {
		other := world(t, []policyv1alpha1.PolicyRule{{Deny: deny, Verbs: []string{"create"}, ResourceKinds: []string{"configmaps"}}})
		var q ruleset.Query
		q.Reset(other, asks("create"))
		effect := ruleset.Allows
		if deny {
			effect = ruleset.Denies
		}
		return q.AppendAll(nil, ruleset.TierNamespace, effect)[0]
	}
	ctx := requestctx.At(t.Context(), &snapshot.Snapshot{Rules: ix}, time.Unix(1, 0))
	store := snapshot.NewStore()
	for name, c := range map[string]struct {
		link authorizer.Authorizer
		want authorizer.Decision
	}{
		"as it is": {NewPolicyMaster(store), authorizer.DecisionDeny}, "with an allow": {NewPolicyMaster(store).Supposing(hit(false)), authorizer.DecisionAllow}, "with a deny": {NewPolicyMaster(store).Supposing(hit(true)), authorizer.DecisionDeny},
		"for a node": {NewPolicyMaster(store).YieldingTo(byVerb{allowed: []string{"create"}}), authorizer.DecisionNoOpinion}, "for what the Node authorizer does not allow": {NewPolicyMaster(store).YieldingTo(byVerb{}), authorizer.DecisionDeny},
	} {
		if got, reason, _ := c.link.Authorize(ctx, asks("create")); got != c.want {
			t.Errorf("%s: %v (%s)", name, got, reason)
		}
	}
}
