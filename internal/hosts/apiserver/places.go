package apiserver

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"proviso.dev/proviso/internal/request/readfilter"
)

// namespaceFollower tells readers what becomes of namespaces (RD-13). An informer says so after its lister knows. Of
// one that is gone nothing is left to be seen.
type namespaceFollower struct {
	informers.SharedInformerFactory
}

// Follow implements conditionalreads.Follower.
func (n namespaceFollower) Follow(p readfilter.Places) error {
	_, err := n.Core().V1().Namespaces().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if found, ok := o.(*corev1.Namespace); ok {
				p.Added(found.Name)
			}
		},
		UpdateFunc: func(before, after any) {
			was, _ := before.(*corev1.Namespace)
			if now, ok := after.(*corev1.Namespace); ok && (was == nil || was.ResourceVersion != now.ResourceVersion) {
				p.Changed(now.Name)
			}
		},
	})
	return err
}
