package expr

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"proviso.dev/proviso/internal/engine/selectors"
	"proviso.dev/proviso/test/law"
)

var typedFields = []SelectableField{
	{Key: "spec.nodeName", Typed: true},
	{Key: "status.phase", Typed: true},
	{Key: "hostNetwork", Path: ".spec.hostNetwork", Type: BoolField, Typed: true},
	{Key: "spec.count", Type: IntField, Typed: true},
}

const cannot = "-"

// RD-2: what a condition is narrowed to, beside the caller's own selectors.
func TestNarrow(t *testing.T) {
	for _, tc := range []struct{ where, ns, labels, fields, want string }{
		{`resource.metadata.labels.team == "a"`, "", "", "", "labelSelector team=a"},
		{`resource.metadata.labels["example.com/team"] == "a"`, "", "", "", "labelSelector example.com/team=a"},
		{`resource.metadata.labels.team == request.user`, "", "", "", "labelSelector team=n1"},
		{`resource.metadata.labels.team == request.user.substring(0, 1)`, "", "", "", "labelSelector team=n"},
		{`resource.metadata.labels.team in ["b", "a"]`, "", "", "", "labelSelector team in (a,b)"},
		{`resource.metadata.labels.team == "a" || resource.metadata.labels.team == "b"`, "", "", "", "labelSelector team in (a,b)"},
		{`["a", "b"].exists(t, resource.metadata.labels.team == t)`, "", "team=b", "", "no selector"},
		{`"team" in resource.metadata.labels`, "", "", "", "labelSelector team"},
		{`has(resource.metadata.labels.team)`, "", "", "", "labelSelector team"},
		// Absence keeps CEL's meaning.
		{`resource.metadata.labels.team != "a"`, "", "", "", "labelSelector team,team!=a"},
		{`!(resource.metadata.labels.team in ["a", "b"])`, "", "", "", "labelSelector team,team notin (a,b)"},
		{`resource.metadata.?labels.team.orValue("") != "a"`, "", "", "", "labelSelector team!=a"},
		{`!has(resource.metadata.labels) || !has(resource.metadata.labels.team)`, "", "", "", "labelSelector !team"},
		{`!has(resource.metadata.labels.team)`, "", "", "", cannot}, // it fails without labels
		{`resource.metadata.labels.env == "x" && !has(resource.metadata.labels.team)`, "", "", "", "labelSelector env=x,!team"},
		{`has(resource.metadata.labels) && resource.metadata.labels.team == "a"`, "", "", "", "labelSelector team=a"},
		{`has(resource.metadata.labels)`, "", "", "", cannot},
		{`!has(resource.metadata.labels) || !has(resource.metadata.labels.team) || resource.metadata.labels.team == "a"`, "", "", "", cannot},
		// Fields.
		{`resource.spec.nodeName == "n1"`, "", "", "", "fieldSelector spec.nodeName=n1"},
		{`resource.spec.nodeName == "a,b=c\\d"`, "", "", "", `fieldSelector spec.nodeName=a\,b\=c\\d`},
		{`resource.spec.nodeName != "n1"`, "", "", "", "fieldSelector spec.nodeName!=,spec.nodeName!=n1"},
		{`resource.spec.?nodeName.orValue("") != "n1"`, "", "", "", "fieldSelector spec.nodeName!=n1"},
		{`has(resource.spec.nodeName)`, "", "", "", "fieldSelector spec.nodeName!="},
		{`resource.spec.nodeName == ""`, "", "", "", cannot},
		{`resource.spec.?nodeName.orValue("") == ""`, "", "", "", "fieldSelector spec.nodeName="},
		{`resource.spec.nodeName in ["n1", "n2"]`, "", "", "", cannot},
		{`resource.spec.nodeName in ["n1", "n2"]`, "", "", "spec.nodeName=n1", "no selector"},
		{`resource.spec.hostNetwork == true`, "", "", "", "fieldSelector hostNetwork=true"},
		{`resource.spec.hostNetwork != true`, "", "", "", cannot},
		{`resource.spec.count == 3`, "", "", "", "fieldSelector spec.count=3"},
		{`resource.spec.count > 2`, "", "", "", cannot},
		// Beyond 2^53 one double equals several whole numbers.
		{`resource.spec.count == 9007199254740992.0`, "", "", "", cannot},
		{`resource.spec.count != 9007199254740992.0`, "", "", "", cannot},
		{`resource.spec.count in [-9007199254740994.0]`, "", "", "", cannot},
		{`resource.spec.count == 9007199254740992.0`, "", "", "spec.count=9007199254740993", "no selector"},
		{`resource.spec.count == 9007199254740992`, "", "", "", "fieldSelector spec.count=9007199254740992"},
		{`resource.spec.count == 9007199254740991.0`, "", "", "", "fieldSelector spec.count=9007199254740991"},
		{`resource.metadata.name == "x"`, "", "", "", "fieldSelector metadata.name=x"},
		{`resource.metadata.name != "x"`, "", "", "", "fieldSelector metadata.name!=x"},
		{`resource.metadata.name == "../x"`, "", "", "", "nothing"},
		// The namespace is never added.
		{`resource.metadata.namespace == "a"`, "", "", "", cannot},
		{`resource.metadata.namespace == "a"`, "a", "", "", "no selector"},
		{`resource.metadata.namespace == "a"`, "b", "", "", "nothing"},
		{`resource.metadata.namespace == request.namespace && resource.metadata.labels.team == "a"`, "b", "", "", "labelSelector team=a"},
		// Conjunctions, and what is more.
		{`resource.metadata.labels.team == "a" && resource.spec.nodeName == "n1"`, "", "", "", "labelSelector team=a and fieldSelector spec.nodeName=n1"},
		{`resource.metadata.labels.team == "a" || resource.metadata.labels.env == "b"`, "", "", "", cannot},
		{`resource.metadata.labels.team == "a" || resource.metadata.labels.env == "b"`, "", "env=b", "", "no selector"},
		{`request.user == "n1" ? resource.metadata.labels.team == "a" : true`, "", "", "", "labelSelector team=a"},
		{`resource.metadata.labels.team.startsWith("a")`, "", "", "", cannot},
		{`resource.metadata.labels.team.startsWith("a")`, "", "team in (a1,a2,b)", "", "labelSelector team in (a1,a2)"},
		{`resource.spec.replicas == 1`, "", "", "", cannot},
		{`resource.metadata.annotations.team == "a"`, "", "", "", cannot},
		// What no selector can spell is in no object.
		{`resource.metadata.labels.team == "a b"`, "", "", "", "nothing"},
		{`resource.metadata.labels["a b"] == "x"`, "", "", "", "nothing"},
		{`resource.metadata.labels.team in ["a b", "a"]`, "", "", "", "labelSelector team=a"},
		{`resource.metadata.labels.team != "a b"`, "", "", "", "labelSelector team"},
		// The caller's own selectors contradict.
		{`resource.metadata.labels.team == "a"`, "", "team=b", "", "nothing"},
		{`resource.metadata.labels.team == "a"`, "", "!team", "", "nothing"},
		{`resource.metadata.labels.team == "a"`, "", "team=a,team=b", "", "nothing"},
		{`resource.spec.nodeName == "n1"`, "", "", "spec.nodeName=n2", "nothing"},
		{`resource.spec.nodeName == "n1"`, "", "", "spec.nodeName=", "nothing"},
		{`resource.spec.nodeName == "n1"`, "", "", "spec.nodeName=n1", "no selector"},
	} {
		box, err := Narrow(compile(t, Where, tc.where), selecting(t, tc.ns, tc.labels, tc.fields), typedFields)
		got := cannot
		if err == nil {
			if box, err = selectors.Union(box); err == nil {
				got = box.String()
			}
		}
		if box.IsNothing() {
			got = "nothing"
		}
		if got != tc.want {
			t.Errorf("%s, with %q %q %q: %s (%v), want %s", tc.where, tc.ns, tc.labels, tc.fields, got, err, tc.want)
		}
	}
}

// RD-2: parts of a rule are narrowed together, and a part that needs more than selectors is not.
func TestNarrowTogether(t *testing.T) {
	req := selecting(t, "", "", "")
	team := compile(t, Where, `resource.metadata.labels.team == "a"`)
	for _, tc := range []struct {
		c    Condition
		want string
	}{
		{All(team, compile(t, When, `request.user == "n1"`)), "labelSelector team=a"},
		{All(team, compile(t, When, `oldObject.x == 1`)), ""},
		{All(team, compile(t, Where, `resource.metadata.labels.team == "b"`)), "labelSelector policy.proviso.dev/none,!policy.proviso.dev/none"},
		{All(team, compile(t, Where, `resource.spec.nodeName == "n"`)), "labelSelector team=a and fieldSelector spec.nodeName=n"},
		{nil, ""},
	} {
		box, err := Narrow(tc.c, req, typedFields)
		if got := box.String(); err == nil && got != tc.want || (err != nil) != (tc.want == "") {
			t.Errorf("%v: %s, %v, want %q", tc.c, got, err, tc.want)
		}
	}
}

// genTyped makes an object as built-in kinds are: what leads to a field is there, and a field is missing if it is
// empty.
func genTyped(c chooser) (map[string]any, labels.Set, map[string][]string) {
	o, set, texts := genSelected(c)
	meta := o["metadata"]
	spec, status := map[string]any{}, map[string]any{}
	leaf := func(parent map[string]any, field, key, zero string, vals ...any) {
		texts[key] = []string{zero}
		if n := c.choose(len(vals) + 1); n > 0 {
			parent[field] = vals[n-1]
			texts[key] = []string{fmt.Sprint(vals[n-1])}
		}
	}
	leaf(spec, "nodeName", "spec.nodeName", "", "x", "y", "z")
	leaf(spec, "count", "spec.count", "0", int64(1), int64(2), int64(5))
	leaf(spec, "hostNetwork", "hostNetwork", "false", true)
	leaf(status, "phase", "status.phase", "", "x", "y", "z")
	return map[string]any{"metadata": meta, "spec": spec, "status": status}, set, texts
}

// checkNarrow: what the caller's selectors and the added ones select together is what meets the where. Of custom kinds,
// objects with a field that is missing or empty may be left out.
func checkNarrow(t testing.TB, c chooser, objects int) bool {
	source, req := genSelectorWhere(c, 2), genSelectors(t, c)
	typed := c.choose(2) == 0
	use, gen := podFields, genSelected
	if typed {
		use, gen = typedFields, genTyped
	}
	box, err := Narrow(compile(t, Where, source), req, use)
	if err == nil {
		box, err = selectors.Union(box)
	}
	if err != nil {
		return false
	}
	addedLabels, addedFields, err := box.Selectors()
	if err != nil {
		t.Fatal(err)
	}
	// As a server reads them.
	l, err := labels.Parse(selectors.LabelText(addedLabels))
	if err != nil {
		t.Fatalf("%s: %v", selectors.LabelText(addedLabels), err)
	}
	f, err := fields.ParseSelector(selectors.FieldText(addedFields))
	if err != nil {
		t.Fatalf("%s: %v", selectors.FieldText(addedFields), err)
	}
	// RD-10: what is said to be exact leaves nothing out, and the hull holds all that meets the condition.
	_, inexact := Exactly(compile(t, Where, source), req, use)
	if hull := Hull(compile(t, Where, source), req, use); inexact != nil && !hull.IsEverything() {
		t.Fatalf("%s is not exact, and its hull is %s", source, hull)
	}
	n := newNaive(t, compiler(t), Where, source)
	for range objects {
		o, set, texts := gen(c)
		if !selects(req, o, set, texts) {
			continue
		}
		holds := n.once(map[string]any{"request": nativeRequest(req), "resource": o}) == yes
		selected := l.Matches(set)
		for key, possible := range texts {
			selected = selected && slices.ContainsFunc(possible, func(text string) bool { // it has one of these texts
				return !slices.ContainsFunc(f.Requirements(), func(r fields.Requirement) bool {
					return r.Field == key && (text == r.Value) == (r.Operator == selection.NotEquals)
				})
			})
		}
		blank := !typed && inexact != nil && slices.ContainsFunc(use, func(f SelectableField) bool {
			return slices.Contains(texts[f.Key], "") || f.Type != StringField && slices.ContainsFunc(texts[f.Key], func(s string) bool { return s == "0" || s == "false" })
		})
		if selected && !holds || holds && !selected && !blank {
			t.Fatalf("%s with namespace %q labels %v fields %v is narrowed to %s (typed %v); %v: selected %v, meets it %v",
				source, req.Namespace, req.LabelSelector, req.FieldSelector, box, typed, o, selected, holds)
		}
	}
	return true
}

// RD-9: a narrowed selection is brute force with the evaluator.
func TestNarrowIsBruteForce(t *testing.T) {
	narrowed, n := 0, 0
	law.Rounds(t, 700, func(seed int64) int {
		if n++; checkNarrow(t, seeded(seed), 200) {
			narrowed++
		}
		return 1
	})
	if narrowed < n/10 {
		law.TooFew(t, "only %d of %d are narrowed: the test proves little", narrowed, n)
	}
	t.Logf("%d of %d narrowed", narrowed, n)
}

func FuzzNarrow(f *testing.F) {
	f.Add([]byte("selectors say this"))
	f.Fuzz(func(t *testing.T, in []byte) { checkNarrow(t, &bytesChooser{in}, 4) })
}
