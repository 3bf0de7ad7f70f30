package accessrequests

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	apiaudit "k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	access "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/apis/registry"
	engine "proviso.dev/proviso/internal/engine/access"
	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/journal"
)

// sinkPatience is how long a break-glass request waits for its audit sinks.
const sinkPatience = 5 * time.Second

// desk connects the storage of access requests with the rest of the server.
type desk struct {
	kernel   *feature.Kernel
	requests feature.Promise[registry.AccessRequests]
}

var (
	_ registry.AccessDesk = (*desk)(nil)
	_ enforce.Grants      = (*desk)(nil)
)

// Serve implements registry.AccessDesk. The registry is made once.
func (d *desk) Serve(r registry.AccessRequests) { _ = d.requests.Keep(r) }

// Now implements registry.AccessDesk.
func (d *desk) Now() (time.Time, bool) { return d.kernel.Store.Clock().Now() }

// Namespace implements registry.AccessDesk.
func (d *desk) Namespace(_ context.Context, name string) (metav1.Object, error) {
	obj, err := d.kernel.Namespaces.Namespace(name)
	if err != nil {
		return nil, err
	}
	return meta.Accessor(obj)
}

// IsImpersonated implements registry.AccessDesk.
func (d *desk) IsImpersonated(ctx context.Context) bool { return journal.IsImpersonated(ctx) }

// FixedKind implements registry.AccessDesk.
func (d *desk) FixedKind(entry string) bool {
	return engine.Fixed(d.kernel.Store.Current().Served.Kinds(), entry)
}

// ByGrant implements registry.AccessDesk. What is not known to be allowed otherwise is by a grant.
func (d *desk) ByGrant(ctx context.Context) bool {
	holder := requestctx.From(ctx)
	return holder == nil || holder.By(requestctx.Request) == "" || holder.By(requestctx.Request) == links.Access && !d.OnlyOwn(ctx)
}

// OnlyOwn implements registry.AccessDesk. What is not known to be allowed otherwise is for one's own only.
func (d *desk) OnlyOwn(ctx context.Context) bool {
	holder := requestctx.From(ctx)
	if holder == nil || holder.Attributes() == nil || holder.By(requestctx.Request) == "" {
		return true
	}
	return holder.By(requestctx.Request) == links.Access && len(d.kernel.Gate.Chain.Granted(ctx, holder.Attributes())) == 0
}

// Tell implements registry.AccessDesk. Users who may read events may not be allowed to read the request: the message
// does not quote who asked, why, or what an approver said.
func (d *desk) Tell(r *access.AccessRequest, reason string) {
	d.kernel.Warner.Inform(r, reason, fmt.Sprintf("The request by AccessRule %q is %s", r.Spec.RuleRef.Name, r.Status.State))
}

// CheckSinks implements registry.AccessDesk.
func (d *desk) CheckSinks(rule *access.AccessRule, until time.Time, path *field.Path) (errs field.ErrorList) {
	sinks, on := d.kernel.Sinks.Get()
	if !on {
		return field.ErrorList{field.Forbidden(path, "there are no audit sinks while DynamicAudit is off")}
	}
	for i, name := range rule.Spec.AuditSinks {
		if err := sinks.Check(name, until); err != nil {
			errs = append(errs, field.Invalid(path.Index(i), name, err.Error()))
		}
	}
	return errs
}

// Breaks implements registry.AccessDesk. The event that ends the request, and with which it is told, comes after the
// answer.
func (d *desk) Breaks(ctx context.Context, rule *access.AccessRule, r *access.AccessRequest, decide func(context.Context, bool) error) {
	sinks, told := d.kernel.Sinks.Get()
	apiaudit.AddAuditAnnotation(ctx, authorize.AnnotationAsked, string(r.UID))
	later := request.WithNamespace(requestctx.With(context.WithoutCancel(ctx), d.kernel.Store.Current()), r.Namespace)
	var tell func(context.Context) error
	if told {
		tell = sinks.Tell(string(r.UID), rule.Spec.AuditSinks, rule.Spec.WhenSinkDown == access.SinkDownSpool)
	}
	go func() {
		if told {
			waiting, cancel := context.WithTimeout(later, sinkPatience)
			err := tell(waiting)
			cancel()
			if err != nil {
				klog.InfoS("An audit sink was not told of a request by break-glass", "request", r.Namespace+"/"+r.Name, "err", err)
			}
			told = err == nil
		}
		if err := decide(later, told); err != nil && !apierrors.IsConflict(err) { // it may have been withdrawn meanwhile
			klog.ErrorS(err, "A request by break-glass stays pending", "request", r.Namespace+"/"+r.Name)
		}
	}()
}

var errNoRequests = errors.New("the requests cannot be reached")

// Use implements enforce.Grants: a grant that is for one write is consumed before the write is stored (TM-11).
func (d *desk) Use(ctx context.Context, holder *requestctx.State, attrs admission.Attributes) error {
	decided := holder.Attributes()
	if decided == nil {
		return admission.NewForbidden(attrs, errors.New("this request has no authorization decision"))
	}
	grants := d.kernel.Gate.Chain.Granted(ctx, decided)
	authorize.AnnotateGrants(ctx, grants)
	if attrs.IsDryRun() || !verbs.IsWrite(decided.GetVerb()) {
		return nil
	}
	for _, g := range grants {
		if !g.Request.Spec.Once || !holder.Uses(g.Request.UID) {
			continue
		}
		requests, kept := d.requests.Get()
		err := errNoRequests
		if kept {
			err = requests.Consume(request.WithNamespace(ctx, g.Namespace), g.Name, g.Request.UID)
		}
		if err != nil {
			return admission.NewForbidden(attrs, fmt.Errorf("AccessRequest %q cannot be used: %w", g.Key(), err))
		}
	}
	return nil
}
