package registry

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	audit "proviso.dev/proviso/api/auditregistration/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/apis/registry/validate"
)

// NamespaceSinks is what limits the sinks of namespaces.
type NamespaceSinks struct {
	// Max is how many one namespace can have; none if it is zero.
	Max int
	// Ground is what they stand on; nil if there are none here.
	Ground NamespaceSinkGround
}

// NamespaceSinkGround knows as whom sinks of namespaces see, and where they may be.
type NamespaceSinkGround interface {
	// UID is that of a service account; false if there is none.
	UID(namespace, name string) (string, bool)
	// Host reports why a sink cannot be at a host; nil if it may be.
	Host(host string) error
}

// host is Host where there are sinks.
func (n NamespaceSinks) host(host string) error {
	if n.Ground == nil {
		return errors.New("this server has no sinks of namespaces")
	}
	return n.Ground.Host(host)
}

// maxAllNamespaceSinks is how many sinks all namespaces have together: each has a spool, and is asked about each event.
const maxAllNamespaceSinks = 500

func namespaceAuditSinkKind(cfg Config) *kind[*policy.NamespaceAuditSink] {
	type T = *policy.NamespaceAuditSink
	return &kind[T]{
		version: policy.SchemeGroupVersion, plural: "namespaceauditsinks", singular: "namespaceauditsink", shortNames: []string{"nsasink"}, namespaced: true,
		newObject: func() T { return &policy.NamespaceAuditSink{} },
		newList:   func() runtime.Object { return &policy.NamespaceAuditSinkList{} },
		columns: []column[T]{
			{name: "Active", description: "Whether the sink gets events, or why not.", cell: func(s T) any { return conditionCell(s.Status.Conditions, audit.ConditionActive) }},
			{name: "Delivering", description: "Whether events reach the receiver, or why not.", cell: func(s T) any { return conditionCell(s.Status.Conditions, audit.ConditionDelivering) }},
			{name: "Account", description: "The service account that may see what the sink gets.", cell: func(s T) any { return s.Spec.ServiceAccountName }},
			{name: "Level", description: "The level of requests that no rule matches.", cell: func(s T) any { return string(s.Spec.Policy.Level) }},
			{name: "Delivered", kind: "integer", description: "Events that were acknowledged.", cell: func(s T) any { return s.Status.Delivered }},
			{name: "Spooled", kind: "integer", description: "Events that wait for delivery.", cell: func(s T) any { return s.Status.Spooled }},
			{name: "Dropped", kind: "integer", description: "Events that are lost.", cell: func(s T) any { return s.Status.Dropped }},
			{name: "Target", wide: true, description: "Where the events go.", cell: func(s T) any { return target(s.Spec.Webhook) }},
			{name: "Last Error", wide: true, description: "The last error of a delivery.", cell: func(s T) any { return s.Status.LastError }},
		},
		prepare: func(s, old T) {
			// The server sets it; an unchanged value stays.
			if s.Spec.ServiceAccountUID = ""; old != nil {
				s.Spec.ServiceAccountUID = old.Spec.ServiceAccountUID
				if equality.Semantic.DeepEqual(s.Spec, old.Spec) {
					return
				}
			}
			s.Spec.ServiceAccountUID = ""
			if cfg.NamespaceSinks.Ground != nil {
				s.Spec.ServiceAccountUID, _ = cfg.NamespaceSinks.Ground.UID(s.Namespace, s.Spec.ServiceAccountName)
			}
		},
		validate: func(_ context.Context, s, old T) field.ErrorList {
			if old == nil && cfg.NamespaceSinks.Max == 0 {
				return field.ErrorList{field.Forbidden(field.NewPath("spec"), "this server has no sinks of namespaces: --audit-namespace-sinks-max is 0, and beside a stock kube-apiserver there are none; a cluster admin can create an AuditSink")}
			}
			errs := append(validate.NamespaceAuditSink(s, cfg.AllowInsecureSinks, cfg.NamespaceSinks.host), redactedFields(&audit.AuditSink{Spec: audit.AuditSinkSpec{Redact: s.Spec.Redact}}, cfg.FieldPermissions)...)
			if len(errs) == 0 && s.Spec.ServiceAccountUID == "" && (old == nil || !equality.Semantic.DeepEqual(s.Spec, old.Spec)) {
				errs = append(errs, field.NotFound(field.NewPath("spec", "serviceAccountName"), s.Spec.ServiceAccountName))
			}
			return errs
		},
		sameContent:   func(a, b T) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) },
		contentFields: []string{"spec"},
		copyContent:   func(to, from T) { to.Spec = from.Spec },
		copyStatus:    func(to, from T) { to.Status = from.Status },
	}
}

// namespaceAuditSinks bounds the sinks of a namespace, and asks whether the writer may act as the account.
type namespaceAuditSinks struct {
	*storage[*policy.NamespaceAuditSink]
	limits     NamespaceSinks
	authorizer authorizer.Authorizer
	// creating makes counting and creating one step within this server.
	creating sync.Mutex
}

// Create stores a sink unless there are too many already.
func (s *namespaceAuditSinks) Create(ctx context.Context, obj runtime.Object, validation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	slot := &localSlot{sinks: s}
	defer slot.release()
	created, err := s.storage.Create(ctx, obj, slot.take(validation), options)
	if err != nil || dryrun.IsDryRun(options.DryRun) {
		return created, err
	}
	return s.settle(ctx, created)
}

// settle keeps the bounds among servers that share the store, as for sinks of the cluster.
func (s *namespaceAuditSinks) settle(ctx context.Context, created runtime.Object) (runtime.Object, error) {
	sink := cast[*policy.NamespaceAuditSink](created)
	full := s.room(ctx, sink, 1)
	if full == nil {
		return created, nil
	}
	undo := &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(sink.UID))}
	if _, _, err := s.storage.Delete(context.WithoutCancel(ctx), sink.Name, rest.ValidateAllObjectFunc, undo); err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	return nil, full
}

// Update changes a sink. Metadata alone can be changed by who may only update.
func (s *namespaceAuditSinks) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	slot := &localSlot{sinks: s}
	defer slot.release()
	guarded := func(ctx context.Context, obj, old runtime.Object) error {
		if updateValidation != nil {
			if err := updateValidation(ctx, obj, old); err != nil {
				return err
			}
		}
		sink := cast[*policy.NamespaceAuditSink](obj)
		if s.kind.sameContent(sink, cast[*policy.NamespaceAuditSink](old)) {
			return nil
		}
		return s.mayAct(ctx, sink)
	}
	obj, created, err := s.storage.Update(ctx, name, objInfo, slot.take(createValidation), guarded, forceAllowCreate, options)
	if err != nil || !created || dryrun.IsDryRun(options.DryRun) {
		return obj, created, err
	}
	obj, err = s.settle(ctx, obj)
	return obj, created, err
}

// localSlot is the right to add one sink, taken after admission.
type localSlot struct {
	sinks *namespaceAuditSinks
	taken bool
}

func (l *localSlot) take(validation rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if validation != nil {
			if err := validation(ctx, obj); err != nil {
				return err
			}
		}
		sink := cast[*policy.NamespaceAuditSink](obj)
		if err := l.sinks.mayAct(ctx, sink); err != nil {
			return err
		}
		if !l.taken {
			l.sinks.creating.Lock()
			l.taken = true
		}
		return l.sinks.room(ctx, sink, 0)
	}
}

func (l *localSlot) release() {
	if l.taken {
		l.sinks.creating.Unlock()
	}
}

// room refuses if there are too many sinks; so many of them are the new one.
func (s *namespaceAuditSinks) room(ctx context.Context, sink *policy.NamespaceAuditSink, own int) error {
	list, err := s.List(request.WithNamespace(ctx, metav1.NamespaceAll), &metainternalversion.ListOptions{})
	if err != nil {
		return err
	}
	all, _ := list.(*policy.NamespaceAuditSinkList)
	here := 0
	for i := 0; all != nil && i < len(all.Items); i++ {
		if all.Items[i].Namespace == sink.Namespace {
			here++
		}
	}
	switch {
	case all == nil || here-own >= s.limits.Max:
		err = fmt.Errorf("namespace %s has %d audit sinks, as many as --audit-namespace-sinks-max allows: delete one", sink.Namespace, here-own)
	case len(all.Items)-own >= maxAllNamespaceSinks:
		err = fmt.Errorf("there are %d audit sinks of namespaces already, as many as there can be", len(all.Items)-own)
	default:
		return nil
	}
	return apierrors.NewForbidden(s.kind.resource(), sink.Name, err)
}

// mayAct refuses a writer who cannot act as the account: through the sink they would read what the account may read.
func (s *namespaceAuditSinks) mayAct(ctx context.Context, sink *policy.NamespaceAuditSink) error {
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return apierrors.NewForbidden(s.kind.resource(), sink.Name, fmt.Errorf("no user in the request"))
	}
	attrs := authorizer.AttributesRecord{User: caller, APIVersion: "v1", Namespace: sink.Namespace, Resource: "serviceaccounts", Name: sink.Spec.ServiceAccountName, ResourceRequest: true}
	failed := ""
	for _, way := range [][2]string{{"impersonate", ""}, {"create", "token"}} {
		attrs.Verb, attrs.Subresource = way[0], way[1]
		decision, _, err := s.authorizer.Authorize(ctx, attrs)
		if decision == authorizer.DecisionAllow {
			return nil
		}
		if err != nil {
			failed = " (the authorizer failed)"
		}
	}
	return apierrors.NewForbidden(s.kind.resource(), sink.Name, fmt.Errorf("spec.serviceAccountName: user %q needs the verb \"impersonate\" on serviceaccounts %q in the namespace, or \"create\" on its token, without a condition: the sink gets what the account may read%s",
		caller.GetName(), sink.Spec.ServiceAccountName, failed))
}
