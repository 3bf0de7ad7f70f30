package authorize

import (
	"errors"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	kubelabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/request/requestctx"
)

// RD-1, RD-2, RD-8: what the gate hands over for a read under a condition, and what a review says about it.
func TestReadsAtTheGate(t *testing.T) {
	where := func(text string) policyv1alpha1.PolicyRule {
		return policyv1alpha1.PolicyRule{Verbs: []string{"get", "list", "watch"}, ResourceKinds: []string{"configmaps"}, Where: text}
	}
	const good, other = `resource.metadata.labels["good"] == "yes"`, `resource.data.x == "y"`
	anybody := rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}
	stored := func(authorizer.Attributes) error { return nil }
	for _, tc := range []struct {
		name, verb, selector string
		rules                []policyv1alpha1.PolicyRule
		rbac                 []rbacv1.PolicyRule
		reaches              func(authorizer.Attributes) error
		narrowed, refused    string
	}{
		{name: "one rule", verb: "list", rules: []policyv1alpha1.PolicyRule{where(good)}, reaches: stored, narrowed: "labelSelector good=yes"},
		{name: "a watch", verb: "watch", rules: []policyv1alpha1.PolicyRule{where(good)}, reaches: stored, narrowed: "labelSelector good=yes"},
		{name: "the selector says it", verb: "list", selector: "good=yes", rules: []policyv1alpha1.PolicyRule{where(good)}, reaches: stored, narrowed: "no selector"},
		{name: "two rules in one key", verb: "list", rules: []policyv1alpha1.PolicyRule{where(good), where(`resource.metadata.labels["good"] == "no"`)}, reaches: stored, narrowed: "labelSelector good in (no,yes)"},
		{name: "two keys", verb: "list", rules: []policyv1alpha1.PolicyRule{where(good), where(`resource.metadata.labels["a"] == "b"`)}, reaches: stored,
			refused: "give one of these selectors: labelSelector a=b, or labelSelector good=yes"},
		{name: "what no selector says", verb: "list", rules: []policyv1alpha1.PolicyRule{where(other)}, reaches: stored, refused: "not about labels and fields"},
		{name: "what no selector says, beside what one does", verb: "list", rules: []policyv1alpha1.PolicyRule{where(other), where(good)}, reaches: stored, refused: "give one of these selectors: labelSelector good=yes"},
		{name: "RBAC allows it without", verb: "list", rules: []policyv1alpha1.PolicyRule{where(good)}, rbac: []rbacv1.PolicyRule{anybody}, reaches: stored},
		{name: "off", verb: "list", rules: []policyv1alpha1.PolicyRule{where(good)}, refused: "a list or watch needs a label or field selector"},
		{name: "not stored here", verb: "list", rules: []policyv1alpha1.PolicyRule{where(good)}, reaches: func(authorizer.Attributes) error { return errors.New("not stored here") }, refused: "not stored here"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			store := storeWith(t, &published{index: world(t, tc.rules, tc.rbac...)})
			gate := NewGate(GateConfig{Chain: tiers(t, store), Conditional: true, Local: LocalFunc(func(string, string) bool { return true })})
			if tc.reaches != nil {
				gate.reading = ReadsFunc(tc.reaches)
			}
			attrs := asks(tc.verb)
			if tc.selector != "" {
				attrs.LabelSelectorRequirements, _ = kubelabels.ParseToRequirements(tc.selector)
			}
			ctx := requestctx.With(t.Context(), store.Current())
			holder := requestctx.From(ctx)
			decision, reason, err := gate.admit(ctx, holder, requestctx.Request, attrs)
			n := holder.Get(requestctx.Request).Narrowing()
			switch {
			case tc.refused != "":
				if decision == authorizer.DecisionAllow || !strings.Contains(reason, tc.refused) || n != nil {
					t.Errorf("%v %q %v, want a refusal with %q", decision, reason, err, tc.refused)
				}
			case decision != authorizer.DecisionAllow || (n == nil) != (tc.narrowed == "") || n != nil && n.Box.String() != tc.narrowed:
				t.Errorf("%v %q %v: %v, want %q", decision, reason, err, n, tc.narrowed)
			}
			if tc.reaches != nil {
				said, want := gate.Narrowed(ctx, store.Current(), attrs), tc.refused
				if tc.narrowed != "" {
					want = tc.narrowed
				}
				if !strings.Contains(said, want) || (said == "") != (want == "") {
					t.Errorf("a review says %q, want %q", said, want)
				}
			}
		})
	}
}

// RD-8: a list that nothing allows is not narrowed to anything, and what denies some objects does not allow others.
func TestDeniesAloneDoNotNarrow(t *testing.T) {
	deny := policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"list"}, ResourceKinds: []string{"configmaps"}, ResourceNames: []string{"victim"}}
	for name, rule := range map[string]policyv1alpha1.PolicyRule{"by name": deny, "by label": {Deny: true, Verbs: []string{"list"}, ResourceKinds: []string{"configmaps"}, Where: `resource.metadata.labels["good"] == "no"`}} {
		store := storeWith(t, &published{index: world(t, []policyv1alpha1.PolicyRule{rule})})
		gate := NewGate(GateConfig{Chain: tiers(t, store), Conditional: true, Reads: ReadsFunc(func(authorizer.Attributes) error { return nil }), Local: LocalFunc(func(string, string) bool { return true })})
		ctx := requestctx.With(t.Context(), store.Current())
		if said := gate.Narrowed(ctx, store.Current(), asks("list")); said != "" {
			t.Errorf("%s: a review says that it is narrowed to %q", name, said)
		}
		if v := gate.Decide(ctx, asks("list")).Folded(ctx); v.AtAuthorization() == authorizer.DecisionAllow || strings.Contains(v.Reason, "allowed") {
			t.Errorf("%s: %v %q", name, v.AtAuthorization(), v.Reason)
		}
	}
}

// RD-4, RD-8: a get waits for the object, and a review shows it as conditional.
func TestGetAtTheGate(t *testing.T) {
	store := storeWith(t, &published{index: world(t, []policyv1alpha1.PolicyRule{onlyGoodRule})})
	gate := NewGate(GateConfig{Chain: tiers(t, store), Conditional: true, Reads: ReadsFunc(func(authorizer.Attributes) error { return nil }), Local: LocalFunc(func(string, string) bool { return true })})
	attrs := asks("get")
	attrs.Name = "x"
	ctx := requestctx.With(t.Context(), store.Current())
	decision, reason, err := gate.admit(ctx, requestctx.From(ctx), requestctx.Request, attrs)
	pending := requestctx.From(ctx).Get(requestctx.Request).Pending()
	if decision != authorizer.DecisionAllow || pending == nil {
		t.Fatalf("%v %q %v", decision, reason, err)
	}
	for label, want := range map[string]authorizer.Decision{"yes": authorizer.DecisionAllow, "no": authorizer.DecisionNoOpinion} {
		if got := pending.Resolve(ctx, created(label)); got.Decision != want {
			t.Errorf("good=%s: %v", label, got)
		}
	}
	if err := gate.Evaluated(attrs); err != nil {
		t.Errorf("a review does not show it: %v", err)
	}
}

// PO-7: a namespace's deny is overridden by a grant of the master namespace where its condition is met, in reads as in
// writes, so that a list of the namespace shows of it what the list over all namespaces shows. A deny of the master
// namespace is not overridden.
func TestConditionalGrantOverridesNamespaceDeny(t *testing.T) {
	verbs := []string{"get", "list", "create"}
	where := policyv1alpha1.PolicyRule{Verbs: verbs, ResourceKinds: []string{"configmaps"}, Where: `resource.metadata.labels["good"] == "yes"`}
	deny := policyv1alpha1.PolicyRule{Deny: true, Verbs: verbs, ResourceKinds: []string{"configmaps"}}
	for name, tc := range map[string]struct {
		master []policyv1alpha1.PolicyRule
		want   Answer
	}{
		"the master grants under a condition":            {[]policyv1alpha1.PolicyRule{where}, Open},
		"the master grants under a condition and denies": {[]policyv1alpha1.PolicyRule{where, deny}, Denied},
		"the master says nothing":                        {nil, Denied},
	} {
		store := storeWith(t, &published{index: worldOf(t, map[string][]policyv1alpha1.PolicyRule{"master": tc.master, "hammer": {deny}})})
		chain, err := NewChain(Link{Name: "policy-master", Authorizer: NewPolicyMaster(store).ServedBy(servedHere)},
			Link{Name: "policy-namespace", Authorizer: NewPolicyNamespace(store, nil).ServedBy(servedHere)})
		if err != nil {
			t.Fatal(err)
		}
		gate := NewGate(GateConfig{Chain: chain, Conditional: true, Local: servedHere})
		gate.reading = ReadsFunc(func(authorizer.Attributes) error { return nil })
		ctx := requestctx.With(t.Context(), store.Current())
		for _, verb := range verbs {
			v := gate.Decide(ctx, asks(verb))
			if v.Answer != tc.want {
				t.Errorf("%s: %s is answered %v (%s), want %v", name, verb, v.Answer, v.Reason, tc.want)
			}
			if verb != "list" && v.Answer == Open && v.Pass.Pending() == nil {
				t.Errorf("%s: %s leaves nothing to decide on the object", name, verb)
			}
			if n := v.Pass.Narrowing(); verb == "list" && v.Answer == Open && n.Box.String() != "labelSelector good=yes" {
				t.Errorf("%s: narrowed to %s", name, n.Box)
			}
		}
	}
}
