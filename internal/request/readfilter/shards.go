package readfilter

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/endpoints/request"

	"proviso.dev/proviso/internal/request/authorize"
)

// shardParameter is the public query parameter of the feature gate that the matcher uses.
const shardParameter = "shardSelector"

// Unsharded removes the parameter for shards from requests for local resources, however its name is encoded, so it is
// ignored as on a server whose gate is off. Otherwise an invalid value would be an error of the server.
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

// withoutShards returns a query without the parameter.
func withoutShards(raw string) string {
	pairs := strings.Split(raw, "&")
	return strings.Join(slices.DeleteFunc(pairs, func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		return err == nil && name == shardParameter
	}), "&")
}
