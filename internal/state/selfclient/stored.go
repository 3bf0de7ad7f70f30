package selfclient

import (
	"context"
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
)

// Stored reads objects through the loopback, whichever server of the process serves them.
type Stored struct {
	clients  *Clients
	metadata func() (metadata.Interface, error)
	dynamic  func() (dynamic.Interface, error)
}

// Stored returns a reader of stored objects.
func (c *Clients) Stored() *Stored {
	return &Stored{
		clients:  c,
		metadata: sync.OnceValues(func() (metadata.Interface, error) { return metadata.NewForConfig(c.config) }),
		dynamic:  sync.OnceValues(func() (dynamic.Interface, error) { return dynamic.NewForConfig(c.config) }),
	}
}

// List returns the metadata of at most limit objects, and whether there are more.
func (s *Stored) List(ctx context.Context, resource schema.GroupVersionResource, namespace string, limit int) ([]metav1.PartialObjectMetadata, bool, error) {
	client, err := s.metadata()
	if err != nil {
		return nil, false, err
	}
	// A page is a consistent read; only whether more follow is needed.
	list, err := client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: int64(limit)})
	if err != nil {
		return nil, false, s.clients.Explained(err)
	}
	return list.Items, list.Continue != "" || len(list.Items) > limit, nil
}

// Objects returns at most limit objects of all namespaces, and whether there are more.
func (s *Stored) Objects(ctx context.Context, resource schema.GroupVersionResource, limit int) ([]unstructured.Unstructured, bool, error) {
	client, err := s.dynamic()
	if err != nil {
		return nil, false, err
	}
	list, err := client.Resource(resource).List(ctx, metav1.ListOptions{Limit: int64(limit)})
	if err != nil {
		return nil, false, s.clients.Explained(err)
	}
	return list.Items, list.GetContinue() != "" || len(list.Items) > limit, nil
}

// Get reads one object.
func (s *Stored) Get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	client, err := s.dynamic()
	if err != nil {
		return nil, err
	}
	object, err := client.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	return object, s.clients.Explained(err)
}

// ErrMayNotRead means that the server beside this one does not let it read objects.
var ErrMayNotRead = errors.New("the sidecar may not read objects; `proviso sidecar init --read-objects` lets it")

// Explained adds a remedy to an error of reading an object.
func (c *Clients) Explained(err error) error {
	if c.config != c.own && apierrors.IsForbidden(err) {
		return ErrMayNotRead
	}
	return err
}
