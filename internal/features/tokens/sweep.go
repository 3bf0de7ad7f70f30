package tokens

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/state/ledger"
	"proviso.dev/proviso/internal/state/snapshot"
)

// sweeper deletes revocations that can no longer apply to a token, and removes expired tokens from the list (TK-6).
type sweeper struct {
	kernel  *feature.Kernel
	longest time.Duration
	from    snapshot.Source
	ledger  *ledger.Ledger
}

// Run implements feature.Runner.
func (s *sweeper) Run(ctx context.Context) {
	feature.Repeat(ctx, time.Minute, "Revocations and tokens that are over were not deleted", s.sweep)
}

func (s *sweeper) sweep(ctx context.Context) error {
	now, known := s.kernel.Store.Clock().Now()
	if !known || s.kernel.Clients == nil || s.kernel.Replicas.Agreed() != nil {
		return nil //nolint:nilerr // later
	}
	if err := s.ledger.Trim(ctx, now); err != nil {
		return fmt.Errorf("the list of tokens: %w", err)
	}
	longest, err := s.ledger.Longest(ctx, s.longest) // also of tokens of other servers, and of this one before a restart
	if err != nil {
		return fmt.Errorf("how long a token can live: %w", err)
	}
	objects, err := s.from.Objects(snapshot.TokenRevocations)
	if err != nil {
		return err
	}
	client, err := s.kernel.Clients.Group(accessv1alpha1.SchemeGroupVersion)
	if err != nil {
		return err
	}
	var errs []error // one that cannot be deleted does not keep the others
	for _, r := range snapshot.Of[*accessv1alpha1.TokenRevocation](objects) {
		// A minute more: clocks of replicas differ.
		if before := r.Spec.IssuedBefore; before == nil || now.Before(before.Add(longest+time.Minute)) {
			continue
		}
		only := fmt.Sprintf(`{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":%q}}`, r.UID)
		err := client.Delete().Resource(snapshot.TokenRevocations.Resource).Name(r.Name).SetHeader("Content-Type", "application/json").Body([]byte(only)).Do(ctx).Error()
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("%s: %w", r.Name, err))
		}
	}
	return errors.Join(errs...)
}
