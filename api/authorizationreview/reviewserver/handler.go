package reviewserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	reviewv1alpha1 "proviso.dev/proviso/api/authorizationreview/v1alpha1"
)

// Authorizer decides access reviews.
type Authorizer interface {
	// Decide answers an access review. It may return Under(…) whether or not the caller understands conditions. An
	// error leaves the request to the failure policy of the API server.
	Decide(ctx context.Context, question *reviewv1.SubjectAccessReviewSpec) (Decision, error)
	// Met reports whether a condition that Decide answered with is met. It must go by the condition and the request
	// alone: a policy that has changed meanwhile must not change a request that is under way. An error is not the same
	// as not met.
	Met(ctx context.Context, e *Evaluation) (bool, error)
}

// maxBody bounds what is read: a set of conditions has about 1.5 MiB at most, and an object 3.
const maxBody = 16 << 20

// Handler serves SubjectAccessReview and AuthorizationConditionsReview, at any path: both contexts of the API server's
// kubeconfig may name the same address. It authenticates nobody; the listener has to.
func Handler(a Authorizer) http.Handler { return &handler{a} }

type handler struct{ authorizer Authorizer }

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "reviews are posted", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the review cannot be read: "+err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := h.review(r.Context(), body)
	var bad *badReview
	switch {
	case errors.As(err, &bad):
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	text, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // a caller that has gone needs no answer
}

// badReview is a review that is not understood. The API server follows its failure policy.
type badReview struct{ error }

func bad(format string, values ...any) error { return &badReview{fmt.Errorf(format, values...)} }

// review answers a review of either kind.
func (h *handler) review(ctx context.Context, body []byte) (any, error) {
	var kind metav1.TypeMeta
	if err := json.Unmarshal(body, &kind); err != nil {
		return nil, bad("the review is not JSON: %v", err)
	}
	switch kind.GroupVersionKind() {
	case reviewv1.SchemeGroupVersion.WithKind("SubjectAccessReview"):
		return h.decide(ctx, body)
	case reviewv1alpha1.SchemeGroupVersion.WithKind("AuthorizationConditionsReview"):
		return h.evaluate(ctx, body)
	}
	return nil, bad("%s of %s is not served, only SubjectAccessReview of %s and AuthorizationConditionsReview of %s are",
		kind.Kind, kind.APIVersion, reviewv1.SchemeGroupVersion, reviewv1alpha1.SchemeGroupVersion)
}

// decide answers an access review. Keys that are unknown are ignored, as a webhook of an older release would.
func (h *handler) decide(ctx context.Context, body []byte) (any, error) {
	review := &reviewv1.SubjectAccessReview{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, review); err != nil {
		return nil, bad("the review cannot be read: %v", err)
	}
	if (review.Spec.ResourceAttributes == nil) == (review.Spec.NonResourceAttributes == nil) {
		return nil, bad("exactly one of spec.resourceAttributes and spec.nonResourceAttributes must be set")
	}
	d, err := h.authorizer.Decide(ctx, &review.Spec)
	if err != nil {
		return nil, err
	}
	return &reviewv1.SubjectAccessReview{TypeMeta: review.TypeMeta, Status: statusOf(d, &review.Spec.Question)}, nil
}

// evaluate answers what a set of conditions comes to. A key that is unknown may be about what the conditions mean, so
// the review is refused.
func (h *handler) evaluate(ctx context.Context, body []byte) (any, error) {
	review := &reviewv1alpha1.AuthorizationConditionsReview{}
	unknown, err := kjson.UnmarshalStrict(body, review)
	if err = errors.Join(append(unknown, err)...); err != nil {
		return nil, bad("the review cannot be read: %v", err)
	}
	if review.Request == nil {
		return nil, bad("request: it says which conditions are to be evaluated, and must be set")
	}
	return &reviewv1alpha1.AuthorizationConditionsReview{TypeMeta: review.TypeMeta, Response: respond(ctx, h.authorizer, review.Request)}, nil
}
