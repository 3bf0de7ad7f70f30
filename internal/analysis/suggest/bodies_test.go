package suggest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"proviso.dev/proviso/internal/analysis/compare"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/verbs"
)

// wrote is a change of an object; old is nil for a new one.
type wrote struct{ old, new map[string]any }

// traffic is random traffic with bodies.
type traffic struct {
	in     *Input
	table  *fieldperm.Table
	of     map[Use][]wrote
	probes []wrote
}

func randomObject(r *rand.Rand, name string) map[string]any {
	o := map[string]any{"apiVersion": "v1", "kind": "K", "metadata": map[string]any{"name": name, "labels": map[string]any{"team": pick(r, []string{"x", "x", "x", "y"})}}}
	set := func(path ...string) {
		if r.IntN(2) == 0 {
			_ = unstructured.SetNestedField(o, pick(r, []string{"1", "2"}), path...)
		}
	}
	set("metadata", "labels", "a.com/l")
	set("metadata", "annotations", "b.com/n")
	set("spec", "type")
	if r.IntN(4) == 0 {
		set("data", "key")
	}
	return o
}

// withBodies gives some of the uses bodies, and some of the places objects.
func withBodies(t *testing.T, r *rand.Rand, in *Input) *traffic {
	t.Helper()
	table, issues := fieldperm.New(fieldperm.Config{})
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	tr := &traffic{in: in, table: table, of: map[Use][]wrote{}}
	in.Writes, in.Touched, in.Live = map[Use][]Write{}, map[Use][]map[string]any{}, map[Place][]map[string]any{}
	in.Exclusive, in.Holds = func(string) bool { return false }, func(where string, o map[string]any) bool { return holds(t, where, o) }
	for range 2 {
		w := wrote{randomObject(r, "a"), randomObject(r, "a")}
		if r.IntN(2) == 0 {
			w.old = nil
		}
		tr.probes = append(tr.probes, w)
	}
	known := r.IntN(4) > 0 // whether all of the log has bodies
	for _, u := range in.Uses {
		if !verbs.Updates(u.Verb) || u.Name == "" || u.Resource == "" || !known && r.IntN(3) == 0 || tr.of[u] != nil {
			continue
		}
		for range 1 + r.IntN(2) {
			w := wrote{randomObject(r, u.Name), nil}
			w.new = (&unstructured.Unstructured{Object: w.old}).DeepCopy().Object
			switch r.IntN(4) {
			case 0:
				_ = unstructured.SetNestedField(w.new, "3", "metadata", "labels", "a.com/l")
			case 1:
				_ = unstructured.SetNestedField(w.new, "3", "metadata", "annotations", "b.com/n")
			case 2:
				_ = unstructured.SetNestedField(w.new, "3", "spec", "type")
			}
			if r.IntN(12) == 0 {
				_ = unstructured.SetNestedField(w.new, "3", "data", "key")
			}
			tr.of[u] = append(tr.of[u], w)
		}
		tr.tell(u)
	}
	for _, res := range resources {
		for _, ns := range append([]string{""}, namespaces...) {
			if res.Subresource != "" || res.Namespaced != (ns != "") || r.IntN(3) == 0 {
				continue
			}
			at := Place{ns, res.Group, res.Resource}
			for _, name := range append(slices.Clone(names), "z", "q") {
				o := randomObject(r, name)
				team := "y"
				if slices.Contains(names, name) {
					team = "x"
				}
				if r.IntN(8) > 0 {
					_ = unstructured.SetNestedField(o, team, "metadata", "labels", "team")
				}
				in.Live[at] = append(in.Live[at], o)
			}
		}
	}
	return tr
}

// tell makes of bodies what the tool makes of them: the permissions that they take, if there are such.
func (tr *traffic) tell(u Use) {
	for _, w := range tr.of[u] {
		has := map[string]bool{}
		for range fieldperm.MaxChecks {
			result := tr.decide(w, u.Resource, func(verb string) bool { return has[verb] })
			if result.Allowed() {
				break
			}
			if result.Missing == nil || result.Missing.Permission == "" {
				delete(tr.in.Writes, u)
				return
			}
			has[result.Missing.Permission] = true
		}
		tr.in.Touched[u] = append(tr.in.Touched[u], w.old, w.new)
		tr.in.Writes[u] = append(tr.in.Writes[u], Write{Verbs: slices.Sorted(maps.Keys(has)), Allowed: func(has func(string) bool) bool { return tr.decide(w, u.Resource, has).Allowed() }})
	}
}

// annotate notes the permissions for fields that the server asked for and found, as it does in its audit log.
func (tr *traffic) annotate() {
	tr.in.Checked = map[Use][]string{}
	for u, all := range tr.of {
		attrs := u.attributes(tr.in.Who)
		if tr.in.Index.Decide(attrs).Certainty == ruleset.Always {
			continue
		}
		for _, w := range all {
			tr.decide(w, u.Resource, func(verb string) bool {
				attrs.Verb = verb
				found := tr.in.Index.Decide(attrs).Certainty == ruleset.Always
				if found && !slices.Contains(tr.in.Checked[u], verb) {
					tr.in.Checked[u] = append(tr.in.Checked[u], verb)
				}
				return found
			})
		}
	}
}

func (tr *traffic) decide(w wrote, resource string, has func(verb string) bool) fieldperm.Result {
	schemas := &fieldperm.Schemas{}
	return tr.table.Decide(fieldperm.Request{Target: fieldperm.Target{Resource: fieldperm.Resource{Resource: resource}, Version: "v1"}, Mode: fieldperm.Granular,
		Check: func(verb string) (bool, error) { return has(verb), nil },
		Objects: func() (old, new *typed.TypedValue, err error) {
			if w.old != nil {
				if old, err = schemas.ObjectToTyped(&unstructured.Unstructured{Object: w.old}); err != nil {
					return nil, nil, err
				}
			}
			new, err = schemas.ObjectToTyped(&unstructured.Unstructured{Object: w.new})
			return old, new, err
		}})
}

// allowed is what becomes of a request that writes something (FP-6): by its verb or, if that has no opinion, by its
// fields.
func (tr *traffic) allowed(ix *ruleset.Index, attrs authorizer.AttributesRecord, w wrote) ruleset.Certainty {
	v := ix.Decide(attrs)
	writes := attrs.Subresource == "" && (attrs.Verb == "update" || attrs.Verb == "patch") && w.old != nil || attrs.Verb == "create" && attrs.Subresource == "" && w.old == nil
	if v.Certainty == ruleset.Always || v.Deny.Found() || v.MayDeny || !writes {
		return v.Certainty
	}
	has := func(verb string) bool {
		attrs.Verb = verb
		return ix.Decide(attrs).Certainty == ruleset.Always
	}
	if has("granular") && tr.decide(w, attrs.Resource, has).Allowed() {
		return ruleset.Always
	}
	return v.Certainty // conditions of allows may be met
}

// holds tells that a where, which holds for all that is known of the object, allows a use.
func (tr *traffic) holds(t *testing.T, v ruleset.Standing, u Use) bool {
	known := slices.Clone(tr.in.Touched[u])
	if len(known) == 0 && verbs.Updates(u.Verb) {
		return false
	}
	for _, o := range tr.in.Live[Place{u.Namespace, u.Group, u.Resource}] {
		if nameOf(o) == u.Name {
			known = append(known, o)
		}
	}
	for _, h := range v.Conditions {
		if h.Effect() == ruleset.Denies {
			return false
		}
		if h.PolicyRule() != nil && h.PolicyRule().Where != "" && len(known) > 0 && !slices.ContainsFunc(known, func(o map[string]any) bool { return !holds(t, h.PolicyRule().Where, o) }) {
			return true
		}
	}
	return false
}

var conditionCache = sync.OnceValues(func() (*expr.Cache, error) {
	c, err := expr.New(expr.Config{})
	return expr.NewCache(c), err
})

// holds decides a where as the server does.
func holds(t *testing.T, where string, o map[string]any) bool {
	t.Helper()
	cache, err := conditionCache()
	if err != nil {
		t.Fatal(err)
	}
	program, issues := cache.Stored(where, expr.Where, "").Program()
	if len(issues) > 0 {
		t.Fatalf("%s: %v", where, issues)
	}
	ok, err := program.Evaluate(t.Context(), &expr.Request{}, expr.Allow, (&compare.Witness{OldObject: o}).Data("DELETE", true))
	return ok && err == nil
}

// TR-10: traits are compared in order, labels first, and only what needs no quoting is one.
func TestTraits(t *testing.T) {
	o := map[string]any{"kind": "K", "metadata": map[string]any{"labels": map[string]any{"b": "1", "a": "1", "q": `"`}}, "type": "T", "status": map[string]any{"x": "1"},
		"spec": map[string]any{"n": int64(3), "on": true, "deep": map[string]any{"er": "v", "more": map[string]any{"x": "1"}}, "bad key": "1", "text": "a\nb"}}
	var got []string
	for _, trait := range traitsOf(o) {
		got = append(got, trait.text())
		if trait.text() != "" && !holds(t, trait.text(), o) {
			t.Errorf("%s does not hold", trait.text())
		}
	}
	want := []string{`resource.metadata.labels["a"] == "1"`, `resource.metadata.labels["b"] == "1"`, `resource.spec.deep.er == "v"`, `resource.spec.n == 3`, `resource.spec.on == true`, `resource.type == "T"`}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", got, want)
	}
}
