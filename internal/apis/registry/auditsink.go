package registry

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	audit "proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/apis/registry/validate"
)

func auditSinkKind(cfg Config) *kind[*audit.AuditSink] {
	return &kind[*audit.AuditSink]{
		version: audit.SchemeGroupVersion, plural: "auditsinks", singular: "auditsink", shortNames: []string{"asink"},
		newObject: func() *audit.AuditSink { return &audit.AuditSink{} },
		newList:   func() runtime.Object { return &audit.AuditSinkList{} },
		columns: []column[*audit.AuditSink]{
			{name: "Active", description: "Whether the sink gets events, or why not.",
				cell: func(s *audit.AuditSink) any { return conditionCell(s.Status.Conditions, audit.ConditionActive) }},
			{name: "Delivering", description: "Whether events reach the receiver, or why not.",
				cell: func(s *audit.AuditSink) any { return conditionCell(s.Status.Conditions, audit.ConditionDelivering) }},
			{name: "Level", description: "The level of requests that no rule matches.", cell: func(s *audit.AuditSink) any { return string(s.Spec.Policy.Level) }},
			{name: "Rules", kind: "integer", description: "The number of compiled rules.", cell: func(s *audit.AuditSink) any { return int64(s.Status.CompiledRules) }},
			{name: "Delivered", kind: "integer", description: "Events that were acknowledged.", cell: func(s *audit.AuditSink) any { return s.Status.Delivered }},
			{name: "Spooled", kind: "integer", description: "Events that wait for delivery.", cell: func(s *audit.AuditSink) any { return s.Status.Spooled }},
			{name: "Dropped", kind: "integer", description: "Events that are lost.", cell: func(s *audit.AuditSink) any { return s.Status.Dropped }},
			{name: "Set Aside", kind: "integer", wide: true, description: "Events that the receiver refuses.", cell: func(s *audit.AuditSink) any { return s.Status.SetAside }},
			{name: "Lag", description: "The age of the oldest event that waits.", cell: func(s *audit.AuditSink) any { return fmt.Sprintf("%ds", s.Status.LagSeconds) }},
			{name: "Target", wide: true, description: "Where the events go.", cell: func(s *audit.AuditSink) any { return target(s.Spec.Webhook) }},
			{name: "Last Error", wide: true, description: "The last error of a delivery.", cell: func(s *audit.AuditSink) any { return s.Status.LastError }},
		},
		prepare: func(_, _ *audit.AuditSink) {},
		validate: func(_ context.Context, s, _ *audit.AuditSink) field.ErrorList {
			return append(validate.AuditSink(s, cfg.AllowInsecureSinks), redactedFields(s, cfg.FieldPermissions)...)
		},
		warn:          func(_ context.Context, s, _ *audit.AuditSink) []string { return sinkWarnings(s, cfg.Audit) },
		sameContent:   func(a, b *audit.AuditSink) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) },
		contentFields: []string{"spec"},
		copyContent:   func(to, from *audit.AuditSink) { to.Spec = from.Spec },
		copyStatus:    func(to, from *audit.AuditSink) { to.Status = from.Status },
	}
}

func target(w *audit.Webhook) string {
	switch {
	case w == nil:
		return "<none>"
	case w.ClientConfig.URL != nil:
		return *w.ClientConfig.URL
	case w.ClientConfig.Service != nil:
		return "service " + w.ClientConfig.Service.Namespace + "/" + w.ClientConfig.Service.Name
	}
	return "<none>"
}

// auditSinks bounds the number of sinks.
type auditSinks struct {
	*storage[*audit.AuditSink]
	max     int
	reveals reveals
	// creating makes counting and creating one step within this server.
	creating sync.Mutex
}

// Create stores a sink unless there are too many already.
func (s *auditSinks) Create(ctx context.Context, obj runtime.Object, validation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	slot := &sinkSlot{sinks: s}
	defer slot.release()
	created, err := s.storage.Create(ctx, obj, slot.take(s.reveals.onCreate(validation)), options)
	if err != nil || dryrun.IsDryRun(options.DryRun) {
		return created, err
	}
	return s.settle(ctx, created)
}

// Update changes a sink. An apply that creates one counts as a create.
func (s *auditSinks) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	slot := &sinkSlot{sinks: s}
	defer slot.release()
	obj, created, err := s.storage.Update(ctx, name, objInfo, slot.take(s.reveals.onCreate(createValidation)), s.reveals.onUpdate(updateValidation), forceAllowCreate, options)
	if err != nil || !created || dryrun.IsDryRun(options.DryRun) {
		return obj, created, err
	}
	obj, err = s.settle(ctx, obj)
	return obj, created, err
}

// sinkSlot is the right to add one sink. It is taken after admission, which can be slow, so one slow webhook does not
// delay all other sinks.
type sinkSlot struct {
	sinks *auditSinks
	taken bool
}

func (l *sinkSlot) take(validation rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if validation != nil {
			if err := validation(ctx, obj); err != nil {
				return err
			}
		}
		if !l.taken {
			l.sinks.creating.Lock()
			l.taken = true
		}
		return l.sinks.room(ctx, cast[*audit.AuditSink](obj).Name, l.sinks.max-1)
	}
}

func (l *sinkSlot) release() {
	if l.taken {
		l.sinks.creating.Unlock()
	}
}

// settle keeps the bound among servers that share the store: each can let one in at the same moment, and the one
// that then finds one too many takes its own back.
func (s *auditSinks) settle(ctx context.Context, created runtime.Object) (runtime.Object, error) {
	sink := cast[*audit.AuditSink](created)
	full := s.room(ctx, sink.Name, s.max)
	if full == nil {
		return created, nil
	}
	undo := &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(sink.UID))}
	if _, _, err := s.storage.Delete(context.WithoutCancel(ctx), sink.Name, rest.ValidateAllObjectFunc, undo); err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	return nil, full
}

// room refuses if there are more than allowed sinks.
func (s *auditSinks) room(ctx context.Context, name string, allowed int) error {
	list, err := s.List(ctx, &metainternalversion.ListOptions{})
	if err != nil {
		return err
	}
	sinks, _ := list.(*audit.AuditSinkList)
	if sinks == nil || len(sinks.Items) > allowed {
		return apierrors.NewForbidden(s.kind.resource(), name,
			fmt.Errorf("there are %d audit sinks already, as many as --audit-dynamic-max-sinks allows; delete one, or raise the flag", s.max))
	}
	return nil
}
