package server

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"proviso.dev/proviso/internal/enforce"
)

// behind tells the enforcer what a request writes beyond what its body shows.
func (s *stages) behind(generic *genericapiserver.Config) *enforce.Behind {
	// The client is made when it is first used: the loopback configuration is not complete before the server is.
	client := sync.OnceValues(func() (*corev1client.CoreV1Client, error) {
		return corev1client.NewForConfig(generic.LoopbackClientConfig)
	})
	return &enforce.Behind{
		Pod: func(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
			core, err := client()
			if err != nil {
				return nil, err
			}
			return core.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		Versions: func(kind schema.GroupKind) (storage string, served []string) {
			if kind == autoscalerKind {
				return "", autoscalerVersions
			}
			if s.definition == nil {
				return "", nil
			}
			return convertedVersions(s.definition(kind))
		},
	}
}

// Of the built-in kinds only this one has annotations in one version for what are fields in another.
var (
	autoscalerKind     = schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}
	autoscalerVersions = []string{"v1", "v2"}
)

// convertedVersions are the versions of a custom resource whose labels and annotations a webhook may change from one to the
// other. Without a webhook a conversion changes nothing but the version.
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
