package webhooks

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// SC-8: what is no review gets a 400 that says what is wanted, and nothing is asked.
func TestWhatIsNoReview(t *testing.T) {
	d := &Decider{}
	for _, c := range []struct {
		serve        http.HandlerFunc
		method, body string
		code         int
		says         string
	}{
		{d.ServeAccess, http.MethodGet, "", 405, "want POST"},
		{d.ServeAccess, http.MethodPost, "{", 400, "cannot be read"},
		{d.ServeAccess, http.MethodPost, "{}", 400, "want a SubjectAccessReview"},
		{d.ServeAccess, http.MethodPost, `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1beta1"}`, 400, "want a SubjectAccessReview"},
		{d.ServeAccess, http.MethodPost, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1"}`, 400, "want a SubjectAccessReview"},
		{d.ServeAccess, http.MethodPost, `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"user":"x",
			"resourceAttributes":{"verb":"get","fieldSelector":{"rawSelector":"a=b","requirements":[{"key":"a","operator":"Exists"}]}},"nonResourceAttributes":{"path":"/"}}}`, 400, ""},
		{d.ServeAdmission, http.MethodPut, "", 405, "want POST"},
		{d.ServeAdmission, http.MethodPost, "[]", 400, "cannot be read"},
		{d.ServeAdmission, http.MethodPost, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`, 400, "want an AdmissionReview"},
		{d.ServeAdmission, http.MethodPost, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{}}`, 400, "want an AdmissionReview"},
		{d.ServeAdmission, http.MethodPost, `{"kind":"ConversionReview","apiVersion":"admission.k8s.io/v1","request":{}}`, 400, "want an AdmissionReview"},
	} {
		w := httptest.NewRecorder()
		c.serve(w, httptest.NewRequest(c.method, "/", strings.NewReader(c.body)))
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.body, w.Code, w.Body, c.code, c.says)
		}
	}
}

// unproven is an interlock of a server that was never seen to call admission.
type unproven struct{ Interlock }

var errUnproven = errors.New("nobody was seen")

func (unproven) Watched(string) error { return errUnproven }

// SC-18: a write that admission may refuse waits for the proof that admission is called; a read, a path and our own
// groups, which are enforced where they are served, do not.
func TestWhatWaitsForAdmission(t *testing.T) {
	d := &Decider{cfg: Config{Interlock: unproven{}, Ours: []string{"ours.dev"}}}
	for _, c := range []struct {
		attrs authorizer.AttributesRecord
		waits bool
	}{
		{authorizer.AttributesRecord{Verb: "create", Resource: "pods", ResourceRequest: true}, true},
		{authorizer.AttributesRecord{Verb: "deletecollection", APIGroup: "apps", Resource: "deployments", ResourceRequest: true}, true},
		{authorizer.AttributesRecord{Verb: "get", Resource: "pods", ResourceRequest: true}, false},
		{authorizer.AttributesRecord{Verb: "create", APIGroup: "ours.dev", Resource: "policies", ResourceRequest: true}, false},
		{authorizer.AttributesRecord{Verb: "create", Path: "/x"}, false},
	} {
		if err := d.unwatched("c", c.attrs); (err != nil) != c.waits {
			t.Errorf("%+v: %v", c.attrs, err)
		}
	}
}

// SC-6: an admission belongs to one of these requests, and no other.
func TestCasesOfAnAdmission(t *testing.T) {
	for _, c := range []struct {
		r    admissionv1.AdmissionRequest
		want string
	}{
		{admissionv1.AdmissionRequest{Operation: "CREATE", Namespace: "n", Name: "x"}, "create/n/ create/n/x"},
		{admissionv1.AdmissionRequest{Operation: "CREATE", Namespace: "n", Name: "x", SubResource: "eviction"}, "create/n/x"},
		{admissionv1.AdmissionRequest{Operation: "UPDATE", Namespace: "n", Name: "x"}, "update/n/x patch/n/x"},
		{admissionv1.AdmissionRequest{Operation: "DELETE", Namespace: "n", Name: "x"}, "delete/n/x"},
		{admissionv1.AdmissionRequest{Operation: "DELETE", Namespace: "n"}, "deletecollection/n/"},
		{admissionv1.AdmissionRequest{Operation: "CONNECT", Namespace: "n", Name: "x"}, "create/n/x get/n/x update/n/x patch/n/x delete/n/x /n/x"},
		{admissionv1.AdmissionRequest{Operation: "OTHER", Namespace: "n", Name: "x"}, ""},
	} {
		var got []string
		for _, a := range cases(&c.r, &user.DefaultInfo{Name: "ann"}) {
			if !a.IsResourceRequest() || a.GetUser().GetName() != "ann" || a.GetSubresource() != c.r.SubResource {
				t.Errorf("%+v", a)
			}
			got = append(got, a.GetVerb()+"/"+a.GetNamespace()+"/"+a.GetName())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", c.r.Operation, got, c.want)
		}
	}
}

type definitions map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition

func (d definitions) Definition(kind schema.GroupKind) *apiextensionsv1.CustomResourceDefinition {
	return d[kind]
}

// SC-9: a custom resource is another version of itself by its name alone, unless a webhook converts it.
func TestCustomKindsAreRenamed(t *testing.T) {
	known := definitions{{Group: "g", Kind: "Plain"}: {}, {Group: "g", Kind: "None"}: {}, {Group: "g", Kind: "Hooked"}: {}}
	known[schema.GroupKind{Group: "g", Kind: "None"}].Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	known[schema.GroupKind{Group: "g", Kind: "Hooked"}].Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter}
	of := func(version, kind string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "g/" + version, "kind": kind, "spec": "s"}}
	}
	for _, c := range []struct {
		from, to any
		fails    string
	}{
		{of("v1", "Plain"), of("v2", "Plain"), ""},
		{of("v1", "None"), of("v2", "None"), ""},
		{of("v1", "Hooked"), of("v2", "Hooked"), "converted by a webhook"},
		{of("v1", "Unknown"), of("v2", "Unknown"), "no definition"},
		{of("v1", "Plain"), of("v2", "None"), "is not a version of"},
		{&corev1.Pod{}, of("v2", "Plain"), "cannot be converted"},
		{of("v1", "Plain"), &corev1.Pod{}, "cannot be converted"},
	} {
		err := custom{known}.Convert(c.from, c.to, nil)
		if c.fails == "" && (err != nil || c.to.(*unstructured.Unstructured).GetAPIVersion() != "g/v2" || c.from.(*unstructured.Unstructured).GetAPIVersion() != "g/v1") ||
			c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
			t.Errorf("%v to %v: %v", c.from, c.to, err)
		}
	}
}

// SC-6: a review without the object that its operation has is none, and options are those of the operation.
func TestAttributesOfAReview(t *testing.T) {
	d := &Decider{cfg: Config{Objects: &Objects{Definitions: definitions{}}}}
	raw := runtime.RawExtension{Raw: []byte(`{"apiVersion":"g/v1","kind":"K","metadata":{"name":"x"}}`)}
	kind := metav1.GroupVersionKind{Group: "g", Version: "v1", Kind: "K"}
	yes := true
	for _, c := range []struct {
		name     string
		r        admissionv1.AdmissionRequest
		fails    string
		old, new bool
		dry      bool
	}{
		{"create", admissionv1.AdmissionRequest{Operation: "CREATE", Kind: kind, Object: raw}, "", false, true, false},
		{"dry run", admissionv1.AdmissionRequest{Operation: "CREATE", Kind: kind, Object: raw, DryRun: &yes}, "", false, true, true},
		{"update", admissionv1.AdmissionRequest{Operation: "UPDATE", Kind: kind, Object: raw, OldObject: raw}, "", true, true, false},
		{"delete", admissionv1.AdmissionRequest{Operation: "DELETE", Kind: kind, OldObject: raw}, "", true, false, false},
		{"connect", admissionv1.AdmissionRequest{Operation: "CONNECT", Kind: kind}, "", false, false, false},
		{"create of nothing", admissionv1.AdmissionRequest{Operation: "CREATE", Kind: kind, OldObject: raw}, "no object", false, false, false},
		{"update of nothing", admissionv1.AdmissionRequest{Operation: "UPDATE", Kind: kind, Object: raw}, "no object", false, false, false},
		{"update to nothing", admissionv1.AdmissionRequest{Operation: "UPDATE", Kind: kind, OldObject: raw}, "no object", false, false, false},
		{"delete of nothing", admissionv1.AdmissionRequest{Operation: "DELETE", Kind: kind, Object: raw}, "no object", false, false, false},
		{"bad options", admissionv1.AdmissionRequest{Operation: "DELETE", Kind: kind, OldObject: raw, Options: runtime.RawExtension{Raw: []byte("[]")}}, "its options", false, false, false},
	} {
		a, err := d.attributes(&c.r, &user.DefaultInfo{Name: "ann"})
		if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err != nil {
			continue
		}
		if (a.GetObject() != nil) != c.new || (a.GetOldObject() != nil) != c.old || a.err != nil || a.IsDryRun() != c.dry || (a.GetOperationOptions() == nil) != (c.name == "connect") {
			t.Errorf("%s: %v %v %v", c.name, a.GetObject(), a.GetOldObject(), a.err)
		}
	}
	a, err := d.attributes(&admissionv1.AdmissionRequest{Operation: "CREATE", Kind: kind, Object: runtime.RawExtension{Raw: []byte(`{"apiVersion":"g/v2","kind":"K"}`)}}, nil)
	if err != nil || a.GetObject() != nil || a.err == nil || !strings.Contains(a.err.Error(), "the review is about") {
		t.Errorf("an object of another version: %v, %v", err, a.err)
	}
}

// SC-8: a refusal keeps its status; any other error is one. What is said twice is said once.
func TestWordsOfRefusals(t *testing.T) {
	known := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("no"))
	if got := statusOf(known); got.Details == nil || got.Details.Name != "x" || got.Code != 403 {
		t.Errorf("%+v", got)
	}
	if got := statusOf(errors.New("no")); got.Code != 403 || got.Reason != metav1.StatusReasonForbidden || got.Message != "no" || got.Status != metav1.StatusFailure {
		t.Errorf("%+v", got)
	}
	for _, c := range []struct {
		reason string
		err    error
		want   string
	}{{"a", nil, "a"}, {"", errors.New("b"), "b"}, {"a", errors.New("b"), "a; b"}, {"", nil, ""}} {
		if got := joined(c.reason, c.err); got != c.want {
			t.Errorf("%q and %v: %q", c.reason, c.err, got)
		}
	}
	if named(nil, "") || named(&user.DefaultInfo{Name: "a"}, "b") || !named(&user.DefaultInfo{Name: "a"}, "a") {
		t.Error("a caller is told by the name")
	}
	if _, err := New(Config{}); err == nil {
		t.Error("nothing is asked for")
	}
}
