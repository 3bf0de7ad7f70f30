package base

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/state/discovery"
	"proviso.dev/proviso/internal/state/selfclient"
)

// behind shows the enforcer what a request writes beyond what its body shows.
type behind struct {
	clients   *selfclient.Clients // nil in a host that stores nothing
	directory *discovery.Directory
}

var _ enforce.Behind = behind{}

// Pod implements enforce.Behind.
func (b behind) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	if b.clients == nil {
		return nil, errors.New("nothing is stored here")
	}
	client, err := b.clients.Kubernetes()
	if err != nil {
		return nil, err
	}
	pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	return pod, b.clients.Explained(err)
}

// Versions implements enforce.Behind.
func (b behind) Versions(kind schema.GroupKind) (storage string, served []string) {
	if kind == autoscalerKind {
		return "", autoscalerVersions
	}
	return convertedVersions(b.directory.Definition(kind))
}

// Of the built-in kinds, only this one has annotations in one version that are fields in another.
var (
	autoscalerKind     = schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}
	autoscalerVersions = []string{"v1", "v2"}
)

// convertedVersions returns the versions of a custom resource whose labels and annotations a webhook may change in a
// conversion. Without a webhook a conversion changes only the version.
func convertedVersions(crd *apiextensionsv1.CustomResourceDefinition) (storage string, served []string) {
	if crd == nil || crd.Spec.Conversion == nil || crd.Spec.Conversion.Strategy != apiextensionsv1.WebhookConverter {
		return "", nil
	}
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			storage = v.Name
		}
		if v.Served {
			served = append(served, v.Name)
		}
	}
	return storage, served
}
