package webhooks

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// NI-6: a grant that was not checked because too many wait is refused with a 429, so that clients try again; whatever
// else went wrong is a refusal.
func TestBusyIsSaid(t *testing.T) {
	refuse := func(text string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "roles"}, "r", errors.New(text))
	}
	if err := forbidden(apierrors.NewTooManyRequests("too many wait", 1), refuse); !apierrors.IsTooManyRequests(err) {
		t.Errorf("busy: %v", err)
	}
	if err := forbidden(errors.New("unreadable"), refuse); !apierrors.IsForbidden(err) {
		t.Errorf("an error: %v", err)
	}
}
