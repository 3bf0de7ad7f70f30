package freshness

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/discovery"
)

// OnlyKnown serves a request only if its snapshot knows the resource with its kind. So nothing is served that a rule
// about kinds could not see: a resource that the snapshot does not know yet is refused with a retry, and one that no
// server serves is not found.
func OnlyKnown(served *discovery.Directory, codecs runtime.NegotiatedSerializer, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		holder := requestctx.From(r.Context())
		if !ok || holder == nil || !info.IsResourceRequest || !holder.Snapshot.Synced {
			next.ServeHTTP(w, r) // before the snapshot is synced, only callers that no rule concerns get this far
			return
		}
		gv := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
		switch served.Check(holder.Snapshot, gv, info.Resource) {
		case discovery.Passes:
			next.ServeHTTP(w, r)
		case discovery.New:
			err := apierrors.NewServiceUnavailable(fmt.Sprintf("what serves %s in %s has just changed and is not known to the policy yet: try again", info.Resource, gv))
			err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
			responsewriters.ErrorNegotiated(err, codecs, schema.GroupVersion{Version: "v1"}, w, r)
		default:
			http.NotFound(w, r) // as at the end of the delegation chain
		}
	})
}
