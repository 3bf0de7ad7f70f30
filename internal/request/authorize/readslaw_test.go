package authorize

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	kubelabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	userinfo "k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/selectors"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/test/law"
)

// TestNarrowedListsAreBruteForce: RD-9. For random policies of the master and of another namespace, RBAC, and random
// selectors of the caller, what a narrowed list selects is what he would get one by one: every object is decided by the
// engine. Where no selector says it all, those that the caller is told to give say nothing that he may not see.
func TestNarrowedListsAreBruteForce(t *testing.T) {
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	store := snapshot.NewStore()
	chain, err := NewChain(Link{Name: "policy-master", Authorizer: NewPolicyMaster(store).ServedBy(servedHere)}, Link{Name: "policy-namespace", Authorizer: NewPolicyNamespace(store, nil).ServedBy(servedHere)},
		Link{Name: "rbac", Authorizer: NewRBAC(store)})
	if err != nil {
		t.Fatal(err)
	}
	gate := NewGate(GateConfig{Chain: chain, Conditional: true, Reads: ReadsFunc(func(authorizer.Attributes) error { return nil }), Local: LocalFunc(func(string, string) bool { return true })})
	narrowed, told, shown, hidden := 0, 0, 0, 0
	law.Rounds(t, 400, func(seed int64) int {
		w := &readsWorld{t: t, random: rand.New(rand.NewPCG(uint64(seed), 9)), gate: gate}
		w.snap = &snapshot.Snapshot{Rules: w.rules((&rulecondition.Compiler{CEL: cel}).CompileRule)}
		attrs := w.list()
		n, err := gate.NarrowFor(t.Context(), w.snap, attrs)
		var wide *selectors.TooWide
		switch {
		case err == nil:
			narrowed++
		case errors.As(err, &wide):
			told++
		default:
			return 1
		}
		for range 60 {
			object := w.object()
			if !w.selects(attrs.LabelSelectorRequirements, attrs.FieldSelectorRequirements, object) {
				continue
			}
			got := w.get(attrs, object)
			if got {
				shown++
			} else {
				hidden++
			}
			if err == nil {
				if want := n == nil || w.inBox(n.Box, object); got != want {
					t.Fatalf("seed %d: %s\n%s with %v %v: listed %v, got %v", seed, strings.Join(w.texts, "\n"), object, attrs.LabelSelectorRequirements, attrs.FieldSelectorRequirements, want, got)
				}
				continue
			}
			if slices.ContainsFunc(wide.Choices(), func(b selectors.Box) bool { return w.inBox(b, object) }) && !got {
				t.Fatalf("seed %d: %s\n%s may not be got, and is in what the caller is told to give: %v", seed, strings.Join(w.texts, "\n"), object, err)
			}
		}
		return 1
	})
	t.Logf("%d lists were narrowed, %d callers were told what to give; %d objects shown, %d hidden", narrowed, told, shown, hidden)
	if narrowed < 100 || told < 10 || shown < 1000 || hidden < 1000 {
		law.TooFew(t, "%d narrowed, %d told, %d shown, %d hidden: the law proves little", narrowed, told, shown, hidden)
	}
}

// anyReads asks about single objects.
type anyReads struct{ ReadsFunc }

func (anyReads) Asks(authorizer.Attributes) error { return nil }

// TestAnyListIsBruteForce: RD-10. With single objects asked about, every list that a rule allows under a condition is
// narrowed, and shows what the caller would get one by one. What selectors say of it leaves none of these out.
func TestAnyListIsBruteForce(t *testing.T) {
	gate := readsGate(t)
	gate.reading = anyReads{ReadsFunc(func(authorizer.Attributes) error { return nil })}
	compile := compilerOf(t)
	asked, selected, shown, hidden := 0, 0, 0, 0
	law.Rounds(t, 400, func(seed int64) int {
		w := &readsWorld{t: t, random: rand.New(rand.NewPCG(uint64(seed), 9)), gate: gate}
		w.snap = &snapshot.Snapshot{Rules: w.rules(compile)}
		attrs := w.list()
		n, err := gate.NarrowFor(t.Context(), w.snap, attrs)
		if err != nil && strings.Contains(err.Error(), errSelector.Error()) {
			t.Fatalf("seed %d: %s\n%v", seed, strings.Join(w.texts, "\n"), err)
		}
		if err != nil {
			return 1 // nothing allows it
		}
		if n != nil && n.Each != nil {
			asked++
			same, err := gate.NarrowFor(t.Context(), w.snap, attrs)
			if err != nil || same.View() != n.View() {
				t.Fatalf("seed %d: another view of the same: %v", seed, err)
			}
		} else {
			selected++
		}
		for range 60 {
			object := w.object()
			if !w.selects(attrs.LabelSelectorRequirements, attrs.FieldSelectorRequirements, object) {
				continue
			}
			got, listed := w.get(attrs, object), n == nil
			if n != nil && w.inBox(n.Box, object) {
				listed = true
				if n.Each != nil {
					listed, _ = n.Each.Shows(t.Context(), state(object))
				}
			}
			if got {
				shown++
			} else {
				hidden++
			}
			if got != listed {
				t.Fatalf("seed %d: %s\n%s with %v %v: listed %v, got %v", seed, strings.Join(w.texts, "\n"), object, attrs.LabelSelectorRequirements, attrs.FieldSelectorRequirements, listed, got)
			}
		}
		return 1
	})
	t.Logf("%d lists asked, %d selected; %d objects shown, %d hidden", asked, selected, shown, hidden)
	if asked < 50 || selected < 50 || shown < 1000 || hidden < 1000 {
		law.TooFew(t, "%d asked, %d selected, %d shown, %d hidden: the law proves little", asked, selected, shown, hidden)
	}
}

// RD-7, RD-10: a view is another one if the rule is, or a value that it looks at, and only then.
func TestViews(t *testing.T) {
	gate := readsGate(t)
	gate.reading = anyReads{ReadsFunc(func(authorizer.Attributes) error { return nil })}
	compile := compilerOf(t)
	view := func(user string, rules ...string) requestctx.View {
		t.Helper()
		p, b := policyOf("hammer", user, rules...)
		snap := &snapshot.Snapshot{Rules: ruleset.Build(ruleset.Input{MasterNamespace: "master", CompileRule: compile, Kinds: ruleset.NewKinds([]ruleset.Served{{Resource: "configmaps", Kind: "ConfigMap", Builtin: true}}),
			Policies: []*policyv1alpha1.Policy{p}, PolicyBindings: []*policyv1alpha1.PolicyBinding{b}})}
		attrs := asks("list")
		attrs.User = &userinfo.DefaultInfo{Name: user}
		n, err := gate.NarrowFor(t.Context(), snap, attrs)
		if err != nil || n == nil || n.Each == nil {
			t.Fatalf("%v: %v %v", rules, n, err)
		}
		return n.View()
	}
	const data, user = `resource.data.k.startsWith("v")`, `resource.data.k == request.user`
	first := view("ann", data, user)
	for name, tc := range map[string]struct {
		same bool
		view requestctx.View
	}{
		"again":            {true, view("ann", data, user)},
		"in another order": {true, view("ann", user, data)},
		"twice":            {true, view("ann", data, user, data)},
		"by another user":  {false, view("bob", data, user)},
		"one rule less":    {false, view("ann", data)},
	} {
		if (tc.view == first) != tc.same {
			t.Errorf("%s: the same view is %v", name, tc.view == first)
		}
	}
	if view("ann", data) != view("bob", data) {
		t.Error("who asks is not looked at, and counts")
	}
}

// BenchmarkEach is what asking about one object of a list costs, without converting it (RD-14).
func BenchmarkEach(b *testing.B) {
	gate := readsGate(b)
	gate.reading = anyReads{ReadsFunc(func(authorizer.Attributes) error { return nil })}
	p, binding := policyOf("hammer", "edgar", `resource.data.k.startsWith("v") && resource.metadata.labels["a"] == request.user`)
	snap := &snapshot.Snapshot{Rules: ruleset.Build(ruleset.Input{MasterNamespace: "master", CompileRule: compilerOf(b), Kinds: ruleset.NewKinds([]ruleset.Served{{Resource: "configmaps", Kind: "ConfigMap", Builtin: true}}),
		Policies: []*policyv1alpha1.Policy{p}, PolicyBindings: []*policyv1alpha1.PolicyBinding{binding}})}
	n, err := gate.NarrowFor(b.Context(), snap, asks("list"))
	if err != nil {
		b.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"k": "v"},
		"metadata": map[string]any{"name": "n1", "namespace": "hammer", "labels": map[string]any{"a": "edgar"}}}}
	b.ReportAllocs()
	for b.Loop() {
		if shown, err := n.Each.Shows(b.Context(), state(object)); !shown || err != nil {
			b.Fatal(shown, err)
		}
	}
}

type readsWorld struct {
	t      *testing.T
	random *rand.Rand
	gate   *Gate
	snap   *snapshot.Snapshot
	texts  []string
}

func (w *readsWorld) pick(all ...string) string { return all[w.random.IntN(len(all))] }

// where is a condition, mostly of what selectors can say.
func (w *readsWorld) where(depth int) string {
	if depth > 0 {
		switch n := w.random.IntN(10); {
		case n < 5:
			return fmt.Sprintf("(%s) && (%s)", w.where(depth-1), w.where(depth-1))
		case n < 7:
			return fmt.Sprintf("(%s) || (%s)", w.where(depth-1), w.where(depth-1))
		case n < 8:
			return fmt.Sprintf("!(%s)", w.where(depth-1))
		}
	}
	key := fmt.Sprintf("resource.metadata.labels[%q]", w.pick("a", "b"))
	has := fmt.Sprintf("%q in resource.metadata.?labels.orValue({})", w.pick("a", "b"))
	switch w.random.IntN(12) {
	case 0, 1, 2:
		return fmt.Sprintf("%s == %q", key, w.pick("x", "y", "z"))
	case 3:
		return fmt.Sprintf("%s != %q", key, w.pick("x", "y", "z"))
	case 4:
		return fmt.Sprintf("%s in [%q, %q]", key, w.pick("x", "y", "z"), w.pick("x", "y", "", "not a value!"))
	case 5:
		return fmt.Sprintf("!(%s in [%q, %q])", key, w.pick("x", "y", "z"), w.pick("x", "y", "z"))
	case 6:
		return has
	case 7:
		return "!(" + has + ")"
	case 8:
		return fmt.Sprintf("resource.metadata.name %s %q", w.pick("==", "!="), w.pick("n1", "n2"))
	case 9:
		return fmt.Sprintf("resource.metadata.?labels[?%q].orValue(%q) == %q", w.pick("a", "b"), w.pick("x", "y"), w.pick("x", "y"))
	case 10:
		return fmt.Sprintf("request.user == %q", w.pick("edgar", "eve"))
	}
	return w.pick(`resource.data.k == "v"`, `resource.metadata.labels["a"] == request.user`, `request.namespace == "hammer"`)
}

// rules are policies of two namespaces, and seldom RBAC.
func (w *readsWorld) rules(compile ruleset.CompileRule) *ruleset.Index {
	in := ruleset.Input{MasterNamespace: "master", CompileRule: compile, Kinds: ruleset.NewKinds([]ruleset.Served{{Resource: "configmaps", Kind: "ConfigMap", Builtin: true}})}
	for _, namespace := range []string{"master", "hammer"} {
		var rules []policyv1alpha1.PolicyRule
		for range w.random.IntN(3) {
			text := w.where(2)
			if w.random.IntN(2) == 0 {
				text = w.where(0)
			}
			w.texts = append(w.texts, namespace+": "+text)
			rules = append(rules, policyv1alpha1.PolicyRule{Verbs: []string{"get", "list", "watch"}, ResourceKinds: []string{"configmaps"}, Where: text})
		}
		in.Policies = append(in.Policies, &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: namespace}, Roles: map[string]policyv1alpha1.PolicyRole{"r": {Rules: rules}}})
		in.PolicyBindings = append(in.PolicyBindings, &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: namespace, Namespace: namespace},
			RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"b": {RoleName: "r", UserNames: []string{"edgar"}}}})
	}
	if w.random.IntN(10) == 0 {
		w.texts = append(w.texts, "RBAC: everything")
		in.ClusterRoles = []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}}}}
		in.ClusterRoleBindings = []*rbacv1.ClusterRoleBinding{{ObjectMeta: metav1.ObjectMeta{Name: "c"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "c"},
			Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "edgar"}}}}
	}
	return ruleset.Build(in)
}

// list is a list with selectors of the caller's own, or without.
func (w *readsWorld) list() authorizer.AttributesRecord {
	attrs := asks("list")
	var err error
	if w.random.IntN(2) == 0 {
		text := w.pick("a=x", "a!=x", "a in (x,y)", "a notin (y,z)", "b", "!b", "a=x,b=y", "")
		if attrs.LabelSelectorRequirements, err = kubelabels.ParseToRequirements(text); err != nil {
			w.t.Fatal(err)
		}
	}
	if w.random.IntN(4) == 0 {
		attrs.FieldSelectorRequirements = fields.ParseSelectorOrDie(w.pick("metadata.name=n1", "metadata.name!=n1")).Requirements()
	}
	return attrs
}

func (w *readsWorld) object() *unstructured.Unstructured {
	meta := map[string]any{"name": w.pick("n1", "n2", "n3"), "namespace": "hammer"}
	labels := map[string]any{}
	for _, key := range []string{"a", "b", "c"} {
		if w.random.IntN(3) > 0 {
			labels[key] = w.pick("x", "y", "z", "", "edgar")
		}
	}
	if len(labels) > 0 {
		meta["labels"] = labels
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": map[string]any{"k": w.pick("v", "w")}}}
}

func (w *readsWorld) selects(ls kubelabels.Requirements, fs fields.Requirements, o *unstructured.Unstructured) bool {
	for i := range ls {
		if !ls[i].Matches(kubelabels.Set(o.GetLabels())) {
			return false
		}
	}
	f, err := fields.ParseSelector(selectors.FieldText(fs))
	if err != nil {
		w.t.Fatal(err)
	}
	return f.Matches(fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()})
}

func (w *readsWorld) inBox(b selectors.Box, o *unstructured.Unstructured) bool {
	ls, fs, err := b.Selectors()
	if err != nil {
		w.t.Fatal(err)
	}
	return w.selects(ls, fs, o)
}

// get decides one object, by the whole chain.
func (w *readsWorld) get(list authorizer.AttributesRecord, o *unstructured.Unstructured) bool {
	attrs := list
	attrs.Verb, attrs.Name, attrs.LabelSelectorRequirements, attrs.FieldSelectorRequirements = "get", o.GetName(), nil, nil
	ctx := requestctx.With(w.t.Context(), w.snap)
	v := w.gate.Chain.Decide(ctx, attrs)
	if v.Pending == nil {
		return v.Decision == authorizer.DecisionAllow
	}
	return v.Pending.Resolve(ctx, state(o)).Decision == authorizer.DecisionAllow
}

// state is an object that is read.
func state(o *unstructured.Unstructured) authorizer.ConditionsData {
	return admission.NewAttributesRecord(o, o, schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "hammer", o.GetName(),
		schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "", "GET", nil, false, nil)
}
