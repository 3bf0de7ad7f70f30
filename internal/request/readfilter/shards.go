package readfilter

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/endpoints/request"

	"proviso.dev/proviso/internal/request/authorize"
)

// shardParameter is the public parameter of the gate by which objects are asked about.
const shardParameter = "shardSelector"

// Unsharded takes the parameter for shards out of requests for local resources, however its name is encoded, so that it
// is ignored as it is by a server whose gate is off. Left in, nonsense in it would be an error of the server.
func Unsharded(local authorize.Local, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		raw := req.URL.RawQuery
		if !strings.Contains(raw, shardParameter) && !strings.Contains(raw, "%") {
			next.ServeHTTP(w, req)
			return
		}
		info, ok := request.RequestInfoFrom(req.Context())
		if !ok || !info.IsResourceRequest || !local.Local(info.APIGroup, info.APIVersion) {
			next.ServeHTTP(w, req)
			return
		}
		if rest := withoutShards(raw); rest != raw {
			req = req.Clone(req.Context())
			req.URL.RawQuery = rest
			req.RequestURI = req.URL.RequestURI()
		}
		next.ServeHTTP(w, req)
	})
}

// withoutShards is a query without the parameter.
func withoutShards(raw string) string {
	pairs := strings.Split(raw, "&")
	return strings.Join(slices.DeleteFunc(pairs, func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		return err == nil && name == shardParameter
	}), "&")
}
