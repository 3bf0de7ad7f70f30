package ground

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"proviso.dev/proviso/internal/journal"
	"proviso.dev/proviso/internal/system"
)

// HistoryPath serves the journal of policy. The normal authorization filter asks for get on it.
const HistoryPath = "/proviso/policy/history"

// history serves `proviso history` (TR-15): everybody who may ask sees the changes of the objects that he may get.
type history struct {
	kernel  *system.Kernel
	journal *journal.Journal
}

// ServeHTTP answers with a journal.History.
func (h *history) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fail := func(err error) {
		responsewriters.ErrorNegotiated(err, h.kernel.Codecs, schema.GroupVersion{Version: "v1"}, w, r)
	}
	if r.Method != http.MethodGet {
		fail(apierrors.NewMethodNotSupported(schema.GroupResource{Resource: HistoryPath}, r.Method))
		return
	}
	caller, ok := request.UserFrom(r.Context())
	if !ok {
		fail(apierrors.NewForbidden(schema.GroupResource{Resource: HistoryPath}, "", errors.New("nobody is authenticated")))
		return
	}
	entries, unreadable, err := h.journal.Entries(r.Context())
	switch {
	case errors.Is(err, journal.ErrOff):
		fail(apierrors.NewNotFound(schema.GroupResource{Resource: HistoryPath}, ""))
		return
	case err != nil:
		fail(apierrors.NewInternalError(err))
		return
	}
	answer := journal.History{Kind: "PolicyHistory", APIVersion: "tools.proviso.dev/v1alpha1", Unreadable: unreadable, Entries: []journal.Entry{}}
	may := map[string]bool{}
	for _, e := range entries {
		key := e.Key()
		if _, asked := may[key]; !asked {
			may[key] = h.mayGet(r.Context(), caller, &e)
		}
		if !may[key] {
			answer.Hidden++
			continue
		}
		answer.Entries = append(answer.Entries, e)
	}
	body, err := json.Marshal(answer)
	if err != nil {
		fail(apierrors.NewInternalError(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // a client that has left does not care
}

// mayGet asks, without any condition: an entry has what the object was, and not only what it is.
func (h *history) mayGet(ctx context.Context, caller user.Info, e *journal.Entry) bool {
	decision, _, err := h.kernel.Gate.Chain.Authorize(ctx, authorizer.AttributesRecord{
		User: caller, Verb: "get", APIGroup: e.Group, APIVersion: e.Version(), Resource: e.Resource, Namespace: e.Namespace, Name: e.Name, ResourceRequest: true,
	})
	return err == nil && decision == authorizer.DecisionAllow
}
