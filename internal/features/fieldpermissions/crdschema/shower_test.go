package crdschema

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/request/answer"
)

// stored is a definition as the server answers it, without metadata that does not matter here.
func stored(t testing.TB, spec string) string {
	t.Helper()
	root := tree(t, definition(spec))
	l := lift(root)
	text, err := l.record.encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := annotate(root, text, ""); err != nil {
		t.Fatal(err)
	}
	return asJSON(t, root)
}

func response(contentType, encoding string, parts ...string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		if encoding != "" {
			w.Header().Set("Content-Encoding", encoding)
		}
		w.WriteHeader(http.StatusOK)
		for _, p := range parts {
			if _, err := io.WriteString(w, p); err != nil {
				panic(err)
			}
			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
		}
	}
}

// FP-3: every read shows the declarations and not the annotation, in every form that can hold them; what has no schema
// loses the annotation only.
func TestShown(t *testing.T) {
	one, want := stored(t, guarded), asJSON(t, tree(t, definition(guarded)))
	meta := `{"kind":"PartialObjectMetadata","metadata":{"annotations":{"a":"b",` + asJSON(t, Annotation) + `:"{}"},"name":"x"}}`
	metaWant := `{"kind":"PartialObjectMetadata","metadata":{"annotations":{"a":"b"},"name":"x"}}`
	item := strings.Replace(strings.Replace(one, `"kind":"CustomResourceDefinition",`, "", 1), `"apiVersion":"apiextensions.k8s.io/v1",`, "", 1)
	itemWant := strings.Replace(strings.Replace(want, `"kind":"CustomResourceDefinition",`, "", 1), `"apiVersion":"apiextensions.k8s.io/v1",`, "", 1)
	indented := func(text string) string {
		var b bytes.Buffer
		if err := json.Indent(&b, []byte(text), "", "  "); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	asYAML := func(text string) string {
		out, err := yaml.JSONToYAML([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	for _, tc := range []struct{ name, verb, contentType, body, want string }{
		{"one", "get", "application/json", one + "\n", want + "\n"},
		{"in parts", "get", "application/json", one, want + "\n"},
		{"pretty", "get", "application/json", indented(one), indented(want) + "\n"},
		{"YAML", "get", "application/yaml", asYAML(one), asYAML(want)},
		{"response to a write", "update", "application/json", one, want + "\n"},
		{"response to a delete", "delete", "application/json", one, want + "\n"},
		{"list", "list", "application/json", `{"items":[` + item + `,{}],"kind":"CustomResourceDefinitionList"}`, `{"items":[` + itemWant + `,{}],"kind":"CustomResourceDefinitionList"}` + "\n"},
		{"metadata", "get", "application/json", meta, metaWant + "\n"},
		{"list of metadata", "list", "application/json", `{"items":[` + meta + `],"kind":"PartialObjectMetadataList"}`, `{"items":[` + metaWant + `],"kind":"PartialObjectMetadataList"}` + "\n"},
		{"table", "list", "application/json", `{"kind":"Table","rows":[{"object":` + meta + `},{"object":null}]}`, `{"kind":"Table","rows":[{"object":` + metaWant + `},{"object":null}]}` + "\n"},
		{"table of objects", "list", "application/json", `{"kind":"Table","rows":[{"object":` + one + `}]}`, `{"kind":"Table","rows":[{"object":` + want + `}]}` + "\n"},
		{"watch", "watch", "application/json", `{"object":` + one + `,"type":"ADDED"}` + "\n" + `{"object":{"kind":"X"},"type":"BOOKMARK"}` + "\n" + `{"object":` + one + `,"type":"DELETED"}` + "\n",
			`{"object":` + want + `,"type":"ADDED"}` + "\n" + `{"object":{"kind":"X"},"type":"BOOKMARK"}` + "\n" + `{"object":` + want + `,"type":"DELETED"}` + "\n"},
		{"protobuf", "get", "application/vnd.kubernetes.protobuf", one, one},
		{"nothing declared", "get", "application/json", ` {"b":1, "a":2}`, ` {"b":1, "a":2}`},
		{"cannot be read", "get", "application/json", `{"` + Annotation, `{"` + Annotation},
	} {
		for _, size := range []int{1 << 20, 7} {
			t.Run(fmt.Sprintf("%s/%d", tc.name, size), func(t *testing.T) {
				var parts []string
				for rest := tc.body; rest != ""; {
					n := min(size, len(rest))
					parts, rest = append(parts, rest[:n]), rest[n:]
				}
				verb, contentType := tc.verb, ""
				if verb == "update" {
					contentType = "application/json"
				}
				w, _ := call{verb: verb, contentType: contentType, body: "{}", answer: response(tc.contentType, "", parts...)}.do(t)
				if got := w.Body.String(); got != tc.want {
					t.Errorf("got  %s\nwant %s", got, tc.want)
				}
			})
		}
	}

	// Events are never compressed, since they could not be told apart; and if they were, they would not be held back.
	w, _ := call{verb: "watch", header: http.Header{"Accept-Encoding": {"gzip"}}, answer: func(w http.ResponseWriter, r *http.Request) {
		response("application/json", r.Header.Get("Accept-Encoding"), "{}\n")(w, r)
	}}.do(t)
	if w.Header().Get("Content-Encoding") != "" || w.Body.String() != "{}\n" {
		t.Errorf("%v %q", w.Header(), w.Body)
	}
	if fate := (&shower{header: http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, watch: true}).first(http.StatusOK); fate != answer.Pass {
		t.Errorf("compressed events are held back: %v", fate)
	}
	// A compressed answer stays one.
	w, _ = call{verb: "get", answer: response("application/json", "gzip", zipped(t, one))}.do(t)
	r, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != want+"\n" {
		t.Errorf("%v %s", err, got)
	}
	// An error is not looked at, whatever it says.
	w, _ = call{verb: "get", answer: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, one)
	}}.do(t)
	if w.Code != http.StatusConflict || w.Body.String() != one {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// FP-3: an event of a watch is shown as soon as it is complete.
func TestWatchIsNotHeldBack(t *testing.T) {
	event := `{"object":` + stored(t, guarded) + `,"type":"ADDED"}` + "\n"
	out := &recorder{header: http.Header{"Content-Type": {"application/json"}}}
	s := &shower{watch: true}
	s.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i, part := range []string{event[:10], event[10:], "{}"} {
			if _, err := w.Write([]byte(part)); err != nil {
				t.Fatal(err)
			}
			w.(http.Flusher).Flush()
			if (out.written > 0) != (i > 0) || out.flushed != i+1 {
				t.Errorf("part %d: %d bytes written, %d flushes", i, out.written, out.flushed)
			}
		}
	}), out, httptest.NewRequest(http.MethodGet, "/", nil))
}

type recorder struct {
	header           http.Header
	written, flushed int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(int)             {}
func (r *recorder) Write(p []byte) (int, error) { r.written += len(p); return len(p), nil }
func (r *recorder) Flush()                      { r.flushed++ }
