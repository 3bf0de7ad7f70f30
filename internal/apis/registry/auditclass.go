package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	audit "proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/apis/registry/validate"
)

func auditClassKind(know AuditKnowledge) *kind[*audit.AuditClass] {
	return &kind[*audit.AuditClass]{
		version: audit.SchemeGroupVersion, plural: "auditclasses", singular: "auditclass", shortNames: []string{"aclass"},
		newObject: func() *audit.AuditClass { return &audit.AuditClass{} },
		newList:   func() runtime.Object { return &audit.AuditClassList{} },
		columns: []column[*audit.AuditClass]{
			{name: "Rules", kind: "integer", description: "The number of rules.", cell: func(c *audit.AuditClass) any { return int64(len(c.Spec.Rules)) }},
		},
		prepare:     func(_, _ *audit.AuditClass) {},
		validate:    func(_ context.Context, c, _ *audit.AuditClass) field.ErrorList { return validate.AuditClass(c) },
		warn:        func(_ context.Context, c, _ *audit.AuditClass) []string { return classWarnings(c, know) },
		sameContent: func(a, b *audit.AuditClass) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) },
	}
}

// maxClassWarnings bounds what a writer is told of one class.
const maxClassWarnings = 10

// classWarnings says what of a class selects nothing: it may be misspelt, or come later.
func classWarnings(c *audit.AuditClass, know AuditKnowledge) (warnings []string) {
	if know == nil {
		return nil
	}
	for _, u := range know.Unserved(c) {
		if len(warnings) == maxClassWarnings {
			return append(warnings, "further places select nothing, either")
		}
		warnings = append(warnings, fmt.Sprintf("%s: %s: it selects nothing until that changes", fieldPath(u.Path), u.Message))
	}
	return warnings
}

// fieldPath is a path as people write it.
func fieldPath(steps []any) string {
	var path *field.Path
	for _, step := range steps {
		if n, isIndex := step.(int); isIndex {
			path = path.Index(n)
		} else {
			path = path.Child(fmt.Sprint(step))
		}
	}
	return path.String()
}

// auditClasses keeps classes that a sink refers to.
type auditClasses struct {
	*storage[*audit.AuditClass]
	sinks rest.Lister
}

// Delete removes a class that no sink refers to.
func (s *auditClasses) Delete(ctx context.Context, name string, validation rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	return s.storage.Delete(ctx, name, s.unused(validation), options)
}

// DeleteCollection removes classes, up to the first one that a sink refers to.
func (s *auditClasses) DeleteCollection(ctx context.Context, validation rest.ValidateObjectFunc, options *metav1.DeleteOptions, list *metainternalversion.ListOptions) (runtime.Object, error) {
	return s.storage.DeleteCollection(ctx, s.unused(validation), options, list)
}

func (s *auditClasses) unused(validation rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if validation != nil {
			if err := validation(ctx, obj); err != nil {
				return err
			}
		}
		name := cast[*audit.AuditClass](obj).Name
		users, err := s.users(ctx, name)
		if err != nil {
			return err
		}
		if len(users) > 0 {
			return apierrors.NewConflict(s.kind.resource(), name, fmt.Errorf(
				"audit sinks refer to it: %s; take it out of their policies, or delete them, first", strings.Join(users, ", ")))
		}
		return nil
	}
}

// users are the sinks that refer to a class, in order.
func (s *auditClasses) users(ctx context.Context, class string) ([]string, error) {
	list, err := s.sinks.List(ctx, &metainternalversion.ListOptions{})
	if err != nil {
		return nil, err
	}
	sinks, ok := list.(*audit.AuditSinkList)
	if !ok {
		return nil, fmt.Errorf("list of audit sinks has type %T", list)
	}
	var users []string
	for _, sink := range sinks.Items {
		if slices.ContainsFunc(sink.Spec.Policy.Rules, func(r audit.PolicyRule) bool { return r.WithAuditClass == class }) {
			users = append(users, sink.Name)
		}
	}
	slices.Sort(users)
	return users, nil
}
