package crdschema

import (
	"context"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"proviso.dev/proviso/internal/request/requestctx"
)

// warnings collects what a request is warned of.
type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

// admit runs a write through the plugin and returns what is stored then, as a list of declarations.
func admit(t testing.TB, ctx context.Context, old, new *apiextensions.CustomResourceDefinition, subresource string) (string, warnings, error) {
	t.Helper()
	var seen warnings
	ctx = request.WithUser(warning.WithWarningRecorder(ctx, &seen), &user.DefaultInfo{Name: "alice"})
	op, before := admission.Create, runtime.Object(nil)
	if old != nil {
		op, before = admission.Update, old
	}
	attrs := admission.NewAttributesRecord(new, before, apiextensions.Kind("CustomResourceDefinition").WithVersion("v1"), "", new.Name,
		apiextensions.Resource("customresourcedefinitions").WithVersion("v1"), subresource, op, nil, false, nil)
	p := &Plugin{Keeper: Stateless{}}
	if err := p.Admit(ctx, attrs, nil); err != nil {
		return "", seen, err
	}
	if err := p.Validate(requestctx.WithNotes(ctx), attrs, nil); err != nil {
		t.Errorf("what was admitted is not valid: %v", err)
	}
	return declares(t, new), seen, nil
}

// declares is a short form of what a definition declares.
func declares(t testing.TB, crd *apiextensions.CustomResourceDefinition) string {
	t.Helper()
	r, err := decode(crd.Annotations[Annotation])
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for i := range crd.Spec.Versions {
		v := crd.Spec.Versions[i].Name
		for at, e := range r[v] {
			all = append(all, fmt.Sprintf("%s=%s!%v(%s)", at.label(v), e.text(KeyVerb), e[KeyExclusive], e.text(KeyParameter)))
		}
	}
	return strings.Join(all, " ")
}

// written is a definition as the filter sends it on.
func written(t testing.TB, text string) (context.Context, *apiextensions.CustomResourceDefinition) {
	t.Helper()
	root := tree(t, text)
	l := lift(root)
	c := &carried{Versions: true}
	if l.carries {
		annotation, err := l.record.encode()
		if err != nil {
			t.Fatal(err)
		}
		c.Annotation = annotation
	}
	crd := internal(t, asJSON(t, root))
	if l.carries {
		crd.Annotations = map[string]string{Annotation: c.Annotation}
	}
	return requestctx.WithDefinition(t.Context(), c), crd
}

// FP-3: what a write leaves stored. FP-1: names are checked. FP-10: versions agree.
func TestSettle(t *testing.T) {
	const (
		both       = "v1 .spec.fire=example.com/fire!true() v2 .spec.fire=example.com/fire!true()"
		more       = guarded + `, level: {type: string, x-kubernetes-permission-verb: example.com/level}`
		moreLeft   = guarded + `, level: {type: string}`
		inOne      = `spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[fire]`
		removed    = `fire: {type: boolean, x-kubernetes-permission-verb: null}`
		keys       = `tags: {type: object, additionalProperties: {type: string, x-kubernetes-permission-verb: example.com/tag, x-kubernetes-permission-parameterized-by: key}}`
		conditions = `conditions: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [type], items: {type: object, required: [type], properties: {type: {type: string}}, x-kubernetes-permission-verb: example.com/part, x-kubernetes-permission-parameterized-by: condition-type}}`
		treatment  = `fire: {type: boolean, x-kubernetes-permission-verb: example.com/fire, x-kubernetes-permission-parameter-treatment: slash-delimited-prefix}`
	)
	named := func(name string) string { return `fire: {type: boolean, x-kubernetes-permission-verb: ` + name + `}` }
	for _, tc := range []struct {
		name       string
		stored, to string
		want       string
		warns      string
		err        string
	}{
		{name: "create", to: definition(guarded), want: both},
		{name: "create with nothing", to: definition(plain)},
		{name: "create with null", to: definition(removed)},
		{name: "same again", stored: definition(guarded), to: definition(guarded), want: both},
		{name: "declare later", stored: definition(plain), to: definition(guarded), want: both},
		{name: "left out", stored: definition(guarded), to: definition(plain), want: both, warns: "are kept: v1 .spec.fire, v2 .spec.fire; to remove one, write null"},
		{name: "null", stored: definition(guarded), to: definition(removed)},
		{name: "one key left out", stored: definition(guarded), to: definition(named("example.com/fire")), want: both, warns: "v1 .spec.fire x-kubernetes-permission-exclusive"},
		{name: "one key null", stored: definition(guarded), to: definition(named("example.com/fire, x-kubernetes-permission-exclusive: null")),
			want: "v1 .spec.fire=example.com/fire!<nil>() v2 .spec.fire=example.com/fire!<nil>()"},
		{name: "exclusive false", stored: definition(guarded), to: definition(named("example.com/fire, x-kubernetes-permission-exclusive: false")),
			want: "v1 .spec.fire=example.com/fire!false() v2 .spec.fire=example.com/fire!false()"},
		{name: "another name", stored: definition(guarded), to: definition(named("example.com/other, x-kubernetes-permission-exclusive: true")),
			want: "v1 .spec.fire=example.com/other!true() v2 .spec.fire=example.com/other!true()"},
		{name: "one field left out", stored: definition(strings.ReplaceAll(more, "example.com/fire", "example.com/level")), to: definition(strings.ReplaceAll(moreLeft, "example.com/fire", "example.com/level")),
			want: "*", warns: "v1 .spec.level, v2 .spec.level"},
		{name: "field removed", stored: definition(guarded), to: definition(`level: {type: string}`)},
		{name: "version removed", stored: definition(guarded), to: definition(guarded)[:strings.Index(definition(guarded), "  - name: v2")], want: "v1 .spec.fire=example.com/fire!true()"},
		{name: "version added by one who knows nothing", stored: definition(guarded)[:strings.Index(definition(guarded), "  - name: v2")], to: definition(plain), want: both, warns: "v2 .spec.fire"},
		{name: "parameter", to: definition(keys), want: "v1 .spec.tags[]=example.com/tag!<nil>(key) v2 .spec.tags[]=example.com/tag!<nil>(key)"},
		{name: "parameter in the words of the KEP", to: definition(strings.Replace(keys, "-by: key", "-by: label-key", 1)), want: "v1 .spec.tags[]=example.com/tag!<nil>(label-key) v2 .spec.tags[]=example.com/tag!<nil>(label-key)"},
		// FP-19: the type of a condition is that of an object.
		{name: "condition-type", to: definition(conditions), want: "v1 .spec.conditions[]=example.com/part!<nil>(condition-type) v2 .spec.conditions[]=example.com/part!<nil>(condition-type)"},
		{name: "condition-type of strings", to: definition(strings.Replace(keys, "-by: key", "-by: condition-type", 1)), err: `x-kubernetes-permission-parameterized-by: Invalid value: "condition-type": needs entries that are objects with a field type`},
		{name: "condition-type of a number", to: definition(strings.Replace(conditions, "type: {type: string}", "type: {type: integer}", 1)), err: "needs entries that are objects with a field type"},
		{name: "condition-type without brackets", to: definition(named("example.com/a, x-kubernetes-permission-parameterized-by: condition-type")), err: "needs entries that are objects"},
		{name: "shipped name", to: definition(named("nodeAssignment")), want: "v1 .spec.fire=nodeAssignment!<nil>() v2 .spec.fire=nodeAssignment!<nil>()"},

		{name: "no domain", to: definition(named("fire")), err: inOne + `.x-kubernetes-permission-verb: Invalid value: "fire": permission "fire" must have a domain prefix`},
		{name: "not camel case", to: definition(named("example.com/Fire")), err: "must be in lowerCamelCase"},
		{name: "dots", to: definition(named("example.com/spec.fire")), err: "must not contain dots"},
		{name: "empty", to: definition(named(`""`)), err: "permission must have a name"},
		{name: "parameter without brackets", to: definition(named("example.com/a, x-kubernetes-permission-parameterized-by: key")), err: inOne + ": Invalid value: parameter from key needs a field with brackets"},
		{name: "label-key without brackets", to: definition(named("example.com/a, x-kubernetes-permission-parameterized-by: label-key")), err: "parameter from key needs a field with brackets"},
		{name: "exclusive-when alone", to: definition(named("example.com/a, x-kubernetes-permission-exclusive-when: self")), err: "exclusiveWhen must come with exclusive: true"},
		{name: "exclusive-when that does not compile", to: definition(named("example.com/a, x-kubernetes-permission-exclusive: true, x-kubernetes-permission-exclusive-when: self")), err: "x-kubernetes-permission-exclusive-when: Invalid value"},
		{name: "shipped with a parameter", to: definition(named("label")), err: "must have a parameter"},
		{name: "unknown treatment", to: definition(named("example.com/a, x-kubernetes-permission-parameterized-by: value, x-kubernetes-permission-parameter-treatment: upper")), err: `parameter treatment "upper"`},
		{name: "CEL without a compiler", to: definition(named("example.com/a, x-kubernetes-permission-parameterized-by: value + 'x'")), err: "x-kubernetes-permission-parameterized-by: Invalid value"},
		{name: "no verb", to: definition(`fire: {type: boolean, x-kubernetes-permission-exclusive: true}`), err: inOne + ".x-kubernetes-permission-verb: Required value"},
		{name: "treatment of nothing", to: definition(treatment), err: inOne + ".x-kubernetes-permission-parameterized-by: Required value"},
		{name: "identity", to: strings.ReplaceAll(definition(plain), "properties: {spec:", "properties: {kind: {type: string, x-kubernetes-permission-verb: example.com/kind}, spec:"), err: "never needs a permission"},
		{name: "in one version only", to: fmt.Sprintf(rocket, guarded, plain), err: inOne + `: Invalid value: "example.com/fire": version v2 has the same field and declares nothing, or something else`},
		{name: "exclusive in one version only", to: fmt.Sprintf(rocket, guarded, named("example.com/fire")), err: "a permission is the same in every version"},
		{name: "another version has no such field", to: fmt.Sprintf(rocket, guarded, "level: {type: string}"), err: "version v2 does not declare this permission in the same way"},
		{name: "nor does one that is not served", to: strings.Replace(fmt.Sprintf(rocket, guarded, "level: {type: string}"), "served: true\n    storage: false", "served: false\n    storage: false", 1),
			want: "v1 .spec.fire=example.com/fire!true()"},
		{name: "elsewhere in another version", to: fmt.Sprintf(rocket, guarded, strings.Replace(guarded, "fire:", "ignite:", 1)), want: "v1 .spec.fire=example.com/fire!true() v2 .spec.ignite=example.com/fire!true()"},
		{name: "not in the storage version", to: fmt.Sprintf(rocket, "level: {type: string}", guarded), err: "version v1 does not declare this permission"},
		{name: "null in one version only", stored: definition(guarded), to: fmt.Sprintf(rocket, plain, removed), err: "a permission is the same in every version"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var old *apiextensions.CustomResourceDefinition
			if tc.stored != "" {
				old = internal(t, tc.stored)
			}
			ctx, new := written(t, tc.to)
			got, seen, err := admit(t, ctx, old, new, "")
			if tc.err != "" {
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("stored %q, error %v\nwant %s", got, err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == "*" {
				tc.want = declares(t, old)
				got, tc.want = sorted(got), sorted(tc.want)
			}
			if got != tc.want {
				t.Errorf("stored %q, want %q", got, tc.want)
			}
			if (tc.warns == "") != (len(seen) == 0) || tc.warns != "" && !strings.Contains(seen[0], tc.warns) {
				t.Errorf("warnings %q, want %q", seen, tc.warns)
			}
		})
	}
}

func sorted(text string) string {
	parts := strings.Fields(text)
	counts := map[string]int{}
	for _, p := range parts {
		counts[p]++
	}
	return fmt.Sprint(counts)
}

// FP-3: a client that does not know the keys keeps what is declared, whatever it writes and by whatever way, and nobody
// writes the annotation by hand.
func TestTypedClients(t *testing.T) {
	stored := internal(t, definition(guarded))
	without := func(change func(*apiextensions.CustomResourceDefinition)) *apiextensions.CustomResourceDefinition {
		crd := stored.DeepCopy()
		crd.Annotations = nil
		if change != nil {
			change(crd)
		}
		return crd
	}
	annotated := func(text string) *apiextensions.CustomResourceDefinition {
		return without(func(c *apiextensions.CustomResourceDefinition) { c.Annotations = map[string]string{Annotation: text} })
	}
	forged := `{"v1":{"/properties/spec/properties/fire":{"x-kubernetes-permission-verb":"labels"}}}`
	for _, tc := range []struct {
		name        string
		old, new    *apiextensions.CustomResourceDefinition
		subresource string
		warns       bool
		refused     bool
	}{
		{"without the annotation", stored, without(nil), "", true, false},
		{"with it, as it was read", stored, stored.DeepCopy(), "", false, false},
		{"finalizer", stored, without(func(c *apiextensions.CustomResourceDefinition) { c.Finalizers = []string{"a/b"} }), "", true, false},
		{"status without", stored, without(nil), "status", true, false},
		{"status with", stored, stored.DeepCopy(), "status", false, false},
		{"status with another", stored, annotated(forged), "status", false, false},
		{"written by hand", stored, annotated(forged), "", false, true},
		{"emptied by hand", stored, annotated(""), "", false, true},
		{"by hand on create", nil, annotated(forged), "", false, true},
		{"by hand where there was none", without(nil), annotated(forged), "", false, true},
		{"by hand in the status where there was none", without(nil), annotated(forged), "status", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, seen, err := admit(t, t.Context(), tc.old, tc.new, tc.subresource)
			if tc.refused {
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "the server keeps this annotation") {
					t.Errorf("%q, %v", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := declares(t, tc.old); got != want {
				t.Errorf("stored %q, want %q", got, want)
			}
			if tc.warns != (len(seen) > 0) {
				t.Errorf("warnings %q", seen)
			}
		})
	}

	// The last word is validation's: what another plugin makes of it follows the same rules.
	for _, tc := range []struct{ text, subresource, want string }{
		{forged, "", "must have no parameter"},
		{forged, "status", "the server keeps this annotation"},
		{`{`, "", "cannot be read"},
	} {
		attrs := admission.NewAttributesRecord(annotated(strings.ReplaceAll(tc.text, "labels", "label")), stored, apiextensions.Kind("CustomResourceDefinition").WithVersion("v1"), "", "x",
			apiextensions.Resource("customresourcedefinitions").WithVersion("v1"), tc.subresource, admission.Update, nil, false, nil)
		if err := (&Plugin{Keeper: Stateless{}}).Validate(requestctx.WithNotes(t.Context()), attrs, nil); err == nil || !strings.Contains(err.Error(), strings.Replace(tc.want, "no parameter", "a parameter", 1)) {
			t.Errorf("%s: %v", tc.text, err)
		}
	}
	// Nor does a plugin in between get away with removing what the request declares.
	ctx, new := written(t, definition(guarded))
	new.Annotations = nil
	if _, _, err := admit(t, ctx, nil, new, ""); err == nil {
		t.Error("declarations got lost on their way")
	}
}

// FP-6: a caller who has rights to single fields only changes what a schema declares with the right to the schema, and
// not with the right to annotations, which is only where it is kept.
func TestGranularCallers(t *testing.T) {
	stored := internal(t, definition(guarded))
	changed := internal(t, definition(strings.ReplaceAll(guarded, "true", "false")))
	for _, tc := range []struct {
		name     string
		granular bool
		new      *apiextensions.CustomResourceDefinition
		refused  bool
	}{
		{"general", false, changed, false}, {"granular", true, changed, true}, {"granular, nothing declared", true, stored.DeepCopy(), false},
	} {
		ctx := requestctx.WithNotes(t.Context())
		if tc.granular {
			requestctx.NotesOf(ctx).Granular()
		}
		attrs := admission.NewAttributesRecord(tc.new, stored, apiextensions.Kind("CustomResourceDefinition").WithVersion("v1"), "", "x",
			apiextensions.Resource("customresourcedefinitions").WithVersion("v1"), "", admission.Update, nil, false, nil)
		if err := (&Plugin{Keeper: Stateless{}}).Validate(ctx, attrs, nil); apierrors.IsForbidden(err) != tc.refused || !tc.refused && err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// FP-3: for every schema and whatever is stored, a write without keys changes nothing, saying the same again changes
// nothing, and nulls at every place leave nothing.
func TestSettleLaws(t *testing.T) {
	kept := 0
	for seed := range int64(150) {
		r := rand.New(rand.NewSource(seed))
		root := randomDefinition(r)
		text := asJSON(t, root)
		crd := internal(t, text)
		l := lift(tree(t, text))
		kept += l.record.size()
		want, err := l.record.encode()
		if err != nil {
			t.Fatal(err)
		}
		nulls := record{}
		for version, places := range l.record {
			for at := range places {
				nulls.put(version, at, KeyVerb, nil)
			}
		}
		for _, tc := range []struct {
			name    string
			written record
			want    string
			kept    int
		}{
			{"none", nil, want, l.record.size()}, {"same", l.record, want, 0}, {"null", nulls, "", 0},
		} {
			s := settle(l.record, tc.written, crd, crd)
			if got, err := s.record.encode(); err != nil || got != tc.want || len(s.kept) != tc.kept {
				t.Fatalf("seed %d, %s: %v, kept %v\n%s\nwant %s", seed, tc.name, err, s.kept, got, tc.want)
			}
		}
	}
	if kept < 100 {
		t.Errorf("only %d declarations were made", kept)
	}
}
