package errorfilter

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/warning"

	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/answer"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/readfilter"
	"proviso.dev/proviso/internal/request/requestctx"
)

// maxHeld is the largest response that is held, in bytes.
const maxHeld = 16 << 20

var (
	errPaged   = errors.New("a collection cannot be deleted page by page with a conditional permission: leave limit and continue out")
	errTooLong = errors.New("the response is too long to be held until the permission is decided, which depends on the objects: delete them one by one or select fewer")
)

// Config configures the filter.
type Config struct {
	Gate   *authorize.Gate
	Codecs runtime.NegotiatedSerializer
	// Namespaces finds a namespace for conditions that look at it; nil lets those conditions fail.
	Namespaces authorize.Namespaces
}

// Filter holds responses to writes that depend on the object.
type Filter struct {
	cfg Config
	mu  sync.RWMutex
	// converters are the converters of built-in resources.
	converters map[schema.GroupResource]readfilter.Converter
}

// New returns the filter.
func New(cfg Config) *Filter {
	return &Filter{cfg: cfg, converters: map[schema.GroupResource]readfilter.Converter{}}
}

// Wrap puts the filter in front of a handler.
func (f *Filter) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		holder := requestctx.From(r.Context())
		if attrs := attributesOf(holder); attrs != nil && attrs.GetVerb() == verbs.Create && attrs.GetSubresource() == "" && r.URL.RawQuery != "" && r.URL.Query().Has("dryRun") {
			requestctx.NotesOf(r.Context()).Keep(tries{}, func() any { return true })
		}
		if holder == nil || !open(holder) {
			next.ServeHTTP(w, r)
			return
		}
		attrs := holder.Attributes()
		if q := r.URL.Query(); attrs.GetVerb() == verbs.DeleteCollection && (q.Has("limit") || q.Has("continue")) {
			f.write(w, r, apierrors.NewForbidden(resourceOf(attrs), "", errPaged))
			return
		}
		f.hold(next, w, r, holder)
	})
}

func attributesOf(holder *requestctx.State) authorizer.Attributes {
	if holder == nil {
		return nil
	}
	return holder.Attributes()
}

// open reports whether a request is a write that is not allowed yet.
func open(holder *requestctx.State) bool {
	d, attrs := holder.Get(requestctx.Request), holder.Attributes()
	if attrs == nil || !verbs.IsWrite(attrs.GetVerb()) {
		return false
	}
	if created := holder.Get(requestctx.Create); created.Pending() != nil || created.IsGranular() {
		return true
	}
	return d.Pending() != nil || d.IsGranular()
}

// hold serves a request and decides at the end what to send of the response.
func (f *Filter) hold(next http.Handler, w http.ResponseWriter, r *http.Request, holder *requestctx.State) {
	attrs := holder.Attributes()
	ledger := requestctx.NewLedger(attrs.GetVerb() == verbs.DeleteCollection)
	requestctx.NotesOf(r.Context()).Hold(ledger)
	said := &warnings{}
	ctx := warning.WithWarningRecorder(r.Context(), said)
	held := answer.Serve(next, w, r.WithContext(ctx), answer.Rule{Limit: maxHeld, First: func(int) answer.Fate {
		if ledger.Streams() {
			said.release(r.Context())
			return answer.Pass
		}
		return answer.Hold
	}})
	switch code := held.Code(); {
	case held.Fate() == answer.Pass:
	case held.Fate() == answer.Drop:
		f.write(held.Forget(), r, apierrors.NewForbidden(resourceOf(attrs), attrs.GetName(), errTooLong))
	case f.mayLeave(ctx, holder, ledger, code):
		said.release(r.Context())
		held.Release(held.Body())
	case ledger.Refused() && code == http.StatusForbidden:
		held.Release(held.Body())
	default:
		f.write(held.Forget(), r, f.instead(ctx, holder, ledger, code))
	}
}

// write writes a refusal in the form that the enforcer's would have had.
func (f *Filter) write(w http.ResponseWriter, r *http.Request, err error) {
	codecs := f.cfg.Codecs
	if holder := requestctx.From(r.Context()); holder != nil && holder.Attributes() != nil && f.converter(resourceOf(holder.Attributes())) == nil {
		codecs = custom{codecs}
	}
	responsewriters.ErrorNegotiated(err, codecs, schema.GroupVersion{Version: "v1"}, w, r)
}

// custom are the serializers of custom resources, which do not support protobuf.
type custom struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (c custom) SupportedMediaTypes() []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(c.NegotiatedSerializer.SupportedMediaTypes()), func(s runtime.SerializerInfo) bool { return s.MediaType == runtime.ContentTypeProtobuf })
}

func resourceOf(attrs authorizer.Attributes) schema.GroupResource {
	return schema.GroupResource{Group: attrs.GetAPIGroup(), Resource: attrs.GetResource()}
}

// named returns what the caller has named.
func named(attrs authorizer.Attributes) string {
	if attrs.GetName() == "" {
		return resourceOf(attrs).String()
	}
	return fmt.Sprintf("%s %q", resourceOf(attrs), attrs.GetName())
}

// unsaid returns an error of that code that reveals nothing about the object.
func unsaid(attrs authorizer.Attributes, code int) error {
	if code == http.StatusNotFound {
		return apierrors.NewNotFound(resourceOf(attrs), attrs.GetName())
	}
	reason, what := metav1.StatusReasonInvalid, "is not valid"
	if code == http.StatusConflict {
		reason, what = metav1.StatusReasonConflict, "is in conflict with what is stored"
	}
	const why = "the reason is not shown because it would reveal the stored object: the permission to change the object depends on it, and you may not get it"
	details := &metav1.StatusDetails{Name: attrs.GetName(), Group: attrs.GetAPIGroup(), Kind: attrs.GetResource()}
	if reason == metav1.StatusReasonInvalid { // kubectl shows the causes of these, not the message
		details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: "the change", Message: why}}
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Details: details,
		Message: fmt.Sprintf("%s: the change %s; %s", named(attrs), what, why),
	}}
}
