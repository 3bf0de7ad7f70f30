package snapshot

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// Policy that restricts a namespace belongs to that namespace and not to its name (PO-20). It denies until the
// namespace object is gone, and does not apply to a later namespace of the same name.

// effect says which part of an object counts.
type effect uint8

const (
	nothing effect = iota
	denials        // what it denies or protects, but nothing that it grants
	everything
)

// places knows which namespace objects belong to. A nil *places lets everything count. It is guarded by its owner's
// lock.
type places struct {
	master     string
	namespaces cache.Store
	// dead are objects that have outlived their namespace, until they are deleted themselves.
	dead map[types.UID]bool
}

func newPlaces(master string, namespaces Objects) *places {
	if namespaces == nil {
		return nil
	}
	return &places{master: master, namespaces: namespaces.GetIndexer(), dead: map[types.UID]bool{}}
}

// of returns which part of an object counts. If its namespace is not known, or is a different one, the object may be
// newer than what is known here, or left over: it denies until the server has checked.
func (p *places) of(object metav1.Object) effect {
	switch {
	case p == nil || object.GetNamespace() == "" || object.GetNamespace() == p.master:
		return everything
	case p.dead[object.GetUID()]:
		return nothing
	case policyv1alpha1.Released(object):
		return denials
	}
	found, exists, err := p.namespaces.GetByKey(object.GetNamespace())
	if ns, ok := found.(*corev1.Namespace); err == nil && exists && ok && policyv1alpha1.BelongsTo(object, ns.UID, ns.CreationTimestamp) {
		return everything
	}
	return denials
}

// bury records that the namespace of an object is gone, if the object belonged to that one.
func (p *places) bury(object metav1.Object, gone *corev1.Namespace) {
	if gone.Name != p.master && policyv1alpha1.BelongsTo(object, gone.UID, gone.CreationTimestamp) {
		p.dead[object.GetUID()] = true
	}
}

// forget drops what is known about a deleted object.
func (p *places) forget(object any) {
	if o, ok := object.(metav1.Object); ok && p != nil {
		delete(p.dead, o.GetUID())
	}
}

// placed returns the change for an object, according to the part of it that counts.
func placed[T ruleset.Object](p *places, object T) ruleset.Change {
	switch o := any(object).(type) {
	case *policyv1alpha1.Policy:
		if p.of(o) == nothing {
			return ruleset.Delete(object)
		}
	case *policyv1alpha1.PolicyBinding:
		switch p.of(o) {
		case nothing:
			return ruleset.Delete(object)
		case denials:
			return ruleset.PutDenying(o)
		}
	}
	return ruleset.Put(object)
}

// follow updates which policies count when namespaces are created and deleted.
func (r *Rules) follow(namespaces Objects) error {
	synced, err := followNamespaces(namespaces, func(name string, gone *corev1.Namespace) {
		for _, placed := range r.placed {
			objects, err := placed.GetIndexer().ByIndex(cache.NamespaceIndex, name)
			if err != nil {
				continue
			}
			for _, obj := range objects {
				if o, ok := obj.(metav1.Object); ok && gone != nil {
					r.mu.Lock()
					r.places.bury(o, gone)
					r.mu.Unlock()
				}
				put[*policyv1alpha1.Policy](r, obj)
				put[*policyv1alpha1.PolicyBinding](r, obj)
			}
		}
	})
	if synced != nil {
		r.synced = append(r.synced, synced)
	}
	return err
}

// followNamespaces calls changed when a namespace was created, or was deleted: then with its last state. A source that
// missed a deletion reports an update to another UID.
func followNamespaces(namespaces Objects, changed func(name string, gone *corev1.Namespace)) (cache.InformerSynced, error) {
	if namespaces == nil {
		return nil, nil
	}
	registration, err := namespaces.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if ns, ok := obj.(*corev1.Namespace); ok {
				changed(ns.Name, nil)
			}
		},
		UpdateFunc: func(old, obj any) {
			was, ok := old.(*corev1.Namespace)
			if is, too := obj.(*corev1.Namespace); ok && too && was.UID != is.UID {
				changed(is.Name, was)
			}
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if ns, ok := obj.(*corev1.Namespace); ok {
				changed(ns.Name, ns)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return registration.HasSynced, nil
}
