package namespacegc

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/state/policycodec"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Settler ensures that no object outlives its namespace (PO-20): it removes policies, policy bindings and protected
// attributes whose namespace is gone, and records the namespace in those that were stored before UIDs were kept. Every
// replica does it; the store lets each write happen once.
type Settler struct {
	master     string
	namespaces Namespaces
	client     *rest.RESTClient
	objects    map[string]snapshot.Objects // by resource
	synced     []cache.InformerSynced
	queue      workqueue.TypedRateLimitingInterface[settled]
}

// settled names an object.
type settled struct{ resource, namespace, name string }

// New registers with the source. The client writes as the server itself.
func New(master string, namespaces Namespaces, from snapshot.Source, client *rest.RESTClient) (*Settler, error) {
	s := &Settler{master: master, namespaces: namespaces, client: client, objects: map[string]snapshot.Objects{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[settled]())}
	for _, kind := range []snapshot.Kind{snapshot.Policies, snapshot.PolicyBindings, snapshot.ProtectedAttributes} {
		objects, err := from.Objects(kind)
		if err != nil {
			return nil, err
		}
		if objects == nil {
			continue
		}
		s.objects[kind.Resource] = objects
		look := func(obj any) {
			if o, ok := obj.(metav1.Object); ok && !s.isSettled(o) {
				s.queue.Add(settled{kind.Resource, o.GetNamespace(), o.GetName()})
			}
		}
		registration, err := objects.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: look, UpdateFunc: func(_, obj any) { look(obj) }})
		if err != nil {
			return nil, err
		}
		s.synced = append(s.synced, registration.HasSynced)
	}
	gone := func(obj any) {
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		if ns, ok := obj.(*corev1.Namespace); ok {
			s.lookInto(ns.Name)
		}
	}
	all, err := from.Objects(snapshot.Namespaces)
	if err != nil {
		return nil, err
	}
	registration, err := all.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: gone, UpdateFunc: func(old, obj any) {
		if was, ok := old.(*corev1.Namespace); ok {
			if is, ok := obj.(*corev1.Namespace); ok && was.UID != is.UID {
				gone(was)
			}
		}
	}})
	if err != nil {
		return nil, err
	}
	s.synced = append(s.synced, registration.HasSynced)
	return s, nil
}

// isSettled reports whether an object needs no check against the store: it belongs to the known namespace, and says so.
func (s *Settler) isSettled(o metav1.Object) bool {
	return o.GetNamespace() == s.master || !quarantined(o) && o.GetAnnotations()[policyv1alpha1.AnnotationNamespaceUID] != "" &&
		Belongs(o, s.namespaces.Known(o.GetNamespace()))
}

// lookInto queues the objects in a namespace that is gone.
func (s *Settler) lookInto(namespace string) {
	for resource, of := range s.objects {
		objects, err := of.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
		if err != nil {
			continue
		}
		for _, obj := range objects {
			if o, ok := obj.(metav1.Object); ok {
				s.queue.Add(settled{resource, o.GetNamespace(), o.GetName()})
			}
		}
	}
}

// Run works until the context ends. It retries failures.
func (s *Settler) Run(ctx context.Context) {
	defer s.queue.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), s.synced...) {
		return
	}
	go func() {
		<-ctx.Done()
		s.queue.ShutDown()
	}()
	for {
		item, done := s.queue.Get()
		if done {
			return
		}
		if err := s.settle(ctx, item); err != nil && ctx.Err() == nil {
			klog.V(2).InfoS("Objects of a deleted namespace could not be removed; the server tries again", "resource", item.resource, "namespace", item.namespace, "name", item.name, "err", err)
			s.queue.AddRateLimited(item)
		} else {
			s.queue.Forget(item)
		}
		s.queue.Done(item)
	}
}

// settle removes one object, adopts it, or leaves it.
func (s *Settler) settle(ctx context.Context, item settled) error {
	found, exists, err := s.objects[item.resource].GetIndexer().GetByKey(item.namespace + "/" + item.name)
	o, ok := found.(metav1.Object)
	if err != nil || !exists || !ok || item.namespace == s.master {
		return err
	}
	live, err := s.namespaces.Live(ctx, item.namespace)
	if err != nil {
		return err
	}
	uid := o.GetUID()
	switch {
	case !Belongs(o, live):
		body := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
		err = s.client.Delete().Namespace(item.namespace).Resource(item.resource).Name(item.name).Body(body).Do(ctx).Error()
		if err == nil {
			klog.InfoS("Removed objects of a deleted namespace", "resource", item.resource, "namespace", item.namespace, "name", item.name)
		}
	case o.GetAnnotations()[policyv1alpha1.AnnotationNamespaceUID] == "" && !quarantined(o):
		patch, merr := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": uid, "annotations": map[string]string{policyv1alpha1.AnnotationNamespaceUID: string(live.UID)}}})
		if merr != nil {
			return fmt.Errorf("adopting: %w", merr)
		}
		err = s.client.Patch(types.MergePatchType).Namespace(item.namespace).Resource(item.resource).Name(item.name).Body(patch).Do(ctx).Error()
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the object was replaced or is gone: it has its own event
	}
	return err
}

// quarantined reports whether an object cannot be written.
func quarantined(o metav1.Object) bool {
	obj, ok := o.(runtime.Object)
	return ok && policycodec.Quarantined(obj) != ""
}
