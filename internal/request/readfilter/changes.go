package readfilter

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/storage"

	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/discovery"
)

// GuaranteedUpdate notes, of a change that fails under a condition, whether the caller may get the state that it was
// tried on: then the error may quote it. What is decided is that state and no other, as with a get (RD-4).
func (s *store) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool, preconditions *storage.Preconditions, try storage.UpdateFunc, cached runtime.Object) error {
	r := s.changing(ctx)
	if r == nil {
		return s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, try, cached)
	}
	var told error // of the last attempt, if he may get the state that it was made on
	err := s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, func(input runtime.Object, res storage.ResponseMeta) (runtime.Object, *uint64, error) {
		before := input.DeepCopyObject()
		out, ttl, err := try(input, res)
		if told = nil; err != nil && s.mayGet(ctx, r, before) {
			told = err
		}
		return out, ttl, err
	}, cached)
	// What the storage itself says, of preconditions for instance, can be about a state that was not tried.
	requestctx.NotesOf(ctx).See(told != nil && errors.Is(err, told))
	return err
}

// changing is a change of one object of the resource that is not allowed yet; nil if it is another request, or a
// handler's on the way.
func (s *store) changing(ctx context.Context) *reading {
	holder := requestctx.From(ctx)
	if holder == nil || holder.Attributes() == nil || requestctx.NotesOf(ctx) == nil {
		return nil
	}
	attrs, d := holder.Attributes(), holder.Get(requestctx.Request)
	if d.Pending() == nil && !d.IsGranular() || attrs.GetName() == "" || discovery.StoredAs(schema.GroupResource{Group: attrs.GetAPIGroup(), Resource: attrs.GetResource()}) != s.resource {
		return nil
	}
	if !verbs.Updates(attrs.GetVerb()) {
		return nil
	}
	return &reading{holder: holder, attrs: authorize.WithVerb(attrs, verbs.Get)}
}

// mayGet tells whether the caller may get the object in a state. Of one that is not there yet nothing can be told.
func (s *store) mayGet(ctx context.Context, r *reading, state runtime.Object) bool {
	m, err := meta.Accessor(state)
	if err == nil && m.GetName() == "" && m.GetResourceVersion() == "" && m.GetUID() == "" {
		return true
	}
	if err != nil || m.GetName() != r.attrs.GetName() || m.GetNamespace() != r.attrs.GetNamespace() || s.stores.cfg.Gate.Honours(r.attrs) != nil {
		return false
	}
	return s.stores.cfg.Gate.Ask(ctx, r.holder, "get", s.facts(ctx, r, state)).Decision == authorizer.DecisionAllow
}
