package expr

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"proviso.dev/proviso/test/law"
)

var podFields = []SelectableField{
	{Key: "spec.nodeName"},
	{Key: "status.phase"},
	{Key: "hostNetwork", Path: ".spec.hostNetwork", Type: BoolField},
	{Key: "spec.count", Type: IntField},
}

func selecting(t testing.TB, namespace, labelSelector, fieldSelector string) *Request {
	t.Helper()
	l, err := labels.ParseToRequirements(labelSelector)
	if err != nil {
		t.Fatal(err)
	}
	f, err := fields.ParseSelector(fieldSelector)
	if err != nil {
		t.Fatal(err)
	}
	return &Request{User: "n1", Verb: "list", Namespace: namespace, LabelSelector: l, FieldSelector: f.Requirements()}
}

// CA-16: what selectors imply, and, in the twin that differs in one thing,
// what they do not.
func TestImplied(t *testing.T) {
	for _, tc := range []struct {
		where, ns, labels, fields string
		want                      bool
	}{
		{`resource.spec.nodeName == "n1"`, "", "", "spec.nodeName=n1", true},
		{`resource.spec.nodeName == "n1"`, "", "", "spec.nodeName=n2", false},
		{`resource.spec.nodeName == "n1"`, "", "", "spec.nodeName!=n1", false},
		{`resource.spec.nodeName == "n1"`, "", "", "", false},
		{`resource.spec.nodeName == request.user`, "", "", "spec.nodeName=n1", true},
		{`resource.spec.nodeName == ""`, "", "", "spec.nodeName=", false},                                 // it may be missing, which fails
		{`!has(resource.spec.nodeName) || resource.spec.nodeName == ""`, "", "", "spec.nodeName=", false}, // null, missing spec
		{`resource.?spec.?nodeName.orValue("") == ""`, "", "", "spec.nodeName=x", false},
		{`resource.spec.nodeName != "n1"`, "", "", "spec.nodeName=n2", true},
		{`resource.spec.nodeName != "n1"`, "", "", "spec.nodeName!=n1", false}, // missing fails
		{`resource.?spec.?nodeName.orValue("") != "n1"`, "", "", "spec.nodeName=n2", true},
		{`resource.spec.nodeName in ["n1", "n2"]`, "", "", "spec.nodeName=n2", true},
		{`resource.spec.nodeName in ["n1", "n2"]`, "", "", "spec.nodeName=n3", false},
		{`resource.spec.nodeName.startsWith("n")`, "", "", "spec.nodeName=n1", true},
		{`resource.spec.nodeName.startsWith("m")`, "", "", "spec.nodeName=n1", false},
		{`resource.spec.nodeName.startsWith("n")`, "", "", "status.phase=n1", false},
		{`resource.spec.hostNetwork == true`, "", "", "hostNetwork=true", true},
		{`resource.spec.hostNetwork == true`, "", "", "hostNetwork=false", false},
		{`resource.spec.hostNetwork == true`, "", "", "hostNetwork!=false", false}, // may be missing: ""
		{`resource.spec.hostNetwork == "true"`, "", "", "hostNetwork=true", false},
		{`resource.spec.count == 3`, "", "", "spec.count=3", true},
		{`resource.spec.count == 3`, "", "", "spec.count=03", false},
		{`resource.spec.count > 2`, "", "", "spec.count=3", true},
		{`resource.spec.count == "3"`, "", "", "spec.count=3", false},
		{`resource.metadata.name == "x"`, "", "", "metadata.name=x", true},
		{`resource.metadata.name != "x"`, "", "", "metadata.name!=x", true}, // a name is never missing
		{`resource.metadata.namespace == "a"`, "a", "", "", true},
		{`resource.metadata.namespace == "a"`, "b", "", "", false},
		{`resource.metadata.namespace == "a"`, "", "", "metadata.namespace=a", true},
		{`resource.metadata.labels["env"] == "dev"`, "", "env=dev", "", true},
		{`resource.metadata.labels.env == "dev"`, "", "env=prod", "", false},
		{`resource.metadata.labels.env == "dev"`, "", "env", "", false},
		{`resource.metadata.labels.env == "dev"`, "", "other=dev", "", false},
		{`resource.metadata.labels.env in ["a", "b", "c"]`, "", "env in (a,b)", "", true},
		{`resource.metadata.labels.env in ["a", "c"]`, "", "env in (a,b)", "", false},
		{`"env" in resource.metadata.labels`, "", "env", "", true},
		{`"env" in resource.metadata.labels`, "", "env!=x", "", false},
		{`has(resource.metadata.labels.env)`, "", "env in (a,b)", "", true},
		{`has(resource.metadata.labels)`, "", "env", "", true},
		{`has(resource.metadata.labels)`, "", "!env", "", false},
		{`!has(resource.metadata.labels.env)`, "", "!env", "", false}, // labels may be missing, which fails
		{`!has(resource.metadata.labels) || !has(resource.metadata.labels.env)`, "", "!env", "", true},
		{`!has(resource.metadata.labels) || !has(resource.metadata.labels.env)`, "", "", "", false},
		{`resource.metadata.?labels.env.orValue("") != "prod"`, "", "env!=prod", "", true},
		{`resource.metadata.?labels.env.orValue("") != "prod"`, "", "env!=dev", "", false},
		{`resource.metadata.?labels.env.orValue("prod") != "prod"`, "", "env!=prod", "", false},
		{`resource.metadata.?labels.env.hasValue()`, "", "env", "", true},
		{`resource.metadata.labels.env == "a" || resource.metadata.labels.tier == "b"`, "", "tier=b", "", true},
		{`resource.metadata.labels.env == "a" && resource.metadata.labels.tier == "b"`, "", "tier=b", "", false},
		{`resource.metadata.labels.env == "a" && resource.spec.nodeName == "n1"`, "", "env=a", "spec.nodeName=n1", true},
		{`!(resource.metadata.labels.env == "a")`, "", "env=b", "", true},
		{`resource.metadata.labels.env == "a" ? true : resource.metadata.labels.env == "b"`, "", "env in (a,b)", "", true},
		{`resource.metadata.labels.n.startsWith("1")`, "", "n>10", "", false}, // numbers are only known to exist
		{`has(resource.metadata.labels.n)`, "", "n>10", "", true},
		{`["a", "b"].exists(v, resource.metadata.labels.env == v)`, "", "env=b", "", true},
		{`["a", "b"].exists(v, resource.metadata.labels.env == v)`, "", "env=c", "", false},
		{`[1].all(resource, resource == 1)`, "", "", "", true},
		// Not about what can be selected.
		{`resource.spec.replicas == 1`, "", "env=a", "spec.nodeName=n1", false},
		{`resource.metadata.labels.all(k, k == "env")`, "", "env=a", "", false},
		{`size(resource.metadata.labels) == 1`, "", "env=a", "", false},
		{`resource.metadata.annotations.env == "a"`, "", "env=a", "", false},
		{`resource == resource`, "", "env=a", "", false},
		// Nothing can match.
		{`resource.metadata.labels.env == "a"`, "", "env=a,env=b", "", false},
		// Independent of the object.
		{`request.user == "n1"`, "", "", "", true},
		{`request.user == "n2"`, "", "", "", false},
	} {
		req := selecting(t, tc.ns, tc.labels, tc.fields)
		if got := Implied(compile(t, Where, tc.where), req, podFields); got != tc.want {
			t.Errorf("%s with namespace %q, labels %q, fields %q: implied %v, want %v",
				tc.where, tc.ns, tc.labels, tc.fields, got, tc.want)
		}
	}
}

func TestImpliedTogether(t *testing.T) {
	req := selecting(t, "", "env=a", "")
	yes := compile(t, Where, `resource.metadata.labels.env == "a"`)
	no := compile(t, Where, `resource.metadata.labels.env == "b"`)
	known := compile(t, When, `request.user == "n1"`)
	unknown := compile(t, When, `object.x == 1`)
	for _, tc := range []struct {
		c    Condition
		want bool
	}{
		{All(yes, known), true}, {All(yes, no), false}, {All(yes, unknown), false}, {known, true}, {unknown, false}, {nil, false},
	} {
		if got := Implied(tc.c, req, nil); got != tc.want {
			t.Errorf("%v: %v", tc.c, got)
		}
	}
}

func genSelectorWhere(c chooser, depth int) string {
	if depth > 0 {
		switch c.choose(6) {
		case 0:
			return "(" + genSelectorWhere(c, depth-1) + " && " + genSelectorWhere(c, depth-1) + ")"
		case 1:
			return "(" + genSelectorWhere(c, depth-1) + " || " + genSelectorWhere(c, depth-1) + ")"
		case 2:
			return "!(" + genSelectorWhere(c, depth-1) + ")"
		}
	}
	path := pick(c, "metadata.labels.a", `metadata.labels["b"]`, "spec.nodeName", "metadata.name", "metadata.namespace",
		"spec.count", "spec.hostNetwork", "status.phase")
	lit := strconv.Quote(pick(c, "x", "y", ""))
	switch path {
	case "spec.count":
		lit = pick(c, "0", "1", "2", `"1"`)
	case "spec.hostNetwork":
		lit = pick(c, "true", "false", `"true"`)
	}
	attr := "resource." + path
	switch c.choose(9) {
	case 0, 1, 2:
		return attr + " == " + lit
	case 3:
		return attr + " != " + lit
	case 4:
		return attr + " in [dyn(" + lit + "), dyn(" + strconv.Quote(pick(c, "x", "y")) + ")]"
	case 5:
		return pick(c, "has(resource.metadata.labels.a)", "has(resource.metadata.labels)", `"b" in resource.metadata.labels`,
			"has(resource.spec)", "has(resource.spec.nodeName)", "has(resource.status.phase)")
	case 6:
		return pick(c, "resource.?spec.?nodeName.orValue(\"\")", "resource.metadata.?labels.a.orValue(\"\")",
			`resource.metadata.?labels[?"b"].orValue("x")`) + pick(c, " == ", " != ") + strconv.Quote(pick(c, "x", "y", ""))
	case 7:
		return attr + " in [" + lit + "]"
	default:
		return "resource.metadata." + pick(c, "labels.a", "name", "namespace") + `.startsWith("x")`
	}
}

func genSelectors(t testing.TB, c chooser) *Request {
	req := &Request{Verb: "list", Namespace: pick(c, "", "", "x", "y")}
	for range c.choose(3) {
		key, val := pick(c, "a", "b"), pick(c, "x", "y", "")
		op := pick(c, selection.Equals, selection.In, selection.NotIn, selection.Exists, selection.DoesNotExist, selection.NotEquals)
		var vals []string
		switch op {
		case selection.Exists, selection.DoesNotExist:
		case selection.In, selection.NotIn:
			vals = []string{val, pick(c, "x", "z")}
		default:
			vals = []string{val}
		}
		r, err := labels.NewRequirement(key, op, vals)
		if err != nil {
			t.Fatal(err)
		}
		req.LabelSelector = append(req.LabelSelector, *r)
	}
	for range c.choose(3) {
		key := pick(c, "spec.nodeName", "metadata.name", "metadata.namespace", "spec.count", "hostNetwork", "status.phase")
		val := pick(c, "x", "y", "")
		switch key {
		case "spec.count":
			val = pick(c, "0", "1", "2", "")
		case "hostNetwork":
			val = pick(c, "true", "false", "")
		}
		req.FieldSelector = append(req.FieldSelector, fields.Requirement{
			Operator: pick(c, selection.Equals, selection.NotEquals), Field: key, Value: val,
		})
	}
	return req
}

// genSelected makes an object and says which text its fields have for field
// selectors: a missing bool or int may count as empty or as zero.
func genSelected(c chooser) (map[string]any, labels.Set, map[string][]string) {
	texts := map[string][]string{}
	meta := map[string]any{"name": pick(c, "x", "y", "z")}
	texts["metadata.name"] = []string{meta["name"].(string)}
	texts["metadata.namespace"] = []string{""}
	if ns := pick(c, "", "x", "y", "z"); ns != "" {
		meta["namespace"] = ns
		texts["metadata.namespace"] = []string{ns}
	}
	set := labels.Set{}
	if c.choose(3) > 0 {
		l := map[string]any{}
		for _, k := range []string{"a", "b", "c"} {
			if c.choose(2) == 0 {
				set[k] = pick(c, "x", "y", "z", "")
				l[k] = set[k]
			}
		}
		meta["labels"] = l
	}
	o := map[string]any{"metadata": meta}
	leaf := func(parent map[string]any, field, key string, zero []string, vals ...any) {
		texts[key] = zero
		switch c.choose(4) {
		case 0:
		case 1:
			parent[field] = nil
		default:
			v := vals[c.choose(len(vals))]
			parent[field] = v
			texts[key] = []string{fmt.Sprint(v)}
		}
	}
	spec, status := map[string]any{}, map[string]any{}
	leaf(spec, "nodeName", "spec.nodeName", []string{""}, "x", "y", "z", "")
	leaf(spec, "count", "spec.count", []string{"", "0"}, int64(0), int64(1), int64(2), int64(5))
	leaf(spec, "hostNetwork", "hostNetwork", []string{"", "false"}, true, false)
	leaf(status, "phase", "status.phase", []string{""}, "x", "y", "z")
	for name, m := range map[string]map[string]any{"spec": spec, "status": status} {
		if len(m) > 0 {
			o[name] = m
		} else if v := c.choose(3); v == 0 {
			o[name] = nil
		} else if v == 1 {
			o[name] = m
		}
	}
	return o, set, texts
}

func selects(req *Request, o map[string]any, set labels.Set, texts map[string][]string) bool {
	if req.Namespace != "" && o["metadata"].(map[string]any)["namespace"] != req.Namespace {
		return false
	}
	for _, r := range req.LabelSelector {
		if !r.Matches(set) {
			return false
		}
	}
	for _, r := range req.FieldSelector {
		if !slices.ContainsFunc(texts[r.Field], func(s string) bool { return (s == r.Value) == (r.Operator == selection.Equals) }) {
			return false
		}
	}
	return true
}

// checkImplied: if the selectors imply the where, then every object that they
// select meets it.
func checkImplied(t testing.TB, c chooser, objects int) (implied bool) {
	source := genSelectorWhere(c, 2)
	req := genSelectors(t, c)
	p := compile(t, Where, source)
	if !Implied(p, req, podFields) {
		return false
	}
	n := newNaive(t, compiler(t), Where, source)
	for range objects {
		o, set, texts := genSelected(c)
		if !selects(req, o, set, texts) {
			continue
		}
		if got := n.once(map[string]any{"request": nativeRequest(req), "resource": o}); got != yes {
			t.Fatalf("%s is said to be implied by namespace %q labels %v fields %v, but %v gives %v",
				source, req.Namespace, req.LabelSelector, req.FieldSelector, o, got)
		}
	}
	return true
}

// CA-16: the implication is sound.
func TestImpliedIsSound(t *testing.T) {
	implied, n := 0, 0
	law.Rounds(t, 700, func(seed int64) int {
		if n++; checkImplied(t, seeded(seed), 200) {
			implied++
		}
		return 1
	})
	if implied < n/50 {
		law.TooFew(t, "only %d of %d are implied: the test proves little", implied, n)
	}
	t.Logf("%d of %d implied", implied, n)
}

func FuzzImplied(f *testing.F) {
	f.Add([]byte("selectors imply this"))
	f.Fuzz(func(t *testing.T, in []byte) { checkImplied(t, &bytesChooser{in}, 4) })
}
