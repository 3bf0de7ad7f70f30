package sidecar

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/state/selfclient"
)

// targets reads the pods that connections go to, as they are when the connection is admitted. Conditions on other
// connections are not honoured here.
type targets struct{ clients *selfclient.Clients }

var _ enforce.Targets = targets{}

// Target implements enforce.Targets.
func (t targets) Target(ctx context.Context, resource schema.GroupResource, namespace, name string) (runtime.Object, error) {
	if resource != (schema.GroupResource{Resource: "pods"}) {
		return nil, fmt.Errorf("%s are not read here", resource)
	}
	client, err := t.clients.Kubernetes()
	if err != nil {
		return nil, err
	}
	pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	return pod, t.clients.Explained(err)
}

// reading is what a sidecar has besides that may read objects.
func reading(clients *selfclient.Clients) feature.System {
	return feature.System{Enforce: func(c *enforce.Config) { c.Targets = targets{clients} }}
}
