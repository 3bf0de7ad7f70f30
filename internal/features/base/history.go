package base

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/request/turns"
	"proviso.dev/proviso/internal/state/journal"
	"proviso.dev/proviso/internal/state/snapshot"
)

// HistoryPath serves the journal of policy. The normal authorization filter asks for get on it.
const HistoryPath = journal.Path

// history serves `proviso history` (TR-15): each permitted caller sees the changes of the objects that they may get.
type history struct {
	kernel  *feature.Kernel
	journal *journal.Journal
	// turns bounds how many callers read it at a time, and gives each user one slot: every user may ask (NI-6).
	turns turns.Queue
}

// patience is how long a caller may take to read the answer, and thereby block others.
const patience = 30 * time.Second

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
		fail(apierrors.NewForbidden(schema.GroupResource{Resource: HistoryPath}, "", errors.New("the request is not authenticated")))
		return
	}
	wanted, err := wantedOf(r.URL.Query())
	if err != nil {
		fail(apierrors.NewBadRequest(err.Error()))
		return
	}
	done, err := h.turns.Take(r.Context(), caller) // a journal can be large
	if err != nil {
		fail(err)
		return
	}
	defer done()
	out := http.NewResponseController(w)
	if err := out.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		fail(apierrors.NewInternalError(err))
		return
	}
	defer func() { _ = out.SetWriteDeadline(time.Time{}) }() // of a connection that goes on
	records, unreadable, err := h.journal.Records(r.Context())
	switch {
	case errors.Is(err, journal.ErrOff):
		fail(apierrors.NewNotFound(schema.GroupResource{Resource: HistoryPath}, ""))
		return
	case err != nil:
		fail(apierrors.NewInternalError(err))
		return
	}
	answer := journal.History{Kind: "PolicyHistory", APIVersion: "tools.proviso.dev/v1alpha1", Unreadable: unreadable, Entries: []journal.Entry{}}
	shows := h.shows(r.Context(), caller)
	records = slices.DeleteFunc(records, func(r0 journal.Record) bool {
		shown := shows(&r0.Entry)
		if !shown {
			answer.Hidden++
		}
		return !shown || !wanted.has(&r0.Entry)
	})
	if !h.mayListAll(r.Context(), caller) {
		answer.Hidden, answer.Partial = 0, true // the caller must not learn whether others change their policy
	}
	if surplus := len(records) - wanted.limit; wanted.limit > 0 && surplus > 0 {
		records = records[surplus:]
	}
	w.Header().Set("Content-Type", "application/json")
	if err := write(w, &answer, records); err != nil {
		klog.ErrorS(err, "The journal of policy was not sent to its end") // its reader sees that it is not JSON
	}
}

// wanted is the part of the journal that is asked for.
type wanted struct {
	namespace, user string
	limit           int
}

func wantedOf(query url.Values) (w wanted, err error) {
	w = wanted{namespace: query.Get("namespace"), user: query.Get("user")}
	if limit := query.Get("limit"); limit != "" {
		if w.limit, err = strconv.Atoi(limit); err != nil || w.limit < 0 {
			return w, fmt.Errorf("limit: %q is not a number of changes", limit)
		}
	}
	return w, nil
}

func (w wanted) has(e *journal.Entry) bool {
	return (w.namespace == "" || w.namespace == e.Namespace) && (w.user == "" || w.user == e.User)
}

// write sends the answer with the records as its entries, one by one.
func write(w io.Writer, answer *journal.History, records []journal.Record) error {
	text, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	before, after, _ := bytes.Cut(text, []byte(`"entries":[`))
	if _, err := fmt.Fprintf(w, `%s"entries":[`, before); err != nil {
		return err
	}
	for i := range records {
		e, err := records[i].Open()
		if err != nil {
			return err
		}
		one, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if i > 0 {
			one = append([]byte(","), one...)
		}
		if _, err := w.Write(one); err != nil {
			return err
		}
	}
	_, err = w.Write(after)
	return err
}

// shows returns which entries a caller may see: those of objects that they may get. An entry of an earlier namespace of
// the same name is only for those who may get such an object in every namespace.
func (h *history) shows(ctx context.Context, caller user.Info) func(e *journal.Entry) bool {
	here, everywhere, eras := map[string]bool{}, map[string]bool{}, map[string]era{}
	may := func(known map[string]bool, e *journal.Entry, namespace string) bool {
		key := e.Key()
		if _, asked := known[key]; !asked {
			known[key] = h.mayGet(ctx, caller, e, namespace)
		}
		return known[key]
	}
	return func(e *journal.Entry) bool {
		if !may(here, e, e.Namespace) {
			return false
		}
		if _, known := eras[e.Namespace]; !known {
			eras[e.Namespace] = h.eraOf(ctx, e.Namespace)
		}
		return eras[e.Namespace].has(e) || may(everywhere, e, "")
	}
}

// mayGet requires an unconditional right: an entry shows what the object was, not only what it is. It also requires the
// rights to see all fields of the object.
func (h *history) mayGet(ctx context.Context, caller user.Info, e *journal.Entry, namespace string) bool {
	may := func(a authorizer.AttributesRecord) bool {
		a.User, a.Verb, a.Namespace, a.ResourceRequest = caller, cmp.Or(a.Verb, "get"), namespace, true
		decision, _, err := h.kernel.Gate.Chain.Authorize(ctx, a)
		return err == nil && decision == authorizer.DecisionAllow
	}
	state := requestctx.From(ctx)
	if state == nil {
		return false
	}
	for _, field := range state.Snapshot.Fields.Hidden(fieldperm.Resource{Group: e.Group, Resource: e.Resource}) {
		if !may(authorizer.AttributesRecord{Verb: field.Verb(), APIGroup: e.Group, APIVersion: e.Version(), Resource: e.Resource, Name: e.Name}) {
			return false
		}
	}
	if may(authorizer.AttributesRecord{APIGroup: e.Group, APIVersion: e.Version(), Resource: e.Resource, Name: e.Name}) {
		return true
	}
	// A container is the sum of its entries: a caller who may get all of them, whatever their names, may see it
	// (TR-19).
	view := map[string]string{"policies": "roles", "policybindings": "rolebindings"}[e.Resource]
	return view != "" && e.Group == policyv1alpha1.GroupName &&
		may(authorizer.AttributesRecord{APIGroup: authz.GroupName, APIVersion: authz.SchemeGroupVersion.Version, Resource: view})
}

// mayListAll reports whether a caller may read all policy.
func (h *history) mayListAll(ctx context.Context, caller user.Info) bool {
	for _, kind := range snapshot.Kinds() {
		if kind == snapshot.Namespaces || kind == snapshot.Definitions || kind == snapshot.AccessRequests {
			continue // which no journal has
		}
		decision, _, err := h.kernel.Gate.Chain.Authorize(ctx, authorizer.AttributesRecord{User: caller, Verb: "list", APIGroup: kind.Group, APIVersion: kind.Version,
			Resource: kind.Resource, ResourceRequest: true})
		if err != nil || decision != authorizer.DecisionAllow {
			return false
		}
	}
	return true
}
