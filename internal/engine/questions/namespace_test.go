package questions

import (
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// NI-8: the namespace of a request is the one that Kubernetes reads from its URL.
func TestNamespaceIsThatOfTheURL(t *testing.T) {
	factory := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	for _, test := range []struct{ method, url string }{
		{"GET", "/api/v1/namespaces/x"},
		{"GET", "/api/v1/namespaces"},
		{"GET", "/api/v1/namespaces?watch=true"},
		{"GET", "/api/v1/namespaces?fieldSelector=metadata.name%3Dx"},
		{"POST", "/api/v1/namespaces"},
		{"PUT", "/api/v1/namespaces/x"},
		{"PATCH", "/api/v1/namespaces/x"},
		{"DELETE", "/api/v1/namespaces/x"},
		{"DELETE", "/api/v1/namespaces"},
		{"PUT", "/api/v1/namespaces/x/finalize"},
		{"PATCH", "/api/v1/namespaces/x/status"},
		{"GET", "/apis/example.com/v1/namespaces/x"},
		{"GET", "/api/v1/namespaces/x/pods"},
		{"GET", "/api/v1/namespaces/x/pods/y"},
		{"GET", "/api/v1/nodes/y"},
	} {
		r, err := http.NewRequest(test.method, test.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		info, err := factory.NewRequestInfo(r)
		if err != nil {
			t.Fatal(err)
		}
		// What a tool knows of it is the scope of the resource, and what the user names.
		asked := Target{Verb: info.Verb, Resource: info.Resource, Subresource: info.Subresource, Name: info.Name}
		if info.Resource != Namespaces {
			asked.Namespace = info.Namespace
		}
		if got := asked.InNamespace(); got != info.Namespace {
			t.Errorf("%s %s: namespace %q, want %q", test.method, test.url, got, info.Namespace)
		}
	}
}
