package readfilter

import (
	"context"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/discovery"
)

// reading is a read under a condition, on its way from the filter to the storage.
type reading struct {
	holder *requestctx.State
	attrs  authorizer.Attributes
	// what a list or watch must be narrowed to.
	labels []labels.Requirement
	fields []fields.Requirement
	// narrowing is all of it; nil for a get.
	narrowing *requestctx.Narrowing
	// decided is true once the storage has done its part.
	decided atomic.Bool
}

// IsDecided implements requestctx.Reading.
func (r *reading) IsDecided() bool { return r.decided.Load() }

// conditional reports whether the request of a holder is a read that has yet to be decided.
func conditional(holder *requestctx.State) (authorizer.Attributes, bool) {
	if holder == nil {
		return nil, false
	}
	attrs := holder.Attributes()
	if attrs == nil || !authorize.IsRead(attrs) {
		return nil, false
	}
	d := holder.Get(requestctx.Request)
	return attrs, d.Pending() != nil || d.Narrowing() != nil
}

// of returns the read that a call of the storage belongs to; nil if it is not under a condition, or if the call is
// about another resource that the handler looks up. It fails for a read that did not pass the filter.
func of(ctx context.Context, resource schema.GroupResource) (*reading, error) {
	holder := requestctx.From(ctx)
	attrs, ok := conditional(holder)
	if !ok || discovery.StoredAs(schema.GroupResource{Group: attrs.GetAPIGroup(), Resource: attrs.GetResource()}) != resource {
		return nil, nil
	}
	r, _ := holder.Reading().(*reading)
	if r == nil {
		return nil, apierrors.NewForbidden(resource, attrs.GetName(), errPassedBy)
	}
	return r, nil
}
