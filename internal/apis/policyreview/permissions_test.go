package policyreview

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"proviso.dev/proviso/internal/state/snapshot"
)

// FP-12: before everything has been read the answer is to ask again, and not a list that lacks what restricts.
func TestPermissionsBeforeTheyAreKnown(t *testing.T) {
	p := &Permissions{Store: snapshot.NewStore()}
	_, all := p.Permissions(t.Context())
	_, one := p.PermissionsOf(t.Context(), "pods")
	for _, err := range []error{all, one} {
		if seconds, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsServiceUnavailable(err) || !ok || seconds < 1 {
			t.Errorf("got %v", err)
		}
	}
}
