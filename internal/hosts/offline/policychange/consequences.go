package policychange

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/state/source"
)

// asStored gives the Namespaces of a change what a server gives them: one that exists stays the same namespace, and a
// new one among namespaces of a server gets an identity. Policy belongs to a namespace by its identity.
func asStored(before, change []manifests.Document) []manifests.Document {
	known, ofServer := map[string]*unstructured.Unstructured{}, false
	for _, d := range before {
		if d.IsNamespace() {
			known[d.Key()] = d.Object
			ofServer = ofServer || d.Object.GetUID() != ""
		}
	}
	out := slices.Clone(change)
	for i, d := range out {
		if have := known[d.Key()]; d.IsNamespace() && (have != nil || ofServer) {
			out[i] = manifests.Document{Text: source.Text{Name: d.Name, Object: settled(d.Object, have), Read: &source.Reading{}}}
		}
	}
	return out
}

// settled is a Namespace with what a server sets, unless it says that itself. have is the one that exists; nil if none
// does.
func settled(ns, have *unstructured.Unstructured) *unstructured.Unstructured {
	ns = ns.DeepCopy()
	if have == nil {
		have = &unstructured.Unstructured{Object: map[string]any{}}
		have.SetUID(types.UID("planned-" + ns.GetName()))
		have.SetCreationTimestamp(metav1.NewTime(time.Now()))
	}
	for _, path := range [][]string{{"metadata", "uid"}, {"metadata", "creationTimestamp"}, {"metadata", "deletionTimestamp"}, {"metadata", "finalizers"}, {"spec"}, {"status"}} {
		value, given, _ := unstructured.NestedFieldNoCopy(have.Object, path...)
		if _, said, _ := unstructured.NestedFieldNoCopy(ns.Object, path...); given && !said {
			_ = unstructured.SetNestedField(ns.Object, value, path...) // an object always has metadata
		}
	}
	return ns
}

// ending is what ends with objects that are deleted: what is in namespaces, and custom resources by group.
type ending struct {
	namespaces map[string]bool
	resources  map[schema.GroupResource]bool
}

func endingWith(deleted []manifests.Document) ending {
	e := ending{map[string]bool{}, map[schema.GroupResource]bool{}}
	for _, d := range deleted {
		switch {
		case d.IsNamespace():
			e.namespaces[d.Object.GetName()] = true
		case d.Object.GroupVersionKind().GroupKind() == schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
			resource, group, _ := strings.Cut(d.Object.GetName(), ".")
			e.resources[schema.GroupResource{Group: group, Resource: resource}] = true
		}
	}
	return e
}

// served takes custom resources that end out of a list of what a server serves.
func (e ending) served(d manifests.Document) manifests.Document {
	if len(e.resources) == 0 || d.Object.GetKind() != "APIResourceList" {
		return d
	}
	version, _, _ := unstructured.NestedString(d.Object.Object, "groupVersion")
	gv, err := schema.ParseGroupVersion(version)
	all, _, _ := unstructured.NestedSlice(d.Object.Object, "resources")
	kept := slices.DeleteFunc(slices.Clone(all), func(one any) bool {
		fields, _ := one.(map[string]any)
		name, _ := fields["name"].(string)
		main, _, _ := strings.Cut(name, "/")
		return e.resources[schema.GroupResource{Group: gv.Group, Resource: main}]
	})
	if err != nil || len(kept) == len(all) {
		return d
	}
	object := d.Object.DeepCopy()
	object.Object["resources"] = kept
	return manifests.Document{Text: source.Text{Name: d.Name, Object: object, Read: &source.Reading{}}}
}
