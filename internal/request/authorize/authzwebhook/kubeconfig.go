package authzwebhook

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// ConditionsEndpoint reads the conditions endpoint of a webhook from a context of its kubeconfig. Timeout, dialer and
// rate are those of its reviews.
func ConditionsEndpoint(file, context string, reviews *rest.Config) (*rest.Config, error) {
	config, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return nil, err
	}
	if config.Contexts[context] == nil {
		return nil, fmt.Errorf("conditionsEndpointKubeConfigContext: %s has no context %q, it has %s", file, context,
			strings.Join(slices.Sorted(maps.Keys(config.Contexts)), ", "))
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return nil, err
	}
	endpoint, err := clientcmd.NewNonInteractiveClientConfig(*config, context, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("conditionsEndpointKubeConfigContext: context %q of %s: %w", context, file, err)
	}
	endpoint.Timeout, endpoint.Dial, endpoint.QPS = reviews.Timeout, reviews.Dial, reviews.QPS
	return endpoint, nil
}
