package crdschema

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"
)

// FP-3: bodies that hide a declaration, or hide what it means, are refused with a 4xx and never go on without it.
func TestBodiesThatHide(t *testing.T) {
	good := asJSON(t, tree(t, definition(guarded)))
	escaped := strings.ReplaceAll(good, KeyVerb, `x-kubernetes-permission\u002dverb`)
	for _, tc := range []struct {
		name, contentType, body string
		header                  http.Header
		code                    int
		want                    string
	}{
		{"key written twice", "application/json", strings.Replace(good, `"`+KeyVerb+`":`, `"`+KeyVerb+`":"example.com/other","`+KeyVerb+`":`, 1), nil, 400, "duplicate field"},
		{"another member twice", "application/json", strings.Replace(good, `"spec":{`, `"spec":{"versions":[],`, 1), nil, 400, `duplicate field \"versions\"`},
		{"key in the first of two", "application/json", strings.TrimSuffix(good, "}") + `,"spec":{"versions":[]}}`, nil, 400, `duplicate field \"spec\"`},
		{"twice in YAML", "application/yaml", strings.Replace(definition(guarded), KeyVerb, KeyVerb+": a, "+KeyVerb, 1), nil, 400, "already set"},
		{"twice in an apply patch", "application/apply-patch+yaml", strings.Replace(definition(guarded), KeyVerb, KeyVerb+": a, "+KeyVerb, 1), nil, 400, "already set"},
		{"overridden in YAML", "application/yaml", definition(guarded) + "spec: {versions: []}\n", nil, 400, "already set"},
		{"gzip", "application/json", zipped(t, good), http.Header{"Content-Encoding": {"gzip"}}, 400, "cannot be read"},
		{"nested too deep", "application/json", strings.Repeat(`{"spec":`, 100000) + "1" + strings.Repeat("}", 100000), nil, 400, "nested more than"},
		{"lists nested too deep", "application/json", strings.Repeat(`[`, 500000), nil, 400, "nested more than"},
		{"cut off", "application/json", good[:len(good)-9], nil, 400, "cannot be read"},
		{"two objects", "application/json", good + good, nil, 400, "after the end"},
		{"YAML bomb", "application/yaml", bomb(), nil, 400, "excessive aliasing"},
		{"metadata is a list", "application/json", strings.Replace(good, `"metadata":{"name":"rockets.example.com"}`, `"metadata":[]`, 1), nil, 400, "metadata is not an object"},
		{"with the annotation", "application/json", strings.Replace(good, `"metadata":{`, `"metadata":{"annotations":{"`+Annotation+`":"{}"},`, 1), nil, 422, "the server keeps this annotation"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, verb := range []string{"create", "update", "patch"} {
				if isPatch := strings.HasPrefix(tc.contentType, "application/apply"); (verb == "patch") != isPatch {
					continue
				}
				w, sent := call{verb: verb, contentType: tc.contentType, body: tc.body, header: tc.header}.do(t)
				if sent != nil || w.Code != tc.code || !strings.Contains(w.Body.String(), tc.want) {
					t.Errorf("%s: %d, went on: %v\n%.300s\nwant %d %s", verb, w.Code, sent != nil, w.Body, tc.code, tc.want)
				}
			}
		})
	}

	// The positive twins: the same key in another spelling is the same key, and what merely looks like one is none.
	if _, sent := (call{verb: "create", contentType: "application/json", body: escaped}).do(t); sent == nil || sent.carried.Annotation == "" || strings.Contains(sent.body, `"fire":{"type":"boolean","x-`) {
		t.Errorf("escaped: %+v", sent)
	}
	if _, sent := (call{verb: "create", contentType: "application/json; charset=utf-8", body: good}).do(t); sent == nil || sent.carried.Annotation == "" {
		t.Errorf("with a charset: %+v", sent)
	}
	if _, sent := (call{verb: "create", body: good}).do(t); sent == nil || sent.carried.Annotation == "" {
		t.Errorf("without a type: %+v", sent)
	}
	for _, body := range []string{
		strings.Replace(good, `"names":`, `"names":{},"names":`, 1),
		good,
	} {
		body = strings.ReplaceAll(body, KeyPrefix, "x-other-")
		if _, sent := (call{verb: "create", contentType: "application/json", body: body}).do(t); sent == nil || sent.body != body || sent.carried.Annotation != "" {
			t.Errorf("a body without keys did not go on as it is: %+v", sent)
		}
	}
	// FP-3: within the body limit, and not beyond.
	for _, limit := range []int64{int64(len(good)), int64(len(good)) - 1} {
		w, sent := call{verb: "create", contentType: "application/json", body: good, maxBody: limit}.do(t)
		if small := limit < int64(len(good)); small != (sent == nil) || small != (w.Code == http.StatusRequestEntityTooLarge) {
			t.Errorf("limit %d: %d %v", limit, w.Code, sent != nil)
		}
	}
	// Protobuf cannot carry keys and is not looked at, nor is what no server takes.
	for _, contentType := range []string{"application/vnd.kubernetes.protobuf", "text/plain", "application/cbor"} {
		if _, sent := (call{verb: "create", contentType: contentType, body: "k8s\x00"}).do(t); sent == nil || sent.body != "k8s\x00" || sent.carried != nil {
			t.Errorf("%s: %+v", contentType, sent)
		}
	}
}

// FP-3: a write of the status may carry a schema with keys, and declares nothing.
func TestStatusDeclaresNothing(t *testing.T) {
	good := asJSON(t, tree(t, definition(guarded)))
	_, sent := call{verb: "update", subresource: "status", contentType: "application/json", body: good}.do(t)
	if sent == nil || strings.Contains(sent.body, KeyPrefix) || strings.Contains(sent.body, Annotation) || sent.carried.Annotation != "" {
		t.Errorf("%+v", sent)
	}
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func bomb() string {
	text := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'i'; c++ {
		prev := string(c - 1)
		text += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+prev+",", 9), ",") + "]\n"
	}
	return text
}

// FuzzLift: no body makes the filter panic; what goes on has no key at any field of a schema; and what is shown of it
// is what was written.
func FuzzLift(f *testing.F) {
	for _, seed := range []string{
		definition(guarded), definition(plain), definition(`fire: {x-kubernetes-permission-verb: null}`), definition(`a/b: {items: {additionalProperties: {x-kubernetes-permission-verb: labels}}}`),
		`{"spec":{"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"x-kubernetes-permission-verb":"a"}}},null,1]}}`,
		`{"spec":{"versions":{"name":1}},"metadata":null}`, `[1,{"a":1e999}]`, `"x-kubernetes-permission-verb"`,
	} {
		f.Add(seed, true)
		if text, err := parseYAML([]byte(seed)); err == nil {
			f.Add(asJSON(f, text.root), false)
		}
	}
	f.Fuzz(func(t *testing.T, body string, isYAML bool) {
		c := call{verb: "create", contentType: "application/json", body: body}
		parse := parseJSON
		if isYAML {
			c.contentType, parse = "application/yaml", parseYAML
		}
		w, sent := c.do(t)
		if sent == nil {
			if w.Code < 400 || w.Code > 499 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			return
		}
		before, err := parse([]byte(body))
		if err != nil {
			t.Fatalf("%q went on: %v", body, err)
		}
		if sent.carried.Annotation == "" {
			if sent.body != body || lift(before.root).carries {
				t.Fatalf("%q became %q", body, sent.body)
			}
			return
		}
		after, err := parseJSON([]byte(sent.body))
		if err != nil {
			t.Fatal(err)
		}
		show(after.root)
		if again := lift(after.root); len(again.errs) > 0 || asJSON(t, again.record) != sent.carried.Annotation {
			t.Fatalf("%q shows %s, carried %s", body, asJSON(t, again.record), sent.carried.Annotation)
		}
		lift(before.root)
		normal(before.root)
		normal(after.root)
		if asJSON(t, before.root) != asJSON(t, after.root) {
			t.Fatalf("%s\n%s", asJSON(t, before.root), asJSON(t, after.root))
		}
	})
}

// normal drops metadata and annotations that are empty.
func normal(root any) {
	m, metadata := at(root), at(root, "metadata")
	if len(at(metadata, "annotations")) == 0 {
		delete(metadata, "annotations")
	}
	if len(metadata) == 0 {
		delete(m, "metadata")
	}
}
