package freshness

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/request"

	"proviso.dev/proviso/internal/engine/revision"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/answer"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

const (
	// Header holds, in the response to a write or deletion of policy, its revision.
	Header = "Proviso-Policy-Revision"
	// AtLeast holds, in a request, the minimum revision of the policy.
	AtLeast = "Proviso-At-Least-Revision"
)

// Serve answers a request that asks for newer policy. The gate waits for the policy once the caller is known. There
// upstream can only refuse with 403, so Serve replaces the response of a request that is refused for this reason.
func Serve(next http.Handler, w http.ResponseWriter, r *http.Request, now *snapshot.Snapshot, instant time.Time, token string) {
	ctx, holder := requestctx.WithAtLeast(r.Context(), now, instant, token)
	held := answer.Serve(next, w, r.WithContext(ctx), answer.Rule{First: func(code int) answer.Fate {
		if code >= http.StatusBadRequest && errors.As(holder.Refused(), new(apierrors.APIStatus)) {
			return answer.Drop
		}
		return answer.Pass
	}})
	if held.Fate() == answer.Drop {
		refuse(held.Forget(), holder.Refused())
	}
}

// refuse says why the policy is not new enough.
func refuse(w http.ResponseWriter, err error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	s := status.Status()
	s.Kind, s.APIVersion = "Status", "v1"
	body, err := json.Marshal(s)
	if err != nil {
		body = nil
	}
	w.Header().Set("Content-Type", "application/json")
	if s.Code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(int(s.Code))
	_, _ = w.Write(body) // the client is gone
}

// Receipt tells a caller who writes or deletes policy the revision of the change (TR-13).
func Receipt(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		holder := requestctx.From(r.Context())
		if info, ok := request.RequestInfoFrom(r.Context()); holder == nil || !ok || !writes(info) {
			next.ServeHTTP(w, r)
			return
		}
		answer.Serve(next, w, r, answer.Rule{First: func(int) answer.Fate {
			if written := holder.Written(); len(written) > 0 {
				w.Header().Set(Header, written.Token())
			}
			return answer.Pass
		}})
	})
}

// policyGroups are the groups whose resources are policy, or views of it.
var policyGroups = map[string]bool{
	"policy.proviso.dev": true, "authorization.proviso.dev": true, "auditregistration.k8s.io": true, "access.proviso.dev": true,
	"rbac.authorization.k8s.io": true, "apiextensions.k8s.io": true,
}

func writes(info *request.RequestInfo) bool {
	return verbs.IsWrite(info.Verb) && (policyGroups[info.APIGroup] || info.APIGroup == "" && revision.IsSource(info.Resource))
}
