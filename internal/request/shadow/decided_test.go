package shadow

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/test/law"
	"proviso.dev/proviso/test/refmodel"
)

// celOf gives the conditions of the model a meaning.
var celOf = map[string]string{
	"": "", "a": `object.metadata.labels["a"] == "yes"`, "b": `object.metadata.labels["b"] == "yes"`,
	refmodel.Personal: `request.user == "ann"`, refmodel.Broken: `object.(`,
}

// withCEL is the world with conditions that can be evaluated.
func withCEL(w *refmodel.World) *refmodel.World {
	next := *w
	next.Policies = nil
	for _, p := range w.Policies {
		p = p.DeepCopy()
		for _, r := range p.Roles {
			for i := range r.Rules {
				r.Rules[i].When = celOf[r.Rules[i].When]
			}
		}
		next.Policies = append(next.Policies, p)
	}
	return &next
}

// enforcing is the world with one rule, of those that there are, enforced as given.
func enforcing(w *refmodel.World, at int, e policyv1alpha1.Enforcement) (next *refmodel.World, found bool) {
	next = &refmodel.World{}
	*next = *w
	next.Policies = nil
	n := 0
	for _, p := range w.Policies {
		p = p.DeepCopy()
		for _, name := range []string{"r0", "r1", "r2", "r3"} {
			for i := range p.Roles[name].Rules {
				if n == at {
					p.Roles[name].Rules[i].Enforcement, found = e, true
				}
				n++
			}
		}
		next.Policies = append(next.Policies, p)
	}
	return next, found
}

// TR-6: what a rule that is not enforced would make of a request is exactly what becomes of the request when the rule
// is enforced, by the same engine; and while it is not, nothing of it counts.
func TestLawSupposedIsEnforced(t *testing.T) {
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	compile := (&rulecondition.Compiler{CEL: cel, Cache: expr.NewCache(cel)}).CompileRule
	build := func(w *refmodel.World, part ruleset.Part) *ruleset.Index {
		var served []matching.Served
		for _, r := range w.Served {
			served = append(served, matching.Served{Group: r.Group, Resource: r.Plural, Kind: r.Kind, Builtin: r.Builtin()})
		}
		in := ruleset.Input{MasterNamespace: w.Master, Kinds: matching.NewKinds(served), CompileRule: compile, Policies: w.Policies, PolicyBindings: w.PolicyBindings, Part: part}
		if part == ruleset.Enforced {
			in.Roles, in.ClusterRoles, in.RoleBindings, in.ClusterRoleBindings = w.Roles, w.ClusterRoles, w.RoleBindings, w.ClusterRoleBindings
		}
		return ruleset.Build(in)
	}
	store := snapshot.NewStore()
	chain, err := authorize.NewChain(authorize.Link{Name: "policy-master", Authorizer: authorize.NewPolicyMaster(store)},
		authorize.Link{Name: "policy-namespace", Authorizer: authorize.NewPolicyNamespace(store, nil)}, authorize.Link{Name: "rbac", Authorizer: authorize.NewRBAC(store)})
	if err != nil {
		t.Fatal(err)
	}
	flips := 0
	law.Rounds(t, 150, func(seed int64) int {
		pick := refmodel.Pick(rand.New(rand.NewSource(seed)).Intn)
		base := withCEL(pick.World())
		at := pick(24)
		shaded, found := enforcing(base, at, policyv1alpha1.EnforcementShadow)
		if !found {
			return 0
		}
		enforced, _ := enforcing(base, at, policyv1alpha1.EnforcementEnforce)
		before := &snapshot.Snapshot{Synced: true, Rules: build(shaded, ruleset.Enforced), Shadow: snapshot.Shadow{Rules: build(shaded, ruleset.Shadowed)}}
		after := &snapshot.Snapshot{Synced: true, Rules: build(enforced, ruleset.Enforced)}
		for range 40 {
			r := pick.Request()
			data := labelled(r, pick(2) == 0, pick(2) == 0)
			decide := func(snap *snapshot.Snapshot) (authorize.Partial, authorizer.Decision) {
				ctx := requestctx.With(t.Context(), snap)
				v := chain.Decide(ctx, r)
				if rest := left(v); rest != nil {
					return v, rest.Resolve(ctx, data).Decision
				}
				return v, v.Decision
			}
			v, was := decide(before)
			_, want := decide(after)
			answer := AnswerOf(was == authorizer.DecisionAllow)
			would := answer
			all, more := suppositions(chain, before.Shadow.Rules, r, lastAskedOf(v))
			if len(more) > 0 {
				t.Fatalf("seed %d: one rule, and too many of them apply", seed)
			}
			for _, s := range all {
				ctx := requestctx.With(t.Context(), before)
				supposed := s.chain.Decide(ctx, r)
				decision := supposed.Decision
				if rest := left(supposed); rest != nil {
					decision = rest.Resolve(ctx, data).Decision
				}
				if w := s.would(answer, decision); w != answer { // an eviction can meet a rule twice
					would = w
				}
			}
			if wanted := AnswerOf(want == authorizer.DecisionAllow); would != wanted {
				t.Fatalf("seed %d: request %+v: %s; the rule would make it %s, and enforced it makes it %s", seed, r, answer, would, wanted)
			}
			if would != answer {
				flips++
			}
		}
		return 40
	})
	if flips == 0 {
		law.TooFew(t, "no rule would have changed anything, nothing is tested")
	}
}

func labelled(r *refmodel.Request, a, b bool) authorizer.ConditionsData {
	text := map[bool]string{true: "yes", false: "no"}
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "x", "labels": map[string]any{"a": text[a], "b": text[b]}}}}
	return admission.NewAttributesRecord(u, u, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, r.GetNamespace(), "x",
		schema.GroupVersionResource{Version: "v1", Resource: r.GetResource()}, r.GetSubresource(), admission.Update, nil, false, r.GetUser())
}

// supposed makes a gate whose store has these rules, of which some are not enforced, and what observes it.
func supposed(t *testing.T, rules []policyv1alpha1.PolicyRule) (*authorize.Gate, *Recorder, *snapshot.Snapshot) {
	t.Helper()
	p := &policyv1alpha1.Policy{Roles: map[string]policyv1alpha1.PolicyRole{"r": {Rules: rules}}}
	p.Name, p.Namespace = "default", "hammer"
	b := &policyv1alpha1.PolicyBinding{RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"b": {RoleName: "r", UserNames: []string{"edgar"}}}}
	b.Name, b.Namespace = "hammer", "hammer"
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	all := ruleset.Build(ruleset.Input{
		MasterNamespace: "master", CompileRule: (&rulecondition.Compiler{CEL: cel}).CompileRule,
		Kinds:    ruleset.NewKinds([]ruleset.Served{{Resource: "configmaps", Kind: "ConfigMap", Builtin: true}}),
		Policies: []*policyv1alpha1.Policy{p}, PolicyBindings: []*policyv1alpha1.PolicyBinding{b},
	})
	var shadows ruleset.Shadows
	snap := &snapshot.Snapshot{Synced: true, Rules: all, Shadow: snapshot.Shadow{Rules: shadows.Apply(all, []ruleset.Change{ruleset.Put(p), ruleset.Put(b)})}}
	store := snapshot.NewStore()
	chain, err := authorize.NewChain(authorize.Link{Name: "policy-namespace", Authorizer: authorize.NewPolicyNamespace(store, nil)}, authorize.Link{Name: "rbac", Authorizer: authorize.NewRBAC(store)})
	if err != nil {
		t.Fatal(err)
	}
	recorder := New(time.Now)
	return authorize.NewGate(authorize.GateConfig{Chain: chain, Conditional: true, Observer: recorder, Local: authorize.LocalFunc(func(string, string) bool { return true })}), recorder, snap
}

// creates is the request to create a config map, as the authorization filter asks about it.
func creates(t *testing.T, snap *snapshot.Snapshot) (context.Context, authorizer.Attributes) {
	t.Helper()
	info := &request.RequestInfo{Path: "/x", Verb: "create", Namespace: "hammer", APIVersion: "v1", Resource: "configmaps", IsResourceRequest: true}
	attrs := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "edgar", Groups: []string{user.AllAuthenticated}}, Verb: "create", Namespace: "hammer",
		APIVersion: "v1", Resource: "configmaps", ResourceRequest: true, Path: info.Path}
	return request.WithRequestInfo(requestctx.With(t.Context(), snap), info), attrs
}

// created is an admission of a config map with the given label.
func created(label string) authorizer.ConditionsData {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x", "labels": map[string]any{"good": label}}}}
	return admission.NewAttributesRecord(u, nil, schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "hammer", "x",
		schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "", admission.Create, nil, false, nil)
}

var onlyGoodRule = policyv1alpha1.PolicyRule{Verbs: []string{"*"}, ResourceKinds: []string{"configmaps"}, Where: `resource.metadata.labels["good"] == "yes"`}

// always is an authorizer that allows everything, and counts how often it is asked.
type always struct{ asked int }

func (a *always) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	a.asked++
	return authorizer.DecisionAllow, "yes", nil
}

func (a *always) ConditionsAwareAuthorize(ctx context.Context, attrs authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(a.Authorize(ctx, attrs))
}

func (a *always) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

// TR-6: what becomes of requests that are refused, allowed, or wait for the object.
func TestSuppose(t *testing.T) {
	allow := policyv1alpha1.PolicyRule{Verbs: []string{"*"}, ResourceKinds: []string{"configmaps"}}
	deny := func(e policyv1alpha1.Enforcement, when string) policyv1alpha1.PolicyRule {
		return policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"create"}, ResourceKinds: []string{"configmaps"}, Enforcement: e, When: when}
	}
	shaded := func(r policyv1alpha1.PolicyRule) policyv1alpha1.PolicyRule {
		r.Enforcement = policyv1alpha1.EnforcementShadow
		return r
	}
	bad := `object.metadata.labels["good"] == "no"`
	for _, tc := range []struct {
		name  string
		rules []policyv1alpha1.PolicyRule
		// label of the object, if the request gets that far.
		label  string
		passes bool
		want   Report
	}{
		{"an allow grants nothing, and shows what it would grant", []policyv1alpha1.PolicyRule{shaded(allow)}, "", false, Report{Applied: 1, WouldAllow: 1}},
		{"a conditional allow is undecided: the body was never read", []policyv1alpha1.PolicyRule{shaded(onlyGoodRule)}, "", false, Report{Applied: 1, Undecided: 1}},
		{"a deny refuses nothing", []policyv1alpha1.PolicyRule{allow, deny("Shadow", "")}, "yes", true, Report{Applied: 1, WouldDeny: 1}},
		{"a conditional deny that applies", []policyv1alpha1.PolicyRule{allow, deny("Shadow", bad)}, "no", true, Report{Applied: 1, WouldDeny: 1}},
		{"a conditional deny that does not apply", []policyv1alpha1.PolicyRule{allow, deny("Warn", bad)}, "yes", true, Report{Applied: 1}},
		{"a conditional deny that fails would deny", []policyv1alpha1.PolicyRule{allow, deny("Warn", `object.spec.x == 1`)}, "yes", true, Report{Applied: 1, WouldDeny: 1}},
		{"allowed without it", []policyv1alpha1.PolicyRule{allow, shaded(onlyGoodRule)}, "no", true, Report{Applied: 1}},
		{"allowed under another condition", []policyv1alpha1.PolicyRule{onlyGoodRule, deny("Shadow", "")}, "yes", true, Report{Applied: 1, WouldDeny: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g, recorder, snap := supposed(t, tc.rules)
			ctx, attrs := creates(t, snap)
			decision, _, err := g.AtFilter().Authorize(ctx, attrs)
			if (decision == authorizer.DecisionAllow) != tc.passes || err != nil {
				t.Fatalf("passes: %v, %v", decision, err)
			}
			recorder.Admitted(ctx, enforce.Observation{Allowed: true, Slots: []requestctx.Slot{requestctx.Request}, Trial: &tried{data: created(tc.label)}})
			reports := recorder.List()
			if len(reports) != 1 {
				t.Fatalf("%d rules were counted: %+v", len(reports), reports)
			}
			got := reports[0]
			if got.Applied != tc.want.Applied || got.WouldAllow != tc.want.WouldAllow || got.WouldDeny != tc.want.WouldDeny || got.Undecided != tc.want.Undecided {
				t.Errorf("counted %+v, want %+v", got, tc.want)
			}
			if flips := got.WouldAllow + got.WouldDeny + got.Undecided; int(flips) != len(got.Flips) {
				t.Errorf("%d flips, and %d are shown", flips, len(got.Flips))
			}
			for _, f := range got.Flips {
				if f.User != "edgar" || f.Verb != "create" || f.Resource != "configmaps" || f.Namespace != "hammer" {
					t.Errorf("flip %+v", f)
				}
			}
		})
	}
}

// TR-6: a webhook is asked for decisions only. Where its answer is not known from the decision, the rule is undecided.
func TestSupposeAsksNoWebhook(t *testing.T) {
	deny := policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"*"}, ResourceKinds: []string{"configmaps"}, Enforcement: policyv1alpha1.EnforcementShadow}
	for _, first := range []bool{true, false} {
		t.Run(fmt.Sprint("ahead of policy: ", first), func(t *testing.T) {
			g, recorder, snap := supposed(t, []policyv1alpha1.PolicyRule{deny})
			webhook := &always{}
			hook := authorize.Link{Name: "hook", Type: authorize.TypeWebhook, Authorizer: webhook}
			links := slices.Clone(g.Chain.Links())
			if first {
				links = slices.Insert(links, 0, hook)
			} else {
				links = append(links, hook)
			}
			if err := g.Chain.Replace(links...); err != nil {
				t.Fatal(err)
			}
			if d, _, _ := g.AtFilter().Authorize(creates(t, snap)); d != authorizer.DecisionAllow {
				t.Fatal("the webhook allows it")
			}
			if webhook.asked != 1 {
				t.Errorf("the webhook was asked %d times", webhook.asked)
			}
			want := int64(1) // Policy stands ahead, and would deny
			if first {
				want = 0 // the webhook has decided before
			}
			if got := recorder.List()[0]; got.WouldDeny != want || got.Applied != 1 {
				t.Errorf("counted %+v", got)
			}
		})
	}
}

// TR-6: how many rules a request is decided again for is bounded, and so is what is kept.
func TestSupposeIsBounded(t *testing.T) {
	rules := []policyv1alpha1.PolicyRule{{Verbs: []string{"*"}, ResourceKinds: []string{"configmaps"}}}
	for range 100 {
		rules = append(rules, policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"create"}, ResourceKinds: []string{"configmaps"}, Enforcement: policyv1alpha1.EnforcementShadow})
	}
	g, recorder, snap := supposed(t, rules)
	if d, _, _ := g.AtFilter().Authorize(creates(t, snap)); d != authorizer.DecisionAllow {
		t.Fatal("nothing denies it")
	}
	denied, undecided := 0, 0
	for _, r := range recorder.List() {
		denied, undecided = denied+int(r.WouldDeny), undecided+int(r.Undecided)
	}
	if denied != maxSuppositions || undecided != 100-maxSuppositions {
		t.Errorf("%d would deny and %d are undecided", denied, undecided)
	}
}

// TR-6: a rule that is not enforced costs a request nothing that it does not apply to.
func TestNoShadowAllocatesNothing(t *testing.T) {
	rules := []policyv1alpha1.PolicyRule{{Verbs: []string{"*"}, ResourceKinds: []string{"configmaps"}}}
	g, recorder, snap := supposed(t, rules)
	if snap.Shadow.Rules != nil {
		t.Fatal("there is an index of nothing")
	}
	ctx, attrs := creates(t, snap)
	known := g.Chain.Decide(ctx, attrs)
	var observer authorize.Observer = recorder
	if n := testing.AllocsPerRun(100, func() {
		observer.Decided(ctx, authorize.Observation{Gate: g, Attrs: attrs, Known: known, Allowed: true, Pass: requestctx.Allowed()})
	}); n != 0 {
		t.Errorf("%v allocations without such rules", n)
	}
	over := enforce.Observation{Allowed: true, Slots: []requestctx.Slot{requestctx.Request}, Trial: &tried{}}
	if n := testing.AllocsPerRun(100, func() { recorder.Admitted(ctx, over) }); n != 0 {
		t.Errorf("%v allocations in admission without such rules", n)
	}
}
