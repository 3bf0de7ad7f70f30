package source

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stub is what stays of an object that nobody reads any more: enough to tell it from others and from its next version.
// A hundred thousand role bindings would be held twice otherwise, once as they came and once in the index.
type stub struct {
	namespace, name, version string
	mark                     uint64
}

// GetObjectMeta implements metav1.ObjectMetaAccessor, which indexers ask for.
func (s *stub) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: s.namespace, Name: s.name, ResourceVersion: s.version}
}

func stubOf(obj any) any {
	o, err := meta.Accessor(obj)
	if err != nil {
		return obj
	}
	return &stub{namespace: o.GetNamespace(), name: o.GetName(), version: o.GetResourceVersion(), mark: markOf(obj)}
}

// whole is an object of the kind for a stub, of which the name alone is known: handlers tell kinds by their types.
func (m *mirror) whole(obj any) any {
	s, slim := obj.(*stub)
	if !slim {
		return obj
	}
	made := m.kind.Example.DeepCopyObject()
	if o, err := meta.Accessor(made); err == nil {
		o.SetNamespace(s.namespace)
		o.SetName(s.name)
		o.SetResourceVersion(s.version)
	}
	return made
}

// withoutManagers drops who wrote what, which is often the larger part of an object, and decides nothing.
func withoutManagers(obj any) any {
	if o, err := meta.Accessor(obj); err == nil && o.GetManagedFields() != nil {
		o.SetManagedFields(nil)
	}
	return obj
}
