package crdschema

import (
	"fmt"
	"strings"
	"testing"

	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/kept"
)

const (
	job      = `work: {type: object, properties: {metadata: {type: object}, spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}%s}`
	embedded = `, x-proviso-embedded-template: Pod`
)

// templates is a short form of which templates a definition has.
func templates(t *testing.T, old, text string) (shown string, warned warnings, err error) {
	t.Helper()
	l := lift(tree(t, text))
	if len(l.errs) > 0 {
		return "", nil, l.errs.ToAggregate()
	}
	now := internal(t, fmt.Sprintf(rocket, "x: {type: string}", "x: {type: string}"))
	*now = *internal(t, strings.ReplaceAll(text, ", x-proviso-embedded-template: null", ""))
	c := &carried{Versions: true}
	if l.carries {
		if c.Annotation, err = l.record.encode(); err != nil {
			t.Fatal(err)
		}
		now.Annotations = map[string]string{Annotation: c.Annotation}
	}
	before := internal(t, old)
	if _, warned, err = admit(t, requestctx.WithDefinition(t.Context(), c), before, now, ""); err != nil {
		return "", warned, err
	}
	for _, at := range Templates(external(t, now)) {
		shown += at.Version + at.At.String() + " "
	}
	return shown, warned, nil
}

// FP-19: a schema says where the template of a pod is. The key stays when it is left out, null removes it, and it has
// nothing to do with a permission for the same field.
func TestTemplatesInSchemas(t *testing.T) {
	const verb = `, x-kubernetes-permission-verb: example.com/work`
	all := func(keys string) string { return definition(fmt.Sprintf(job, keys)) }
	const both = "v1.spec.work v2.spec.work "
	for _, tc := range []struct {
		name, old, now, want, refused, warned string
	}{
		{name: "declared", old: all(""), now: all(embedded), want: both},
		{name: "left out", old: all(embedded), now: all(""), want: both, warned: "v1 .spec.work"},
		{name: "null", old: all(embedded), now: all(`, x-proviso-embedded-template: null`)},
		{name: "with a permission", old: all(embedded), now: all(embedded + verb), want: both},
		{name: "without the permission again", old: all(embedded + verb), now: all(`, x-kubernetes-permission-verb: null`), want: both, warned: "v1 .spec.work x-proviso-embedded-template"},
		{name: "only the permission stays", old: all(embedded + verb), now: all(`, x-proviso-embedded-template: null`), warned: "v1 .spec.work x-kubernetes-permission-verb"},
		{name: "of something else", old: all(""), now: all(`, x-proviso-embedded-template: Job`), refused: "must be Pod"},
		{name: "in one version", old: all(""), now: fmt.Sprintf(rocket, fmt.Sprintf(job, embedded), fmt.Sprintf(job, "")), refused: "version v2 has the same field and declares nothing"},
		{name: "at another place", old: all(""), now: fmt.Sprintf(rocket, fmt.Sprintf(job, embedded), "task: {type: object, x-kubernetes-preserve-unknown-fields: true"+embedded+"}"), want: "v1.spec.work v2.spec.task "},
		{name: "of text", old: all(""), now: definition("work: {type: string" + embedded + "}"), refused: "needs a field that is an object with a field spec"},
		{name: "of the wrong kind", old: all(""), now: definition("work: {type: object, properties: {spec: {type: string}}" + embedded + "}"), refused: "needs a field that is an object with a field spec"},
	} {
		got, warned, err := templates(t, tc.old, tc.now)
		if got != tc.want || (err != nil) != (tc.refused != "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
			t.Errorf("%s: %q, %v; want %q", tc.name, got, err, tc.want)
		}
		if text := strings.Join(warned, " "); (text != "") != (tc.warned != "") || !strings.Contains(text, tc.warned) {
			t.Errorf("%s: warned of %q", tc.name, text)
		}
	}
	// FP-18: a template is kept, too.
	was := internal(t, all(embedded+verb)).Annotations[Annotation]
	lost := LostFrom(external(t, internal(t, all(verb))), kept.Record{Last: kept.Declared{Text: was}})
	if len(lost.Templates) != 2 || len(lost.Declared) != 0 || lost.Problem != "" {
		t.Errorf("%+v", lost)
	}
}
