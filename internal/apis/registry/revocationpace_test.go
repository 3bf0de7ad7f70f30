package registry

import (
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TK-6, NI-6: what a user can store by revoking their own tokens is bounded, for each user.
func TestSelfRevocationsArePaced(t *testing.T) {
	t.Parallel()
	var p pace
	now := time.Now()
	for i := range selfRevocations {
		if err := p.allow("anna", now); err != nil {
			t.Fatalf("revocation %d: %v", i+1, err)
		}
	}
	if err := p.allow("anna", now); !apierrors.IsTooManyRequests(err) {
		t.Errorf("one too many: %v", err)
	}
	if err := p.allow("bob", now); err != nil {
		t.Errorf("another user: %v", err)
	}
	later := now.Add(time.Hour / selfRevocations)
	if err := p.allow("anna", later); err != nil {
		t.Errorf("later: %v", err)
	}
	if err := p.allow("anna", later); err == nil {
		t.Error("time gives back more than one")
	}
	for i := range 2 * pacedUsers {
		_ = p.allow(fmt.Sprint(i), now)
	}
	if n := p.users.Len(); n > pacedUsers {
		t.Errorf("%d users are remembered", n)
	}
}
