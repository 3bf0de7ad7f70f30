package apiserver

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"proviso.dev/proviso/internal/request/readfilter"
)

// followNamespaces tells readers what becomes of namespaces (RD-13). An informer says so after its lister knows. Of one
// that is gone nothing is left to be seen.
func followNamespaces(informers informers.SharedInformerFactory) func(readfilter.Places) error {
	return func(p readfilter.Places) error {
		_, err := informers.Core().V1().Namespaces().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) {
				if n, ok := o.(*corev1.Namespace); ok {
					p.Added(n.Name)
				}
			},
			UpdateFunc: func(before, after any) {
				was, _ := before.(*corev1.Namespace)
				if n, ok := after.(*corev1.Namespace); ok && (was == nil || was.ResourceVersion != n.ResourceVersion) {
					p.Changed(n.Name)
				}
			},
		})
		return err
	}
}
