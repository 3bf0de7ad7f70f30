package hiddenfield

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
)

var errNoObject = errors.New("what is to be shown is not an object")

// Set is the fields that are hidden from a reader.
type Set []fieldperm.Hidden

// In returns the same fields, which are in these places only in one version of the objects.
func (s Set) In(apiVersion string) Set {
	all := slices.Clone(s)
	for i := range all {
		all[i].APIVersion = apiVersion
	}
	return all
}

// Names lists the fields, as the annotation does.
func (s Set) Names() string {
	var names []string
	for _, f := range s {
		names = append(names, f.Field.String())
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}

// Verbs lists the verbs that show the fields, each once, in order.
func (s Set) Verbs() []string { return s.each(fieldperm.Hidden.Verb) }

// Sources lists the declarations of the fields, each once, in order.
func (s Set) Sources() []string {
	return s.each(func(f fieldperm.Hidden) string { return f.Source })
}

func (s Set) each(text func(fieldperm.Hidden) string) (all []string) {
	for _, f := range s {
		all = append(all, text(f))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Permissions lists the permissions, each once, in order.
func (s Set) Permissions() []string {
	return s.each(func(f fieldperm.Hidden) string { return f.Permission })
}

// At returns the hidden field that a field overlaps with; false if there is none.
func (s Set) At(p fieldperm.Path) (fieldperm.Hidden, bool) {
	for _, f := range s {
		if f.Field.Overlaps(p) {
			return f, true
		}
	}
	return fieldperm.Hidden{}, false
}

// Show returns a copy of an object, in the version that the fields are declared for, as a reader sees it.
func (s Set) Show(o runtime.Object, memo *Memo) (runtime.Object, error) {
	out, err := s.content(o)
	if err != nil {
		return nil, err
	}
	return out, s.showMetadata(out, memo)
}

// Hide is Show in place, for an object of a Go type. What the object points to is not changed.
func (s Set) Hide(o runtime.Object, memo *Memo) error {
	v := reflect.ValueOf(o)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return errNoObject
	}
	s.hideContent(v.Elem())
	return s.showMetadata(o, memo)
}

func (s Set) hideContent(object reflect.Value) {
	for _, f := range s {
		hideIn(object, f.Field, f.Keys)
	}
}

// content returns a copy of an object without the fields. If the object is metadata only, it removes those of metadata.
func (s Set) content(o runtime.Object) (runtime.Object, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		out := &unstructured.Unstructured{Object: maps.Clone(u.Object)}
		for _, f := range s {
			out.Object = withoutAny(out.Object, f.Field, f.Keys)
		}
		if m, ok := out.Object["metadata"].(map[string]any); ok {
			out.Object["metadata"] = maps.Clone(m) // it is changed by Show
		}
		return out, nil
	}
	v := reflect.ValueOf(o)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return nil, errNoObject
	}
	copied := reflect.New(v.Type().Elem())
	copied.Elem().Set(v.Elem())
	s.hideContent(copied.Elem())
	out, ok := copied.Interface().(runtime.Object)
	if !ok {
		return nil, errNoObject
	}
	return out, nil
}

// showMetadata records in the metadata what is hidden, and hides it in the metadata.
func (s Set) showMetadata(o runtime.Object, memo *Memo) error {
	m, err := meta.Accessor(o)
	if err != nil {
		return err
	}
	memo = memo.of(s)
	if entries := m.GetManagedFields(); len(entries) > 0 {
		m.SetManagedFields(s.managers(entries, memo))
	}
	if len(m.GetAnnotations()) == 0 {
		m.SetAnnotations(memo.mark)
		return nil
	}
	annotations := maps.Clone(m.GetAnnotations())
	if text, ok := annotations[lastApplied]; ok {
		annotations[lastApplied] = s.shownApplied(text)
	}
	maps.Copy(annotations, memo.mark)
	m.SetAnnotations(annotations)
	return nil
}

// Unmark removes the annotation that names hidden fields from an object that is about to be stored.
func Unmark(m metav1.Object) {
	annotations := m.GetAnnotations()
	if _, ok := annotations[policyv1alpha1.AnnotationHidden]; !ok {
		return
	}
	left := maps.Clone(annotations)
	delete(left, policyv1alpha1.AnnotationHidden)
	if len(left) == 0 {
		left = nil
	}
	m.SetAnnotations(left)
}
