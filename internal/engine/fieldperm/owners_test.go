package fieldperm

import (
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

func pairOf(old, new *typed.TypedValue) func() (*typed.TypedValue, *typed.TypedValue, error) {
	return func() (*typed.TypedValue, *typed.TypedValue, error) { return old, new, nil }
}

// manages is an entry of managedFields.
func manages(manager, operation, version, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationType(operation), APIVersion: version, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
}

// FP-7: who manages a field may change only with the permission for it, or with its value.
func TestOwners(t *testing.T) {
	const v1 = "example.com/v1"
	const a, ab = `{"f:spec":{"f:limits":{"f:a":{}}}}`, `{"f:spec":{"f:limits":{"f:a":{},"f:b":{}}}}`
	flux, fluxAB := manages("flux", "Apply", v1, a), manages("flux", "Apply", v1, ab)
	human := manages("human", "Update", v1, `{"f:spec":{"f:limits":{"f:b":{}}}}`)
	list := func(entries ...metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry { return entries }
	part := func(fields string) metav1.ManagedFieldsEntry {
		return manages("own", "Apply", v1, `{"f:spec":{"f:parts":{"k:{\"name\":\"p\"}":`+fields+`}}}`)
	}
	const object = "spec: {limits: {a: '1', b: '1'}, tags: [t], parts: [{name: p, size: 1}, {name: q}], colour: {r: 1, secret: s}, config: {x: {y: 1}}}"
	const says = ": the request leaves its value as it is and would change its managers, the entry of "
	needsB := `field .spec.limits[b] needs granular:specification` + says
	for _, tc := range []struct {
		name        string
		before      []metav1.ManagedFieldsEntry
		after       []metav1.ManagedFieldsEntry
		new         string // object if empty
		holds       string
		want        string // in granular mode
		wantGeneral string
		fails       bool
	}{
		{name: "the same", before: list(flux, human), after: list(human, flux)},
		{name: "gained", before: list(flux, human), after: list(fluxAB, human), want: needsB + `"flux" (Apply) in managedFields`},
		{name: "lost", before: list(flux, human), after: list(flux), want: needsB + `"human" (Update) in managedFields`},
		{name: "with the permission", before: list(flux, human), after: list(fluxAB), holds: "granular:specification"},
		{name: "with the value", before: list(flux, human), after: list(fluxAB), holds: "granular:ex.com/b",
			new: "spec: {limits: {a: '1', b: '2'}, tags: [t], parts: [{name: p, size: 1}, {name: q}], colour: {r: 1, secret: s}, config: {x: {y: 1}}}"},
		{name: "another version", before: list(flux), after: list(manages("flux", "Apply", "example.com/v0", a)),
			want: `field .spec.limits[a] needs granular:specification` + says + `"flux" (Apply) in managedFields`},
		{name: "a version that is gone", before: list(manages("x", "Update", "gone/v1", ab)), after: nil},
		{name: "gained in a version that is not there", before: nil, after: list(manages("x", "Update", "gone/v1", ab)), fails: true},
		{name: "a member of a set", before: nil, after: list(manages("x", "Apply", v1, `{"f:spec":{"f:tags":{"v:\"t\"":{}}}}`)), want: `field .spec.tags[t] needs granular:specification` + says + `"x" (Apply) in managedFields`},
		{name: "an element's key and place alone", before: nil, after: list(part(`{".":{},"f:name":{}}`))},
		{name: "an element's field", before: nil, after: list(part(`{".":{},"f:name":{},"f:size":{}}`)), want: `field .spec.parts[p].size needs granular:specification` + says + `"own" (Apply) in managedFields`},
		{name: "an element that is only its key", before: nil, after: list(manages("own", "Apply", v1, `{"f:spec":{"f:parts":{"k:{\"name\":\"q\"}":{".":{},"f:name":{}}}}}`)),
			want: `field .spec.parts[q] needs granular:specification` + says + `"own" (Apply) in managedFields`},
		{name: "a parent", before: nil, after: list(manages("own", "Apply", v1, `{"f:spec":{".":{},"f:limits":{".":{}}}}`))},
		{name: "a value around an exclusive one", before: nil, after: list(manages("own", "Apply", v1, `{"f:spec":{"f:colour":{}}}`)), holds: "granular:specification",
			want: `field .spec.colour.secret needs granular:ex.com/secret` + says + `"own" (Apply) in managedFields`, wantGeneral: `field .spec.colour.secret needs granular:ex.com/secret` + says + `"own" (Apply) in managedFields`},
		{name: "inside of what has no schema", before: nil, after: list(manages("own", "Apply", v1, `{"f:spec":{"f:config":{"f:x":{"f:y":{}}}}}`)), want: `field .spec.config.x.y needs granular:specification` + says + `"own" (Apply) in managedFields`},
		{name: "a field that is not there", before: nil, after: list(manages("own", "Apply", v1, `{"f:spec":{"f:level":{}}}`)), want: `field .spec.level needs granular:specification` + says + `"own" (Apply) in managedFields`},
		{name: "before the first apply", before: nil, after: list(manages("before-first-apply", "Update", v1, ab))},
		{name: "before the first apply, later", before: list(flux), after: list(flux, manages("before-first-apply", "Update", v1, ab)), want: `field .spec.limits[a] needs granular:specification` + says + `"before-first-apply" (Update) in managedFields`},
		{name: "nonsense", before: nil, after: list(manages("x", "Apply", v1, `{"k:{bad":{}}`)), fails: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table := mustTable(t, permissionObject("s", ".spec.colour.secret", "ex.com/secret", exclusive, "widgets.example.com"),
				permissionObject("b", ".spec.limits[b]", "ex.com/b", nil, "widgets.example.com"))
			if tc.want == needsB+`"flux" (Apply) in managedFields` || tc.want == needsB+`"human" (Update) in managedFields` {
				tc.want = "field .spec.limits[b] needs granular:ex.com/b (or granular:specification)" + tc.want[len("field .spec.limits[b] needs granular:specification"):]
			}
			if tc.new == "" {
				tc.new = object
			}
			old, new := widget(t, object), widget(t, tc.new)
			decide := func(mode Mode) Result {
				return table.Decide(Request{
					Target: Target{Resource: widgets}, Mode: mode, Check: holds(tc.holds).check, Objects: pairOf(old, new),
					Managers: func() (before, after []metav1.ManagedFieldsEntry) { return tc.before, tc.after },
					Versioned: func(version string) (before, after *typed.TypedValue, err error) {
						if version == "gone/v1" {
							return nil, nil, errors.New("gone")
						}
						return old, new, nil
					},
				})
			}
			if tc.fails {
				if r := decide(Granular); r.Err == nil || r.Allowed() {
					t.Errorf("got %+v, want an error", r)
				}
				return
			}
			expect(t, decide(Granular), tc.want)
			expect(t, decide(General), tc.wantGeneral)
		})
	}
}

// Kubernetes merges the oldest of more than ten updaters: that is not the caller's doing, and nothing else passes for
// it.
func TestMergedUpdaters(t *testing.T) {
	const v1 = "example.com/v1"
	field := func(i int) string { return fmt.Sprintf(`{"f:spec":{"f:limits":{"f:k%d":{}}}}`, i) }
	var before []metav1.ManagedFieldsEntry
	for i := range 10 {
		before = append(before, manages(fmt.Sprintf("m%d", i), "Update", v1, field(i)))
	}
	collected := manages("ancient-changes", "Update", v1, `{"f:spec":{"f:limits":{"f:k0":{},"f:k1":{}}}}`)
	for name, tc := range map[string]struct {
		before, after []metav1.ManagedFieldsEntry
		same          bool
	}{
		"merged":               {before, append(before[2:10:10], collected), true},
		"too few to be merged": {before[:9], append(before[2:9:9], collected), false},
		"one is lost":          {before, append(before[3:10:10], collected), false},
		"one is gained":        {before, append(before[1:10:10], collected), false},
		"an applier's":         {append(before[:10:10], manages("flux", "Apply", v1, field(0))), append(before[2:10:10], collected), false},
		"under another name":   {before, append(before[2:10:10], manages("mine", "Update", v1, `{"f:spec":{"f:limits":{"f:k0":{},"f:k1":{}}}}`)), false},
	} {
		if got := SameManagers(tc.before, tc.after); got != tc.same {
			t.Errorf("%s: %v", name, got)
		}
	}
}
