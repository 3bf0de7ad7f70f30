package openapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"

	"proviso.dev/proviso/internal/engine/fieldperm"
)

// document has what upstream's documents have: kinds, references with and without a description, maps, lists, nested
// objects.
const document = `{"openapi": "3.0.0", "info": {"title": "t", "version": "1"}, "paths": {}, "components": {"schemas": {
"Pod": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Pod"}], "properties": {
	"metadata": {"allOf": [{"$ref": "#/components/schemas/ObjectMeta"}], "default": {}, "description": "About it."},
	"spec": {"$ref": "#/components/schemas/PodSpec"},
	"nested": {"type": "object", "properties": {"list": {"type": "array", "items": {"type": "object", "properties": {"secret": {"type": "string", "description": "Hush."}}}}}}}},
"PodTemplate": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "PodTemplate"}], "properties": {
	"spec": {"$ref": "#/components/schemas/PodSpec"}}},
"Pod2": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "", "version": "v2", "kind": "Pod"}], "properties": {"spec": {"type": "string"}}},
"PodSpec": {"type": "object", "properties": {"nodeName": {"type": "string", "description": "Where it runs."}, "other": {"type": "string", "maxLength": 9007199254740993}}},
"ObjectMeta": {"type": "object", "properties": {"labels": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Labels."}}}}}}`

func guarded(t *testing.T, field, verb string, change func(*fieldperm.Guarded)) fieldperm.Guarded {
	t.Helper()
	path, err := fieldperm.ParsePath(field)
	if err != nil {
		t.Fatal(err)
	}
	g := fieldperm.Guarded{Field: path, Verb: verb}
	if change != nil {
		change(&g)
	}
	return g
}

// documented is a filter around upstream's service, with notes that can be changed.
func documented(t *testing.T) (http.Handler, http.Handler, *[]Kind) {
	t.Helper()
	service, upstream := handler3.NewOpenAPIService(), http.NewServeMux()
	for _, name := range []string{"api/v1", "apis/apps/v1"} {
		var parsed spec3.OpenAPI
		if err := json.Unmarshal([]byte(document), &parsed); err != nil {
			t.Fatal(err)
		}
		service.UpdateGroupVersion(name, &parsed)
	}
	upstream.HandleFunc(root, service.HandleDiscovery)
	upstream.HandleFunc(root+"/", service.HandleGroupVersion)
	everywhere := func(g *fieldperm.Guarded) { g.Everywhere = true }
	kinds := []Kind{
		{"Pod", fieldperm.Resource{Resource: "pods"}, []fieldperm.Guarded{
			guarded(t, ".metadata", "granular:metadata", everywhere),
			guarded(t, ".metadata.labels", "granular:labels", everywhere),
			guarded(t, ".metadata.labels[]", "granular:label(<prefix>)", everywhere),
			guarded(t, ".metadata.labels[a.com/b]", "granular:a.com/b", func(g *fieldperm.Guarded) { g.Exclusive, g.Sometimes = true, true }),
			guarded(t, ".nested.list[].secret", "granular:x.com/secret", func(g *fieldperm.Guarded) { g.Exclusive = true }),
			guarded(t, ".nowhere", "granular:nowhere", nil),
			guarded(t, ".spec", "granular:specification", everywhere),
			guarded(t, ".spec.nodeName", "granular:nodeAssignment", nil),
		}},
		{"PodTemplate", fieldperm.Resource{Resource: "podtemplates"}, []fieldperm.Guarded{guarded(t, ".spec.nodeName", "granular:nodeAssignment", nil)}},
		{"None", fieldperm.Resource{Resource: "none"}, nil},
	}
	return &Filter{Next: upstream, Notary: notary(func(_ context.Context, gv schema.GroupVersion) *Notes {
		if gv.Group != "" {
			return nil
		}
		return NewNotes(gv, kinds)
	})}, upstream, &kinds
}

type notary func(ctx context.Context, gv schema.GroupVersion) *Notes

func (n notary) Notes(ctx context.Context, gv schema.GroupVersion) *Notes { return n(ctx, gv) }

func get(h http.Handler, url string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, url, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// FP-3: the verbs stand where people read them, for programs as an extension, and nothing else changes.
func TestDocument(t *testing.T) {
	filter, upstream, _ := documented(t)
	w := get(filter, root+"/api/v1")
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Vary") != "Accept" {
		t.Fatalf("%d %v", w.Code, w.Header())
	}
	var got, before spec3.OpenAPI
	for target, text := range map[*spec3.OpenAPI][]byte{&got: w.Body.Bytes(), &before: get(upstream, root+"/api/v1").Body.Bytes()} {
		if err := json.Unmarshal(text, target); err != nil {
			t.Fatal(err)
		}
	}
	schemas := got.Components.Schemas
	list := schemas["Pod"].Properties["nested"].Properties["list"]
	for where, check := range map[string]struct{ got, want string }{
		"metadata": {schemas["Pod"].Properties["metadata"].Description, "About it.\n\nField permission: granular:metadata."},
		"labels": {schemas["ObjectMeta"].Properties["labels"].Description, "Labels.\n\nField permission: granular:labels.\nField permission: granular:label(<prefix>) for one entry.\n" +
			"Field permission: granular:a.com/b for [a.com/b] of pods, exclusive for some values: the right to update the object does not include them."},
		"spec": {schemas["Pod"].Properties["spec"].Description, "Field permission: granular:specification."},
		"nodeName": {schemas["PodSpec"].Properties["nodeName"].Description,
			"Where it runs.\n\nField permission: granular:nodeAssignment of pods, podtemplates."},
		"secret": {list.Items.Schema.Properties["secret"].Description,
			"Hush.\n\nField permission: granular:x.com/secret of pods, exclusive: the right to update the object does not include it."},
	} {
		if check.got != check.want {
			t.Errorf("%s:\n%s\nwant:\n%s", where, check.got, check.want)
		}
	}
	if verbs, _ := json.Marshal(schemas["ObjectMeta"].Properties["labels"].Extensions[Extension]); string(verbs) != `["granular:labels","granular:label(\u003cprefix\u003e)","granular:a.com/b"]` {
		t.Errorf("verbs: %s", verbs)
	}
	if spec := schemas["Pod"].Properties["spec"]; len(spec.AllOf) != 1 || spec.AllOf[0].Ref.String() != "#/components/schemas/PodSpec" {
		t.Errorf("a reference is lost: %+v", spec)
	}
	for name, property := range map[string]string{"Pod2": "spec", "PodSpec": "other", "PodTemplate": "spec"} {
		a, _ := json.Marshal(schemas[name].Properties[property])
		b, _ := json.Marshal(before.Components.Schemas[name].Properties[property])
		if string(a) != string(b) {
			t.Errorf("%s.%s has changed: %s, was %s", name, property, a, b)
		}
	}
	if w := get(filter, root+"/apis/apps/v1"); w.Body.String() != get(upstream, root+"/apis/apps/v1").Body.String() {
		t.Error("a document without notes has changed")
	}
}

// FP-3: clients that cache by hash see a changed permission at once, and clients of protobuf see it too.
func TestHashes(t *testing.T) {
	filter, upstream, kinds := documented(t)
	urlOf := func(h http.Handler, name string) string {
		t.Helper()
		var all handler3.OpenAPIV3Discovery
		if err := json.Unmarshal(get(h, root).Body.Bytes(), &all); err != nil {
			t.Fatal(err)
		}
		return all.Paths[name].ServerRelativeURL
	}
	if ours, theirs := urlOf(filter, "apis/apps/v1"), urlOf(upstream, "apis/apps/v1"); ours != theirs {
		t.Errorf("a document without notes has another hash: %s, was %s", ours, theirs)
	}
	first := urlOf(filter, "api/v1")
	w := get(filter, first)
	if w.Code != http.StatusOK || w.Header().Get("Cache-Control") != "public, immutable" || w.Header().Get("Expires") == "" || !strings.Contains(w.Body.String(), "granular:labels") {
		t.Errorf("%s: %d %v", first, w.Code, w.Header())
	}
	if again := get(filter, first, "If-None-Match", w.Header().Get("Etag")); again.Code != http.StatusNotModified {
		t.Errorf("what the client has is sent again: %d", again.Code)
	}
	if stale := get(filter, urlOf(upstream, "api/v1")); stale.Code != http.StatusMovedPermanently || stale.Header().Get("Location") != first {
		t.Errorf("a hash without notes: %d %v", stale.Code, stale.Header())
	}
	if plain := get(filter, root+"/api/v1"); plain.Header().Get("Cache-Control") != "" {
		t.Errorf("without a hash: %v", plain.Header())
	}
	binary := get(filter, first, "Accept", "application/com.github.proto-openapi.spec.v3.v1.0+protobuf")
	if body := binary.Body.String(); !strings.HasSuffix(binary.Header().Get("Content-Type"), "protobuf") || strings.HasPrefix(body, "{") || !strings.Contains(body, "granular:nodeAssignment") {
		t.Errorf("protobuf: %v", binary.Header())
	}

	(*kinds)[0].Guarded = append((*kinds)[0].Guarded, guarded(t, ".spec.other", "granular:x.com/other", nil))
	second := urlOf(filter, "api/v1")
	if second == first {
		t.Fatal("the hash does not tell that a permission was added")
	}
	if stale := get(filter, first); stale.Code != http.StatusMovedPermanently || stale.Header().Get("Location") != second {
		t.Errorf("a hash of before: %d %v", stale.Code, stale.Header())
	}
	if now := get(filter, second); now.Code != http.StatusOK || !strings.Contains(now.Body.String(), "granular:x.com/other") {
		t.Errorf("%s: %d", second, now.Code)
	}
	*kinds = nil
	if gone := get(filter, second); gone.Code != http.StatusMovedPermanently || gone.Header().Get("Location") != urlOf(upstream, "api/v1") {
		t.Errorf("a hash with notes that are gone: %d %v", gone.Code, gone.Header())
	}
}

// What is not there, or no document, passes as upstream has it.
func TestPassesTheRest(t *testing.T) {
	filter, upstream, _ := documented(t)
	for _, url := range []string{root + "/version", root + "/apis/nowhere/v1", root + "/apis", "/openapi/v2", root + "/api/v1/x"} {
		if ours, theirs := get(filter, url), get(upstream, url); ours.Code != theirs.Code || ours.Body.String() != theirs.Body.String() {
			t.Errorf("%s: %d %q, upstream %d %q", url, ours.Code, ours.Body, theirs.Code, theirs.Body)
		}
	}
	broken := &Filter{Next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Etag", `"x"`)
		_, _ = w.Write([]byte("no document"))
	}), Notary: filter.(*Filter).Notary}
	for _, url := range []string{root, root + "/api/v1"} {
		if w := get(broken, url); w.Code != http.StatusOK || w.Body.String() != "no document" {
			t.Errorf("%s: %d %s", url, w.Code, w.Body)
		}
	}
}
