package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	access "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/apis/registry/validate"
	engine "proviso.dev/proviso/internal/engine/access"
)

func accessRequestKind() *kind[*access.AccessRequest] {
	return &kind[*access.AccessRequest]{
		version: access.SchemeGroupVersion, plural: "accessrequests", singular: "accessrequest", shortNames: []string{"areq"}, namespaced: true,
		newObject: func() *access.AccessRequest { return &access.AccessRequest{} },
		newList:   func() runtime.Object { return &access.AccessRequestList{} },
		columns: []column[*access.AccessRequest]{
			{name: "Rule", description: "The AccessRule that it is made by.", cell: func(r *access.AccessRequest) any { return r.Spec.RuleRef.Name }},
			{name: "User", description: "Who asks.", cell: func(r *access.AccessRequest) any { return r.Spec.Requester.Username }},
			{name: "State", description: "What became of it.", cell: func(r *access.AccessRequest) any { return string(r.Status.State) }},
			{name: "For", description: "How long the role is wanted.", cell: func(r *access.AccessRequest) any { return shortSeconds(r.Spec.DurationSeconds) }},
			{name: "Until", description: "When the grant ends.", cell: func(r *access.AccessRequest) any { return instant(r.Status.Until) }},
			{name: "Reason", description: "Why.", cell: func(r *access.AccessRequest) any { return r.Spec.Reason }},
		},
		prepare: func(r, old *access.AccessRequest) {
			r.Finalizers = nil
			if old != nil {
				r.Status = old.Status
			}
		},
		validate: func(_ context.Context, r, old *access.AccessRequest) field.ErrorList {
			if old != nil && !equality.Semantic.DeepEqual(r.Spec, old.Spec) {
				return field.ErrorList{field.Forbidden(field.NewPath("spec"), "never changes: withdraw the request and make another one")}
			}
			return validate.AccessRequest(r)
		},
		sameContent:   func(a, b *access.AccessRequest) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) },
		contentFields: []string{"spec"},
		copyContent:   func(to, from *access.AccessRequest) { to.Spec = from.Spec },
	}
}

func shortSeconds(n int64) string {
	d := time.Duration(n) * time.Second
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", n)
}

func instant(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// accessRequests is the storage of access requests. They are created, decided and deleted; nothing else changes them
// but their labels and annotations.
type accessRequests struct {
	stored *storage[*access.AccessRequest]
	// status changes the status of a request, by compare and swap.
	status *statusStorage
	rules  *storage[*access.AccessRule]
	usages *storage[*access.AccessUsage]
	where  places
	desk   AccessDesk
}

var (
	_ rest.Getter               = &accessRequests{}
	_ rest.Lister               = &accessRequests{}
	_ rest.Watcher              = &accessRequests{}
	_ rest.Creater              = &accessRequests{}
	_ rest.GracefulDeleter      = &accessRequests{}
	_ rest.Patcher              = &accessRequests{}
	_ rest.ShortNamesProvider   = &accessRequests{}
	_ rest.CategoriesProvider   = &accessRequests{}
	_ rest.SingularNameProvider = &accessRequests{}
)

// New returns an empty object.
func (s *accessRequests) New() runtime.Object { return s.stored.New() }

// Destroy closes the store.
func (s *accessRequests) Destroy() { s.stored.Destroy() }

// NewList returns an empty list.
func (s *accessRequests) NewList() runtime.Object { return s.stored.NewList() }

// NamespaceScoped returns true: requests are in namespaces.
func (*accessRequests) NamespaceScoped() bool { return true }

// ShortNames are what a user can type instead of the plural.
func (s *accessRequests) ShortNames() []string { return s.stored.ShortNames() }

// Categories lets `kubectl get proviso` show them.
func (*accessRequests) Categories() []string { return categories() }

// GetSingularName is the singular of the resource.
func (s *accessRequests) GetSingularName() string { return s.stored.GetSingularName() }

// ConvertToTable shows requests as they are now.
func (s *accessRequests) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return s.stored.ConvertToTable(ctx, object, options)
}

// Get reads a request in its state of now.
func (s *accessRequests) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	obj, err := s.stored.Get(ctx, name, options)
	if err != nil {
		return nil, err
	}
	if !s.seen(ctx)(obj) {
		return nil, apierrors.NewNotFound(s.stored.kind.resource(), name)
	}
	return s.shown(obj), nil
}

// seen returns a filter for the requests that the caller may see.
func (s *accessRequests) seen(ctx context.Context) func(runtime.Object) bool {
	if !s.desk.OnlyOwn(ctx) {
		return func(runtime.Object) bool { return true }
	}
	caller, ok := request.UserFrom(ctx)
	return func(obj runtime.Object) bool {
		if cached, ok := obj.(runtime.CacheableObject); ok {
			obj = cached.GetObject()
		}
		r, is := obj.(*access.AccessRequest)
		return ok && is && r.Spec.Requester.Username == caller.GetName()
	}
}

// List lists requests in their states of now.
func (s *accessRequests) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	own := s.desk.OnlyOwn(ctx)
	if own { // how many pages there are would tell how many requests others have made
		all := *options
		all.Limit, all.Continue = 0, ""
		options = &all
	}
	obj, err := s.stored.List(ctx, options)
	if err != nil {
		return nil, err
	}
	list, seen := cast[*access.AccessRequestList](obj), s.seen(ctx)
	if own {
		list.Items = slices.DeleteFunc(slices.Clone(list.Items), func(r access.AccessRequest) bool { return !seen(&r) })
		list.RemainingItemCount = nil
	}
	if now, known := s.desk.Now(); known {
		for i := range list.Items {
			engine.Show(&list.Items[i], now)
		}
	}
	return list, nil
}

// Watch follows requests. The state is that of the moment at which an event is sent.
func (s *accessRequests) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	w, err := s.stored.Watch(ctx, options)
	if err != nil {
		return nil, err
	}
	seen := s.seen(ctx)
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		if e.Type == watch.Error || e.Type == watch.Bookmark {
			return e, true
		}
		if !seen(e.Object) {
			return e, false
		}
		e.Object = s.shown(e.Object)
		return e, true
	}), nil
}

// shown is a copy in its state of now.
func (s *accessRequests) shown(obj runtime.Object) runtime.Object {
	if cached, ok := obj.(runtime.CacheableObject); ok {
		obj = cached.GetObject()
	}
	r := cast[*access.AccessRequest](obj)
	now, known := s.desk.Now()
	if r == nil || !known {
		return obj
	}
	r = r.DeepCopy()
	engine.Show(r, now)
	return r
}

// Delete gives up what a request granted. It gives nothing back of what was counted.
func (s *accessRequests) Delete(ctx context.Context, name string, validation rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if s.desk.OnlyOwn(ctx) {
		if _, err := s.Get(ctx, name, &metav1.GetOptions{}); err != nil {
			return nil, false, err
		}
	}
	var last *access.AccessRequest
	obj, deleted, err := s.stored.Delete(ctx, name, func(ctx context.Context, obj runtime.Object) error {
		last = cast[*access.AccessRequest](obj)
		if validation == nil {
			return nil
		}
		return validation(ctx, obj)
	}, options)
	if err == nil && deleted && last != nil && !dryrun.IsDryRun(options.DryRun) {
		s.gone(ctx, last)
	}
	return obj, deleted, err
}

// Update changes labels and annotations.
func (s *accessRequests) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	obj, created, err := s.stored.Update(ctx, name, objInfo, createValidation, updateValidation, false, options)
	if err != nil {
		return nil, created, err
	}
	return s.shown(obj), created, nil
}

// Create asks.
func (s *accessRequests) Create(ctx context.Context, obj runtime.Object, validation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	r := cast[*access.AccessRequest](obj)
	caller, now, err := s.caller(ctx, r.Name)
	if err != nil {
		return nil, err
	}
	rule, err := s.ask(ctx, r, caller, now)
	if err != nil {
		return nil, err
	}
	if err := s.where.claim(ctx, s.stored.kind.resource(), r); err != nil {
		return nil, err
	}
	until := validate.WholeSecond(now.Add(pendingFor(rule)))
	r.Status = access.AccessRequestStatus{State: access.AccessPending, PendingUntil: &until}
	dry := dryrun.IsDryRun(options.DryRun)
	counted := false
	created, err := s.stored.Create(ctx, r, func(ctx context.Context, obj runtime.Object) error {
		if validation != nil {
			if err := validation(ctx, obj); err != nil {
				return err
			}
		}
		err := s.count(ctx, rule, cast[*access.AccessRequest](obj), now, dry)
		counted = err == nil && !dry
		return err
	}, options)
	if err != nil && counted {
		s.gone(ctx, r)
	}
	if err != nil || dry {
		return created, err
	}
	made := cast[*access.AccessRequest](created)
	s.desk.Tell(made, "Requested")
	if rule.Spec.BreakGlass {
		s.desk.Breaks(ctx, rule, made, func(ctx context.Context, told bool) error { return s.broken(ctx, rule, made, told) })
	}
	return s.shown(made), nil
}

func pendingFor(rule *access.AccessRule) time.Duration {
	if rule.Spec.PendingSeconds == nil {
		return engine.DefaultPending
	}
	return time.Duration(*rule.Spec.PendingSeconds) * time.Second
}

// caller is who asks, and when. Impersonated requests cannot ask, approve or revoke (TM-12).
func (s *accessRequests) caller(ctx context.Context, name string) (user.Info, time.Time, error) {
	caller, ok := request.UserFrom(ctx)
	now, known := s.desk.Now()
	switch {
	case !ok || caller.GetName() == user.Anonymous:
		return nil, now, s.forbidden(name, "only authenticated users can ask, approve or revoke")
	case s.desk.IsImpersonated(ctx):
		return nil, now, s.forbidden(name, "access requests cannot be created, approved or revoked while impersonating another user")
	case !known:
		return nil, now, apierrors.NewServiceUnavailable("the clock of this server cannot be trusted at the moment")
	}
	return caller, now, nil
}

func (s *accessRequests) forbidden(name, why string) error {
	return apierrors.NewForbidden(s.stored.kind.resource(), name, errors.New(why))
}

// ask checks a request by its rule, and writes into it who asks. Callers who may not ask by a rule do not learn whether
// the rule exists.
func (s *accessRequests) ask(ctx context.Context, r *access.AccessRequest, caller user.Info, now time.Time) (*access.AccessRule, error) {
	r.Spec.Requester = access.AccessRequester{Username: caller.GetName(), UID: caller.GetUID(), Groups: caller.GetGroups()}
	if extra := caller.GetExtra(); len(extra) > 0 {
		r.Spec.Requester.Extra = map[string][]string{}
		for key, values := range extra {
			r.Spec.Requester.Extra[key] = values
		}
	}
	errs := validate.AccessRequest(r)
	for i, entry := range r.Spec.ResourceKinds {
		if !s.desk.FixedKind(entry) {
			errs = append(errs, field.Invalid(field.NewPath("spec", "resourceKinds").Index(i), entry, "is the name of no built-in resource: add the API group, as in widgets.example.com, so it cannot come to mean another one"))
		}
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(access.Kind("AccessRequest"), cmp.Or(r.Name, r.GenerateName), errs)
	}
	rule, err := s.rule(ctx, r.Spec.RuleRef.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if err != nil || !engine.Includes(rule.Spec.Subjects, caller) {
		return nil, s.forbidden(r.Name, fmt.Sprintf("there is no AccessRule %q by which you may ask", r.Spec.RuleRef.Name))
	}
	if !engine.IsKnown(rule, caller.GetExtra()) {
		return nil, s.forbidden(r.Name, fmt.Sprintf("AccessRule %q tells people apart by %q of their extra, and you have no value of it", rule.Name, rule.Spec.Approvals.IdentityExtra))
	}
	if uid := r.Spec.RuleRef.UID; uid != "" && uid != rule.UID {
		return nil, apierrors.NewConflict(s.stored.kind.resource(), r.Name, fmt.Errorf("AccessRule %q has another uid", rule.Name))
	}
	r.Spec.RuleRef.UID = rule.UID
	ns, err := s.desk.Namespace(ctx, request.NamespaceValue(ctx))
	if err != nil {
		return nil, err
	}
	if !engine.Covers(rule, ns, s.where.master) {
		return nil, s.forbidden(r.Name, fmt.Sprintf("AccessRule %q is not about namespace %q", rule.Name, ns.GetName()))
	}
	errs = validate.AskedBy(r, rule, now)
	if rule.Spec.BreakGlass && len(errs) == 0 {
		errs = s.unheard(rule, r, now)
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(access.Kind("AccessRequest"), cmp.Or(r.Name, r.GenerateName), errs)
	}
	return rule, nil
}

// unheard lists the audit sinks of the rule that would not get everything that a request makes possible if it were
// granted now.
func (s *accessRequests) unheard(rule *access.AccessRule, r *access.AccessRequest, now time.Time) field.ErrorList {
	_, until := term(r, now)
	path := field.NewPath("spec", "ruleRef")
	errs := s.desk.CheckSinks(rule, until.Time, path)
	for _, err := range errs {
		err.Field = path.String() // the list is in the rule
	}
	return errs
}

func (s *accessRequests) rule(ctx context.Context, name string) (*access.AccessRule, error) {
	obj, err := s.rules.Get(request.WithNamespace(ctx, ""), name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return cast[*access.AccessRule](obj), nil
}
