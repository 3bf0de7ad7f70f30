package access

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	access "proviso.dev/proviso/api/access/v1alpha1"
)

// DefaultPending is how long a request waits for approvals if its rule does not say.
const DefaultPending = 24 * time.Hour

// Kept is how long a request is kept after its end.
const Kept = 720 * time.Hour

// Status is the state of a request at an instant.
type Status struct {
	State access.AccessState
	// Reason is the reason of the condition that led to the state.
	Reason string
	// Changes is when the state next changes with time; zero if it does not.
	Changes time.Time
}

// StatusAt returns the state of a request at an instant. Only decisions are stored; the rest follows from the time.
func StatusAt(r *access.AccessRequest, at time.Time) Status {
	if c := met(r, access.ConditionEnded); c != nil {
		return Status{State: access.AccessEnded, Reason: c.Reason}
	}
	if c := met(r, access.ConditionDenied); c != nil {
		return Status{State: access.AccessDenied, Reason: c.Reason}
	}
	from, until := r.Status.From, r.Status.Until
	approved := met(r, access.ConditionApproved)
	switch {
	case approved == nil || from == nil || until == nil:
		return pendingAt(r, at)
	case !at.Before(until.Time):
		return Status{State: access.AccessEnded, Reason: access.ReasonExpired}
	case at.Before(from.Time):
		return Status{State: access.AccessApproved, Reason: approved.Reason, Changes: from.Time}
	}
	return Status{State: access.AccessActive, Reason: approved.Reason, Changes: until.Time}
}

func pendingAt(r *access.AccessRequest, at time.Time) Status {
	end := Deadline(r)
	if !at.Before(end) {
		return Status{State: access.AccessDenied, Reason: access.ReasonNotApproved}
	}
	return Status{State: access.AccessPending, Changes: end}
}

// Deadline returns when a request that was not approved is denied. The server has written it into the request.
func Deadline(r *access.AccessRequest) time.Time {
	if r.Status.PendingUntil != nil {
		return r.Status.PendingUntil.Time
	}
	return r.CreationTimestamp.Add(DefaultPending)
}

// IsOver reports whether a state is final.
func IsOver(s access.AccessState) bool { return s == access.AccessEnded || s == access.AccessDenied }

// EndOf returns when a request ended; zero if it is not over.
func EndOf(r *access.AccessRequest, at time.Time) time.Time {
	s := StatusAt(r, at)
	switch {
	case !IsOver(s.State):
		return time.Time{}
	case s.Reason == access.ReasonExpired && r.Status.Until != nil:
		return r.Status.Until.Time
	case s.Reason == access.ReasonNotApproved:
		return Deadline(r)
	}
	for _, kind := range []string{access.ConditionEnded, access.ConditionDenied} {
		if c := met(r, kind); c != nil {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

func met(r *access.AccessRequest, kind string) *metav1.Condition {
	if c := meta.FindStatusCondition(r.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
		return c
	}
	return nil
}

// Show writes the state at an instant into the status of a request, as readers see it. The new status shares nothing
// with the old one.
func Show(r *access.AccessRequest, at time.Time) {
	now := StatusAt(r, at)
	r.Status.State = now.State
	conditions := append([]metav1.Condition(nil), r.Status.Conditions...)
	set := func(kind, reason, message string, status metav1.ConditionStatus, when time.Time) {
		meta.SetStatusCondition(&conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(when)})
	}
	if approved := met(r, access.ConditionApproved); approved != nil && r.Status.From != nil {
		active := metav1.ConditionFalse
		if now.State == access.AccessActive {
			active = metav1.ConditionTrue
		}
		reason := now.Reason
		if now.State == access.AccessApproved {
			reason = "NotBegun"
		}
		set(access.ConditionActive, reason, "", active, r.Status.From.Time)
	}
	switch now.Reason {
	case access.ReasonExpired:
		set(access.ConditionEnded, now.Reason, fmt.Sprintf("its %d seconds are over", r.Spec.DurationSeconds), metav1.ConditionTrue, r.Status.Until.Time)
	case access.ReasonNotApproved:
		set(access.ConditionDenied, now.Reason, "it was not approved in time", metav1.ConditionTrue, Deadline(r))
	}
	r.Status.Conditions = conditions
}
