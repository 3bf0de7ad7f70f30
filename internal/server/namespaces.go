package server

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/registry"
)

// namespaces says to the registry which namespaces there are.
type namespaces struct {
	lister corelisters.NamespaceLister
	client func() (kubernetes.Interface, error)
}

var _ registry.Namespaces = (*namespaces)(nil)

// newNamespaces makes its client when it is first used: the loopback configuration is not complete before the server is.
func newNamespaces(informers informers.SharedInformerFactory, loopback *rest.Config) *namespaces {
	return &namespaces{
		lister: informers.Core().V1().Namespaces().Lister(),
		client: sync.OnceValues(func() (kubernetes.Interface, error) { return kubernetes.NewForConfig(loopback) }),
	}
}

// Known implements registry.Namespaces.
func (n *namespaces) Known(name string) *registry.Namespace {
	ns, err := n.lister.Get(name)
	if err != nil {
		return nil
	}
	return placeOf(ns)
}

// Live implements registry.Namespaces.
func (n *namespaces) Live(ctx context.Context, name string) (*registry.Namespace, error) {
	client, err := n.client()
	if err != nil {
		return nil, err
	}
	ns, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return placeOf(ns), nil
}

func placeOf(ns *corev1.Namespace) *registry.Namespace {
	return &registry.Namespace{UID: ns.UID, Created: ns.CreationTimestamp, Terminating: ns.DeletionTimestamp != nil}
}
