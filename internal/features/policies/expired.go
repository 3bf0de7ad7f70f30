package policies

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/features/feature"
)

// expirer is the user in the journal for the deletion of expired bindings.
const expirer = "system:proviso:expired-bindings"

// sweeper deletes role bindings some time after they have expired. No decision depends on it: they no longer have an
// effect.
type sweeper struct {
	kernel *feature.Kernel
	ttl    time.Duration
}

// Run implements feature.Runner.
func (s *sweeper) Run(ctx context.Context) {
	feature.Repeat(ctx, min(max(s.ttl/10, time.Second), time.Minute), "Role bindings that have ended were not deleted", s.sweep)
}

func (s *sweeper) sweep(ctx context.Context) error {
	now, known := s.kernel.Store.Clock().Now()
	snap := s.kernel.Store.Current()
	if !known || !snap.Synced || s.kernel.Replicas.Agreed() != nil {
		return nil //nolint:nilerr // later
	}
	before := now.Add(-s.ttl)
	var ended []ruleset.BindingRef
	snap.Rules.Timed(func(ref ruleset.BindingRef, _ ruleset.RoleRef, span ruleset.Span) {
		if span.Until != math.MaxInt64 && !time.Unix(span.Until, 0).After(before) {
			ended = append(ended, ref)
		}
	})
	if len(ended) == 0 {
		return nil
	}
	client, err := s.kernel.Clients.GroupAs(authz.SchemeGroupVersion, expirer)
	if err != nil {
		return err
	}
	var errs []error // one that cannot be deleted does not keep the others
	for _, ref := range ended {
		if err := remove(ctx, client, ref, before); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("%s/%s: %w", ref.Namespace, ref.Name, err))
		}
	}
	return errors.Join(errs...)
}

// remove deletes a binding as it was read: one whose end was changed in the meantime stays.
func remove(ctx context.Context, client *rest.RESTClient, ref ruleset.BindingRef, before time.Time) error {
	b := &authz.RoleBinding{}
	if err := client.Get().Namespace(ref.Namespace).Resource("rolebindings").Name(ref.Name).Do(ctx).Into(b); err != nil {
		return err
	}
	if b.NotAfter == nil || b.NotAfter.After(before) {
		return nil
	}
	as := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &b.UID, ResourceVersion: &b.ResourceVersion}}
	return client.Delete().Namespace(ref.Namespace).Resource("rolebindings").Name(ref.Name).Body(as).Do(ctx).Error()
}
