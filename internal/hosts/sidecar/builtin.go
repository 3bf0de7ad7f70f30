package sidecar

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
)

type lists = []*metav1.APIResourceList

// awaitBuiltin asks until the API server answers: the two are started in any order.
func awaitBuiltin(ctx context.Context, config *rest.Config) (all lists, err error) {
	err = wait.PollUntilContextCancel(ctx, 250*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		var asked error
		if all, asked = builtin(ctx, config); asked != nil {
			klog.V(2).InfoS("What the API server serves is not known yet", "err", asked)
		}
		return asked == nil, nil
	})
	return all, err
}

// builtin is what the API server itself serves: the group versions that it registers when it starts. What custom
// resource definitions and other servers add is followed separately.
func builtin(ctx context.Context, config *rest.Config) (lists, error) {
	aggregator, err := apiregistrationclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	services, err := aggregator.ApiregistrationV1().APIServices().List(ctx, metav1.ListOptions{LabelSelector: "kube-aggregator.kubernetes.io/automanaged=onstart"})
	if err != nil {
		return nil, err
	}
	// The aggregator serves its own group, and registers nothing for it.
	own := apiregistrationv1.SchemeGroupVersion
	services.Items = append(services.Items, apiregistrationv1.APIService{Spec: apiregistrationv1.APIServiceSpec{Group: own.Group, Version: own.Version}})
	slices.SortFunc(services.Items, func(a, b apiregistrationv1.APIService) int {
		return cmp.Or(cmp.Compare(a.Spec.Group, b.Spec.Group), cmp.Compare(b.Spec.VersionPriority, a.Spec.VersionPriority), version.CompareKubeAwareVersionStrings(b.Spec.Version, a.Spec.Version))
	})
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	var all lists
	for _, s := range services.Items {
		if s.Spec.Service != nil {
			continue
		}
		gv := metav1.GroupVersion{Group: s.Spec.Group, Version: s.Spec.Version}.String()
		list, err := client.ServerResourcesForGroupVersion(gv)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", gv, err)
		}
		all = append(all, list)
	}
	if len(all) < 2 {
		return nil, fmt.Errorf("the API server serves nothing yet")
	}
	return all, nil
}
