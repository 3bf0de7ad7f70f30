package authorize

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// RD-11: which lists are put together. Each negative case differs from a united list in one thing.
func TestWhatUnites(t *testing.T) {
	compile := compilerOf(t)
	selectorsOnly := ReadsFunc(func(authorizer.Attributes) error { return nil })
	for name, c := range map[string]struct {
		change func(*authorizer.AttributesRecord, *unionWorld)
		want   Answer
	}{
		"a list":                        {func(*authorizer.AttributesRecord, *unionWorld) {}, Open},
		"a watch":                       {func(a *authorizer.AttributesRecord, _ *unionWorld) { a.Verb = "watch" }, Open},
		"a get":                         {func(a *authorizer.AttributesRecord, _ *unionWorld) { a.Verb = "get" }, Unanswered},
		"a subresource":                 {func(a *authorizer.AttributesRecord, _ *unionWorld) { a.Subresource = "log" }, Unanswered},
		"a path":                        {func(a *authorizer.AttributesRecord, _ *unionWorld) { a.ResourceRequest = false }, Unanswered},
		"of another namespace":          {func(a *authorizer.AttributesRecord, _ *unionWorld) { a.Namespace = "b" }, Unanswered},
		"of something else":             {func(a *authorizer.AttributesRecord, _ *unionWorld) { a.Resource = "secrets" }, Unanswered},
		"of what is in no namespace":    {func(a *authorizer.AttributesRecord, _ *unionWorld) { a.Resource = "nodes" }, Unanswered},
		"of what is not served":         {func(a *authorizer.AttributesRecord, _ *unionWorld) { a.Resource = "gadgets" }, Unanswered},
		"without the gate":              {func(_ *authorizer.AttributesRecord, w *unionWorld) { w.gate.unions = false }, Unanswered},
		"without conditions":            {func(_ *authorizer.AttributesRecord, w *unionWorld) { w.gate.conditional = false }, Unanswered},
		"nobody to ask about an object": {func(_ *authorizer.AttributesRecord, w *unionWorld) { w.gate.reading = selectorsOnly }, Unanswered},
		"served elsewhere":              {func(_ *authorizer.AttributesRecord, w *unionWorld) { w.gate.local = nowhere{} }, Unanswered},
	} {
		w := newUnionWorld(t, compile).rbac("a", readMaps, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}})
		attrs := listOf("configmaps")
		c.change(&attrs, w)
		v := w.gate.Decide(w.at(w.snapshot()), attrs)
		if v.Answer != c.want || (v.Pass.Narrowing() != nil) != (c.want == Open) {
			t.Errorf("%s: %v, %v", name, v.Answer, v.Pass.Narrowing())
		}
		if c.want == Open && (v.By != "rbac" || v.Reason != "narrowed to 1 namespace") {
			t.Errorf("%s: by %q, because %q", name, v.By, v.Reason)
		}
	}
}

// RD-11: who is said to have shown what.
func TestUnionNamesItsLinks(t *testing.T) {
	compile := compilerOf(t)
	w := newUnionWorld(t, compile).rbac("b", readMaps).policy("a", readRule("configmaps", "", "")).rbac("c", readMaps).policy("a-b", readRule("configmaps", "", `resource.data.k == "v"`))
	v := w.gate.Decide(w.at(w.snapshot()), listOf("configmaps"))
	if v.Answer != Open || v.By != "policy-namespace,rbac" || v.Reason != "narrowed to 4 namespaces" {
		t.Errorf("%v by %q: %q", v.Answer, v.By, v.Reason)
	}
	if n := v.Pass.Narrowing(); !slices.Equal(n.Union.Namespaces, []string{"a-b", "a", "b", "c"}) || n.Union.Elsewhere || n.Union.Themselves {
		t.Errorf("%+v", n.Union)
	}
	v = w.gate.Decide(w.at(w.snapshot()), listOf("namespaces"))
	if n := v.Pass.Narrowing(); v.Answer != Open || v.By != "namespaces" || !n.Union.Themselves || n.Union.Elsewhere || !slices.Equal(n.Union.Namespaces, []string{"a-b", "a", "b", "c"}) {
		t.Errorf("namespaces: %v by %q: %+v", v.Answer, v.By, n)
	}
}

// RD-11: what denies or fails without a condition is not got round by single namespaces.
func TestUnionsGetRoundNothing(t *testing.T) {
	deny := readRule("configmaps", "", "")
	deny.Deny = true
	w := newUnionWorld(t, compilerOf(t)).rbac("a", readMaps).policy("master", deny)
	if v := w.gate.Decide(w.at(w.snapshot()), listOf("configmaps")); v.Answer != Denied || v.Pass.Narrowing() != nil {
		t.Errorf("a deny for all namespaces: %v, %v", v.Answer, v.Pass.Narrowing())
	}
	w = newUnionWorld(t, compilerOf(t)).rbac("a", readMaps)
	failing := &scripted{decision: authorizer.ConditionsAwareDecisionNoOpinion("", errors.New("the webhook is away"))}
	chain, err := w.gate.Chain.With(append(w.gate.Chain.Links(), Link{Name: "webhook", Authorizer: failing})...)
	if err != nil {
		t.Fatal(err)
	}
	w.gate.Chain = chain
	if v := w.gate.Decide(w.at(w.snapshot()), listOf("configmaps")); v.Answer != Unanswered || v.Err == nil {
		t.Errorf("an authorizer that fails: %v, %v", v.Answer, v.Err)
	}
	allowed := newUnionWorld(t, compilerOf(t)).rbac("", readMaps).rbac("a", readMaps)
	if v := allowed.gate.Decide(allowed.at(allowed.snapshot()), listOf("configmaps")); v.Answer != Allowed || v.Pass.Narrowing() != nil {
		t.Errorf("a right to all of it: %v, %v", v.Answer, v.Pass.Narrowing())
	}
}

// RD-11, RD-12: what denies in one namespace, be it a rule of its own or one of the master namespace that asks for
// `request.namespace`, takes it out of what rules for all namespaces show. It takes out nothing else.
func TestDeniesOfOneNamespace(t *testing.T) {
	compile := compilerOf(t)
	const teamX = `resource.metadata.labels.team == "x"`
	deny := func(kind, when string) policyv1alpha1.PolicyRule {
		r := readRule(kind, when, "")
		r.Deny = true
		return r
	}
	in := func(resource, place, team string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "o", "namespace": place, "labels": map[string]any{"team": team}}}}
		if resource == "namespaces" {
			o = &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": place, "labels": map[string]any{"team": team}}}}
		}
		return o
	}
	for name, c := range map[string]struct {
		resource string
		world    func(w *unionWorld)
		// shown are the places and teams of what is shown of a and b.
		shown string
	}{
		"no deny":                     {"configmaps", func(*unionWorld) {}, "a/x b/x"},
		"a deny by the namespace":     {"configmaps", func(w *unionWorld) { w.policy("master", deny("configmaps", `request.namespace == "b"`)) }, "a/x"},
		"a deny by another namespace": {"configmaps", func(w *unionWorld) { w.policy("master", deny("configmaps", `request.namespace == "c"`)) }, "a/x b/x"},
		"a deny of something else":    {"configmaps", func(w *unionWorld) { w.policy("master", deny("secrets", `request.namespace == "b"`)) }, "a/x b/x"},
		"a deny, and a right in it": {"configmaps", func(w *unionWorld) {
			w.policy("master", deny("configmaps", `request.namespace == "b"`)).rbac("b", readMaps)
		}, "a/x"},
		"a deny, and a right in another": {"configmaps", func(w *unionWorld) {
			w.policy("master", deny("configmaps", `request.namespace == "b"`)).rbac("a", readMaps)
		}, "a/x a/y"},
		"namespaces":              {"namespaces", func(*unionWorld) {}, "a/x b/x"},
		"a right in a namespace":  {"namespaces", func(w *unionWorld) { w.rbac("b", readMaps) }, "a/x b/x b/y"},
		"a deny of the namespace": {"namespaces", func(w *unionWorld) { w.policy("master", deny("namespaces", `request.namespace == "b"`)) }, "a/x"},
		"a deny of it, and a right in it": {"namespaces", func(w *unionWorld) {
			w.policy("master", deny("namespaces", `request.namespace == "b"`)).rbac("b", readMaps)
		}, "a/x"},
		"its own deny, overridden where met":  {"namespaces", func(w *unionWorld) { w.policy("b", deny("namespaces", ""), readRule("configmaps", "", "")) }, "a/x b/x"},
		"the own deny of another, overridden": {"namespaces", func(w *unionWorld) { w.policy("c", deny("namespaces", ""), readRule("configmaps", "", "")) }, "a/x b/x"},
	} {
		w := newUnionWorld(t, compile).policy("master", readRule(c.resource, "", teamX))
		c.world(w)
		snap := w.snapshot()
		v := w.gate.Decide(w.at(snap), listOf(c.resource))
		var shown []string
		for _, place := range []string{"a", "b"} {
			for _, team := range []string{"x", "y"} {
				o := in(c.resource, place, team)
				listed := v.Answer == Open && w.shown(snap, v.Pass.Narrowing(), o, c.resource)
				if listed {
					shown = append(shown, place+"/"+team)
				}
				if got := w.got(snap, o, c.resource); got != listed {
					t.Errorf("%s: %s of team %s: listed %v, got %v", name, place, team, listed, got)
				}
			}
		}
		if strings.Join(shown, " ") != c.shown {
			t.Errorf("%s: shown %v, want %s", name, shown, c.shown)
		}
	}
}

// RD-11: a view tells apart all that shows other objects, and nothing else.
func TestUnionViews(t *testing.T) {
	compile := compilerOf(t)
	view := func(resource string, w *unionWorld) requestctx.View {
		t.Helper()
		v := w.gate.Decide(w.at(w.snapshot()), listOf(resource))
		if v.Answer != Open {
			t.Fatalf("%s\n%v %q", strings.Join(w.said, "\n"), v.Answer, v.Reason)
		}
		return v.Pass.Narrowing().Each.View()
	}
	fresh := func() *unionWorld { return newUnionWorld(t, compile) }
	all := map[string]requestctx.View{
		"a":                         view("configmaps", fresh().rbac("a", readMaps)),
		"b":                         view("configmaps", fresh().rbac("b", readMaps)),
		"a and b":                   view("configmaps", fresh().rbac("a", readMaps).rbac("b", readMaps)),
		"some of a":                 view("configmaps", fresh().rbac("a", named2(readMaps, "o1"))),
		"others of a":               view("configmaps", fresh().rbac("a", named2(readMaps, "o2"))),
		"a, and some everywhere":    view("configmaps", fresh().rbac("a", readMaps).rbac("", named2(readMaps, "o1"))),
		"a, and others everywhere":  view("configmaps", fresh().rbac("a", readMaps).rbac("", named2(readMaps, "o2"))),
		"a, and some elsewhere":     view("configmaps", fresh().rbac("a", readMaps).policy("master", readRule("configmaps", `request.namespace == "b"`, ""))),
		"a, and others elsewhere":   view("configmaps", fresh().rbac("a", readMaps).policy("master", readRule("configmaps", `request.namespace == "c"`, ""))),
		"namespaces":                view("namespaces", fresh().rbac("a", readMaps)),
		"namespaces that are named": view("namespaces", fresh().rbac("a", readMaps).policy("master", readRule("secrets", `request.namespace == "b"`, ""))),
		"others that are named":     view("namespaces", fresh().rbac("a", readMaps).policy("master", readRule("secrets", `request.namespace == "c"`, ""))),
	}
	denying := func(ns string) *unionWorld {
		deny := readRule("configmaps", "", "")
		deny.Deny = true
		return fresh().policy(ns, deny).policy("master", readRule("configmaps", "", `resource.metadata.labels.team == "x"`))
	}
	all["nothing of a"], all["nothing of b"] = view("configmaps", denying("a")), view("configmaps", denying("b"))
	seen := map[requestctx.View]string{}
	for name, v := range all {
		if other, ok := seen[v]; ok {
			t.Errorf("%q and %q are taken for the same", name, other)
		}
		seen[v] = name
	}
	if view("configmaps", fresh().rbac("a", readMaps)) != view("configmaps", fresh().policy("a", readRule("configmaps", "", "")).rbac("b", rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}})) {
		t.Error("who allows it counts, and what it does not show")
	}
}

// RD-11: what looks at the namespaces of objects says so.
func TestUnionsLookAtNamespaces(t *testing.T) {
	const place = `namespaceObject.metadata.labels["env"] == "dev"`
	for name, c := range map[string]struct {
		world *unionWorld
		want  bool
	}{
		"nothing":             {newUnionWorld(t, compilerOf(t)).rbac("a", readMaps), false},
		"of one namespace":    {newUnionWorld(t, compilerOf(t)).rbac("b", readMaps).policy("a", readRule("configmaps", place, "")), true},
		"an object of one":    {newUnionWorld(t, compilerOf(t)).policy("a", readRule("configmaps", "", `resource.data.k == "v"`)), false},
		"everywhere":          {newUnionWorld(t, compilerOf(t)).rbac("b", readMaps).policy("master", readRule("configmaps", place, "")), true},
		"elsewhere":           {newUnionWorld(t, compilerOf(t)).rbac("b", readMaps).policy("master", readRule("configmaps", `request.namespace == "c" && `+place, "")), true},
		"objects elsewhere":   {newUnionWorld(t, compilerOf(t)).rbac("b", readMaps).policy("master", readRule("configmaps", `request.namespace == "c"`, "")), false},
		"objects, everywhere": {newUnionWorld(t, compilerOf(t)).rbac("b", readMaps).policy("master", readRule("configmaps", "", `resource.data.k == "v"`)), false},
	} {
		v := c.world.gate.Decide(c.world.at(c.world.snapshot()), listOf("configmaps"))
		if v.Answer != Open || v.Pass.Narrowing().Each.LooksAtNamespace() != c.want {
			t.Errorf("%s: %v, looks at namespaces: %v", name, v.Answer, v.Pass.Narrowing())
		}
	}
}

// RD-11, RD-12: what reviews say of a union, and of a namespace that is shown; nothing of other requests.
func TestUnitedInWords(t *testing.T) {
	compile := compilerOf(t)
	w := newUnionWorld(t, compile).rbac("a", readMaps)
	wide := newUnionWorld(t, compile).rbac("a", readMaps).rbac("", named2(readMaps, "o1"))
	snap, wideSnap := w.snapshot(), wide.snapshot()
	get := listOf("namespaces")
	get.Verb, get.Name, get.Namespace = "get", "a", "a"
	hidden := get
	hidden.Name, hidden.Namespace = "b", "b"
	unversioned, wild, old := listOf("configmaps"), listOf("configmaps"), listOf("configmaps")
	unversioned.APIVersion, wild.APIVersion, old.Verb = "", "*", "delete"
	path := listOf("configmaps")
	path.ResourceRequest = false
	for name, c := range map[string]struct {
		world *unionWorld
		snap  *snapshot.Snapshot
		attrs authorizer.AttributesRecord
		text  string
		whole bool
	}{
		"a list":                       {w, snap, listOf("configmaps"), "narrowed to 1 namespace", false},
		"of no version":                {w, snap, unversioned, "narrowed to 1 namespace", false},
		"of any version":               {w, snap, wild, "narrowed to 1 namespace", false},
		"with objects elsewhere":       {wide, wideSnap, listOf("configmaps"), "narrowed to 1 namespace, and the objects elsewhere that are allowed by name or by condition", false},
		"of namespaces":                {w, snap, listOf("namespaces"), "narrowed to 1 namespace", false},
		"a namespace that is shown":    {w, snap, get, reasonPlace, true},
		"a namespace that is not":      {w, snap, hidden, "", false},
		"of what nobody may see":       {w, snap, listOf("secrets"), "", false},
		"no list":                      {w, snap, old, "", false},
		"no resource":                  {w, snap, path, "", false},
		"a list that is allowed whole": {newUnionWorld(t, compile), newUnionWorld(t, compile).rbac("", readMaps).snapshot(), listOf("configmaps"), "", false},
	} {
		if text, whole := c.world.gate.United(t.Context(), c.snap, c.attrs); text != c.text || whole != c.whole {
			t.Errorf("%s: %q, %v", name, text, whole)
		}
	}
	v1 := newUnionWorld(t, compile).rbac("a", readMaps)
	v1.gate.local = LocalFunc(func(_, version string) bool { return version == "v1" })
	for _, attrs := range []authorizer.AttributesRecord{unversioned, wild, listOf("configmaps")} {
		if text, _ := v1.gate.United(t.Context(), v1.snapshot(), attrs); text == "" {
			t.Errorf("version %q of what is served in v1: %q", attrs.APIVersion, text)
		}
	}
	open := newUnionWorld(t, compile).policy("master", readRule("namespaces", "", `resource.metadata.labels.team == "x"`))
	if text, whole := open.gate.United(t.Context(), open.snapshot(), get); text != "" || whole {
		t.Errorf("a namespace under a condition: %q, %v", text, whole)
	}
	w.gate.unions = false
	if text, whole := w.gate.United(t.Context(), snap, listOf("configmaps")); text != "" || whole {
		t.Errorf("without the gate: %q, %v", text, whole)
	}
	for _, c := range []struct {
		union requestctx.Union
		want  string
	}{
		{requestctx.Union{}, "0 namespaces"}, {requestctx.Union{Elsewhere: true}, "the objects that are allowed by name or by condition"},
		{requestctx.Union{Namespaces: []string{"a"}}, "1 namespace"}, {requestctx.Union{Namespaces: []string{"a", "b"}}, "2 namespaces"},
		{requestctx.Union{Namespaces: []string{"a", "b"}, Elsewhere: true}, "2 namespaces, and the objects elsewhere that are allowed by name or by condition"},
	} {
		if got := SpellUnion(&c.union); got != c.want {
			t.Errorf("%+v: %q, want %q", c.union, got, c.want)
		}
	}
}

// RD-12: a namespace may be got by those who have a right in it, unless something says no, and so nothing else may.
func TestAPlaceIsShown(t *testing.T) {
	compile := compilerOf(t)
	deny := func(when string) policyv1alpha1.PolicyRule {
		r := readRule("namespaces", when, "")
		r.Deny = true
		return r
	}
	open := deny("")
	open.Where = `resource.metadata.labels.team == "x"`
	get := func(change func(*authorizer.AttributesRecord)) authorizer.AttributesRecord {
		a := listOf("namespaces")
		a.Verb, a.Name, a.Namespace = "get", "a", "a"
		change(&a)
		return a
	}
	same := func(*authorizer.AttributesRecord) {}
	for name, c := range map[string]struct {
		world  *unionWorld
		change func(*authorizer.AttributesRecord)
		want   Answer
	}{
		"a right in it":              {newUnionWorld(t, compile).rbac("a", readMaps), same, Allowed},
		"a right that was granted":   {newUnionWorld(t, compile).grant("a", readMaps), same, Allowed},
		"a rule that names it":       {newUnionWorld(t, compile).policy("master", readRule("secrets", `request.namespace == "a"`, "")), same, Allowed},
		"a rule that names another":  {newUnionWorld(t, compile).policy("master", readRule("secrets", `request.namespace == "b"`, "")), same, Unanswered},
		"a right in another":         {newUnionWorld(t, compile).rbac("b", readMaps), same, Unanswered},
		"a right in all of them":     {newUnionWorld(t, compile).rbac("", readMaps), same, Unanswered},
		"a deny":                     {newUnionWorld(t, compile).rbac("a", readMaps).policy("master", deny("")), same, Denied},
		"a deny of its own":          {newUnionWorld(t, compile).rbac("a", readMaps).policy("a", deny("")), same, Denied},
		"a deny of another":          {newUnionWorld(t, compile).rbac("a", readMaps).policy("master", deny(`request.namespace == "b"`)), same, Allowed},
		"a deny under a condition":   {newUnionWorld(t, compile).rbac("a", readMaps).policy("master", open), same, Unanswered},
		"a status":                   {newUnionWorld(t, compile).rbac("a", readMaps), func(a *authorizer.AttributesRecord) { a.Subresource = "status" }, Unanswered},
		"a deletion":                 {newUnionWorld(t, compile).rbac("a", readMaps), func(a *authorizer.AttributesRecord) { a.Verb = "delete" }, Unanswered},
		"namespaces of another kind": {newUnionWorld(t, compile).rbac("a", readMaps), func(a *authorizer.AttributesRecord) { a.APIGroup = "example.com" }, Unanswered},
		"no name":                    {newUnionWorld(t, compile).rbac("a", readMaps), func(a *authorizer.AttributesRecord) { a.Name = "" }, Unanswered},
		"no namespace":               {newUnionWorld(t, compile).rbac("a", readMaps), func(a *authorizer.AttributesRecord) { a.Resource = "pods" }, Unanswered},
	} {
		if v := c.world.gate.Decide(c.world.at(c.world.snapshot()), get(c.change)); v.Answer != c.want || (v.Reason == reasonPlace) != (c.want == Allowed) {
			t.Errorf("%s: %v, %q", name, v.Answer, v.Reason)
		}
	}
}

// SV-6: who-can asks those, too, who are allowed something in single namespaces only, and nobody else.
func TestOthersWhoMayBeAllowed(t *testing.T) {
	compile := compilerOf(t)
	w := newUnionWorld(t, compile).rbac("a", readMaps)
	edgar := func(attrs authorizer.AttributesRecord, w *unionWorld) bool {
		return slices.ContainsFunc(w.gate.Others(w.snapshot(), attrs), func(s ruleset.Subject) bool { return s.Name == "edgar" })
	}
	get := listOf("namespaces")
	get.Verb, get.Name, get.Namespace = "get", "a", "a"
	elsewhere := get
	elsewhere.Name, elsewhere.Namespace = "b", "b"
	unnamed, inOne, status := get, listOf("configmaps"), get
	unnamed.Name, inOne.Verb, status.Subresource = "", "delete", "status"
	everywhere := newUnionWorld(t, compile).policy("master", readRule("secrets", `request.namespace == "a"`, ""))
	for name, c := range map[string]struct {
		world *unionWorld
		attrs authorizer.AttributesRecord
		want  bool
	}{
		"a list": {w, listOf("configmaps"), true}, "of something else": {w, listOf("secrets"), false}, "of namespaces": {w, listOf("namespaces"), true},
		"a namespace": {w, get, true}, "another namespace": {w, elsewhere, false}, "no namespace": {w, unnamed, false}, "a deletion": {w, inOne, false}, "its status": {w, status, false},
		"a namespace, by a rule for all": {everywhere, get, true}, "namespaces, by a rule for all": {everywhere, listOf("namespaces"), true},
		"by a grant": {newUnionWorld(t, compile).grant("a", readMaps), listOf("secrets"), true},
	} {
		if got := edgar(c.attrs, c.world); got != c.want {
			t.Errorf("%s: asked about edgar: %v", name, got)
		}
	}
	w.gate.unions = false
	if edgar(listOf("configmaps"), w) || edgar(get, w) {
		t.Error("without the gate nobody is allowed in single namespaces only")
	}
}

// RD-11: what is derived from a request is the same request about another place.
func TestRequestsAboutAPlace(t *testing.T) {
	selected := listOf("configmaps")
	selected.Path, selected.Name, selected.APIGroup, selected.Subresource = "/x", "n", "g", "s"
	selected.FieldSelectorRequirements, selected.FieldSelectorParsingErr, selected.LabelSelectorParsingErr = nil, errors.New("fields"), errors.New("labels")
	if got := recordOf(selected); got.GetUser() != selected.User || got.Verb != "list" || got.APIGroup != "g" || got.APIVersion != "v1" || got.Resource != "configmaps" || got.Subresource != "s" || got.Name != "n" ||
		!got.ResourceRequest || got.FieldSelectorParsingErr == nil || got.LabelSelectorParsingErr == nil {
		t.Errorf("%+v", got)
	}
	if got := inPlace(selected, "b"); got.GetNamespace() != "b" || got.GetVerb() != "list" || got.GetName() != "n" {
		t.Errorf("%+v", got)
	}
	got := oneNamespace(selected, "b")
	fs, _ := got.GetFieldSelector()
	ls, _ := got.GetLabelSelector()
	if got.GetNamespace() != "b" || got.GetVerb() != "get" || got.GetName() != "b" || fs != nil || ls != nil {
		t.Errorf("%+v", got)
	}
	if all := withPlaces([]string{"a-b", "a", "b"}, []string{"a", "a.c"}); !slices.Equal(all, []string{"a-b", "a.c", "a", "b"}) {
		t.Errorf("%v", all)
	}
	if all := withPlaces([]string{"a-b", "a"}, nil); !slices.Equal(all, []string{"a-b", "a"}) {
		t.Errorf("%v", all)
	}
}

// RD-11: an object without metadata is not shown, nor one that cannot be decided any longer; what could
// not be decided because the request has ended is decided again by the next one.
func TestUnionsFailClosed(t *testing.T) {
	w := newUnionWorld(t, compilerOf(t)).rbac("a", readMaps).policy("master", readRule("configmaps", `request.namespace == "b"`, `resource.data.k == "v"`), readRule("secrets", `request.namespace == "c"`, ""))
	snap := w.snapshot()
	each := w.gate.Decide(w.at(snap), listOf("configmaps")).Pass.Narrowing().Each
	if shown, err := each.Shows(w.at(snap), admission.NewAttributesRecord(&runtime.Unknown{}, nil, schema.GroupVersionKind{}, "", "", schema.GroupVersionResource{}, "", "GET", nil, false, nil)); shown || err == nil {
		t.Errorf("what has no name: %v, %v", shown, err)
	}
	odd := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "o", "namespace": "b"}, "data": map[string]any{}}}
	if shown, err := each.Shows(w.at(snap), readState(odd, "configmaps")); shown || err == nil {
		t.Errorf("a condition that fails: %v, %v", shown, err)
	}
	over, end := context.WithCancel(w.at(snap))
	end()
	good := odd.DeepCopy()
	good.Object["data"] = map[string]any{"k": "v"}
	if shown, _ := each.Shows(over, readState(good, "configmaps")); shown {
		t.Error("shown after the end of the request")
	}
	if shown, err := each.Shows(w.at(snap), readState(good, "configmaps")); !shown || err != nil {
		t.Errorf("by the next request: %v, %v", shown, err)
	}
	spaces := w.gate.Decide(w.at(snap), listOf("namespaces")).Pass.Narrowing().Each
	c := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "c"}}}
	_, _ = spaces.Shows(over, readState(c, "namespaces"))
	if shown, err := spaces.Shows(w.at(snap), readState(c, "namespaces")); !shown || err != nil {
		t.Errorf("a namespace, by the next request: %v, %v", shown, err)
	}
	if spaces.LooksAtNamespace() {
		t.Error("namespaces are in no namespace")
	}
}
