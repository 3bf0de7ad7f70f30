package sink

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	authnv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/apis/audit/install"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"sigs.k8s.io/randfill"

	"proviso.dev/proviso/internal/engine/auditrule"
)

func TestMain(m *testing.M) {
	install.Install(audit.Scheme)
	if child() {
		return
	}
	os.Exit(m.Run())
}

// runs is how often a random test runs: PROVISO_LAW_RUNS if set.
func runs(n int) int {
	if runs, err := strconv.Atoi(os.Getenv("PROVISO_LAW_RUNS")); err == nil && runs > 0 {
		return runs
	}
	if testing.Short() {
		return n / 10
	}
	return n
}

// fillEvents fills every field that an event has, with text that needs escaping now and then. A field that upstream
// adds is filled as well, and missed by a comparison with upstream if the encoder does not know it.
func fillEvents(seed int64) *randfill.Filler {
	unknown := func(u *runtime.Unknown, c randfill.Continue) {
		raw, err := json.Marshal(map[string]any{"kind": "K", "metadata": map[string]any{"name": c.String(0)}, "n": c.Int31()})
		if err != nil {
			panic(err)
		}
		*u = runtime.Unknown{Raw: append(raw, '\n'), ContentType: runtime.ContentTypeJSON}
	}
	times := func(t *metav1.MicroTime, c randfill.Continue) {
		if c.Intn(4) > 0 {
			*t = metav1.NewMicroTime(time.UnixMicro(c.Int63n(4e15)).In(time.FixedZone("x", 3600)))
		}
	}
	text := func(s *string, c randfill.Continue) {
		*s = []string{"", "plain", "system:serviceaccount:ns:sa", "<a&b>", "quote\"back\\slash", "tab\tnewline\n", "ünïcode\u2028", "bad\xff\xfe", "\x00\x7f"}[c.Intn(9)]
	}
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).Funcs(unknown, times, text,
		func(t *metav1.TypeMeta, _ randfill.Continue) {}, // of the event and of the status, both empty on the wire
		func(l *metav1.ListMeta, _ randfill.Continue) {},
		func(l *auditinternal.Level, c randfill.Continue) { *l = auditrule.Level(c.Intn(4)).Audit() },
	)
}

// upstreamText is the event, with our identity, as upstream's encoder writes it.
func upstreamText(t testing.TB, ev *auditinternal.Event, id []byte) string {
	t.Helper()
	ev = ev.DeepCopy()
	if ev.Annotations == nil {
		ev.Annotations = map[string]string{}
	}
	ev.Annotations[identityKey] = string(id)
	text, err := runtime.Encode(audit.Codecs.LegacyCodec(auditv1.SchemeGroupVersion), &auditinternal.EventList{Items: []auditinternal.Event{*ev}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// DA-6, DA-8: at each level the text is, byte for byte, what upstream's own encoder writes for an event of that level.
func TestEncodingIsUpstreams(t *testing.T) {
	var e encoder
	for seed := range runs(3000) {
		ev := &auditinternal.Event{}
		fillEvents(int64(seed)).Fill(ev)
		before := ev.DeepCopy()
		e.reset(ev, appendIdentity(nil))
		for level := auditrule.Metadata; level <= auditrule.RequestResponse; level++ {
			got := listBegin + string(e.at(level, 1<<20).text) + listEnd
			if want := upstreamText(t, trimmed(ev, level), e.id); got != want {
				t.Fatalf("seed %d, level %s\n got %s\nwant %s", seed, level, got, want)
			}
		}
		if diff := cmp.Diff(before, ev); diff != "" {
			t.Fatalf("encoding has changed the event: %s", diff)
		}
	}
}

// madeAt is an event as upstream's functions make it at a level, from the same request.
func madeAt(t testing.TB, level auditinternal.Level) *auditinternal.Event {
	t.Helper()
	ev := &auditinternal.Event{
		Level: level, AuditID: "id", Stage: auditinternal.StageResponseComplete, RequestURI: "/api/v1/namespaces/ns/pods", Verb: "create",
		User: authnv1.UserInfo{Username: "alice", Groups: []string{"devs"}}, SourceIPs: []string{"10.0.0.1"}, UserAgent: "test",
		ObjectRef:      &auditinternal.ObjectReference{Resource: "pods", Namespace: "ns", Name: "p", APIVersion: "v1"},
		ResponseStatus: &metav1.Status{Code: 201},
		Annotations:    map[string]string{"authorization.k8s.io/decision": "allow"},
	}
	if level.GreaterOrEqual(auditinternal.LevelRequest) {
		ev.RequestObject = &runtime.Unknown{Raw: []byte(`{"secret":"request"}`), ContentType: runtime.ContentTypeJSON}
		ev.Annotations[mutating.PatchAuditAnnotationPrefix+"round_0_index_0"] = `{"patch":"secret"}`
	}
	if level.GreaterOrEqual(auditinternal.LevelRequestResponse) {
		ev.ResponseObject = &runtime.Unknown{Raw: []byte(`{"secret":"response"}`), ContentType: runtime.ContentTypeJSON}
	}
	return ev
}

// DA-6: an event that is trimmed to a level is the event that would have been made at that level, annotations included.
func TestTrimmedIsAsMadeAtThatLevel(t *testing.T) {
	var e encoder
	for have := auditrule.Metadata; have <= auditrule.RequestResponse; have++ {
		ev := madeAt(t, have.Audit())
		before := ev.DeepCopy()
		e.reset(ev, appendIdentity(nil))
		for want := auditrule.Metadata; want <= have; want++ {
			if diff := cmp.Diff(madeAt(t, want.Audit()), trimmed(ev, want)); diff != "" {
				t.Errorf("%s trimmed to %s: %s", have, want, diff)
			}
			if got, want := listBegin+string(e.at(want, 1<<20).text)+listEnd, upstreamText(t, madeAt(t, want.Audit()), e.id); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
		trimmed(ev, auditrule.Metadata).Annotations["added"] = "later"
		if diff := cmp.Diff(before, ev); diff != "" {
			t.Errorf("trimming has changed what others see: %s", diff)
		}
	}
}

// DA-6: upstream writes no other annotation above level Metadata only; drift shows here.
func TestPatchAnnotationPrefix(t *testing.T) {
	if patchAnnotations != mutating.PatchAuditAnnotationPrefix {
		t.Errorf("upstream calls them %q, we %q", mutating.PatchAuditAnnotationPrefix, patchAnnotations)
	}
}

// DA-8: a body that is no JSON, or that parsers give up on, is recorded as a string; every other one as it is.
func TestEncodingOddBodies(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`{"a":[`, n/2) + strings.Repeat("]}", n/2) }
	for name, tc := range map[string]struct {
		raw string
		odd bool
	}{
		"empty":                          {"", false},
		"cut off":                        {"{", true},
		"YAML":                           {"not: json", true},
		"no text":                        {"\xff\xfe", true},
		"not UTF-8 within a string":      {"{\"a\":\"\xff\"}", true},
		"not UTF-8 within a key":         {"{\"a\xc3\":1}", true},
		"a record of the spool":          {`{"a":"` + magic + `"}`, true},
		"UTF-8":                          {`{"ü":" "}`, false},
		"two values":                     {`{"a":1}{"b":2}`, true},
		"as deep as parsers can":         {nested(9990), true},
		"deeper than parsers can":        {nested(20000), true},
		"a little too deep":              {nested(maxDepth + 2), true},
		"deep":                           {nested(maxDepth), false},
		"many and not deep":              {"[" + strings.Repeat("{},", 2*maxDepth) + `"[[[\\\"[["]`, false},
		"brackets in a string, not deep": {`{"a":"` + strings.Repeat("[", 2*maxDepth) + `"}`, false},
	} {
		ev := madeAt(t, auditinternal.LevelRequest)
		ev.RequestObject = &runtime.Unknown{Raw: []byte(tc.raw)}
		var e encoder
		e.reset(ev, appendIdentity(nil))
		text := listBegin + string(e.at(auditrule.Request, 1<<20).text) + listEnd
		var got auditv1.EventList
		if err := json.Unmarshal([]byte(text), &got); err != nil || !utf8.ValidString(text) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		body := got.Items[0].RequestObject
		if got.Items[0].AuditID != "id" || (body != nil && body.Raw[0] == '"') != tc.odd {
			t.Errorf("%s: recorded as %.60v, want a string: %v", name, body, tc.odd)
		}
	}
}

// DA-8: the identity of an event is its own, whatever a caller, an admission policy or a webhook calls it.
func TestIdentity(t *testing.T) {
	seen := map[string]bool{}
	for range 3 {
		ev := madeAt(t, auditinternal.LevelRequestResponse)
		ev.Annotations[identityKey] = "chosen"
		var e encoder
		e.reset(ev, appendIdentity(nil))
		var id string
		for level := auditrule.Metadata; level <= auditrule.RequestResponse; level++ {
			var got auditv1.Event
			if err := json.Unmarshal(e.at(level, 1<<20).text, &got); err != nil {
				t.Fatal(err)
			}
			if next := got.Annotations[identityKey]; next == "" || next == "chosen" || id != "" && next != id {
				t.Errorf("%s has the identity %q, another level %q", level, next, id)
			} else {
				id = next
			}
		}
		if seen[id] {
			t.Errorf("two events are called %s", id)
		}
		seen[id] = true
	}
}

// DA-8: an event that is too large loses its bodies and says so, as upstream's truncating backend does it.
func TestEncodingTruncates(t *testing.T) {
	ev := madeAt(t, auditinternal.LevelRequestResponse)
	ev.ResponseObject.Raw = []byte(`"` + strings.Repeat("x", 4000) + `"`)
	var e encoder
	e.reset(ev, appendIdentity(nil))
	small, large := e.at(auditrule.Request, 2000), e.at(auditrule.RequestResponse, 2000)
	if small.truncated || !bytes.Contains(small.text, []byte("request")) {
		t.Errorf("level Request fits, but is truncated: %s", small.text)
	}
	var got auditv1.Event
	if err := json.Unmarshal(large.text, &got); err != nil {
		t.Fatal(err)
	}
	if !large.truncated || got.RequestObject != nil || got.ResponseObject != nil || got.Annotations[truncatedKey] != "true" || got.Level != auditv1.LevelRequestResponse ||
		got.Annotations["authorization.k8s.io/decision"] != "allow" {
		t.Errorf("not truncated as upstream does it: %s", large.text)
	}
	if ev.Annotations[truncatedKey] != "" {
		t.Error("truncating has changed what others see")
	}
	event, ok := withoutBodies(small.text)
	if !ok || bytes.Contains(event, []byte("requestObject")) || !bytes.Contains(event, []byte(truncatedKey)) {
		t.Errorf("withoutBodies: %s", event)
	}
	if _, ok := withoutBodies(event); ok {
		t.Error("an event without bodies has nothing to leave out")
	}
}

// FuzzEncoding: whatever is in an event, the text is JSON that upstream reads as the same event.
func FuzzEncoding(f *testing.F) {
	f.Add("id", "/api?x=<>&", "ü\u2028", `{"a": [1, 2]}`, []byte("key\x00value"))
	f.Add("", "\xff", "\"\\", "{", []byte{})
	f.Fuzz(func(t *testing.T, id, uri, text, raw string, annotation []byte) {
		ev := &auditinternal.Event{AuditID: types.UID(id), RequestURI: uri, Level: auditinternal.LevelRequest, Stage: auditinternal.StagePanic,
			User:          authnv1.UserInfo{Username: text, Groups: []string{uri, text}, Extra: map[string]authnv1.ExtraValue{text: {id}, uri: nil}},
			Annotations:   map[string]string{string(annotation): text, truncatedKey: uri},
			RequestObject: &runtime.Unknown{Raw: []byte(raw), ContentType: runtime.ContentTypeJSON},
		}
		var e encoder
		e.reset(ev, appendIdentity(nil))
		var got auditv1.EventList
		if err := json.Unmarshal([]byte(listBegin+string(e.at(auditrule.Request, 1<<20).text)+listEnd), &got); err != nil {
			t.Fatal(err)
		}
		if json.Valid([]byte(raw)) {
			var want auditv1.EventList
			if err := json.Unmarshal([]byte(upstreamText(t, ev, e.id)), &want); err != nil {
				t.Fatal(err)
			}
			want.Items[0].RequestObject, got.Items[0].RequestObject = nil, nil
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	ev := madeAt(b, auditinternal.LevelRequestResponse)
	b.Run("two-levels", func(b *testing.B) {
		b.ReportAllocs()
		var e encoder
		for b.Loop() {
			e.reset(ev, appendIdentity(nil))
			e.at(auditrule.Metadata, 1<<20)
			e.at(auditrule.RequestResponse, 1<<20)
		}
	})
	b.Run("upstream-one-level", func(b *testing.B) {
		b.ReportAllocs()
		codec := audit.Codecs.LegacyCodec(auditv1.SchemeGroupVersion)
		for b.Loop() {
			if _, err := runtime.Encode(codec, ev); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// DA-19: what a caller chooses outside of bodies is cut at 8 KiB and marked, whatever escaping makes of it; an event
// without a body takes no more than some such texts do. A text of exactly the bound is whole.
func TestFreeTextIsCut(t *testing.T) {
	long := strings.Repeat("&", 950_000)
	ev := &auditinternal.Event{Level: auditinternal.LevelMetadata, AuditID: "1", Stage: auditinternal.StageResponseComplete, Verb: "get",
		RequestURI: "/api?" + long, UserAgent: strings.Repeat("ü", maxText), ObjectRef: &auditinternal.ObjectReference{Name: long, Namespace: strings.Repeat("n", maxText)},
		ResponseStatus: &metav1.Status{Message: long}, Annotations: map[string]string{"a": long}}
	for range 20_000 {
		ev.SourceIPs = append(ev.SourceIPs, "127.0.0.1")
	}
	e := encoder{event: ev}
	text := e.at(auditrule.Metadata, 1<<30).text
	if len(text) > 6*6*maxText {
		t.Errorf("%d bytes", len(text))
	}
	var got auditv1.Event
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]string{"requestURI": got.RequestURI, "userAgent": got.UserAgent, "name": got.ObjectRef.Name, "message": got.ResponseStatus.Message, "annotation": got.Annotations["a"]} {
		if !utf8.ValidString(s) || len(s) > maxText+64 || !strings.Contains(s, "… (cut, ") {
			t.Errorf("%s: %d bytes, ends %q", name, len(s), s[max(0, len(s)-40):])
		}
	}
	if got.ObjectRef.Namespace != ev.ObjectRef.Namespace {
		t.Error("a text of exactly the bound is cut")
	}
	if n := len(got.SourceIPs); n != maxAddresses+1 || got.SourceIPs[n-1] != "… (cut, 20000 in all)" {
		t.Errorf("%d addresses", n)
	}
}
