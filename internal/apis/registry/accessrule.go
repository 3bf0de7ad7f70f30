package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	access "proviso.dev/proviso/api/access/v1alpha1"
	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/apis/registry/validate"
)

func accessRuleKind(cfg Config) *kind[*access.AccessRule] {
	return &kind[*access.AccessRule]{
		version: access.SchemeGroupVersion, plural: "accessrules", singular: "accessrule", shortNames: []string{"arule"},
		newObject: func() *access.AccessRule { return &access.AccessRule{} },
		newList:   func() runtime.Object { return &access.AccessRuleList{} },
		columns: []column[*access.AccessRule]{
			{name: "Role", description: "The role that can be asked for.", cell: func(r *access.AccessRule) any { return accessRoleCell(r.Spec.RoleRef) }},
			{name: "Namespaces", description: "The namespaces that can be asked for.", cell: func(r *access.AccessRule) any { return accessPlaces(r) }},
			{name: "Asked By", description: "Who may ask.", cell: func(r *access.AccessRule) any { return subjectsCell(r.Spec.Subjects) }},
			{name: "Approved By", description: "Who has to approve it.", cell: func(r *access.AccessRule) any { return approversCell(r) }},
			{name: "At Most", description: "The longest time that can be asked for.", cell: func(r *access.AccessRule) any { return shortSeconds(r.Spec.MaxDurationSeconds) }},
		},
		prepare: func(r, _ *access.AccessRule) {
			if ref := &r.Spec.RoleRef; !ref.ClusterRole() && ref.Namespace == "" {
				ref.Namespace = cfg.MasterNamespace
			}
		},
		validate: func(_ context.Context, r, old *access.AccessRule) field.ErrorList {
			errs := validate.AccessRule(r, cfg.MasterNamespace)
			changed := old == nil || !equality.Semantic.DeepEqual(r.Spec, old.Spec)
			if len(errs) == 0 && cfg.Access != nil && r.Spec.BreakGlass && changed {
				now, _ := cfg.Access.Now()
				errs = cfg.Access.CheckSinks(r, now.Add(time.Duration(r.Spec.MaxDurationSeconds)*time.Second), field.NewPath("spec", "auditSinks"))
			}
			return errs
		},
		sameContent: func(a, b *access.AccessRule) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) },
	}
}

func accessRoleCell(ref access.AccessRoleRef) string {
	if ref.ClusterRole() {
		return ref.Kind + "/" + ref.Name
	}
	return ref.Namespace + "/" + ref.Name
}

func accessPlaces(r *access.AccessRule) string {
	if s := r.Spec.NamespaceSelector; s != nil {
		return metav1.FormatLabelSelector(s)
	}
	return strings.Join(r.Spec.Namespaces, ",")
}

func subjectsCell(s access.Subjects) string {
	return strings.Join(slices.Concat(s.UserNames, s.GroupNames), ",")
}

func approversCell(r *access.AccessRule) string {
	a := r.Spec.Approvals
	switch {
	case a == nil:
		return "nobody: break-glass"
	case a.Count == 1:
		return subjectsCell(a.Subjects)
	}
	return fmt.Sprintf("%d of %s", a.Count, subjectsCell(a.Subjects))
}

// accessRules is the storage of access rules. Writing one takes what binding its role takes, wherever it can be asked
// for (TM-9).
type accessRules struct {
	*storage[*access.AccessRule]
	cfg  Config
	role func(context.Context, *authz.RoleBinding) (policy.PolicyRole, error)
}

// Create stores a rule by a caller who may bind its role.
func (s *accessRules) Create(ctx context.Context, obj runtime.Object, validation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	return s.storage.Create(ctx, obj, s.binds(validation), options)
}

// Update changes a rule. Metadata alone can be changed by who may only update.
func (s *accessRules) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	guarded := func(ctx context.Context, obj, old runtime.Object) error {
		if updateValidation != nil {
			if err := updateValidation(ctx, obj, old); err != nil {
				return err
			}
		}
		if s.kind.sameContent(cast[*access.AccessRule](obj), cast[*access.AccessRule](old)) {
			return nil
		}
		return s.confirm(ctx, cast[*access.AccessRule](obj))
	}
	return s.storage.Update(ctx, name, objInfo, s.binds(createValidation), guarded, forceAllowCreate, options)
}

func (s *accessRules) binds(validation rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if validation != nil {
			if err := validation(ctx, obj); err != nil {
				return err
			}
		}
		return s.confirm(ctx, cast[*access.AccessRule](obj))
	}
}

// confirm asks whether the caller may bind the role to the subjects: in each namespace that is listed or, if a pattern
// or a selector says which, everywhere.
func (s *accessRules) confirm(ctx context.Context, r *access.AccessRule) error {
	if ref := r.Spec.RoleRef; ref.ClusterRole() {
		if exists, err := s.cfg.Roles.RoleExists(ctx, ref.Kind, "", ref.Name); err != nil || !exists {
			return s.refused(r, cmp.Or(err, error(apierrors.NewNotFound(rbacv1.Resource("clusterroles"), ref.Name))))
		}
	}
	places := r.Spec.Namespaces
	if r.Spec.NamespaceSelector != nil || slices.Contains(places, "*") || slices.Contains(places, s.cfg.MasterNamespace) {
		places = []string{s.cfg.MasterNamespace}
	}
	for _, place := range places {
		binding := &authz.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: r.Name, Namespace: place}, UserNames: r.Spec.Subjects.UserNames, GroupNames: r.Spec.Subjects.GroupNames,
			RoleRef: authz.RoleRef{APIGroup: r.Spec.RoleRef.APIGroup, Kind: r.Spec.RoleRef.Kind, Namespace: r.Spec.RoleRef.Namespace, Name: r.Spec.RoleRef.Name},
		}
		role, err := s.role(ctx, binding)
		if err == nil {
			err = s.cfg.Escalation.ConfirmRoleBinding(ctx, binding, nil, role)
		}
		if err != nil {
			return s.refused(r, err)
		}
	}
	return nil
}

// refused words the error for the rule, not for a binding that was never written.
func (s *accessRules) refused(r *access.AccessRule, err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		where := "there is no such ClusterRole"
		if !r.Spec.RoleRef.ClusterRole() {
			where = fmt.Sprintf("there is no such role in namespace %q", r.Spec.RoleRef.Namespace)
		}
		return apierrors.NewInvalid(access.Kind("AccessRule"), r.Name, field.ErrorList{field.Invalid(field.NewPath("spec", "roleRef", "name"), r.Spec.RoleRef.Name, where+"; create it first")})
	}
	if _, ok := err.(apierrors.APIStatus); ok {
		return err
	}
	return apierrors.NewForbidden(s.kind.resource(), r.Name, err)
}
