package fieldfilter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/requestctx"
)

var errTooLong = errors.New("the response is too long to be shown without the fields that are hidden from you: change or delete fewer objects")

// ownRefusals are the messages of refusals by our stage in admission: they are safe to show.
type ownRefusals struct{ said map[string]bool }

type refusalKey struct{}

func refusals(ctx context.Context) *ownRefusals {
	return requestctx.NotesOf(ctx).Keep(refusalKey{}, func() any { return &ownRefusals{said: map[string]bool{}} }).(*ownRefusals)
}

// readStatus reads the body of an error.
func readStatus(codecs runtime.NegotiatedSerializer, contentType string, body []byte, into *metav1.Status) bool {
	info, ok := serializerFor(codecs, contentType)
	if !ok {
		return false
	}
	o, _, err := info.Serializer.Decode(body, &schema.GroupVersionKind{Version: "v1", Kind: "Status"}, nil)
	if err != nil {
		return false
	}
	status, ok := o.(*metav1.Status)
	if ok {
		*into = *status
	}
	return ok
}

// mayBeSaid reports whether an error reveals nothing about the stored object.
func (s *sight) mayBeSaid(ctx context.Context, status *metav1.Status) bool {
	switch status.Code {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusTooManyRequests, http.StatusUnauthorized:
		return true
	case http.StatusBadRequest:
		return s.attrs.GetVerb() != verbs.Patch // the error of a patch that does not apply quotes the stored object
	case http.StatusForbidden:
		if requestctx.NotesOf(ctx).Ledger().Refused() {
			return true
		}
	case http.StatusConflict:
		if status.Reason == metav1.StatusReasonAlreadyExists {
			return true
		}
	}
	return s.attrs.GetVerb() == verbs.Create && status.Code < http.StatusInternalServerError || refusals(ctx).said[status.Message]
}

// unsaid returns an error of the same code that reveals nothing about the object.
func (s *sight) unsaid(status *metav1.Status) error {
	if status.Code == http.StatusConflict && status.Details != nil {
		if err := s.conflicts(status.Details.Causes); err != nil {
			return err
		}
	}
	if status.Code == http.StatusConflict && status.Reason == metav1.StatusReasonConflict {
		return apierrors.NewConflict(resourceOf(s.attrs), s.attrs.GetName(), errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	}
	reason := status.Reason
	if reason == "" {
		reason = metav1.StatusReasonUnknown
	}
	why := fmt.Sprintf("the change was refused; the reason is not shown because it could tell fields that are hidden from you (%s)", s.fields.Names())
	details := &metav1.StatusDetails{Name: s.attrs.GetName(), Group: s.attrs.GetAPIGroup(), Kind: s.attrs.GetResource()}
	if reason == metav1.StatusReasonInvalid { // kubectl shows the causes of these, not the message
		details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: "the change", Message: why}}
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: status.Code, Reason: reason, Details: details,
		Message: fmt.Sprintf("%s %q: %s", resourceOf(s.attrs), s.attrs.GetName(), why),
	}}
}

// conflicts returns the error of an apply that conflicts with other managers. Whether a hidden field conflicts depends
// on its value: only the other fields are named, or the permission if there are no others.
func (s *sight) conflicts(causes []metav1.StatusCause) error {
	var shown []metav1.StatusCause
	hidden := false
	for _, c := range causes {
		if c.Type != metav1.CauseTypeFieldManagerConflict {
			return nil
		}
		if _, ok := s.fields.InConflict(c.Field); ok {
			hidden = true
			continue
		}
		shown = append(shown, c)
	}
	if len(shown) == 0 && hidden {
		return s.takenOver()
	}
	if len(shown) == 0 {
		return nil
	}
	var lines []string
	for _, c := range shown {
		lines = append(lines, c.Message+": "+c.Field)
	}
	return apierrors.NewApplyConflict(shown, fmt.Sprintf("Apply failed with conflicts: %s", strings.Join(lines, "\n")))
}

// takenOver returns the refusal of an apply that would take over, share or remove a hidden field. Naming only that
// field would reveal that the others have the applied values: all hidden fields are named.
func (s *sight) takenOver() error {
	var causes []metav1.StatusCause
	for _, h := range s.fields {
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Message: "hidden by permission " + h.Permission, Field: h.Field.String()})
	}
	message := fmt.Sprintf("Apply failed: a field that is hidden from you is managed by another manager, or left out by yours; taking it over or removing it takes %s for %s (%s)",
		strings.Join(s.fields.Verbs(), " or "), s.fields.Names(), strings.Join(s.fields.Sources(), ", "))
	return apierrors.NewApplyConflict(causes, message)
}
