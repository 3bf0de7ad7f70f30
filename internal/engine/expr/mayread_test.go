package expr

import (
	"fmt"
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/test/law"
)

// HF-5: an expression that may read a field is found, whatever form it has.
func TestMayRead(t *testing.T) {
	for source, want := range map[string]bool{
		`object.metadata.name == "x"`:                              false,
		`object.data.password == "x"`:                              true,
		`object.data == oldObject.data`:                            true,
		`"data" in object`:                                         true,
		`has(oldObject.data)`:                                      true,
		`object["data"]["x"] == "y"`:                               true,
		`object[request.name] == "y"`:                              true,
		`object == oldObject`:                                      true,
		`object.?data.orValue({}).size() > 1`:                      true,
		`resource.type == "Opaque"`:                                false,
		`[object, oldObject].exists(o, o.data.x == "y")`:           true,
		`object.metadata.labels.exists(k, k == "data")`:            false,
		`object.metadata.labels[object.data.x] == "y"`:             true,
		`request.userInfo.username == "x" && has(object.metadata)`: false,
		`{"a": object.data}.a == "x"`:                              true,
		`not an expression`:                                        true,
		`object.metadata.name.startsWith(oldObject.data.x)`:        true,
		`"x" in object.data`:                                       true,
		`object.data.x in ["x"]`:                                   true,
		`"data" in object.metadata.labels`:                         false,
		`object.?metadata.orValue(object.data).x == "y"`:           true,
		`object.?metadata.orValue({}).name == "x"`:                 false,
	} {
		if got := MayRead(source, Field{Path: []string{"data"}}); got != want {
			t.Errorf("%s: %v", source, got)
		}
	}
	values := Field{Path: []string{"spec", "containers", "", "env", "", "value"}}
	if !MayRead(`object.spec.containers.all(c, c.image == "x")`, values) || !MayRead(`{"name": "c"} in object.spec.containers`, values) ||
		!MayRead(`has(object.spec)`, values) || MayRead(`object.spec.nodeName == "x"`, values) {
		t.Error("lists")
	}
}

// HF-5: of an annotation that repeats hidden fields, others can be told apart, and that there are annotations.
func TestMayReadOneOfMany(t *testing.T) {
	for source, want := range map[string]bool{
		`object.metadata.annotations["team"] == "x"`:                                        false,
		`has(object.metadata.annotations) && object.metadata.annotations["team"] == "x"`:    false,
		`has(object.metadata) && has(object.metadata.annotations.team)`:                     false,
		`"team" in object.metadata.annotations`:                                             false,
		`"team" in object.metadata.?annotations.orValue({})`:                                false,
		`object.metadata.?annotations[?"team"].orValue("") == "x"`:                          false,
		`object.metadata.annotations["applied"] == "x"`:                                     true,
		`"applied" in object.metadata.annotations`:                                          true,
		`has(object.metadata.annotations.applied)`:                                          true,
		`object.metadata.annotations[request.name] == "x"`:                                  true,
		`request.name in object.metadata.annotations`:                                       true,
		`object.metadata.annotations.exists(k, k == "team")`:                                true,
		`object.metadata.annotations == oldObject.metadata.annotations`:                     true,
		`object.metadata.?annotations.orValue({}).size() > 1`:                               true,
		`object.metadata.?labels.orValue(object.metadata.annotations)["applied"] == "x"`:    true,
		`object.metadata == oldObject.metadata`:                                             true,
		`oldObject.metadata.?annotations.orValue({})[?"applied"].orValue("").contains("x")`: true,
		`object.metadata.labels[object.metadata.annotations["applied"]] == "x"`:             true,
		`object.metadata.annotations["applied"] in ["x"]`:                                   true,
		`has(object.metadata.annotations) ? object.metadata.annotations.size() > 1 : false`: true,
	} {
		if got := MayRead(source, Field{Path: []string{"metadata", "annotations", "applied"}, Beside: true}); got != want {
			t.Errorf("%s: %v", source, got)
		}
	}
	if !MayRead(`has(object.metadata.annotations)`, Field{Path: []string{"metadata", "annotations", "applied"}}) {
		t.Error("that there are annotations may tell a hidden one")
	}
}

// HF-5: so is one that may read a field of the namespace.
func TestMayReadNamespace(t *testing.T) {
	for source, want := range map[string]bool{
		`namespaceObject.metadata.annotations["a"] == "x"`:          true,
		`namespaceObject.metadata.annotations[request.name] == "x"`: true,
		`namespaceObject == namespaceObject`:                        true,
		`namespaceObject.metadata.annotations.all(k, k == "x")`:     true,
		`namespaceObject.metadata.annotations["b"] == "x"`:          false,
		`namespaceObject.metadata.labels["a"] == "x"`:               false,
		`object.metadata.annotations["a"] == "x"`:                   false,
	} {
		if got := MayReadNamespace(source, Field{Path: []string{"metadata", "annotations", "a"}}); got != want {
			t.Errorf("%s: %v", source, got)
		}
	}
	if MayRead(`namespaceObject.data == "x"`, Field{Path: []string{"data"}}) {
		t.Error("the namespace is not the object")
	}
}

// HF-5: of two objects that differ in a field, an expression that may not read it says the same.
func TestWhatMayNotReadDoesNotTell(t *testing.T) {
	c := compiler(t)
	fields := [][]string{{"s"}, {"n"}, {"flag"}, {"m"}, {"m", "k"}, {"m", "a"}, {"list"}}
	told := 0
	law.Rounds(t, 400, func(seed int64) int {
		rnd, kind := seeded(seed), Kind(seed&1)
		source := genExpr(rnd, kind, true)
		program, issues := c.Compile(source, Options{Kind: kind})
		if issues != nil {
			return 0
		}
		aimed := program.Aimed(connect.Where(func(connect.Connection) bool { return true }))
		// about is what a where says of a target (CA-26).
		about := func(object map[string]any) string {
			if object == nil || kind != Where {
				return ""
			}
			holds, err := aimed.Evaluate(t.Context(), &Request{Verb: "create", Resource: "pods", Subresource: "exec"}, Allow,
				NewData(DataConfig{Operation: "CONNECT", Target: Reached{Object: &unstructured.Unstructured{Object: object}}}))
			return fmt.Sprint(holds, err != nil)
		}
		n, field := newNaive(t, c, kind, source), pick(rnd, fields...)
		may := MayRead(source, Field{Path: field})
		for range 30 {
			one := genFacts(rnd)
			other := one
			other.object, other.old = withField(rnd, one.object, field), withField(rnd, one.old, field)
			a, b := n.answer(one, Allow), n.answer(other, Allow)
			if x, y := about(one.object), about(other.object); x != y && !may {
				t.Fatalf("seed %d: %s tells %v of a target: %s for %v, %s for %v", seed, source, field, x, one.object, y, other.object)
			}
			if a == b {
				continue
			}
			if told++; !may {
				t.Fatalf("seed %d: %s tells %v: %v for %v, %v\n%v for %v, %v", seed, source, field, a, one.object, one.old, b, other.object, other.old)
			}
		}
		return 30
	})
	if told == 0 {
		law.TooFew(t, "no expression told a field: the generator is of no use")
	}
}

// withField is an object with another value of a field, or none.
func withField(c chooser, o map[string]any, field []string) map[string]any {
	if o == nil {
		return nil
	}
	changed := maps.Clone(o)
	if value, ok := genObject(c)[field[0]]; len(field) == 1 && ok {
		changed[field[0]] = value
	} else if len(field) == 1 {
		delete(changed, field[0])
	} else if inner, ok := o[field[0]].(map[string]any); ok {
		inner = maps.Clone(inner)
		inner[field[1]] = pick[any](c, "a", "b", int64(1), true, nil)
		changed[field[0]] = inner
	}
	return changed
}
