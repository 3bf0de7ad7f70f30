package source

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stub is what is stored of an object that is no longer read: enough to identify it and its version. Otherwise a
// hundred thousand role bindings would be held twice, once as received and once in the index.
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

// whole returns an object of the kind for a stub, with only its name: handlers identify kinds by their types.
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

// withoutManagers drops the managed fields, which are often the larger part of an object and do not affect decisions.
func withoutManagers(obj any) any {
	if o, err := meta.Accessor(obj); err == nil && o.GetManagedFields() != nil {
		o.SetManagedFields(nil)
	}
	return obj
}
