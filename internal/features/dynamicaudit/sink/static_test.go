package sink

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	upstream "k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/filters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/plugin/pkg/audit/truncate"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// keeper is a static backend that keeps copies and can refuse.
type keeper struct {
	mu       sync.Mutex
	events   []*auditinternal.Event
	seen     []*auditinternal.Event // the pointers
	refuse   bool
	running  bool
	finished bool
}

func (k *keeper) ProcessEvents(events ...*auditinternal.Event) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, ev := range events {
		k.events = append(k.events, ev.DeepCopy())
	}
	k.seen = append(k.seen, events...)
	return !k.refuse
}
func (k *keeper) Run(<-chan struct{}) error { k.running = true; return nil }
func (k *keeper) Shutdown()                 { k.finished = true }
func (k *keeper) String() string            { return "keeper" }

func policyFile(t testing.TB, text string) audit.PolicyRuleEvaluator {
	t.Helper()
	p, err := upstream.LoadPolicyFromBytes([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	return upstream.NewPolicyRuleEvaluator(p)
}

// served sends requests through upstream's audit filter to a handler that logs bodies as upstream's handlers do.
func served(t testing.TB, sink audit.Sink, policy audit.PolicyRuleEvaluator) func(method, path string) *httptest.ResponseRecorder {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	codecs := serializer.NewCodecFactory(scheme)
	object := func() *corev1.Pod {
		return &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{}}`)}}}}}
	}
	handler := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := req.Context()
		info, _ := apirequest.RequestInfoFrom(ctx)
		if info.IsResourceRequest {
			gvr := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
			if info.Verb == "create" || info.Verb == "update" {
				audit.LogRequestObject(ctx, object(), corev1.SchemeGroupVersion, gvr, info.Subresource, codecs)
			}
			switch info.Verb {
			case "watch":
			case "list":
				audit.LogResponseObject(ctx, &corev1.PodList{Items: []corev1.Pod{*object(), *object()}}, corev1.SchemeGroupVersion, codecs)
			default:
				audit.LogResponseObject(ctx, object(), corev1.SchemeGroupVersion, codecs)
			}
		}
		w.WriteHeader(http.StatusOK)
	}))
	longRunning := func(r *http.Request, info *apirequest.RequestInfo) bool { return info.Verb == "watch" }
	handler = filters.WithAudit(handler, sink, policy, longRunning)
	handler = filters.WithRequestInfo(handler, &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")})
	handler = filters.WithAuditInit(handler)
	return func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		req := httptest.NewRequest(method, path, nil)
		req.Header.Set(auditv1.HeaderAuditID, strings.ReplaceAll(method+path, "/", "-"))
		handler.ServeHTTP(w, req.WithContext(apirequest.WithUser(context.Background(), &user.DefaultInfo{Name: "alice"})))
		return w
	}
}

var staticRequests = [][2]string{
	{"POST", "/api/v1/namespaces/ns/pods"}, {"GET", "/api/v1/namespaces/ns/pods"}, {"GET", "/api/v1/namespaces/ns/pods/p"}, {"PUT", "/api/v1/namespaces/ns/pods/p"},
	{"GET", "/api/v1/namespaces/ns/pods?watch=true"}, {"GET", "/api/v1/namespaces/ns/secrets/s"}, {"DELETE", "/api/v1/namespaces/ns/pods/p"}, {"GET", "/healthz"}, {"GET", "/version"},
}

// DA-7: through upstream's own filter, the static backend gets exactly the same events with sinks beside it as without
// any: levels, stages, managed fields, bodies byte for byte.
func TestStaticAuditIsUnchanged(t *testing.T) {
	policies := []string{
		"rules: [{level: Metadata}]",
		"rules: [{level: RequestResponse}]",
		"omitManagedFields: true\nrules: [{level: RequestResponse}]",
		"omitStages: [RequestReceived, ResponseStarted]\nrules: [{level: Request, omitManagedFields: true, resources: [{group: '', resources: [pods]}]}, {level: Metadata, nonResourceURLs: ['/healthz']}]",
		"rules: [{level: None, users: [alice], verbs: [get]}, {level: Request, omitStages: [ResponseComplete]}]",
		"rules: [{level: None}]",
	}
	normal := func(events []*auditinternal.Event) []*auditinternal.Event {
		for _, ev := range events {
			ev.RequestReceivedTimestamp, ev.StageTimestamp = metav1.MicroTime{}, metav1.MicroTime{}
		}
		return events
	}
	for _, text := range policies {
		alone := &keeper{}
		send := served(t, alone, policyFile(t, text))
		for _, r := range staticRequests {
			send(r[0], r[1])
		}
		for _, level := range []v1alpha1.Level{"None", "Metadata", "Request", "RequestResponse"} {
			beside := &keeper{}
			a := newHTTPSink(t)
			r := startRouter(t, Config{AllowInsecure: true, Static: &Static{Evaluator: policyFile(t, text), Backend: beside}})
			r.Update([]*v1alpha1.AuditSink{a.object("a", level)}, nil)
			send := served(t, r, r.Evaluator())
			for _, r := range staticRequests {
				send(r[0], r[1])
			}
			if diff := cmp.Diff(normal(alone.events), normal(beside.events)); diff != "" {
				t.Errorf("policy %q beside a sink at %s: %s", text, level, diff)
			}
			if level != "None" { // and the sink, what its own policy says: managed fields included
				got := a.await(t, len(staticRequests)+1) // a watch has two
				for _, ev := range got {
					body := ""
					if ev.ResponseObject != nil {
						body = string(ev.ResponseObject.Raw)
					}
					if ev.Level != auditinternal.Level(level) || ev.Stage == auditinternal.StageRequestReceived ||
						(level == "RequestResponse" && ev.ObjectRef != nil && ev.Verb != "watch") != strings.Contains(body, "managedFields") {
						t.Errorf("policy %q, sink at %s got %s %s %s: %.200s", text, level, ev.Level, ev.Stage, ev.AuditID, body)
					}
				}
				if len(got) != len(staticRequests)+1 {
					t.Errorf("%d events", len(got))
				}
			}
			r.Shutdown()
		}
	}
}

// DA-8: the event is in the spool when the response has been written, and the Audit-ID is that of the request.
func TestSpooledBeforeTheResponseEnds(t *testing.T) {
	dead := newHTTPSink(t)
	dead.Close()
	r := startRouter(t, Config{AllowInsecure: true})
	r.Update([]*v1alpha1.AuditSink{sinkAt("a", "Metadata", dead.URL, nil)}, nil)
	send := served(t, r, r.Evaluator())
	for i := range 20 {
		w := send("GET", "/api/v1/namespaces/ns/pods/p")
		if s := status(t, r, "a"); s.Spooled != uint64(i+1) {
			t.Fatalf("%d events in the spool after %d responses", s.Spooled, i+1)
		}
		if w.Header().Get(auditv1.HeaderAuditID) == "" {
			t.Fatal("no audit ID")
		}
	}
}

// DA-7: a blocking static backend still decides whether a request is served; sinks never do. Run and Shutdown reach it,
// and what nobody else wants reaches it as it is, not as a copy.
func TestStaticBackendDecides(t *testing.T) {
	k := &keeper{refuse: true}
	a := newHTTPSink(t)
	r := newRouter(t, Config{AllowInsecure: true, Static: &Static{Evaluator: policyFile(t, "rules: [{level: Metadata, verbs: [create]}]"), Backend: k}})
	r.Update([]*v1alpha1.AuditSink{a.object("a", "Metadata")}, nil)
	if err := r.Run(make(chan struct{})); err != nil || !k.running {
		t.Fatal("not running", err)
	}
	if r.ProcessEvents(testEvent("x")) {
		t.Error("the static backend refuses, but the request goes on")
	}
	other := testEvent("y")
	other.Verb = "get"
	if !r.ProcessEvents(other) {
		t.Error("the static backend was not asked, but the request is refused")
	}
	r.Update(nil, nil)
	alone := testEvent("z")
	alone.Level, alone.RequestObject, alone.ResponseObject = auditinternal.LevelMetadata, nil, nil
	r.ProcessEvents(alone)
	if !slices.Contains(k.seen, alone) {
		t.Error("an event that only the static backend wants was copied")
	}
	r.Shutdown()
	if !k.finished {
		t.Error("not shut down")
	}
}

// DA-6: upstream's truncating backend writes into the annotations that it is handed; sinks must not see that.
func TestTruncationOfOthersIsNotSeen(t *testing.T) {
	k, a := &keeper{}, newHTTPSink(t)
	backend := truncate.NewBackend(k, truncate.Config{MaxEventSize: 700, MaxBatchSize: 7000}, auditv1.SchemeGroupVersion)
	r := startRouter(t, Config{AllowInsecure: true, Static: &Static{Evaluator: policyFile(t, "rules: [{level: RequestResponse}]"), Backend: backend}})
	r.Update([]*v1alpha1.AuditSink{a.object("a", "RequestResponse")}, nil)
	ev := testEvent("x")
	ev.Annotations = map[string]string{"k": "v"}
	ev.ResponseObject.Raw = []byte(`"` + strings.Repeat("x", 1000) + `"`)
	for _, stage := range []auditinternal.Stage{auditinternal.StageResponseStarted, auditinternal.StageResponseComplete} {
		ev.Stage = stage
		r.ProcessEvents(ev)
	}
	for _, got := range a.await(t, 2) {
		if got.Annotations[truncatedKey] != "" || got.ResponseObject == nil {
			t.Errorf("%s: %v", got.Stage, got.Annotations)
		}
	}
	if len(k.events) != 2 || k.events[0].Annotations[truncatedKey] != "true" {
		t.Errorf("the static backend did not truncate: %+v", k.events)
	}
}
