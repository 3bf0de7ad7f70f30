package authorize

import (
	"crypto/sha256"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	kubelabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// RD-5: a deletecollection under a condition is refused if its selectors would tell the content of other objects.
func TestSelectorsThatProbe(t *testing.T) {
	const good = `resource.metadata.labels["good"] == "yes"`
	rule := func(verbs ...string) policyv1alpha1.PolicyRule {
		return policyv1alpha1.PolicyRule{Verbs: verbs, ResourceKinds: []string{"configmaps"}, Where: good}
	}
	lists := policyv1alpha1.PolicyRule{Verbs: []string{"list"}, ResourceKinds: []string{"configmaps"}}
	for name, c := range map[string]struct {
		rules          []policyv1alpha1.PolicyRule
		labels, fields string
		broken         bool
		want           Answer
	}{
		"no selector":           {[]policyv1alpha1.PolicyRule{rule("deletecollection")}, "", "", false, Open},
		"by name":               {[]policyv1alpha1.PolicyRule{rule("deletecollection")}, "", "metadata.name=a", false, Open},
		"by namespace":          {[]policyv1alpha1.PolicyRule{rule("deletecollection")}, "", "metadata.namespace=hammer", false, Open},
		"by a label":            {[]policyv1alpha1.PolicyRule{rule("deletecollection")}, "team=a", "", false, Unanswered},
		"by a field":            {[]policyv1alpha1.PolicyRule{rule("deletecollection")}, "", "type=Opaque", false, Unanswered},
		"by a name and a field": {[]policyv1alpha1.PolicyRule{rule("deletecollection")}, "", "metadata.name=a,type=Opaque", false, Unanswered},
		"by the condition":      {[]policyv1alpha1.PolicyRule{rule("deletecollection")}, "good=yes", "", false, Allowed},
		"by what nobody reads":  {[]policyv1alpha1.PolicyRule{rule("deletecollection")}, "", "", true, Unanswered},
		"a caller who may list": {[]policyv1alpha1.PolicyRule{rule("deletecollection"), lists}, "team=a", "", false, Open},
		"who lists some":        {[]policyv1alpha1.PolicyRule{rule("deletecollection", "list")}, "team=a", "", false, Unanswered},
	} {
		gate := readsGate(t)
		snap := &snapshot.Snapshot{Rules: world(t, c.rules), Served: unionServed()}
		attrs := asks("deletecollection")
		attrs.LabelSelectorRequirements, _ = kubelabels.ParseToRequirements(c.labels)
		if c.fields != "" {
			attrs.FieldSelectorRequirements = fields.ParseSelectorOrDie(c.fields).Requirements()
		}
		if c.broken {
			attrs.LabelSelectorParsingErr = errors.New("what is this")
		}
		v := gate.Decide(requestctx.With(t.Context(), snap), attrs)
		if v.Answer != c.want && !(c.want == Allowed && v.Answer == Open) {
			t.Errorf("%s: %v (%s), want %v", name, v.Answer, v.Reason, c.want)
		}
	}
}

// RD-2: selectors that imply a condition leave it open in a list that is narrowed, and only there.
func TestUnselected(t *testing.T) {
	labelled, _ := kubelabels.ParseToRequirements("good=yes")
	for name, c := range map[string]struct {
		change func(*authorizer.AttributesRecord, *Gate)
		want   bool
	}{
		"a list": {func(*authorizer.AttributesRecord, *Gate) {}, true}, "a watch": {func(a *authorizer.AttributesRecord, _ *Gate) { a.Verb = "watch" }, true},
		"by a field": {func(a *authorizer.AttributesRecord, _ *Gate) {
			a.LabelSelectorRequirements, a.FieldSelectorRequirements = nil, fields.ParseSelectorOrDie("metadata.name=a").Requirements()
		}, true},
		"no selector": {func(a *authorizer.AttributesRecord, _ *Gate) { a.LabelSelectorRequirements = nil }, false},
		"a get":       {func(a *authorizer.AttributesRecord, _ *Gate) { a.Verb = "get" }, false}, "no reads": {func(_ *authorizer.AttributesRecord, g *Gate) { g.reading = nil }, false},
		"no conditions": {func(_ *authorizer.AttributesRecord, g *Gate) { g.conditional = false }, false}, "served elsewhere": {func(_ *authorizer.AttributesRecord, g *Gate) { g.local = nowhere{} }, false},
	} {
		gate, attrs := readsGate(t), asks("list")
		attrs.LabelSelectorRequirements = labelled
		c.change(&attrs, gate)
		if got := gate.unselected(attrs); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// RD-8: what an answer says about a list that is narrowed.
func TestSayNarrowed(t *testing.T) {
	for _, c := range []struct{ reason, narrowed, want string }{
		{"", "labelSelector a=b", "narrowed to labelSelector a=b"}, {"rule 1", "labelSelector a=b", "rule 1; narrowed to labelSelector a=b"},
		{"", errSelector.Error() + ": x", errSelector.Error() + ": x"}, {"rule 1", errSelector.Error() + ": x", "rule 1; " + errSelector.Error() + ": x"},
	} {
		if got := SayNarrowed(c.reason, c.narrowed); got != c.want {
			t.Errorf("%q, %q: %q", c.reason, c.narrowed, got)
		}
	}
	for _, c := range []struct {
		reason string
		err    error
		want   string
	}{{"a", nil, "a"}, {"", errors.New("b"), "b"}, {"a", errors.New("b"), "a; b"}, {"", nil, ""}} {
		if got := joinReasons(c.reason, c.err); got != c.want {
			t.Errorf("%q, %v: %q", c.reason, c.err, got)
		}
	}
}

var (
	widgetLists = []*metav1.APIResourceList{{GroupVersion: "example.com/v2", APIResources: []metav1.APIResource{{Name: "widgets", Kind: "Widget", Namespaced: true}}},
		{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{{Name: "widgets", Kind: "Widget", Namespaced: true}}}}
	widgetShapes = map[schema.GroupResource]snapshot.Shapes{{Group: "example.com", Resource: "widgets"}: {Storage: "v2", Of: map[string][sha256.Size]byte{"v1": {1}, "v2": {2}}}}
)

// differingServed has widgets in two versions, of which v2 is stored and v1 shows less.
func differingServed() *snapshot.Served {
	return snapshot.Sources{Local: widgetLists, Shapes: widgetShapes}.Served()
}

// CA-5, NI-5: a condition sees one version of a custom resource; a list in another one is not narrowed by it if that
// would show something else.
func TestVersionsThatConditionsSee(t *testing.T) {
	gr := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	plain, differing, converted, unknown := snapshot.Sources{Local: widgetLists}.Served(), differingServed(), snapshot.Sources{Local: widgetLists, Converted: map[schema.GroupResource]bool{gr: true}}.Served(), snapshot.Sources{Shapes: widgetShapes}.Served()
	for name, c := range map[string]struct {
		served       *snapshot.Served
		of, read     string
		fails        string
		sight, other string
	}{
		"versions alike":              {plain, "", "v1", "", "", ""},
		"the version that is stored":  {differing, "", "v2", "", "", "hidden"},
		"one that shows less":         {differing, "", "v1", "has another schema", "hidden", ""},
		"the version that it names":   {differing, "v1", "v1", "", "", ""},
		"another than it names":       {differing, "v2", "v1", "has another schema", "hidden", ""},
		"a webhook, the same version": {converted, "", "v2", "", "converted", ""},
		"a webhook, another version":  {converted, "", "v1", "converted by a webhook", "converted", ""},
		"a webhook, the named one":    {converted, "v1", "v1", "", "converted", ""},
		"what is not served":          {unknown, "", "v1", "served", "unknown", ""},
	} {
		rule := policyv1alpha1.PolicyRule{Verbs: []string{"list"}, ResourceKinds: []string{"widgets.example.com"}, APIVersion: c.of, Where: `resource.metadata.labels["a"] == "b"`}
		ix := ruleset.Build(ruleset.Input{MasterNamespace: "master", CompileRule: compilerOf(t), Kinds: plain.Kinds(), Policies: []*policyv1alpha1.Policy{policyIn("hammer", rule)},
			PolicyBindings: []*policyv1alpha1.PolicyBinding{{ObjectMeta: metav1.ObjectMeta{Name: "hammer", Namespace: "hammer"}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"b": {RoleName: "r", UserNames: []string{"edgar"}}}}}})
		attrs := asks("list")
		attrs.APIGroup, attrs.APIVersion, attrs.Resource = gr.Group, c.read, gr.Resource
		var q ruleset.Query
		q.Reset(ix, attrs)
		hits := q.AppendConditional(nil, ruleset.TierNamespace, ruleset.Allows)
		if len(hits) != 1 {
			t.Fatalf("%s: %d rules", name, len(hits))
		}
		var one ruleCondition
		one.bind(hits[0])
		err := seenAsSelected(&one, expr.NewRequest(attrs), c.served)
		if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %v, want %q", name, err, c.fails)
		}
		if got := sight(&one, expr.NewRequest(attrs), c.served); !strings.Contains(got, c.sight) || c.other != "" && strings.Contains(got, c.other) || c.sight == "" && strings.Contains(got, "converted") {
			t.Errorf("%s: the view is of %q", name, got)
		}
	}
}
