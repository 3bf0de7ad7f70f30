package crdschema

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/request/requestctx"
)

// rocket is a definition with two versions. %s are further properties of the spec of each.
const rocket = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: rockets.example.com}
spec:
  group: example.com
  names: {kind: Rocket, plural: rockets}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {%s}}}}}
  - name: v2
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {%s}}}}}
`

const (
	plain    = `fire: {type: boolean}`
	guarded  = `fire: {type: boolean, x-kubernetes-permission-verb: example.com/fire, x-kubernetes-permission-exclusive: true}`
	firePath = place("/properties/spec/properties/fire")
)

// definition is the text of a rocket with the same properties in both versions.
func definition(spec string) string { return fmt.Sprintf(rocket, spec, spec) }

func tree(t testing.TB, text string) any {
	t.Helper()
	doc, err := parseYAML([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc.root
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	scheme = sync.OnceValue(func() *runtime.Scheme {
		s := runtime.NewScheme()
		install.Install(s)
		metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
		return s
	})
	codecs = sync.OnceValue(func() serializer.CodecFactory { return serializer.NewCodecFactory(scheme()) })
)

// internal is a definition as admission sees it. What it declares is in its annotation.
func internal(t testing.TB, text string) *apiextensions.CustomResourceDefinition {
	t.Helper()
	root := tree(t, text)
	l := lift(root)
	if len(l.errs) > 0 {
		t.Fatal(l.errs)
	}
	if l.carries {
		r := record{}
		for version, places := range l.record {
			for at, e := range places {
				for key, value := range e.stated() {
					r.put(version, at, key, value)
				}
			}
		}
		annotation, err := r.encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := annotate(root, annotation, ""); err != nil {
			t.Fatal(err)
		}
	}
	var v1 apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict([]byte(asJSON(t, root)), &v1); err != nil {
		t.Fatal(err)
	}
	var out apiextensions.CustomResourceDefinition
	if err := scheme().Convert(&v1, &out, nil); err != nil {
		t.Fatal(err)
	}
	return &out
}

// forwarded is what a filter sent on.
type forwarded struct {
	body, contentType string
	carried           *carried
}

// call is one request to a filter.
type call struct {
	verb, subresource string
	contentType, body string
	header            http.Header
	// current is the stored definition as it is shown, for JSON patches.
	current string
	maxBody int64
	// answer writes the response; 200 and no body without it.
	answer func(http.ResponseWriter, *http.Request)
}

// do sends a request through a filter. sent is nil if it did not go on.
func (c call) do(t testing.TB) (*httptest.ResponseRecorder, *forwarded) {
	t.Helper()
	var sent *forwarded
	if c.maxBody == 0 {
		c.maxBody = 3 << 20
	}
	f := &Filter{
		MaxBody:    c.maxBody,
		Serializer: codecs(),
		Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil || int64(len(body)) != r.ContentLength && r.ContentLength >= 0 {
				t.Errorf("%d bytes of %d: %v", len(body), r.ContentLength, err)
			}
			sent = &forwarded{string(body), r.Header.Get("Content-Type"), requestctx.DefinitionOf(r.Context())}
			if c.answer != nil {
				c.answer(w, r)
			}
		}),
		Current: func(context.Context, string) ([]byte, error) {
			text, err := yaml.YAMLToJSON([]byte(c.current))
			return text, err
		},
	}
	method := map[string]string{"create": "POST", "update": "PUT", "patch": "PATCH", "get": "GET", "list": "GET", "watch": "GET"}[c.verb]
	r := httptest.NewRequest(method, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rockets.example.com", strings.NewReader(c.body))
	r.Header = http.Header{}
	for name, values := range c.header {
		r.Header[name] = values
	}
	if c.contentType != "" {
		r.Header.Set("Content-Type", c.contentType)
	}
	r = r.WithContext(request.WithRequestInfo(r.Context(), &request.RequestInfo{IsResourceRequest: true, Verb: c.verb, Name: "rockets.example.com",
		APIGroup: "apiextensions.k8s.io", APIVersion: "v1", Resource: "customresourcedefinitions", Subresource: c.subresource}))
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w, sent
}

// randomSchema makes a node of a schema, with declarations at some of its fields. Names and values that only look like
// declarations are in it too.
func randomSchema(r *rand.Rand, depth int, declares bool) map[string]any {
	m := map[string]any{}
	if depth == 0 || r.Intn(4) == 0 {
		m["type"] = "string"
		if r.Intn(3) == 0 {
			m["default"] = map[string]any{KeyVerb: "not/ours"}
		}
		if r.Intn(4) == 0 {
			m["enum"] = []any{"a", map[string]any{KeyExclusive: true}}
		}
	} else {
		switch r.Intn(4) {
		case 0:
			m["type"], m[items] = "array", randomSchema(r, depth-1, true)
		case 1:
			m["type"], m[additional] = "object", randomSchema(r, depth-1, true)
		default:
			props := map[string]any{}
			for range 1 + r.Intn(3) {
				props[[]string{"a", "b/c", "d~e", "properties", "items", KeyVerb, "ä", ""}[r.Intn(8)]] = randomSchema(r, depth-1, true)
			}
			m["type"], m[properties] = "object", props
		}
		if r.Intn(4) == 0 {
			m["allOf"] = []any{map[string]any{"not": map[string]any{"required": []any{"x"}}}}
		}
	}
	if declares && r.Intn(3) == 0 {
		m[KeyVerb] = []string{"specification", "example.com/a"}[r.Intn(2)]
		if r.Intn(2) == 0 {
			m[KeyExclusive] = r.Intn(2) == 0
		}
		if r.Intn(3) == 0 {
			m[KeyParameter], m[KeyTreatment] = "value", "slash-delimited-prefix"
		}
	}
	return m
}

func randomDefinition(r *rand.Rand) map[string]any {
	var versions []any
	for i := range 1 + r.Intn(3) {
		versions = append(versions, map[string]any{"name": fmt.Sprintf("v%d", i+1), "served": true, "storage": i == 0,
			"schema": map[string]any{"openAPIV3Schema": randomSchema(r, 1+r.Intn(6), false)}})
	}
	metadata := map[string]any{"name": "rockets.example.com"}
	if r.Intn(2) == 0 {
		metadata["annotations"] = map[string]any{"a": "b"}
	}
	return map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata,
		"spec": map[string]any{"group": "example.com", "names": map[string]any{"plural": "rockets", "kind": "Rocket"}, "versions": versions}}
}
