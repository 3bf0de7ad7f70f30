package crdschema

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// FP-3: what is lifted out and put back is what was written, whatever the schema; and without the keys the stock types
// have nothing to complain about.
func TestLiftAndShowAreInverse(t *testing.T) {
	declared := 0
	for seed := range int64(150) {
		r := rand.New(rand.NewSource(seed))
		written := asJSON(t, randomDefinition(r))
		for _, c := range []call{
			{verb: "create", contentType: "application/json", body: written},
			{verb: "update", contentType: "application/yaml", body: toYAML(t, written)},
			{verb: "patch", contentType: "application/apply-patch+yaml", body: toYAML(t, written)},
			{verb: "patch", contentType: "application/merge-patch+json", body: written},
		} {
			w, sent := c.do(t)
			if sent == nil {
				t.Fatalf("seed %d: refused: %s\n%s", seed, w.Body, written)
			}
			doc, err := parseYAML([]byte(sent.body))
			if err != nil {
				t.Fatal(err)
			}
			var crd apiextensionsv1.CustomResourceDefinition
			if unknown, err := kjson.UnmarshalStrict([]byte(asJSON(t, doc.root)), &crd); err != nil || len(unknown) > 0 {
				t.Fatalf("seed %d: %v %v\n%s", seed, err, unknown, sent.body)
			}
			if sent.carried.Annotation != crd.Annotations[Annotation] {
				t.Fatalf("seed %d: carried %s", seed, sent.carried.Annotation)
			}
			if found, err := Declared(&crd); err != nil || len(found) != strings.Count(crd.Annotations[Annotation], KeyVerb)-strings.Count(crd.Annotations[Annotation], "/"+KeyVerb) {
				t.Fatalf("seed %d: %v\n%v\n%s", seed, err, found, crd.Annotations[Annotation])
			} else {
				declared += len(found)
			}
			show(doc.root)
			if diff := cmp.Diff(written, asJSON(t, doc.root)); diff != "" {
				t.Fatalf("seed %d: %s", seed, diff)
			}
		}
	}
	if declared < 300 {
		t.Errorf("only %d declarations were made", declared)
	}
}

func toYAML(t *testing.T, text string) string {
	t.Helper()
	out, err := yaml.JSONToYAML([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// FP-3: a declaration that cannot be one is refused at its place.
func TestLiftRefuses(t *testing.T) {
	const fire = "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[fire]"
	many := strings.Builder{}
	for i := range maxEntries + 1 {
		fmt.Fprintf(&many, "f%d: {type: string, x-kubernetes-permission-verb: labels},", i)
	}
	for _, tc := range []struct{ name, spec, want string }{
		{"verb of wrong type", `fire: {x-kubernetes-permission-verb: [a]}`, fire + ".x-kubernetes-permission-verb: Invalid value: must be a string"},
		{"parameter of wrong type", `fire: {x-kubernetes-permission-parameterized-by: 1}`, fire + ".x-kubernetes-permission-parameterized-by: Invalid value: must be a string"},
		{"treatment of wrong type", `fire: {x-kubernetes-permission-parameter-treatment: {}}`, fire + ".x-kubernetes-permission-parameter-treatment: Invalid value: must be a string"},
		{"exclusive of wrong type", `fire: {x-kubernetes-permission-exclusive: "true"}`, fire + ".x-kubernetes-permission-exclusive: Invalid value: must be true or false"},
		{"unknown key", `fire: {x-kubernetes-permission-exclusiv: true}`, fire + ".x-kubernetes-permission-exclusiv: Invalid value: must be one of x-kubernetes-permission-verb"},
		{"in allOf", `fire: {allOf: [{x-kubernetes-permission-verb: labels}]}`, fire + ".allOf[0].x-kubernetes-permission-verb: Invalid value: a permission is declared where the field is described"},
		{"in not", `fire: {not: {x-kubernetes-permission-verb: labels}}`, fire + ".not.x-kubernetes-permission-verb: Invalid value: a permission is declared where"},
		{"in properties of anyOf", `fire: {anyOf: [{properties: {a: {x-kubernetes-permission-verb: labels}}}]}`, fire + ".anyOf[0].properties[a].x-kubernetes-permission-verb: Invalid value: a permission is declared where"},
		{"in a list of items", `fire: {items: [{x-kubernetes-permission-verb: labels}]}`, fire + ".items[0].x-kubernetes-permission-verb: Invalid value: a permission is declared where"},
		{"in patternProperties", `fire: {patternProperties: {a: {x-kubernetes-permission-verb: labels}}}`, fire + ".patternProperties[a].x-kubernetes-permission-verb: Invalid value: a permission is declared where"},
		{"too deep", strings.Repeat(`fire: {properties: {`, 70) + guarded + strings.Repeat(`}}`, 70), "at most 64 levels deep"},
		{"too many", many.String(), "at most 512 fields"},
		{"too large", `fire: {x-kubernetes-permission-verb: "` + strings.Repeat("x", maxRecord) + `"}`, "the limit is 65536"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, sent := call{verb: "create", contentType: "application/yaml", body: definition(tc.spec)}.do(t)
			if sent != nil || w.Code != 422 {
				t.Fatalf("%d, sent %v\n%s", w.Code, sent, w.Body)
			}
			var status struct{ Message string }
			if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil || !strings.Contains(status.Message, tc.want) {
				t.Errorf("%s\nwant %s", w.Body, tc.want)
			}
			if w.Body.Len() > 64<<10 {
				t.Errorf("the answer has %d bytes", w.Body.Len())
			}
		})
	}
	root := tree(t, definition(guarded))
	at0 := root.(map[string]any)["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	for _, tc := range []struct {
		name   string
		change func()
		want   string
	}{
		{"for the whole object", func() { at(at0, "schema", "openAPIV3Schema")[KeyVerb] = "labels" }, "not for the whole object"},
		{"version without a name", func() { delete(at0, "name") }, "spec.versions[0].name: Required value"},
		{"version twice", func() { at0["name"] = "v2" }, `spec.versions[1].name: Duplicate value: "v2"`},
	} {
		root = tree(t, definition(guarded))
		at0 = root.(map[string]any)["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
		tc.change()
		if errs := lift(root).errs; len(errs) != 1 || !strings.Contains(errs.ToAggregate().Error(), tc.want) {
			t.Errorf("%s: %v", tc.name, errs)
		}
	}
}
