package apiserver

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"

	"proviso.dev/proviso/internal/request/readfilter"
)

// serviceAccounts are those that audit sinks of namespaces see as (DA-17).
type serviceAccounts struct {
	informer coreinformers.ServiceAccountInformer
}

// UID implements dynamicaudit.Accounts.
func (s serviceAccounts) UID(namespace, name string) (string, bool) {
	account, err := s.informer.Lister().ServiceAccounts(namespace).Get(name)
	if err != nil || account.DeletionTimestamp != nil {
		return "", false
	}
	return string(account.UID), true
}

// Follow implements dynamicaudit.Accounts.
func (s serviceAccounts) Follow(changed func()) (cache.InformerSynced, error) {
	registration, err := s.informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() }, DeleteFunc: func(any) { changed() },
		UpdateFunc: func(before, after any) {
			was, _ := before.(*corev1.ServiceAccount)
			if now, ok := after.(*corev1.ServiceAccount); ok && (was == nil || was.UID != now.UID || (was.DeletionTimestamp == nil) != (now.DeletionTimestamp == nil)) {
				changed()
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return registration.HasSynced, nil
}

// namespaceFollower tells readers about changes of namespaces (RD-13). An informer reports them after its lister knows.
// Deleted namespaces need no report: nothing in them can be seen.
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
