package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"proviso.dev/proviso/api/authorizationreview/reviewserver"
	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
)

func ask(t *testing.T, body string) string {
	t.Helper()
	text, err := os.ReadFile("policy.cedar")
	if err != nil {
		t.Fatal(err)
	}
	a, err := newAuthorizer("policy.cedar", text)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	reviewserver.Handler(a).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// CA-27: what the policy leaves open is answered as conditions, and these come to what the policy says.
func TestPolicy(t *testing.T) {
	review, err := os.ReadFile("question.txt")
	if err != nil {
		t.Fatal(err)
	}
	var answer reviewv1.SubjectAccessReview
	if err := json.Unmarshal([]byte(ask(t, string(review))), &answer); err != nil || len(answer.Status.ConditionsChain) != 1 {
		t.Fatalf("%v: %+v", err, answer)
	}
	set, err := json.Marshal(answer.Status.ConditionsChain[0])
	if err != nil {
		t.Fatal(err)
	}
	for object, want := range map[string]string{
		`{"data":{"env":"dev","team":"a"}}`:  `"response":{"allowed":true,`,
		`{"data":{"env":"prod","team":"a"}}`: `"response":{"allowed":false}`,
		`{"data":{"env":"dev"}}`:             `"denied":true,"reason":"condition \"team\" denied the request: a config map names its team"`,
		`{"data":{"team":"a"}}`:              `"response":{"allowed":false,"reason":"condition \"dev-only\": record does not have`,
		`{}`:                                 `"denied":true,"reason":"a condition that denies could not be evaluated"`,
		`null`:                               `"denied":true,`,
		`{"data":{"env":"dev","team":1.5}}`:  `Cedar has no value for 1.5`,
	} {
		got := ask(t, `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"AuthorizationConditionsReview","request":{"operation":"CREATE","object":`+object+`,"conditionSet":`+string(set)+`}}`)
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", object, got, want)
		}
	}
}

// CA-27: what is decided without the object has no conditions.
func TestWithoutObject(t *testing.T) {
	for question, want := range map[string]string{
		`"user":"dora","resourceAttributes":{"verb":"create","resource":"configmaps"}`:                    `"status":{"allowed":false}`,
		`"user":"carla","resourceAttributes":{"verb":"create","resource":"secrets"}`:                      `"status":{"allowed":false}`,
		`"user":"carla","resourceAttributes":{"verb":"update","resource":"configmaps","subresource":"x"}`: `"status":{"allowed":false}`,
		`"user":"carla","resourceAttributes":{"verb":"create","resource":"configmaps"}`:                   `"denied":true`, // cannot carry conditions
		`"user":"carla","nonResourceAttributes":{"verb":"get","path":"/healthz"}`:                         `"status":{"allowed":false}`,
	} {
		got := ask(t, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{`+question+`}}`)
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", question, got, want)
		}
	}
}
