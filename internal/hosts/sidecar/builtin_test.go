package sidecar

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// SC-5: what is not known to be served is refused, so that everything built in has to be known: the aggregator's own
// group, too, for which nothing is registered. What another server serves is none of it.
func TestBuiltin(t *testing.T) {
	answers := map[string]string{
		"/apis/apiregistration.k8s.io/v1/apiservices": `{"kind": "APIServiceList", "apiVersion": "apiregistration.k8s.io/v1", "items": [
			{"metadata": {"name": "v1."}, "spec": {"version": "v1"}},
			{"metadata": {"name": "v1.example.com"}, "spec": {"group": "example.com", "version": "v1", "service": {"namespace": "default", "name": "x"}}}]}`,
		"/api/v1":                         `{"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "pods", "kind": "Pod", "verbs": ["get"]}]}`,
		"/apis/apiregistration.k8s.io/v1": `{"kind": "APIResourceList", "groupVersion": "apiregistration.k8s.io/v1", "resources": [{"name": "apiservices", "kind": "APIService", "verbs": ["get"]}]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	all, err := builtin(t.Context(), config)
	if err != nil || len(all) != 2 || all[0].GroupVersion != "v1" || all[1].GroupVersion != "apiregistration.k8s.io/v1" {
		t.Errorf("%v, %v", all, err)
	}
	answers["/apis/apiregistration.k8s.io/v1/apiservices"] = `{"kind": "APIServiceList", "apiVersion": "apiregistration.k8s.io/v1"}`
	if all, err := builtin(t.Context(), config); err == nil {
		t.Errorf("an API server that has registered nothing yet serves %v", all)
	}
}
