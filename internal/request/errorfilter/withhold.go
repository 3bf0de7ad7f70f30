package errorfilter

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
)

// Filter keeps what is wrong with a change from a caller who was let through on a condition, or for the sake of single
// fields, and may not read the object: not at all, or not in the state that the change was tried on. Validation comes
// before the enforcer, and its errors quote what is stored: a change that is refused for being invalid would show an
// object that the caller may neither read nor change.
func Filter(chain authorizer.UnconditionalAuthorizer, codecs runtime.NegotiatedSerializer, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		holder := requestctx.From(r.Context())
		if holder == nil || !onlyPerhaps(holder) {
			next.ServeHTTP(w, r)
			return
		}
		held := &heldAnswer{ResponseWriter: w, notes: requestctx.NotesOf(r.Context())}
		next.ServeHTTP(responsewriter.WrapForHTTP1Or2(held), r)
		if !held.held {
			return
		}
		attrs := holder.Attributes()
		decision, _, _ := chain.Authorize(r.Context(), authorize.WithVerb(attrs, "get"))
		if decision == authorizer.DecisionAllow || held.notes.MaySee() {
			w.WriteHeader(held.code)
			_, _ = w.Write(held.body)
			return
		}
		for _, name := range []string{"Content-Type", "Content-Length", "Content-Encoding"} {
			w.Header().Del(name)
		}
		responsewriters.ErrorNegotiated(unsaid(attrs, held.code), codecs, schema.GroupVersion{Version: "v1"}, w, r)
	})
}

// onlyPerhaps tells the changes of existing objects that are not allowed yet.
func onlyPerhaps(holder *requestctx.State) bool {
	d, attrs := holder.Get(requestctx.Request), holder.Attributes()
	if attrs == nil || d.Pending() == nil && !d.IsGranular() {
		return false
	}
	return verbs.Changes(attrs.GetVerb())
}

// unsaid is the error of that code without anything of the object in it.
func unsaid(attrs authorizer.Attributes, code int) error {
	reason, what := metav1.StatusReasonInvalid, "is not valid"
	if code == http.StatusConflict {
		reason, what = metav1.StatusReasonConflict, "is in conflict with what is stored"
	}
	const why = "why is not shown, because it would tell what is stored: the permission to make the change depends on the object, and there is no permission to get it"
	details := &metav1.StatusDetails{Name: attrs.GetName(), Group: attrs.GetAPIGroup(), Kind: attrs.GetResource()}
	if reason == metav1.StatusReasonInvalid { // of which kubectl shows the causes, and not the message
		details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: "the change", Message: why}}
	}
	resource := schema.GroupResource{Group: attrs.GetAPIGroup(), Resource: attrs.GetResource()}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Details: details,
		Message: fmt.Sprintf("%s %q: the change %s; %s", resource, attrs.GetName(), what, why),
	}}
}

// heldAnswer holds an answer back that was given before the enforcer had its say and that speaks of the content of an
// object.
type heldAnswer struct {
	http.ResponseWriter
	notes *requestctx.Notes
	held  bool
	code  int
	body  []byte
}

var _ responsewriter.UserProvidedDecorator = (*heldAnswer)(nil)

// Unwrap implements responsewriter.UserProvidedDecorator.
func (w *heldAnswer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader lets everything pass but the errors that quote: a change that is invalid, or in conflict with what is
// there.
func (w *heldAnswer) WriteHeader(code int) {
	if (code == http.StatusUnprocessableEntity || code == http.StatusConflict) && !w.notes.Admitted() {
		w.held, w.code = true, code
		return
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *heldAnswer) Write(p []byte) (int, error) {
	if w.held {
		w.body = append(w.body, p...)
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}
