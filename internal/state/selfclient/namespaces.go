package selfclient

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"proviso.dev/proviso/internal/state/namespacegc"
)

// Namespaces knows the existing namespaces.
type Namespaces struct {
	lister  corelisters.NamespaceLister
	clients *Clients
}

var _ namespacegc.Namespaces = (*Namespaces)(nil)

// Namespaces uses a lister, and asks the server where that is not enough.
func (c *Clients) Namespaces(lister corelisters.NamespaceLister) *Namespaces {
	return &Namespaces{lister: lister, clients: c}
}

// Known implements namespacegc.Namespaces.
func (n *Namespaces) Known(name string) *namespacegc.Namespace {
	ns, err := n.lister.Get(name)
	if err != nil {
		return nil
	}
	return placeOf(ns)
}

// Live implements namespacegc.Namespaces.
func (n *Namespaces) Live(ctx context.Context, name string) (*namespacegc.Namespace, error) {
	client, err := n.clients.Kubernetes()
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

func placeOf(ns *corev1.Namespace) *namespacegc.Namespace {
	return &namespacegc.Namespace{UID: ns.UID, Created: ns.CreationTimestamp, Terminating: ns.DeletionTimestamp != nil}
}
