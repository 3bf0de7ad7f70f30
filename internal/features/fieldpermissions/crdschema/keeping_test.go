package crdschema

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"

	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/kept"
)

// memory keeps one record.
type memory struct {
	rec   kept.Record
	fail  error
	asked int
}

func (m *memory) Known(types.UID) (kept.Record, bool) { return m.rec, !m.rec.IsEmpty() }

func (m *memory) Read(context.Context, types.UID) (kept.Record, error) { return m.rec, m.fail }

func (m *memory) Change(ctx context.Context, _ types.UID, change func(context.Context, *kept.Record) error) error {
	if m.fail != nil {
		return m.fail
	}
	rec := m.rec
	if err := change(ctx, &rec); err != nil {
		return err
	}
	m.rec = rec
	return nil
}

func (m *memory) Create(ctx context.Context, uid types.UID, _ string, change func(context.Context, *kept.Record) error) error {
	return m.Change(ctx, uid, change)
}

// may says who may escalate.
type may struct {
	*memory
	err error
}

func (m may) MayDeclare(context.Context) error {
	m.asked++
	return m.err
}

func external(t testing.TB, crd *apiextensions.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	out := &apiextensionsv1.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_apiextensions_CustomResourceDefinition_To_v1_CustomResourceDefinition(crd, out, nil); err != nil {
		t.Fatal(err)
	}
	return out
}

// both is a definition of two versions, in which each has properties of its own.
func both(t testing.TB, v1, v2 string) *apiextensions.CustomResourceDefinition {
	return internal(t, fmt.Sprintf(rocket, v1, v2))
}

// FP-18: what is missing is what was there when somebody looked last, and is not any more.
func TestLost(t *testing.T) {
	const other = `fire: {type: boolean, x-kubernetes-permission-verb: example.com/other}, aim: {type: string}`
	was := both(t, guarded+", aim: {type: string}", guarded)
	for _, tc := range []struct {
		name, want, problem string
		now                 *apiextensions.CustomResourceDefinition
		rec                 kept.Record
	}{
		{name: "nothing kept", now: both(t, plain, plain)},
		{name: "as it was", now: was, rec: kept.Record{Last: kept.Declared{Text: was.Annotations[Annotation]}}},
		{name: "keys are gone", now: both(t, plain, plain), rec: kept.Record{Last: kept.Declared{Text: was.Annotations[Annotation]}}, want: "v1 .spec.fire v2 .spec.fire"},
		{name: "more was added unseen", now: both(t, guarded+", aim: {type: string, x-kubernetes-permission-verb: example.com/aim}", guarded), rec: kept.Record{Last: kept.Declared{Text: was.Annotations[Annotation]}}},
		{name: "keys of one version are gone", now: both(t, guarded, plain), rec: kept.Record{Last: kept.Declared{Text: was.Annotations[Annotation]}}, want: "v2 .spec.fire"},
		{name: "another permission unseen", now: both(t, other, guarded), rec: kept.Record{Last: kept.Declared{Text: was.Annotations[Annotation]}}, want: "v1 .spec.fire"},
		{name: "the field is gone", now: both(t, "aim: {type: string}", guarded), rec: kept.Record{Last: kept.Declared{Text: was.Annotations[Annotation]}}, want: "v1 .spec.fire", problem: "a field that the schema no longer has: v1 .spec.fire"},
		{name: "a write that was stored", now: both(t, plain, plain), rec: kept.Record{Last: kept.Declared{Text: was.Annotations[Annotation]}, Next: []kept.Next{{Declared: kept.Declared{Text: ""}}}}},
		{name: "a write that was not stored", now: both(t, plain, plain), rec: kept.Record{Next: []kept.Next{{Declared: kept.Declared{Text: was.Annotations[Annotation]}}}, Last: kept.Declared{Text: "{}"}}, want: "v1 .spec.fire v2 .spec.fire"},
		{name: "known to be missing", now: both(t, plain, plain), rec: kept.Record{Last: kept.Declared{Missing: []string{was.Annotations[Annotation]}}}, want: "v1 .spec.fire v2 .spec.fire"},
	} {
		lost := LostFrom(external(t, tc.now), tc.rec)
		if got := strings.Join(lost.Fields, " "); got != tc.want || !strings.Contains(lost.Problem, tc.problem) || tc.problem == "" && lost.Problem != "" {
			t.Errorf("%s: missing is %q, %q; want %q", tc.name, got, lost.Problem, tc.want)
		}
		if (lost.Message() == "") != (tc.want == "") || len(lost.Declared) != len(lost.Fields) {
			t.Errorf("%s: %q, %d declarations", tc.name, lost.Message(), len(lost.Declared))
		}
		for _, d := range lost.Declared {
			if !d.Exclusive || d.Permission != "example.com/fire" {
				t.Errorf("%s: %+v", tc.name, d)
			}
		}
	}

	// A version that was not there gets what the others had.
	renamed := both(t, plain, plain)
	for i := range renamed.Spec.Versions {
		renamed.Spec.Versions[i].Name += "new"
	}
	lost := LostFrom(external(t, renamed), kept.Record{Last: kept.Declared{Text: was.Annotations[Annotation]}})
	if got := strings.Join(lost.Fields, " "); got != "v1new .spec.fire v2new .spec.fire" {
		t.Errorf("in new versions: %q", got)
	}
}

// FP-18: what is missing takes a right to repeat or remove, wherever it was read, and a dry run leaves nothing. What
// cannot be kept is not stored.
func TestEscalationForWhatIsMissing(t *testing.T) {
	text := internal(t, definition(guarded)).Annotations[Annotation]
	removal := `fire: {type: boolean, x-kubernetes-permission-verb: null}`
	for _, tc := range []struct {
		name, spec    string
		refused, fail error
		dryRun        bool
		asked         int
		want          string
		left          int
	}{
		{name: "repeat", spec: guarded, asked: 1},
		{name: "remove", spec: removal, asked: 1},
		{name: "say nothing", spec: plain, left: 1},
		{name: "repeat without the right", spec: guarded, refused: errors.New("no escalate"), asked: 1, want: "no escalate", left: 1},
		{name: "remove without the right", spec: removal, refused: errors.New("no escalate"), asked: 1, want: "no escalate", left: 1},
		{name: "try without the right", spec: removal, refused: errors.New("no escalate"), dryRun: true, asked: 1, want: "no escalate", left: 1},
		{name: "try", spec: removal, dryRun: true, asked: 1, left: 1},
		{name: "no etcd", spec: guarded, fail: errors.New("no etcd at 10.0.0.1"), want: "cannot be kept: try again", left: 1},
		{name: "too many", spec: guarded, fail: kept.ErrTooMany, want: "try again in two minutes", left: 1},
	} {
		m := &memory{rec: kept.Record{Last: kept.Declared{Text: "", Missing: []string{text}}}, fail: tc.fail}
		old, now := internal(t, definition(plain)), &apiextensions.CustomResourceDefinition{}
		old.ResourceVersion = "7"
		l := lift(tree(t, definition(tc.spec)))
		internal(t, definition(plain)).DeepCopyInto(now)
		now.ResourceVersion = "7"
		c := &carried{Versions: true}
		if l.carries {
			annotation, err := l.record.encode()
			if err != nil {
				t.Fatal(err)
			}
			c.Annotation = annotation
			now.Annotations = map[string]string{Annotation: annotation}
		}
		ctx := requestctx.WithNotes(requestctx.WithDefinition(t.Context(), c))
		attrs := admission.NewAttributesRecord(now, old, apiextensions.Kind("CustomResourceDefinition").WithVersion("v1"), "", now.Name,
			definitions.WithVersion("v1"), "", admission.Update, nil, tc.dryRun, nil)
		p := &Plugin{Keeper: m, Escalation: may{m, tc.refused}}
		err := p.Admit(ctx, attrs, nil)
		if err == nil {
			err = p.Validate(ctx, attrs, nil)
		}
		if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "10.0.0.1")) || m.asked != tc.asked {
			t.Errorf("%s: %v, asked %d times", tc.name, err, m.asked)
		}
		if tc.refused != nil && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", tc.name, err)
		}
		stored := external(t, now)
		if stored.ResourceVersion = "8"; err != nil || tc.dryRun {
			stored = external(t, old)
		}
		if m.fail = nil; Settle(&m.rec, stored, time.Now()) != nil || len(m.rec.Last.Missing) != tc.left || (LostFrom(stored, m.rec).Message() != "") != (tc.left > 0) {
			t.Errorf("%s: kept is %+v", tc.name, m.rec)
		}
	}
}
