package fieldfilter

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

var secrets = schema.GroupResource{Resource: "secrets"}

// world has hidden data of secrets, which sam sees and bob does not.
type world struct {
	filters *Filters
	snap    *snapshot.Snapshot
}

func reveals(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetUser().GetName() == "sam" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

type noLists struct{}

func (noLists) ListKeys(schema.GroupVersionKind, fieldperm.Path) []string { return nil }

func newWorld(t testing.TB, hides bool) *world {
	t.Helper()
	chain, err := authorize.NewChain(authorize.Link{Name: "test", Authorizer: authorizer.AuthorizerFunc(reveals)})
	if err != nil {
		t.Fatal(err)
	}
	fields, issues := fieldperm.New(fieldperm.Config{FieldPermissions: []*policyv1alpha1.FieldPermission{{ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: policyv1alpha1.FieldPermissionSpec{Resources: []string{"secrets"}, Field: ".data", Permission: "example.com/data", ReadExclusive: hides}}}})
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	everywhere := authorize.LocalFunc(func(string, string) bool { return true })
	gate := authorize.NewGate(authorize.GateConfig{Chain: chain, Conditional: true, Local: everywhere})
	codecs := serializer.NewCodecFactory(clientscheme.Scheme, serializer.WithSerializer(cbor.NewSerializerInfo))
	served := snapshot.Sources{Local: []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "secrets", Kind: "Secret", Namespaced: true}}}}}.Served()
	w := &world{filters: New(Config{Gate: gate, Store: snapshot.NewStore(), Codecs: codecs, Served: everywhere, Lists: noLists{}, MaxBody: 1 << 20}), snap: &snapshot.Snapshot{Fields: fields, Served: served}}
	w.filters.schemes[secrets] = &scheme{clientscheme.Scheme, codecs}
	return w
}

func (w *world) request(t testing.TB, who, verb string) *http.Request {
	attrs := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: who}, Verb: verb, APIVersion: "v1", Resource: "secrets", Namespace: "default", Name: "s", ResourceRequest: true}
	ctx := requestctx.WithNotes(requestctx.With(t.Context(), w.snap))
	requestctx.From(ctx).Put(requestctx.Request, attrs, requestctx.Allowed())
	return httptest.NewRequest(http.MethodPut, "/", nil).WithContext(ctx)
}

func (w *world) send(t testing.TB, who, verb string, handle http.HandlerFunc) *httptest.ResponseRecorder {
	recorded := httptest.NewRecorder()
	w.filters.Wrap(handle).ServeHTTP(recorded, w.request(t, who, verb))
	return recorded
}

// HF-2: responses to writes come without the field, in every encoding.
func TestAnswersAreShown(t *testing.T) {
	w := newWorld(t, true)
	secret := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Name: "visible"}, Data: map[string][]byte{"key": []byte("hidden")}}
	list := &corev1.SecretList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "SecretList"}, Items: []corev1.Secret{*secret}}
	for _, o := range []runtime.Object{secret, list} {
		for _, info := range w.filters.cfg.Codecs.SupportedMediaTypes() {
			var body bytes.Buffer
			if err := info.Serializer.Encode(o, &body); err != nil {
				t.Fatal(err)
			}
			handle := func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", info.MediaType)
				_, _ = w.Write(body.Bytes())
			}
			blind, sighted := w.send(t, "bob", "update", handle), w.send(t, "sam", "update", handle)
			if blind.Code != 200 || !strings.Contains(blind.Body.String(), "visible") || strings.Contains(blind.Body.String(), "key") {
				t.Errorf("%s %T: %d %q", info.MediaType, o, blind.Code, blind.Body)
			}
			if !bytes.Equal(sighted.Body.Bytes(), body.Bytes()) {
				t.Errorf("%s %T: changed for who sees it", info.MediaType, o)
			}
		}
	}
	if odd := w.send(t, "bob", "update", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hidden")) }); odd.Code != 500 || strings.HasPrefix(odd.Body.String(), "hidden") {
		t.Errorf("what cannot be read is shown: %d %s", odd.Code, odd.Body)
	}
}

// HF-2: what follows the reading of the stored object is not said: messages, causes and warnings.
func TestFailuresAreUnsaid(t *testing.T) {
	w := newWorld(t, true)
	for _, tc := range []struct {
		verb string
		code int
		says bool
	}{
		{"update", 422, false}, {"update", 409, false}, {"patch", 400, false}, {"update", 400, true}, {"update", 403, false}, {"update", 500, false},
		{"create", 422, true}, {"create", 500, false}, {"update", 404, true}, {"delete", 409, false},
	} {
		got := w.send(t, "bob", tc.verb, func(rw http.ResponseWriter, r *http.Request) {
			warning.AddWarning(r.Context(), "", "quoted")
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(tc.code)
			_, _ = fmt.Fprintf(rw, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":"Whatever","message":"quoted","details":{"causes":[{"message":"quoted"}]}}`, tc.code)
		})
		if got.Code != tc.code || strings.Contains(got.Body.String(), "quoted") != tc.says || strings.Contains(fmt.Sprint(got.Header()), "quoted") {
			t.Errorf("%s %d: %d %s", tc.verb, tc.code, got.Code, got.Body)
		}
	}
}

// HF-10: where nothing is hidden, a request pays one look.
func TestNothingHiddenCostsNothing(t *testing.T) {
	w := newWorld(t, false)
	r := w.request(t, "bob", "update")
	next := w.filters.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	recorded := httptest.NewRecorder()
	if n := testing.AllocsPerRun(100, func() { next.ServeHTTP(recorded, r) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// HF-2: tables show cells of the whole object, and compression hides it from us.
func TestPlainAccept(t *testing.T) {
	in := http.Header{"Accept": {"application/json;as=Table;v=v1;g=meta.k8s.io, application/json; As=table", "application/json"}, "Accept-Encoding": {"gzip"}}
	if out := plainAccept(in); out.Get("Accept") != "application/json" || out.Get("Accept-Encoding") != "" {
		t.Errorf("%v", out)
	}
}

// HF-5: a selector of a key that is not known, or of a hidden field, is refused to who does not see it.
func TestSelectors(t *testing.T) {
	w := newWorld(t, true)
	for _, tc := range []struct {
		who, selector string
		want          int
	}{{"bob", "type=x", 200}, {"bob", "metadata.name=x", 200}, {"bob", "data=x", 422}, {"bob", "other=x", 422}, {"sam", "other=x", 200}} {
		for _, verb := range []string{"list", "watch", "deletecollection"} {
			r := w.request(t, tc.who, verb)
			attrs := requestctx.From(r.Context()).Attributes().(authorizer.AttributesRecord)
			attrs.FieldSelectorRequirements = fields.ParseSelectorOrDie(tc.selector).Requirements()
			requestctx.From(r.Context()).Put(requestctx.Request, attrs, requestctx.Allowed())
			recorded := httptest.NewRecorder()
			w.filters.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(recorded, r)
			if recorded.Code != tc.want || tc.want == 422 && !strings.Contains(recorded.Body.String(), "reveal:example.com/data") {
				t.Errorf("%s: %s by %s: %d %s", tc.who, verb, tc.selector, recorded.Code, recorded.Body)
			}
		}
	}
}

// HF-8: what of an event cannot be redacted is left out.
func TestRedactLeavesOut(t *testing.T) {
	w := newWorld(t, true)
	hidden := w.snap.Fields.Hidden(fieldperm.Resource{Resource: "secrets"})
	if got := redacted(hidden, &runtime.Unknown{Raw: []byte(`{"data":{"a":"b"}}`)}, false); got != nil {
		t.Errorf("another version is shown: %s", got.Raw)
	}
	if got := redacted(hidden, &runtime.Unknown{Raw: []byte(`{"data":{"a":"b"}}`)}, true); got == nil || string(got.Raw) != `{}` {
		t.Errorf("%v", got)
	}
}
