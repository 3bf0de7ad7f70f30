package authorize

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	kubelabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// RD-7, NI-6: a hash tells apart which texts there are and how they are put together, and everything that conditions
// see of a request.
func TestHashesTellApart(t *testing.T) {
	of := func(add func(hash)) string {
		h := newHash("x")
		add(h)
		return string(h.Sum(nil))
	}
	base := func() *expr.Request {
		return &expr.Request{User: "u", UID: "i", Verb: "list", Subresource: "s", Namespace: "ns", Name: "n", Groups: []string{"g", "h"}, Extra: map[string][]string{"k": {"v", "w"}, "l": {"v"}},
			FieldSelector: fields.ParseSelectorOrDie("a=b").Requirements(), LabelSelector: requirementsOf(t, "a=b")}
	}
	all := map[string]string{
		"nothing": of(func(hash) {}), "no texts": of(func(h hash) { h.add() }), "one text": of(func(h hash) { h.add("ab") }), "two texts": of(func(h hash) { h.add("a", "b") }), "one text, and one": of(func(h hash) { h.add("a"); h.add("b") }),
		"cut earlier": of(func(h hash) { h.add("a", "bc") }), "cut later": of(func(h hash) { h.add("ab", "c") }), "a number": of(func(h hash) { h.number(1) }), "another number": of(func(h hash) { h.number(256) }),
		"a request": of(func(h hash) { h.request(base()) }),
	}
	for name, change := range map[string]func(*expr.Request){
		"user": func(r *expr.Request) { r.User = "v" }, "uid": func(r *expr.Request) { r.UID = "j" }, "verb": func(r *expr.Request) { r.Verb = "watch" }, "subresource": func(r *expr.Request) { r.Subresource = "" }, "namespace": func(r *expr.Request) { r.Namespace = "" },
		"name": func(r *expr.Request) { r.Name = "" }, "groups": func(r *expr.Request) { r.Groups = []string{"g"} }, "the order of groups": func(r *expr.Request) { r.Groups = []string{"h", "g"} }, "groups that run together": func(r *expr.Request) { r.Groups = []string{"gh"} },
		"fields": func(r *expr.Request) { r.FieldSelector = nil }, "labels": func(r *expr.Request) { r.LabelSelector = nil }, "no extra": func(r *expr.Request) { r.Extra = nil }, "an extra less": func(r *expr.Request) { delete(r.Extra, "l") },
		"another key": func(r *expr.Request) { r.Extra = map[string][]string{"k": {"v", "w"}, "m": {"v"}} }, "another value": func(r *expr.Request) { r.Extra["k"] = []string{"v", "x"} }, "a value less": func(r *expr.Request) { r.Extra["k"] = []string{"v"} },
	} {
		r := base()
		change(r)
		all[name] = of(func(h hash) { h.request(r) })
	}
	seen := map[string]string{}
	for name, sum := range all {
		if other, ok := seen[sum]; ok {
			t.Errorf("%q and %q have the same hash", name, other)
		}
		seen[sum] = name
	}
	again := base()
	if of(func(h hash) { h.request(again) }) != all["a request"] {
		t.Error("the same request has another hash")
	}
}

func requirementsOf(t *testing.T, text string) kubelabels.Requirements {
	t.Helper()
	all, err := kubelabels.ParseToRequirements(text)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// RD-7: selectors that were computed are taken again only if every single thing that they were computed from is the
// same.
func TestBasisIsAllOfIt(t *testing.T) {
	one, two := &rulecondition.Compiled{}, &rulecondition.Compiled{Description: "another"}
	base := func() *basis {
		return &basis{asks: true, fields: []expr.SelectableField{{Key: "a"}}, rules: []basisRule{{compiled: one, policy: &policyRuleA, rbac: &rbacRuleA, names: []string{"n"}, unseen: "u", sight: "s", at: time.Unix(1, 0)}}}
	}
	if !base().Equal(base()) {
		t.Error("the same basis differs")
	}
	for name, change := range map[string]func(*basis){
		"asks": func(b *basis) { b.asks = false }, "fields": func(b *basis) { b.fields = nil }, "a rule less": func(b *basis) { b.rules = nil }, "compiled": func(b *basis) { b.rules[0].compiled = two }, "policy": func(b *basis) { b.rules[0].policy = &policyRuleB },
		"rbac": func(b *basis) { b.rules[0].rbac = &rbacRuleB }, "names": func(b *basis) { b.rules[0].names = []string{"m"} }, "by delete": func(b *basis) { b.rules[0].byDelete = true }, "unseen": func(b *basis) { b.rules[0].unseen = "" },
		"sight": func(b *basis) { b.rules[0].sight = "" }, "the instant": func(b *basis) { b.rules[0].at = time.Unix(2, 0) },
	} {
		other := base()
		change(other)
		if base().Equal(other) || other.Equal(base()) {
			t.Errorf("%s: taken for the same", name)
		}
	}
	if base().Equal(nil) {
		t.Error("nothing is the same as something")
	}
}

var (
	policyRuleA, policyRuleB policyv1alpha1.PolicyRule
	rbacRuleA, rbacRuleB     rbacv1.PolicyRule
)

// ruleIn is what edgar has in namespace hammer.
func rulesIn(t *testing.T, rules ...policyv1alpha1.PolicyRule) *snapshot.Snapshot {
	t.Helper()
	return &snapshot.Snapshot{Rules: world(t, rules), Served: unionServed()}
}

func listRule(where string, names ...string) policyv1alpha1.PolicyRule {
	return policyv1alpha1.PolicyRule{Verbs: []string{"list", "get"}, ResourceKinds: []string{"configmaps"}, Where: where, ResourceNames: names}
}

// RD-1, RD-10, RD-13: what a list is narrowed to: what selectors can say of it, and a question about each object for
// what they cannot; by which rules, in order.
func TestWhatAListIsNarrowedTo(t *testing.T) {
	const a, data = `resource.metadata.labels["a"] == "x"`, `resource.data.k == "v"`
	both := listRule(a)
	both.When = `object.data.k == "v"`
	for name, c := range map[string]struct {
		rules []policyv1alpha1.PolicyRule
		asks  bool
		box   string
		each  bool
		union bool
		fails string
	}{
		"a selector":                    {[]policyv1alpha1.PolicyRule{listRule(a)}, true, "labelSelector a=x", false, false, ""},
		"what no selector says":         {[]policyv1alpha1.PolicyRule{listRule(data)}, true, "no selector", true, false, ""},
		"partly":                        {[]policyv1alpha1.PolicyRule{both}, true, "labelSelector a=x", true, false, ""},
		"two that have a key in common": {[]policyv1alpha1.PolicyRule{both, listRule(`resource.metadata.labels["a"] == "y"`)}, true, "labelSelector a in (x,y)", true, false, ""},
		"two that have none":            {[]policyv1alpha1.PolicyRule{listRule(a), listRule(data)}, true, "no selector", true, false, ""},
		"by selectors only":             {[]policyv1alpha1.PolicyRule{listRule(data)}, false, "", false, false, "the list cannot be narrowed: condition"},
		"by selectors only, one of two": {[]policyv1alpha1.PolicyRule{listRule(data), listRule(a)}, false, "", false, false, "give one of these selectors: labelSelector a=x"},
		"by selectors only, two":        {[]policyv1alpha1.PolicyRule{listRule(`resource.metadata.labels["b"] == "x"`), listRule(a)}, false, "", false, false, "give one of these selectors"},
	} {
		gate := readsGate(t)
		if c.asks {
			gate.reading = anyReads{ReadsFunc(func(authorizer.Attributes) error { return nil })}
		}
		n, err := gate.NarrowFor(t.Context(), rulesIn(t, c.rules...), asks("list"))
		if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) || err != nil && !strings.Contains(c.fails, "give one") && strings.Contains(err.Error(), "give one") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err != nil {
			continue
		}
		if n.Box.String() != c.box || (n.Each != nil) != c.each || (n.Union != nil) != c.union || len(n.Rules) != len(c.rules) || !slices.IsSorted(n.Rules) {
			t.Errorf("%s: %s, asks %v, union %v, by %v", name, n.Box, n.Each != nil, n.Union, n.Rules)
		}
	}
	// Names that rules are limited to are asked about, and say so.
	w := newUnionWorld(t, compilerOf(t)).policy("master", readRule("configmaps", "", "", "z", "b"), readRule("configmaps", "", "", "a"), readRule("configmaps", "", data))
	v := w.gate.Decide(w.at(w.snapshot()), listOf("configmaps"))
	n := v.Pass.Narrowing()
	if n == nil || n.Union == nil || !n.Union.Elsewhere || n.Each == nil || !slices.IsSorted(n.Rules) {
		t.Fatalf("%v, %+v", v.Answer, n)
	}
	for name, known := range map[string]bool{"a": true, "b": true, "z": true, "c": false} {
		if shown, got := n.Each.At("x", name); got != known || shown != known {
			t.Errorf("%s: shown %v, known %v", name, shown, got)
		}
	}
	// Without conditions beside them, names tell all.
	w = newUnionWorld(t, compilerOf(t)).policy("master", readRule("configmaps", "", "", "z", "b"))
	n = w.gate.Decide(w.at(w.snapshot()), listOf("configmaps")).Pass.Narrowing()
	for name, want := range map[string]bool{"b": true, "z": true, "c": false} {
		if shown, known := n.Each.At("x", name); !known || shown != want {
			t.Errorf("%s: shown %v, known %v", name, shown, known)
		}
	}
	// A get is not narrowed, and no list of one that is not allowed either.
	gate := readsGate(t)
	get := asks("get")
	get.Name = "x"
	snap := rulesIn(t, listRule(a))
	if n, err := gate.NarrowFor(t.Context(), snap, get); n != nil || err == nil {
		t.Errorf("a get: %v, %v", n, err)
	}
	if n, err := gate.NarrowFor(t.Context(), rulesIn(t), asks("list")); n != nil || err == nil {
		t.Errorf("a list that nothing allows: %v, %v", n, err)
	}
	if n, err := gate.NarrowFor(t.Context(), rulesIn(t, policyv1alpha1.PolicyRule{Verbs: []string{"list"}, ResourceKinds: []string{"configmaps"}}), asks("list")); n != nil || err != nil {
		t.Errorf("a list that is allowed: %v, %v", n, err)
	}
	if got := gate.Narrowed(t.Context(), snap, get); got != "" {
		t.Errorf("a review of a get says %q", got)
	}
	gate.reading = nil
	if got := gate.Narrowed(t.Context(), snap, asks("list")); got != "" {
		t.Errorf("a review without reads says %q", got)
	}
}

// RD-3: conditions of others narrow nothing, nor do rules that may deny.
func TestConditionsThatNarrowNothing(t *testing.T) {
	inner := authorizer.ConditionsAwareDecisionUnion{}
	inner.Add("x", oneAllow(0))
	inner.Add("y", denyIf(0))
	noOpinion := authorizer.ConditionsAwareDecisionConditionsMap(nil, []authorizer.Condition{condition("n", results[0])}, []authorizer.Condition{condition("a", results[0])})
	for name, c := range map[string]struct {
		d    authorizer.ConditionsAwareDecision
		want error
	}{"foreign": {oneAllow(0), errForeign}, "a deny": {denyIf(0), errDenies}, "no opinion": {noOpinion, errDenies}, "in a union": {inner.ToDecision(), errForeign}, "none": {sayYes, errForeign}} {
		if _, err := rulesOf(c.d); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// RD-10: an object that no condition could be asked about is not shown, with the failure; one that holds is enough.
func TestEachSaysWhy(t *testing.T) {
	gate := readsGate(t)
	gate.reading = anyReads{ReadsFunc(func(authorizer.Attributes) error { return nil })}
	n, err := gate.NarrowFor(t.Context(), rulesIn(t, listRule(`resource.data.k == "v"`), listRule(`resource.data.l == "v"`)), asks("list"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		data  map[string]any
		shown bool
		fails bool
	}{{map[string]any{"k": "v", "l": "w"}, true, false}, {map[string]any{"k": "v"}, true, false}, {map[string]any{"k": "w", "l": "w"}, false, false}, {map[string]any{"k": "w"}, false, true}, {nil, false, true}} {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x"}, "data": c.data}}
		shown, err := n.Each.Shows(t.Context(), state(o))
		if shown != c.shown || (err != nil) != c.fails || errors.Is(err, errNotEvaluable) {
			t.Errorf("%v: %v, %v", c.data, shown, err)
		}
	}
}

// TM-3, RD-7: a view under a condition on the time is another one at another instant, and its selectors are computed
// again; any other view is not.
func TestViewsInTime(t *testing.T) {
	gate := readsGate(t)
	gate.reading = anyReads{ReadsFunc(func(authorizer.Attributes) error { return nil })}
	for text, timed := range map[string]bool{`resource.data.k == "v"`: false, `resource.data.k == string(request.time.getHours())`: true} {
		snap := rulesIn(t, listRule(text))
		at := func(hour int) *requestctx.Narrowing {
			t.Helper()
			v := gate.Decide(requestctx.At(t.Context(), snap, time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC)), asks("list"))
			if v.Pass.Narrowing() == nil {
				t.Fatalf("%s: %v (%s)", text, v.Answer, v.Reason)
			}
			return v.Pass.Narrowing()
		}
		ten, eleven := at(10), at(11)
		if same := ten.View() == eleven.View(); same == timed {
			t.Errorf("%s: the same view an hour later: %v", text, same)
		}
		if same := ten.Basis.Equal(eleven.Basis); same == timed {
			t.Errorf("%s: computed from the same an hour later: %v", text, same)
		}
		if ten.View() != at(10).View() || !ten.Basis.Equal(at(10).Basis) {
			t.Errorf("%s: it differs at the same instant", text)
		}
	}
}

// CA-16: selectors imply a condition in lists and watches of the resource itself.
func TestWhereSelectorsCount(t *testing.T) {
	for name, c := range map[string]struct {
		verb, sub string
		want      expr.Truth
	}{"a list": {"list", "", expr.True}, "a watch": {"watch", "", expr.True}, "a get": {"get", "", expr.Unresolved}, "a subresource": {"list", "status", expr.Unresolved}, "a deletecollection": {"deletecollection", "", expr.Unresolved}} {
		attrs := asks(c.verb)
		attrs.Subresource, attrs.LabelSelectorRequirements = c.sub, requirementsOf(t, "good=yes")
		rules := []policyv1alpha1.PolicyRule{{Verbs: []string{"*"}, ResourceKinds: []string{"configmaps", "configmaps/status"}, Where: `resource.metadata.labels["good"] == "yes"`},
			{Deny: true, Verbs: []string{"*"}, ResourceKinds: []string{"configmaps", "configmaps/status"}, Where: `resource.metadata.labels["good"] == "yes"`}}
		all := NewPolicyNamespace(snapshot.NewStore(), nil).Applying(requestctx.With(t.Context(), rulesIn(t, rules...)), attrs)
		if len(all) != 2 {
			t.Fatalf("%s: %d rules", name, len(all))
		}
		for _, a := range all {
			want := c.want
			if a.Hit.Effect() == ruleset.Denies {
				want = expr.Unresolved
			}
			if a.Known != want {
				t.Errorf("%s, %v: %v, want %v", name, a.Hit.Effect(), a.Known, want)
			}
		}
	}
	// A list that its selectors allow stays one where nothing narrows it.
	gate, attrs := readsGate(t), asks("list")
	attrs.LabelSelectorRequirements = requirementsOf(t, "good=yes")
	ctx := requestctx.With(t.Context(), rulesIn(t, listRule(`resource.metadata.labels["good"] == "yes"`)))
	v := gate.Decide(ctx, attrs)
	if folded := v.Folded(ctx); v.Answer != Open || folded.Answer != Allowed {
		t.Errorf("%v, folded %v (%s)", v.Answer, folded.Answer, folded.Reason)
	}
	attrs.LabelSelectorRequirements = requirementsOf(t, "good=no")
	v = gate.Decide(ctx, attrs)
	if folded := v.Folded(ctx); folded.Answer != Unanswered {
		t.Errorf("another selector: %v, folded %v", v.Answer, folded.Answer)
	}
}

// SV-8: what is granted under a condition, or is denied under one, is not granted for the whole cluster.
func TestNotGrantedEverywhere(t *testing.T) {
	allow := policyv1alpha1.PolicyRule{Verbs: []string{"update"}, ResourceKinds: []string{"configmaps"}}
	deny, denyOpen, open := allow, allow, allow
	deny.Deny, denyOpen.Deny = true, true
	denyOpen.Where, open.Where = `resource.metadata.labels["good"] == "yes"`, `resource.metadata.labels["good"] == "yes"`
	chain := answersOf(t, silence)
	for name, c := range map[string]struct {
		rules []policyv1alpha1.PolicyRule
		want  bool
	}{"granted": {[]policyv1alpha1.PolicyRule{allow}, true}, "denied": {[]policyv1alpha1.PolicyRule{allow, deny}, false}, "denied under a condition": {[]policyv1alpha1.PolicyRule{allow, denyOpen}, false}, "under a condition": {[]policyv1alpha1.PolicyRule{open}, false}} {
		if got := chain.GrantedEverywhere(t.Context(), &snapshot.Snapshot{Rules: worldIn(t, "master", c.rules)}, asks("update")); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// CA-9: without a path no check is taken for that of the request.
func TestRequestsWithoutAPath(t *testing.T) {
	info, attrs := asked("get")
	info.Path, attrs.Path = "", ""
	if isThisConnect(within(t, &info), attrs) || isRequestItself(within(t, &info), attrs) {
		t.Error("a check without a path is taken for that of the request")
	}
}

// TR-6: a host that is asked about access and about admission apart tells the observer of each request once.
func TestAccessIsObservedOnce(t *testing.T) {
	read, write, path := asks("get"), asks("update"), authorizer.AttributesRecord{Verb: "post", Path: "/x", User: &user.DefaultInfo{}}
	exec := asks("get")
	exec.Resource, exec.Subresource = "pods", "exec"
	for name, c := range map[string]struct {
		attrs  authorizer.AttributesRecord
		answer Answer
		told   bool
	}{
		"a read": {read, Allowed, true}, "an open read": {read, Open, true}, "a read that is refused": {read, Denied, true}, "a write": {write, Allowed, false}, "an open write": {write, Open, false}, "a write that is refused": {write, Denied, true},
		"a write that nothing allows": {write, Unanswered, true}, "a path": {path, Allowed, true}, "a connection": {exec, Allowed, false}, "a connection that is refused": {exec, Unanswered, true},
	} {
		seen := &witness{}
		NewGate(GateConfig{Observer: seen}).ObserveAccess(t.Context(), c.attrs, Verdict{Answer: c.answer})
		if (len(*seen) == 1) != c.told || c.told && (*seen)[0].Allowed != (c.answer == Allowed || c.answer == Open) {
			t.Errorf("%s: told %+v", name, *seen)
		}
	}
}

// PO-8: a deny of the master namespace does not yield; a trace says so.
func TestMasterDeniesDoNotYield(t *testing.T) {
	deny := policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"create"}, ResourceKinds: []string{"configmaps"}}
	snap := &snapshot.Snapshot{Rules: worldIn(t, "master", []policyv1alpha1.PolicyRule{deny}, rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"configmaps"}})}
	tier := NewPolicyMaster(snapshot.NewStore())
	for _, a := range tier.Applying(requestctx.With(t.Context(), snap), asks("create")) {
		if a.Yields {
			t.Error("a deny of the master namespace yields")
		}
	}
	for tier, want := range map[ruleset.Tier]bool{ruleset.TierMaster: true, ruleset.TierNamespace: false, ruleset.TierRBAC: true} {
		chain, err := NewChain(Link{Name: "webhook", Authorizer: byVerb{}}, Link{Name: "m", Authorizer: NewPolicyMaster(nil)}, Link{Name: "r", Authorizer: NewRBAC(nil)})
		if err != nil {
			t.Fatal(err)
		}
		if got := chain.has(tier); got != want {
			t.Errorf("%v is in the chain: %v", tier, got)
		}
	}
}

// TM-3: a policy that asks for the time is decided again, whether or not anything in it ends.
func TestPolicyThatAsksForTheTime(t *testing.T) {
	for text, want := range map[string]bool{`request.time < timestamp("2026-01-01T00:00:00Z")`: true, `request.user == "edgar"`: false} {
		snap := &snapshot.Snapshot{Rules: world(t, []policyv1alpha1.PolicyRule{{Verbs: []string{"update"}, ResourceKinds: []string{"configmaps"}, When: text}})}
		now := time.Date(2025, 12, 31, 23, 59, 0, 0, time.UTC)
		ctx := requestctx.At(t.Context(), snap, now)
		holder := requestctx.From(ctx)
		gate := readsGate(t)
		holder.Put(requestctx.Request, asks("update"), gate.Decide(ctx, asks("update")).Pass)
		if !holder.Get(requestctx.Request).IsAllowed() {
			t.Fatalf("%s: not allowed when it arrived", text)
		}
		_, later := Later{Gate: gate, Clock: stopped(now.Add(time.Hour))}.Again(context.Background(), holder)
		if (later != nil) != want || later != nil && later.Get(requestctx.Request).IsAllowed() {
			t.Errorf("%s: decided again %v", text, later)
		}
	}
}
