package readfilter

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"k8s.io/apiserver/pkg/endpoints/request"

	"proviso.dev/proviso/internal/request/authorize"
)

// RD-10: the public parameter is taken out of requests for what is served here, in any encoding of its name, and out of
// no others. Everything else of the query stays as it was written.
func TestShardSelectorIsIgnored(t *testing.T) {
	for _, tc := range []struct {
		query, group, want string
	}{
		{"shardSelector=x", "", ""},
		{"limit=5&shardSelector=nonsense&labelSelector=a%3Db", "", "limit=5&labelSelector=a%3Db"},
		{"shard%53elector=x&%73hardSelector=y&limit=5", "", "limit=5"},
		{"shardSelector", "", ""},
		{"shardSelector=a&shardSelector=b", "", ""},
		{"shardselector=x&fieldSelector=a%3DshardSelector", "", "shardselector=x&fieldSelector=a%3DshardSelector"},
		{"shardSelector=x&limit=5", "elsewhere.example.com", "shardSelector=x&limit=5"},
		{"shard%5zelector=x", "", "shard%5zelector=x"}, // nobody can read that
	} {
		var got string
		h := Unsharded(authorize.LocalFunc(func(group, _ string) bool { return group == "" }), http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			got = req.URL.RawQuery
			if _, ok := req.URL.Query()[shardParameter]; ok && tc.group == "" {
				t.Errorf("%s: it is still there", tc.query)
			}
			if u, err := url.ParseRequestURI(req.RequestURI); err != nil || u.RawQuery != req.URL.RawQuery {
				t.Errorf("%s: the URI is %s", tc.query, req.RequestURI)
			}
		}))
		req := httptest.NewRequest(http.MethodGet, "/api/v1/pods?"+tc.query, nil)
		info := &request.RequestInfo{IsResourceRequest: true, Verb: "list", APIGroup: tc.group, APIVersion: "v1", Resource: "pods"}
		h.ServeHTTP(httptest.NewRecorder(), req.WithContext(request.WithRequestInfo(req.Context(), info)))
		if got != tc.want {
			t.Errorf("%s became %s, want %s", tc.query, got, tc.want)
		}
	}
}
