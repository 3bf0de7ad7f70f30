package feature

import (
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// LongRunning exempts paths of systems from the time-out of requests, beside what others exempt.
func LongRunning(systems []System, others request.LongRunningRequestCheck) request.LongRunningRequestCheck {
	paths := map[string]bool{}
	for _, s := range systems {
		for _, p := range s.Paths {
			paths[p.Path] = p.LongRunning
		}
	}
	return func(r *http.Request, info *request.RequestInfo) bool {
		return info != nil && !info.IsResourceRequest && paths[info.Path] || others(r, info)
	}
}
