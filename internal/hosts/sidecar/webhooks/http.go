package webhooks

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/apis/accessreview"
	"proviso.dev/proviso/internal/request/shadow"
)

// maxReview bounds a review: an object of the size that a server takes, twice, and what JSON makes of it.
const maxReview = 32 << 20

// ServeAccess is the authorization webhook.
func (d *Decider) ServeAccess(w http.ResponseWriter, r *http.Request) {
	question := &authorizationv1.SubjectAccessReview{}
	if !decode(w, r, question) {
		return
	}
	if question.Kind != "SubjectAccessReview" || question.APIVersion != authorizationv1.SchemeGroupVersion.String() {
		http.Error(w, "want a SubjectAccessReview of authorization.k8s.io/v1", http.StatusBadRequest)
		return
	}
	attrs, err := accessreview.Asked(&question.Spec)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := d.Access(r.Context(), r.RemoteAddr, attrs)
	if err != nil {
		unavailable(w, err)
		return
	}
	question.Spec = authorizationv1.SubjectAccessReviewSpec{}
	question.Status = authorizationv1.SubjectAccessReviewStatus{
		Allowed: answer.Decision == authorizer.DecisionAllow, Denied: answer.Decision != authorizer.DecisionAllow && answer.Decision != authorizer.DecisionNoOpinion, Reason: answer.Reason,
	}
	respond(w, question)
}

// ServeAdmission is the admission webhook.
func (d *Decider) ServeAdmission(w http.ResponseWriter, r *http.Request) {
	question := &admissionv1.AdmissionReview{}
	if !decode(w, r, question) {
		return
	}
	if question.Kind != "AdmissionReview" || question.APIVersion != admissionv1.SchemeGroupVersion.String() || question.Request == nil {
		http.Error(w, "want an AdmissionReview of admission.k8s.io/v1", http.StatusBadRequest)
		return
	}
	ctx, collected := shadow.Collect(r.Context())
	err := d.Admit(ctx, question.Request)
	if errors.Is(err, ErrUnsynced) {
		unavailable(w, err)
		return
	}
	answer := &admissionv1.AdmissionResponse{UID: question.Request.UID, Allowed: err == nil, Warnings: collected.Warnings(), AuditAnnotations: collected.Annotations()}
	if err != nil {
		answer.Result = statusOf(err)
	}
	respond(w, &admissionv1.AdmissionReview{TypeMeta: question.TypeMeta, Response: answer})
}

// statusOf is a refusal as the server passes it on.
func statusOf(err error) *metav1.Status {
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		status := known.Status()
		return &status
	}
	return &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: err.Error()}
}

func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	if r.Method != http.MethodPost {
		http.Error(w, "want POST", http.StatusMethodNotAllowed)
		return false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReview))
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		http.Error(w, "the review cannot be read: "+err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

// unavailable is answered at once: without Retry-After the server does not ask again (SC-8).
func unavailable(w http.ResponseWriter, err error) {
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}

func respond(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // a server that has left does not care
}
