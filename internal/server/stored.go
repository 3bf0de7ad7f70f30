package server

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"proviso.dev/proviso/internal/enforce"
)

// stored reads objects through the loopback, whichever server of the process serves them.
type stored struct {
	metadata func() (metadata.Interface, error)
	dynamic  func() (dynamic.Interface, error)
}

var _ enforce.Stored = (*stored)(nil)

// newStored makes its clients when they are first used: the loopback configuration is not complete before the server is.
func newStored(generic *genericapiserver.Config) *stored {
	return &stored{
		metadata: sync.OnceValues(func() (metadata.Interface, error) { return metadata.NewForConfig(generic.LoopbackClientConfig) }),
		dynamic:  sync.OnceValues(func() (dynamic.Interface, error) { return dynamic.NewForConfig(generic.LoopbackClientConfig) }),
	}
}

// List implements enforce.Stored.
func (s *stored) List(ctx context.Context, resource schema.GroupVersionResource, namespace string, limit int) ([]metav1.PartialObjectMetadata, bool, error) {
	client, err := s.metadata()
	if err != nil {
		return nil, false, err
	}
	// A page is a consistent read; what is left of it would only be counted.
	list, err := client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: int64(limit)})
	if err != nil {
		return nil, false, err
	}
	return list.Items, list.Continue != "" || len(list.Items) > limit, nil
}

// Get implements enforce.Stored.
func (s *stored) Get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	client, err := s.dynamic()
	if err != nil {
		return nil, err
	}
	return client.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
}
