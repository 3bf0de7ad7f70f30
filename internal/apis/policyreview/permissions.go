package policyreview

import (
	"context"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Permissions answers which field permissions are in effect, from the snapshot that the request is decided by (FP-12).
type Permissions struct {
	Store *snapshot.Store
	// Shapes knows which fields resources have. Without it every field counts as there.
	Shapes Shapes
}

// Shapes knows which fields resources have.
type Shapes interface {
	// HasField reports whether a served resource has a field.
	HasField(served *snapshot.Served, r fieldperm.Resource, at string) bool
}

// Permissions lists every permission with the fields it guards.
func (p *Permissions) Permissions(ctx context.Context) ([]fieldperm.Entry, error) {
	snap, err := p.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return snap.Fields.Permissions(), nil
}

// PermissionsOf lists the permissions that guard a field of one resource. What is declared for all resources counts
// where the resource has the field.
func (p *Permissions) PermissionsOf(ctx context.Context, resource string) ([]fieldperm.Entry, error) {
	snap, err := p.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	if strings.Contains(resource, "/") {
		return nil, apierrors.NewBadRequest("resource " + strconv.Quote(resource) + ": name it without a subresource: a permission covers the field in all of them")
	}
	found, _, err := target(snap.Served, resource)
	if err != nil {
		return nil, apierrors.NewBadRequest("resource " + err.Error())
	}
	r := fieldperm.Resource{Group: found.Group, Resource: found.Resource}
	return slices.DeleteFunc(snap.Fields.For(r), func(e fieldperm.Entry) bool {
		return p.Shapes != nil && !p.Shapes.HasField(snap.Served, r, e.Field)
	}), nil
}

// snapshot is what is in effect. Before everything has been read, the list would lack what restricts.
func (p *Permissions) snapshot(ctx context.Context) (*snapshot.Snapshot, error) {
	snap := authorize.SnapshotOf(ctx, p.Store)
	if !snap.Synced || snap.Fields == nil {
		err := apierrors.NewServiceUnavailable("the server has not read all field permissions yet: try again")
		err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
		return nil, err
	}
	return snap, nil
}
