package auditrule

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// recorder is the evaluator and the backend of upstream's audit filter: it keeps what was decided on and the last
// event.
type recorder struct {
	decidedOn authorizer.Attributes
	events    []*auditinternal.Event
}

func (r *recorder) EvaluatePolicyRule(a authorizer.Attributes) audit.RequestAuditConfig {
	r.decidedOn = a
	return audit.RequestAuditConfig{Level: auditinternal.LevelRequestResponse}
}

func (r *recorder) ProcessEvents(evs ...*auditinternal.Event) bool {
	for _, ev := range evs {
		r.events = append(r.events, ev.DeepCopy())
	}
	return true
}

// audited sends a request through upstream's own filters to a handler that logs the object as upstream's handlers for
// create and update do. The handlers of the other verbs log no object that has metadata.
func audited(t testing.TB, req *http.Request, u user.Info, obj runtime.Object, as user.Info) *recorder {
	t.Helper()
	rec := &recorder{}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	codecs := serializer.NewCodecFactory(scheme)
	handler := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := req.Context()
		info, _ := apirequest.RequestInfoFrom(ctx)
		if as != nil {
			audit.LogImpersonatedUser(ctx, as, "")
		}
		if info.IsResourceRequest && obj != nil && (info.Verb == "create" || info.Verb == "update") {
			gvr := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
			audit.LogRequestObject(ctx, obj, corev1.SchemeGroupVersion, gvr, info.Subresource, codecs)
		}
		w.WriteHeader(http.StatusOK)
	}))
	handler = filters.WithAudit(handler, rec, rec, nil)
	resolver := &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	handler = filters.WithRequestInfo(handler, resolver)
	handler = filters.WithAuditInit(handler)
	ctx := context.Background()
	if u != nil {
		ctx = apirequest.WithUser(ctx, u)
	}
	handler.ServeHTTP(httptest.NewRecorder(), req.WithContext(ctx))
	return rec
}

// DA-2, DA-6: what is recovered from an event, at every stage, is what upstream's filter decided on: neither the body
// of the request nor an impersonated user changes it.
func TestEventAttributesAreThoseDecidedOn(t *testing.T) {
	alice := &user.DefaultInfo{Name: "alice", Groups: []string{"devs"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "from-the-body", Namespace: "body-namespace", UID: "u"}}
	paths := []string{
		"/api/v1/namespaces/ns/pods", "/api/v1/namespaces/ns/pods/x", "/api/v1/namespaces/ns/pods/x/binding", "/api/v1/pods", "/api/v1/nodes",
		"/api/v1/nodes/n", "/api/v1/nodes/n/status", "/api/v1/namespaces", "/api/v1/namespaces/ns", "/api/v1/namespaces/ns/status", "/api/v1/namespaces/ns/finalize",
		"/apis/apps/v1/namespaces/ns/deployments", "/apis/apps/v1/namespaces/ns/deployments/d/scale", "/apis/apps/v1/deployments", "/apis/rbac/v1/clusterroles/c",
		"/api/v1/namespaces//pods", "/api/v1/namespaces/ns//x", "//api/v1/namespaces/ns/pods/", "/api/v1/namespaces/ns/pods/a%2Fb", "/api/v1/namespaces/ns/pods/a%20b?x=%2F",
		"/api/v1/watch/namespaces/ns/pods/x", "/api/v1/proxy/namespaces/ns/pods/x/y", "/api/v1/namespaces/ns/pods?fieldSelector=metadata.name%3Dpicked",
		"/", "/version", "/healthz/etcd?verbose", "/apis", "/apis/apps/v1", "/a%20b", "/api/v1",
		"/api/v1/namespaces/ns/namespaces", "/api/v1/namespaces/namespaces/namespaces/namespaces", "/api/v1/namespaces/ns/status/x",
	}
	checked := 0
	for _, path := range paths {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			for _, u := range []user.Info{alice, nil} {
				rec := audited(t, httptest.NewRequest(method, path, strings.NewReader("")), u, pod, &user.DefaultInfo{Name: "mallory", Groups: []string{"system:masters"}})
				if len(rec.events) < 2 {
					t.Fatalf("%s %s: %d events", method, path, len(rec.events))
				}
				want := flat(rec.decidedOn)
				for _, ev := range rec.events {
					if diff := cmp.Diff(want, flat(EventAttributes(ev))); diff != "" {
						t.Fatalf("%s %s, stage %s: %s", method, path, ev.Stage, diff)
					}
					checked++
				}
			}
		}
	}
	t.Logf("%d events", checked)
}

// flat lists what rules look at.
func flat(a authorizer.Attributes) []any {
	out := []any{a.GetVerb(), a.IsResourceRequest(), a.GetPath(), a.GetUser() != nil}
	if u := a.GetUser(); u != nil {
		out = append(out, u.GetName(), strings.Join(u.GetGroups(), ","))
	}
	if a.IsResourceRequest() {
		out = append(out, a.GetAPIGroup(), a.GetResource(), a.GetSubresource(), a.GetNamespace(), a.GetName())
	}
	return out
}

// DA-2: creating an object that is called like one that nobody wants to hear of does not hide the request, and neither
// does impersonating somebody nobody wants to hear of.
func TestBodyAndImpersonationDoNotHide(t *testing.T) {
	_, classes := load(t, `kind: AuditClass
metadata: {name: noise}
spec:
  rules:
  - groupResourceSelectors: [{group: "", resources: [{kind: configmaps, objectNames: [controller-leader]}]}]
  - subjects: [{type: User, names: [robot]}]
`)
	ix := Compile([]Source{{Receives: true, Policy: v1alpha1.Policy{Level: "Metadata", Rules: []v1alpha1.PolicyRule{{Level: "None", WithAuditClass: "noise"}}}}}, classes)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "controller-leader"}}
	for _, tc := range []struct {
		method, path string
		user         string
		as           user.Info
		want         Level
	}{
		{"POST", "/api/v1/namespaces/ns/configmaps", "alice", nil, Metadata},
		{"PUT", "/api/v1/namespaces/ns/configmaps/controller-leader", "alice", nil, None},
		{"PUT", "/api/v1/namespaces/ns/configmaps/other", "alice", &user.DefaultInfo{Name: "robot"}, Metadata},
		{"PUT", "/api/v1/namespaces/ns/configmaps/other", "robot", &user.DefaultInfo{Name: "alice"}, None},
	} {
		rec := audited(t, httptest.NewRequest(tc.method, tc.path, nil), &user.DefaultInfo{Name: tc.user}, config, tc.as)
		if got := ix.Max(rec.decidedOn); got != tc.want {
			t.Errorf("%s %s as %s: decided %s, want %s", tc.method, tc.path, tc.user, got, tc.want)
		}
		for _, ev := range rec.events {
			if got := ix.EventLevels(ev, nil)[0]; got != tc.want {
				t.Errorf("%s %s as %s, stage %s: routed at %s, want %s", tc.method, tc.path, tc.user, ev.Stage, got, tc.want)
			}
		}
	}
}
