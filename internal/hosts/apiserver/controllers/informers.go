package controllers

import (
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/metadatainformer"
)

// informerSet gives the controllers that follow every resource whole objects where one of them needs them, and only
// metadata elsewhere: most objects are needed only by their metadata, and need not be kept in memory twice.
type informerSet struct {
	typed    informers.SharedInformerFactory
	metadata metadatainformer.SharedInformerFactory
	// whole is complete before the first informer is asked for.
	whole map[schema.GroupResource]bool
}

func newInformerSet(typed informers.SharedInformerFactory, metadata metadatainformer.SharedInformerFactory) *informerSet {
	return &informerSet{typed: typed, metadata: metadata, whole: map[schema.GroupResource]bool{
		// Followed by other controllers anyway.
		{Resource: "namespaces"}:                                       true,
		{Resource: "serviceaccounts"}:                                  true,
		{Resource: "secrets"}:                                          true,
		{Resource: "configmaps"}:                                       true,
		{Resource: "resourcequotas"}:                                   true,
		{Resource: "pods"}:                                             true,
		{Resource: "persistentvolumeclaims"}:                           true,
		{Resource: "persistentvolumes"}:                                true,
		{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}: true,
	}}
}

// ForResource implements upstream's informerfactory.InformerFactory.
func (s *informerSet) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	if s.whole[resource.GroupResource()] {
		// A version that the typed factory does not know is followed by its metadata.
		if informer, err := s.typed.ForResource(resource); err == nil {
			return informer, nil
		}
	}
	return s.metadata.ForResource(resource), nil
}

// Start implements upstream's informerfactory.InformerFactory.
func (s *informerSet) Start(stop <-chan struct{}) {
	s.typed.Start(stop)
	s.metadata.Start(stop)
}

// shutdown waits until every informer has ended; their stop channel must be closed.
func (s *informerSet) shutdown() {
	s.typed.Shutdown()
	s.metadata.Shutdown()
}

// withoutManagedFields drops the managed fields, which no controller reads and which are often the larger part of an
// object.
func withoutManagedFields(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil && accessor.GetManagedFields() != nil {
		accessor.SetManagedFields(nil)
	}
	return obj, nil
}

// resync is upstream's: so rare that it only heals, and never in step.
func resync() time.Duration {
	return 12*time.Hour + rand.N(12*time.Hour)
}
