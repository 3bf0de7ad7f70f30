package accessreview

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

const (
	asJSON     = "application/json"
	asProtobuf = "application/vnd.kubernetes.protobuf"
	asCBOR     = "application/cbor"
)

func client(t *testing.T, server *rest.Config, contentType string) *authorizationclient.AuthorizationV1Client {
	t.Helper()
	config := rest.CopyConfig(server)
	config.ContentType, config.AcceptContentTypes, config.BearerToken = contentType, contentType, "alice"
	c, err := authorizationclient.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var podRead = authorizationv1.ResourceAttributes{Namespace: "hammer", Verb: "list", Version: "v1", Resource: "pods",
	FieldSelector: &authorizationv1.FieldSelectorAttributes{RawSelector: "spec.nodeName=n1"}}

// CA-14: clients built from k8s.io/api see no difference, in whatever encoding.
func TestStockClients(t *testing.T) {
	for _, contentType := range []string{asJSON, asProtobuf} {
		for _, tt := range []struct {
			name     string
			decision authorizer.ConditionsAwareDecision
			want     authorizationv1.SubjectAccessReviewStatus
		}{
			{"allow", allow, authorizationv1.SubjectAccessReviewStatus{Allowed: true, Reason: "role admin"}},
			{"deny", deny, authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: "not on Sundays"}},
			{"no opinion", noOpinion, authorizationv1.SubjectAccessReviewStatus{}},
			{"could allow", onlyDev, authorizationv1.SubjectAccessReviewStatus{Reason: "a: depends on conditions"}},
			{"could deny", notProd, authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: "depends on conditions"}},
		} {
			t.Run(contentType+"/"+tt.name, func(t *testing.T) {
				c := client(t, serve(t, Config{}, tt.decision), contentType)
				subject := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
					User: "edgar", Groups: []string{"g"}, UID: "1", Extra: map[string]authorizationv1.ExtraValue{"k": {"v", "w"}}, ResourceAttributes: &podRead}}
				got, err := c.SubjectAccessReviews().Create(t.Context(), subject, metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(subject.Spec, got.Spec) + cmp.Diff(tt.want, got.Status); diff != "" {
					t.Errorf("SubjectAccessReview (-want +got):\n%s", diff)
				}
				self, err := c.SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
					Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &podRead}}, metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(&podRead, self.Spec.ResourceAttributes) + cmp.Diff(tt.want, self.Status); diff != "" {
					t.Errorf("SelfSubjectAccessReview (-want +got):\n%s", diff)
				}
				local, err := c.LocalSubjectAccessReviews("hammer").Create(t.Context(), &authorizationv1.LocalSubjectAccessReview{
					ObjectMeta: metav1.ObjectMeta{Namespace: "hammer"}, Spec: subject.Spec}, metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(subject.Spec, local.Spec) + cmp.Diff(tt.want, local.Status) + cmp.Diff("hammer", local.Namespace); diff != "" {
					t.Errorf("LocalSubjectAccessReview (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// CA-14: what kubectl sends, byte for byte: auth can-i, and create -f with strict validation.
func TestKubectl(t *testing.T) {
	conditional := `"conditionalAuthorization":{"mode":"HumanReadable"}`
	for _, tt := range []struct {
		name, path, body string
		code             int
		want             string
	}{
		{"can-i create pods", "v1/selfsubjectaccessreviews",
			`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{"resourceAttributes":{"namespace":"default","verb":"create","resource":"pods"}},"status":{"allowed":false}}`,
			201, `"status":{"allowed":false,"reason":"a: depends on conditions"}`},
		{"can-i of an older kubectl", "v1/selfsubjectaccessreviews",
			`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{"creationTimestamp":null},"spec":{"resourceAttributes":{"namespace":"default","verb":"get","group":"apps","resource":"deployments","subresource":"scale","name":"web"}},"status":{"allowed":false}}`,
			201, `"status":{"allowed":false,"reason":"a: depends on conditions"}`},
		{"can-i get /logs/", "v1/selfsubjectaccessreviews",
			`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{"nonResourceAttributes":{"path":"/logs/","verb":"get"}},"status":{"allowed":false}}`,
			201, `"status":{"allowed":false,"reason":"a: depends on conditions"}`},
		{"create -f, asking for conditions", "v1/selfsubjectaccessreviews?fieldManager=kubectl-create&fieldValidation=Strict",
			`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"resourceAttributes":{"verb":"create","version":"v1","resource":"pods"},` + conditional + `}}`,
			201, `"status":{"allowed":false,"conditionsChain":[{"authorizerName":"a","failureMode":"Deny","conditions":[{`},
		{"create -f with a slip of the pen", "v1/selfsubjectaccessreviews?fieldManager=kubectl-create&fieldValidation=Strict",
			`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"resourceAttributes":{"verb":"create","version":"v1","resource":"pods"},"conditionalAuthorisation":{}}}`,
			400, `unknown field \"spec.conditionalAuthorisation\"`},
		{"can-i --list", "v1/selfsubjectrulesreviews",
			`{"kind":"SelfSubjectRulesReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{"namespace":"default"},"status":{"resourceRules":null,"nonResourceRules":null,"incomplete":false}}`,
			201, `"spec":{},"status":{"resourceRules":[],"nonResourceRules":[],"incomplete":false}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := post(t, serve(t, Config{}, onlyDev), group+tt.path, asJSON, asJSON, []byte(tt.body))
			if got.code != tt.code || !strings.Contains(string(got.body), tt.want) {
				t.Errorf("got %d %s\nwant %d with %s", got.code, got.body, tt.code, tt.want)
			}
		})
	}
}

// A caller that asks in JSON and reads protobuf cannot see conditions: what could deny must not become no opinion.
func TestConditionsFoldInProtobuf(t *testing.T) {
	for _, ask := range []string{`"conditionalAuthorization":{"mode":"HumanReadable"}`,
		`"authorizationOptions":{"handledDecisionTypes":["ConditionsMap","Union"]}`} {
		for _, tt := range []struct {
			name      string
			decisions []authorizer.ConditionsAwareDecision
			denied    bool
		}{
			{"could deny", []authorizer.ConditionsAwareDecision{notProd, allow}, true},
			{"could deny in the end", []authorizer.ConditionsAwareDecision{onlyDev, deny}, true},
			{"could deny inside", []authorizer.ConditionsAwareDecision{union("x", noOpinion, "y", notProd)}, true},
			{"could only allow", []authorizer.ConditionsAwareDecision{onlyDev}, false},
		} {
			t.Run(tt.name+ask, func(t *testing.T) {
				body := `{"spec":{"user":"edgar","resourceAttributes":{"verb":"create","version":"v1","resource":"pods"},` + ask + `}}`
				r := post(t, serve(t, Config{}, tt.decisions...), group+"v1/subjectaccessreviews", asJSON, asProtobuf, []byte(body))
				var envelope runtime.Unknown
				var got authorizationv1.SubjectAccessReview
				if err := envelope.Unmarshal(r.body[4:]); err != nil {
					t.Fatal(err)
				}
				if err := got.Unmarshal(envelope.Raw); err != nil {
					t.Fatal(err)
				}
				if envelope.Kind != "SubjectAccessReview" || envelope.APIVersion != "authorization.k8s.io/v1" {
					t.Errorf("got %+v", envelope.TypeMeta)
				}
				if got.Status.Allowed || got.Status.Denied != tt.denied || got.Spec.User != "edgar" {
					t.Errorf("got %+v, want denied=%v", got.Status, tt.denied)
				}
			})
		}
	}
}

// CBOR carries everything that JSON does.
func TestCBOR(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.CBORServingAndStorage, true)
	server := serve(t, Config{Evaluate: spoken}, notProd, allow)
	for _, tt := range []struct{ path, body, want string }{
		{"v1/subjectaccessreviews",
			`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"edgar","resourceAttributes":{"verb":"create","version":"v1","resource":"pods"},"conditionalAuthorization":{"mode":"HumanReadable"}}}`,
			`"conditions":[{"condition":"object.env == 'prod'"`},
		{"v1alpha1/authorizationconditionsreviews",
			`{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"AuthorizationConditionsReview","request":{"operation":"CREATE","object":{"metadata":{"name":"x"},"n":7},"conditionSet":{"conditions":[{"id":"a/b","effect":"Allow","type":"k8s.io/authorization-cel","condition":"x"}]}}}`,
			`"response":{"allowed":true,`},
	} {
		var value any
		if err := json.Unmarshal([]byte(tt.body), &value); err != nil {
			t.Fatal(err)
		}
		body, err := cbor.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		for _, contentType := range []string{asCBOR, asJSON} {
			sent := body
			if contentType == asJSON {
				sent = []byte(tt.body)
			}
			r := post(t, server, group+tt.path, contentType, asCBOR, sent)
			var answer any
			if err := cbor.Unmarshal(r.body, &answer); err != nil {
				t.Fatalf("%d %s %q: %v", r.code, r.contentType, r.body, err)
			}
			text, _ := json.Marshal(answer)
			if r.code != 201 || r.contentType != asCBOR || !strings.Contains(string(text), tt.want) {
				t.Errorf("got %d %s %s\nwant %s", r.code, r.contentType, text, tt.want)
			}
		}
	}
}
