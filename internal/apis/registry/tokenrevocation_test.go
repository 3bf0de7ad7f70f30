package registry

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	access "proviso.dev/proviso/api/access/v1alpha1"
)

// living are tokens of a given life.
type living struct {
	Tokens
	longest time.Duration
	err     error
}

func (l living) Longest(context.Context) (time.Duration, error) { return l.longest, l.err }

// TK-6: a revocation stays for as long as any server's token can live, and as long as that is not known.
func TestRevocationsThatAreNeeded(t *testing.T) {
	t.Parallel()
	before := metav1.NewTime(time.Now().Add(-time.Hour))
	r := &access.TokenRevocation{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: access.TokenRevocationSpec{UserNames: []string{"mona"}, IssuedBefore: &before}}
	for name, c := range map[string]struct {
		tokens Tokens
		want   func(error) bool
	}{
		"over":      {living{longest: 59 * time.Minute}, func(err error) bool { return err == nil }},
		"needed":    {living{longest: 61 * time.Minute}, apierrors.IsForbidden},
		"not known": {living{err: errors.New("no etcd")}, apierrors.IsServiceUnavailable},
		"off":       {nil, apierrors.IsForbidden},
	} {
		s := &tokenRevocations{storage: &storage[*access.TokenRevocation]{kind: tokenRevocationKind()}, tokens: c.tokens}
		if err := s.over(nil)(t.Context(), r); !c.want(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
