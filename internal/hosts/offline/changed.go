package offline

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/state/snapshot"
)

// Conditions and guards depend on more than policy. These are the objects that they depend on, as far as they differ.

// Changed is an object that two hosts do not have alike. A side is nil if the object does not exist there.
type Changed[T any] struct {
	Name          string
	Before, After *T
}

// ChangedNamespaces returns the Namespaces that differ between two hosts, by name.
func ChangedNamespaces(before, after *Host) []Changed[corev1.Namespace] {
	return changed(before.files.Namespaces(), after.files.Namespaces(), func(a, b *corev1.Namespace) bool {
		return equality.Semantic.DeepEqual(written(a), written(b))
	})
}

// written is a Namespace without what differs after every write.
func written(ns *corev1.Namespace) *corev1.Namespace {
	ns = ns.DeepCopy()
	ns.ResourceVersion, ns.Generation, ns.ManagedFields = "", 0, nil
	delete(ns.Annotations, corev1.LastAppliedConfigAnnotation) // dumps do not have it
	return ns
}

// ChangedDefinitions returns the definitions of custom resources that differ between two hosts, by name.
func ChangedDefinitions(before, after *Host) ([]Changed[apiextensionsv1.CustomResourceDefinition], error) {
	return ChangedObjects(before, after, snapshot.Definitions, func(a, b *apiextensionsv1.CustomResourceDefinition) bool {
		return equality.Semantic.DeepEqual(decisive(a), decisive(b))
	})
}

// ChangedObjects returns the objects of a kind that differ between two hosts, by namespace and name.
func ChangedObjects[T any, P interface {
	*T
	runtime.Object
	metav1.Object
}](before, after *Host, kind snapshot.Kind, same func(a, b P) bool) ([]Changed[T], error) {
	sides := [2]map[string]*T{{}, {}}
	for i, h := range []*Host{before, after} {
		objects, err := h.files.Objects(kind)
		if err != nil {
			return nil, err
		}
		for _, o := range snapshot.Of[P](objects) {
			sides[i][strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")] = o
		}
	}
	return changed(sides[0], sides[1], func(a, b *T) bool { return same(a, b) }), nil
}

// decisive is a definition without what is only for people.
func decisive(d *apiextensionsv1.CustomResourceDefinition) apiextensionsv1.CustomResourceDefinitionSpec {
	spec := *d.Spec.DeepCopy()
	spec.Names.ShortNames, spec.Names.Categories = nil, nil
	for i := range spec.Versions {
		v := &spec.Versions[i]
		v.AdditionalPrinterColumns, v.Deprecated, v.DeprecationWarning = nil, false, nil
	}
	return spec
}

// DefinedResource is the resource that a definition defines.
func DefinedResource(d *apiextensionsv1.CustomResourceDefinition) schema.GroupResource {
	return schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural}
}

func changed[T any](before, after map[string]*T, same func(a, b *T) bool) (all []Changed[T]) {
	for name, was := range before {
		if is := after[name]; is == nil || is != was && !same(was, is) {
			all = append(all, Changed[T]{name, was, is})
		}
	}
	for name, is := range after {
		if before[name] == nil {
			all = append(all, Changed[T]{Name: name, After: is})
		}
	}
	slices.SortFunc(all, func(a, b Changed[T]) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
