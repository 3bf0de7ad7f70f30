package registry

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/state/policycodec"
)

// strategy is what the generic store asks about a kind.
type strategy[T object] struct {
	runtime.ObjectTyper
	names.NameGenerator
	kind *kind[T]
}

func newStrategy[T object](k *kind[T]) strategy[T] {
	return strategy[T]{ObjectTyper: policycodec.Scheme, NameGenerator: names.SimpleNameGenerator, kind: k}
}

func (s strategy[T]) NamespaceScoped() bool                       { return s.kind.namespaced }
func (strategy[T]) AllowCreateOnUpdate(context.Context) bool      { return false }
func (strategy[T]) AllowUnconditionalUpdate(context.Context) bool { return true }
func (strategy[T]) Canonicalize(runtime.Object)                   {}

// cast returns the object as its type. The generic store passes no other type.
func cast[T runtime.Object](obj runtime.Object) T {
	typed, _ := obj.(T)
	return typed
}

func (s strategy[T]) PrepareForCreate(_ context.Context, obj runtime.Object) {
	o := cast[T](obj)
	if s.kind.copyStatus != nil {
		s.kind.copyStatus(o, s.kind.newObject())
	}
	o.SetGeneration(1)
	o.SetFinalizers(slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == policy.FinalizerNamespace }))
	var none T
	s.kind.prepare(o, none)
}

func (s strategy[T]) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	o, was := cast[T](obj), cast[T](old)
	sameTypeMeta(o, was)
	keepPlace(ctx, o, was)
	if s.kind.copyStatus != nil {
		s.kind.copyStatus(o, was)
	}
	s.kind.prepare(o, was)
	if !s.kind.sameContent(o, was) {
		o.SetGeneration(was.GetGeneration() + 1)
	}
}

// sameTypeMeta makes an object that was not changed equal to the stored one. Our external types are the internal ones,
// too, so that decoding leaves kind and version in them or not, depending on the way they came.
func sameTypeMeta(obj, old runtime.Object) {
	obj.GetObjectKind().SetGroupVersionKind(old.GetObjectKind().GroupVersionKind())
}

func (s strategy[T]) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	var none T
	return few(slices.Concat(policycodec.RefuseQuarantined(obj), policycodec.RefuseIgnorable(obj, nil), s.kind.validate(ctx, cast[T](obj), none)))
}

func (s strategy[T]) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	if errs := policycodec.RefuseQuarantined(old, obj); len(errs) > 0 {
		return errs
	}
	return few(append(policycodec.RefuseIgnorable(obj, old), s.kind.validate(ctx, cast[T](obj), cast[T](old))...))
}

func (s strategy[T]) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	if s.kind.warn == nil {
		return nil
	}
	var none T
	return s.kind.warn(ctx, cast[T](obj), none)
}

func (s strategy[T]) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	if s.kind.warn == nil {
		return nil
	}
	return s.kind.warn(ctx, cast[T](obj), cast[T](old))
}

// GetResetFields tells server-side apply that managers cannot own the status through the main resource.
func (s strategy[T]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	if s.kind.copyStatus == nil {
		return nil
	}
	return resetFields(s.kind.version.String(), "status")
}

func resetFields(version string, top ...string) map[fieldpath.APIVersion]*fieldpath.Set {
	set := fieldpath.NewSet()
	for _, name := range top {
		set.Insert(fieldpath.Path{fieldpath.PathElement{FieldName: &name}})
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(version): set}
}

// statusStrategy is what the generic store asks about an update of the status: everything else stays as it is.
type statusStrategy[T object] struct {
	strategy[T]
}

func (s statusStrategy[T]) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	o, was := cast[T](obj), cast[T](old)
	sameTypeMeta(o, was)
	s.kind.copyContent(o, was)
	metav1.ResetObjectMetaForStatus(o, was)
}

func (s statusStrategy[T]) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	if errs := policycodec.RefuseQuarantined(old); len(errs) > 0 || s.kind.validateStatus == nil {
		return errs
	}
	return s.kind.validateStatus(cast[T](obj))
}

func (statusStrategy[T]) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

func (s statusStrategy[T]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return resetFields(s.kind.version.String(), append([]string{"metadata"}, s.kind.contentFields...)...)
}

// few bounds what is said about one object: upstream takes seconds to put thousands of problems into one message
// (SV-7).
func few(errs field.ErrorList) field.ErrorList {
	const shown = 20
	if len(errs) <= shown {
		return errs
	}
	last := *errs[shown]
	last.Detail = fmt.Sprintf("%s; and %d more problems", last.Detail, len(errs)-shown-1)
	return append(errs[:shown:shown], &last)
}
