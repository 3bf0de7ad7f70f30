package readfilter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/storage"

	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/request/streams"
)

// store decides reads under a condition. Everything else passes: the enforcer decides about what a write reads.
type store struct {
	storage.Interface
	stores   *Stores
	resource schema.GroupResource
	convert  Converter
	// shared converts objects that are only read.
	shared Converter
	keyOf  func(runtime.Object) (string, error)
	// cached is true if watches come from the watch cache, and not from etcd.
	cached  bool
	history history
}

// Get decides on the state that it returns (RD-4). An object that the caller may not see is not found, like a name that
// does not exist.
func (s *store) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	if c := requestctx.From(ctx).Connection(); c != nil && c.Resource() == s.resource {
		return s.connect(ctx, c, key, opts, out)
	}
	r, err := of(ctx, s.resource)
	if err != nil {
		return err
	}
	if r == nil {
		return s.Interface.Get(ctx, key, opts, out)
	}
	pending := r.holder.Get(requestctx.Request).Pending()
	if pending == nil || r.attrs.GetVerb() != "get" {
		return apierrors.NewForbidden(s.resource, r.attrs.GetName(), errPassedBy)
	}
	err = s.Interface.Get(ctx, key, storage.GetOptions{ResourceVersion: opts.ResourceVersion}, out)
	switch {
	case storage.IsNotFound(err):
		return s.missing(ctx, key, opts, out)
	case err != nil:
		// An object that cannot be read gets the answer of a name that does not exist, if that is "not found". Only
		// audit records why.
		s.annotate(ctx, requestctx.Outcome{Decision: authorizer.DecisionNoOpinion, Detail: err})
		if other := s.Interface.Get(ctx, key+"/none", storage.GetOptions{ResourceVersion: opts.ResourceVersion}, out); !storage.IsNotFound(other) {
			return other
		}
		return s.missing(ctx, key, opts, out)
	}
	found := pending.Resolve(ctx, s.facts(ctx, r, out))
	s.annotate(ctx, found)
	if found.Decision != authorizer.DecisionAllow {
		return s.missing(ctx, key, opts, out)
	}
	r.decided.Store(true)
	return nil
}

// missing answers for a name that does not exist.
func (s *store) missing(_ context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	if err := runtime.SetZeroValue(out); err != nil {
		return err
	}
	if opts.IgnoreNotFound {
		return nil
	}
	return storage.NewKeyNotFoundError(key, 0)
}

// annotate records the real reason in audit.
func (s *store) annotate(ctx context.Context, found requestctx.Outcome) {
	decision := "forbid"
	if found.Decision == authorizer.DecisionAllow {
		decision = "allow"
	}
	audit.AddAuditAnnotations(ctx, authorize.AnnotationOutcome, authorize.Spell(found.Decision), enforce.AnnotationDecision, decision,
		enforce.AnnotationAuthorizer, found.Authorizer, enforce.AnnotationConditions, strings.Join(found.Conditions, ","))
	if found.Detail != nil {
		audit.AddAuditAnnotation(ctx, enforce.AnnotationDetail, found.Detail.Error())
	}
}

// GetList returns a list that is as narrow as it must be. It announces later pages only if the caller may see something
// on them (RD-6).
func (s *store) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	r, err := of(ctx, s.resource)
	if err != nil {
		return err
	}
	if r == nil {
		return s.Interface.GetList(ctx, key, opts, list)
	}
	if err := s.checkNarrow(r, opts.Predicate); err != nil {
		return err
	}
	_, view, err := s.since(ctx, r)
	if err != nil {
		return err
	}
	m, err := s.ask(ctx, r, &opts, false)
	if err != nil {
		return apierrors.NewForbidden(s.resource, r.attrs.GetName(), err)
	}
	asked := opts
	if opts.Predicate.Limit > 0 && opts.Predicate.Limit < math.MaxInt64 {
		opts.Predicate.Limit++ // one more shows whether anything follows that may be seen
	}
	limited, err := s.getList(ctx, r, key, opts, list)
	if err != nil {
		return unsaid(err)
	}
	if limited {
		asked.ResourceVersion = ""
	}
	if err := m.settle(list); err != nil {
		return apierrors.NewInternalError(err)
	}
	if err := s.endPage(key, asked, list); err != nil {
		return unsaid(err)
	}
	s.listed(r, view, list)
	r.decided.Store(true)
	return nil
}

// endPage cuts a list to the page that was asked for. A page announces more if the caller may see what was cut off, and
// reveals nothing about what the caller may not see.
func (s *store) endPage(key string, asked storage.ListOptions, list runtime.Object) error {
	m, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	m.SetRemainingItemCount(nil)
	complete := asked.ResourceVersion == "0" && m.GetContinue() == ""
	m.SetContinue("")
	ptr, err := meta.GetItemsPtr(list)
	if err != nil {
		return err
	}
	items, err := conversion.EnforcePtr(ptr)
	if err != nil {
		return err
	}
	limit := asked.Predicate.Limit
	switch seen := int64(items.Len()); {
	case limit <= 0 || seen <= limit:
		return nil
	case complete && seen > limit+1:
		return nil // only a watch cache, which ignores limits, returns more than one too many; and this is all
	}
	items.Set(items.Slice3(0, int(limit), int(limit)))
	last, ok := items.Index(int(limit) - 1).Addr().Interface().(runtime.Object)
	if !ok {
		return fmt.Errorf("a list of %s holds no objects", s.resource)
	}
	lastKey, err := s.keyOf(last)
	if err != nil {
		return err
	}
	rv, err := s.Versioner().ParseResourceVersion(m.GetResourceVersion())
	if err != nil {
		return err
	}
	next, err := storage.EncodeContinue(lastKey+"\x00", key, int64(rv))
	if err != nil {
		return err
	}
	m.SetContinue(next)
	return nil
}

// Watch sends what the caller may see, until that changes (RD-7).
func (s *store) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	r, err := of(ctx, s.resource)
	if err != nil {
		return nil, err
	}
	if r == nil {
		w, err := s.Interface.Watch(ctx, key, opts)
		if err != nil || !s.stores.cfg.RecheckAll && !streams.EndsByTime(requestctx.From(ctx)) {
			return w, err
		}
		return s.stores.recheck(ctx, w), nil
	}
	if err := s.checkNarrow(r, opts.Predicate); err != nil {
		return nil, err
	}
	since, _, err := s.since(ctx, r)
	if err != nil {
		return nil, err
	}
	if older(s.Versioner(), opts, since) {
		r.decided.Store(true)
		return newExpired(), nil
	}
	m, err := s.ask(ctx, r, &opts, true)
	if err != nil {
		return nil, apierrors.NewForbidden(s.resource, r.attrs.GetName(), err)
	}
	w, err := s.Interface.Watch(ctx, key, opts)
	if err != nil {
		return nil, unsaid(err)
	}
	r.decided.Store(true)
	return s.stores.follow(w, r.holder, m), nil
}

var errNotNarrow = errors.New("the list is not as narrow as what its caller may see")

// checkNarrow fails for a list that was widened on its way here.
func (s *store) checkNarrow(r *reading, p storage.SelectionPredicate) error {
	if r.holder.Get(requestctx.Request).Narrowing() == nil {
		return apierrors.NewForbidden(s.resource, r.attrs.GetName(), errPassedBy)
	}
	if p.Label == nil || p.Field == nil {
		return apierrors.NewForbidden(s.resource, r.attrs.GetName(), errNotNarrow)
	}
	ls, selectable := p.Label.Requirements()
	if !selectable {
		return nil // it selects nothing
	}
	fs := p.Field.Requirements()
	for _, want := range r.labels {
		if !slices.ContainsFunc(ls, func(have labels.Requirement) bool { return have.Equal(want) || have.String() == want.String() }) {
			return apierrors.NewForbidden(s.resource, r.attrs.GetName(), errNotNarrow)
		}
	}
	for _, want := range r.fields {
		want.Field = internalField(want.Field)
		if !slices.ContainsFunc(fs, func(have fields.Requirement) bool {
			return have.Field == want.Field && have.Value == want.Value && have.Operator == want.Operator
		}) {
			return apierrors.NewForbidden(s.resource, r.attrs.GetName(), errNotNarrow)
		}
	}
	return nil
}

// internalField is the name of a field in the storage. Only events of events.k8s.io call some of theirs differently.
func internalField(key string) string {
	if rest, ok := strings.CutPrefix(key, "regarding."); ok {
		return "involvedObject." + rest
	}
	if key == "reportingController" {
		return "reportingComponent"
	}
	return key
}

// unsaid replaces errors that may quote objects. Errors about the request itself pass.
func unsaid(err error) error {
	if AboutRequest(err) {
		return err
	}
	return apierrors.NewInternalError(errors.New("stored objects cannot be listed; the reason is not shown because it could reveal objects that you may not see"))
}

// AboutRequest reports whether an error of the storage is about the request or the storage itself, and not about what
// is stored.
func AboutRequest(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsBadRequest(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInvalid(err) || storage.IsTooLargeResourceVersion(err) || storage.IsUnreachable(err) ||
		storage.IsRequestTimeout(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
