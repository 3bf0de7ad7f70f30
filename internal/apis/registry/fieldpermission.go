package registry

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/apis/registry/validate"
	"proviso.dev/proviso/internal/state/policycodec"
)

func fieldPermissionKind(cfg Config) *kind[*policy.FieldPermission] {
	return &kind[*policy.FieldPermission]{
		version: policy.SchemeGroupVersion, plural: "fieldpermissions", singular: "fieldpermission", shortNames: []string{"fperm"},
		newObject: func() *policy.FieldPermission { return &policy.FieldPermission{} },
		newList:   func() runtime.Object { return &policy.FieldPermissionList{} },
		columns: []column[*policy.FieldPermission]{
			{name: "Permission", description: "The name of the permission.", cell: func(p *policy.FieldPermission) any { return p.Spec.Permission }},
			{name: "Field", description: "The field that the permission guards.", cell: func(p *policy.FieldPermission) any { return p.Spec.Field }},
			{name: "Resources", description: "The resources that have the field.", cell: func(p *policy.FieldPermission) any { return strings.Join(p.Spec.Resources, ",") }},
			{name: "Exclusive", kind: "boolean", description: "Whether the general right to write the object no longer covers the field.",
				cell: func(p *policy.FieldPermission) any { return p.Spec.Exclusive }},
			{name: "Hidden", kind: "boolean", wide: true, description: "Whether readers see the field only with the verb that reveals it.",
				cell: func(p *policy.FieldPermission) any { return p.Spec.ReadExclusive }},
			{name: "Parameter", wide: true, description: "Where the parameter comes from.", cell: func(p *policy.FieldPermission) any {
				if p.Spec.Parameter == nil {
					return ""
				}
				return p.Spec.Parameter.From
			}},
			{name: "Resolved", wide: true, description: "Whether all resources are served and have the field.",
				cell: func(p *policy.FieldPermission) any {
					return conditionCell(p.Status.Conditions, policy.ConditionKindsResolved)
				}},
		},
		prepare: func(_, _ *policy.FieldPermission) {},
		validate: func(_ context.Context, p, _ *policy.FieldPermission) field.ErrorList {
			return validate.FieldPermission(p, cfg.FieldPermissions.CheckFieldPermission)
		},
		warn: func(ctx context.Context, p, old *policy.FieldPermission) []string {
			if !p.Spec.ReadExclusive || old != nil && old.Spec.ReadExclusive && equality.Semantic.DeepEqual(old.Spec, p.Spec) || !mayAsk(ctx, cfg.Authorizer, "") {
				return nil
			}
			return cfg.FieldPermissions.WarnOfHidden(ctx, p.Spec)
		},
		sameContent:   func(a, b *policy.FieldPermission) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) },
		contentFields: []string{"spec"},
		copyContent:   func(to, from *policy.FieldPermission) { to.Spec = from.Spec },
		copyStatus:    func(to, from *policy.FieldPermission) { to.Status = from.Status },
	}
}

// fieldPermissions asks for the verb escalate before a declaration is written: mapping a permission that a user holds
// to another field gives them that field.
type fieldPermissions struct {
	*storage[*policy.FieldPermission]
	authorizer authorizer.Authorizer
}

// Create stores a declaration by a caller who may escalate.
func (s *fieldPermissions) Create(ctx context.Context, obj runtime.Object, validation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	return s.storage.Create(ctx, obj, s.mayEscalate(validation), options)
}

// Update changes a declaration. Metadata alone can be changed by who may only update.
func (s *fieldPermissions) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	guarded := func(ctx context.Context, obj, old runtime.Object) error {
		if updateValidation != nil {
			if err := updateValidation(ctx, obj, old); err != nil {
				return err
			}
		}
		if s.kind.sameContent(cast[*policy.FieldPermission](obj), cast[*policy.FieldPermission](old)) {
			return nil
		}
		return s.authorize(ctx, cast[*policy.FieldPermission](obj).Name, toWrite)
	}
	return s.storage.Update(ctx, name, objInfo, s.mayEscalate(createValidation), guarded, forceAllowCreate, options)
}

func (s *fieldPermissions) mayEscalate(validation rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if validation != nil {
			if err := validation(ctx, obj); err != nil {
				return err
			}
		}
		return s.authorize(ctx, cast[*policy.FieldPermission](obj).Name, toWrite)
	}
}

// Delete removes a declaration. One that withholds a field takes the right to escalate, as writing it did.
func (s *fieldPermissions) Delete(ctx context.Context, name string, validation rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	return s.storage.Delete(ctx, name, s.mayRelease(validation), options)
}

// DeleteCollection removes declarations, up to the first one that the caller may not.
func (s *fieldPermissions) DeleteCollection(ctx context.Context, validation rest.ValidateObjectFunc, options *metav1.DeleteOptions, list *metainternalversion.ListOptions) (runtime.Object, error) {
	return s.storage.DeleteCollection(ctx, s.mayRelease(validation), options, list)
}

func (s *fieldPermissions) mayRelease(validation rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if validation != nil {
			if err := validation(ctx, obj); err != nil {
				return err
			}
		}
		p := cast[*policy.FieldPermission](obj)
		if !p.Spec.Exclusive && p.Spec.ExclusiveWhen == "" && !p.Spec.ReadExclusive && policycodec.Quarantined(p) == "" {
			return nil
		}
		return s.authorize(ctx, p.Name, toDelete)
	}
}

// Why a caller has to be allowed to escalate.
const (
	toWrite  = "to write one, since it can give a field to everybody who holds the permission"
	toDelete = "to delete one that is exclusive or hides its field, since that gives the field to everybody who may write or read the object"
)

// authorize refuses a caller who may not escalate. Only an explicit allow counts.
func (s *fieldPermissions) authorize(ctx context.Context, name, why string) error {
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return apierrors.NewForbidden(s.kind.resource(), name, fmt.Errorf("no user in the request"))
	}
	decision, reason, err := s.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: caller, Verb: "escalate", APIGroup: s.kind.version.Group, APIVersion: s.kind.version.Version,
		Resource: s.kind.plural, Name: name, ResourceRequest: true,
	})
	if decision == authorizer.DecisionAllow {
		return nil
	}
	msg := fmt.Sprintf("user %q needs the verb \"escalate\" on %s %s", caller.GetName(), s.kind.resource(), why)
	if reason != "" {
		msg += ": " + reason
	}
	if err != nil {
		msg += " (the authorizer failed)"
	}
	return apierrors.NewForbidden(s.kind.resource(), name, fmt.Errorf("%s", msg))
}
