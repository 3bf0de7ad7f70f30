package registry

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	audit "proviso.dev/proviso/api/auditregistration/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
)

// reveals asks for the right to see hidden fields before a sink is written that gets them (HF-8): its writer decides
// where they go.
type reveals struct {
	authorizer authorizer.Authorizer
	audit      AuditKnowledge
}

func (r reveals) onCreate(validation rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if validation != nil {
			if err := validation(ctx, obj); err != nil {
				return err
			}
		}
		return r.confirm(ctx, cast[*audit.AuditSink](obj))
	}
}

// onUpdate checks whenever the spec changes: a user who changes the webhook of a sink gets what the sink reveals.
func (r reveals) onUpdate(validation rest.ValidateObjectUpdateFunc) rest.ValidateObjectUpdateFunc {
	return func(ctx context.Context, obj, old runtime.Object) error {
		if validation != nil {
			if err := validation(ctx, obj, old); err != nil {
				return err
			}
		}
		sink := cast[*audit.AuditSink](obj)
		if equality.Semantic.DeepEqual(sink.Spec, cast[*audit.AuditSink](old).Spec) {
			return nil
		}
		return r.confirm(ctx, sink)
	}
}

// confirm refuses a caller who does not hold every verb, without a condition, on all resources that have the field. For
// a permission that hides no field now, these resources are unknown, so the verb is required on every resource.
func (r reveals) confirm(ctx context.Context, sink *audit.AuditSink) error {
	for i, permission := range sink.Spec.Reveal {
		resources := []schema.GroupResource{{Group: "*", Resource: "*"}}
		if r.audit != nil {
			if hiding := r.audit.Hiding(permission); len(hiding) > 0 {
				resources = hiding
			}
		}
		for _, resource := range resources {
			if err := r.ask(ctx, permission, resource); err != nil {
				return apierrors.NewForbidden(audit.SchemeGroupVersion.WithResource("auditsinks").GroupResource(), sink.Name, fmt.Errorf("spec.reveal[%d]: %w", i, err))
			}
		}
	}
	return nil
}

func (r reveals) ask(ctx context.Context, permission string, resource schema.GroupResource) error {
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return fmt.Errorf("no user in the request")
	}
	verb := fieldperm.RevealPrefix + permission
	decision, _, err := r.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: caller, Verb: verb, APIGroup: resource.Group, APIVersion: "*", Resource: resource.Resource, ResourceRequest: true,
	})
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case err != nil:
		return fmt.Errorf("user %q needs the verb %q on %s in the whole cluster (the authorizer failed)", caller.GetName(), verb, resource)
	}
	return fmt.Errorf("user %q needs the verb %q on %s in the whole cluster, without a condition: the sink would get a field that is hidden from others", caller.GetName(), verb, resource)
}

// redactedFields checks that resources that are served have the fields which a sink redacts: a misspelt one would
// redact nothing.
func redactedFields(s *audit.AuditSink, check FieldPermissions) (errs field.ErrorList) {
	if s.Spec.Redact == nil {
		return nil
	}
	for i, f := range s.Spec.Redact.Fields {
		if _, err := fieldperm.ParsePath(f.Field); err != nil {
			continue // it is refused already
		}
		spec := policy.FieldPermissionSpec{Resources: f.Resources, Field: f.Field}
		errs = append(errs, check.CheckFieldPermission(spec, field.NewPath("spec", "redact", "fields").Index(i))...)
	}
	return errs
}

// sinkWarnings says what of a sink has no effect, or another than it seems.
func sinkWarnings(s *audit.AuditSink, know AuditKnowledge) (warnings []string) {
	if end := s.Spec.NotAfter; end != nil && !time.Now().Before(end.Time) {
		warnings = append(warnings, "spec.notAfter: it is past: the sink gets no events")
	}
	if know == nil {
		return warnings
	}
	if r := s.Spec.Redact; r != nil {
		for i, name := range r.Permissions {
			if !know.IsDeclared(name) {
				warnings = append(warnings, fmt.Sprintf("spec.redact.permissions[%d]: no field permission %s is declared: the sink gets no bodies until one is", i, name))
			}
		}
	}
	for i, name := range s.Spec.Reveal {
		if len(know.Hiding(name)) == 0 {
			warnings = append(warnings, fmt.Sprintf("spec.reveal[%d]: no field permission %s hides a field now", i, name))
		}
	}
	return warnings
}
