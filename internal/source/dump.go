package source

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/snapshot"
)

// Dump reads from a cluster all that ReadFiles reads: the objects that policy is made of, and what is served. Nothing
// secret is among it: managed fields, what kubectl applied last, and how audit sinks are reached stay where they are.
// If something may not be read, nothing is returned: half a policy is no policy.
func Dump(ctx context.Context, config *rest.Config) ([]*unstructured.Unstructured, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 100, 200
	asked, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	lists, err := servedBy(asked)
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	has := map[schema.GroupVersionResource]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			has[gv.WithResource(r.Name)] = true
		}
		list.Kind, list.APIVersion = "APIResourceList", "v1"
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(list)
		if err != nil {
			return nil, err
		}
		all = append(all, &unstructured.Unstructured{Object: content})
	}
	var refused []string
	for _, kind := range snapshot.Kinds() {
		if !has[kind.GroupVersionResource] {
			continue
		}
		objects, err := listed(ctx, client, kind)
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			refused = append(refused, kind.GroupResource().String())
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.GroupResource(), err)
		}
		all = append(all, objects...)
	}
	if len(refused) > 0 {
		return nil, fmt.Errorf("you may not list %s in all namespaces, and without them the policy is not known; ask for a cluster role that allows it, "+
			"or let somebody who may run `proviso dump > policy.yaml`, and use --from policy.yaml", strings.Join(refused, ", "))
	}
	return all, nil
}

// servedBy lists what a server serves, the preferred version of each group first.
func servedBy(client discovery.DiscoveryInterface) (lists []*metav1.APIResourceList, err error) {
	groups, err := client.ServerGroups()
	if err != nil {
		return nil, err
	}
	for _, group := range groups.Groups {
		versions := slices.Clone(group.Versions)
		slices.SortStableFunc(versions, func(a, b metav1.GroupVersionForDiscovery) int {
			switch group.PreferredVersion.Version {
			case a.Version:
				return -1
			case b.Version:
				return 1
			}
			return 0
		})
		for _, version := range versions {
			list, err := client.ServerResourcesForGroupVersion(version.GroupVersion)
			if apierrors.IsServiceUnavailable(err) || apierrors.IsNotFound(err) {
				continue // another server, which does not answer: the cluster does not know either what it serves
			}
			if err != nil {
				return nil, fmt.Errorf("what is served of %s: %w", version.GroupVersion, err)
			}
			for i := range list.APIResources {
				list.APIResources[i].StorageVersionHash = "" // tells nothing about policy, and differs between servers
			}
			lists = append(lists, list)
		}
	}
	return lists, nil
}

func listed(ctx context.Context, client dynamic.Interface, kind snapshot.Kind) (all []*unstructured.Unstructured, err error) {
	options := metav1.ListOptions{Limit: 500}
	for {
		page, err := client.Resource(kind.GroupVersionResource).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			all = append(all, disclosed(kind, &page.Items[i]))
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return all, nil
		}
	}
}

// disclosed is an object without what is nobody's business. What containers hold has metadata of its own.
func disclosed(kind snapshot.Kind, object *unstructured.Unstructured) *unstructured.Unstructured {
	undress(object.Object)
	for _, field := range []string{"roles", "roleBindings"} {
		inside, _ := object.Object[field].(map[string]any)
		for _, one := range inside {
			if content, ok := one.(map[string]any); ok {
				undress(content)
			}
		}
	}
	if kind != snapshot.Definitions && kind != snapshot.Namespaces { // these are used as their status says
		delete(object.Object, "status")
	}
	if kind == snapshot.AuditSinks {
		// An address can hold a token; it decides nothing.
		if _, found, err := unstructured.NestedString(object.Object, "spec", "webhook", "clientConfig", "url"); found && err == nil {
			_ = unstructured.SetNestedField(object.Object, "https://withheld.invalid", "spec", "webhook", "clientConfig", "url")
		}
	}
	return object
}

// undress takes the metadata off that tells who wrote what, and what kubectl has kept for itself.
func undress(content map[string]any) {
	unstructured.RemoveNestedField(content, "metadata", "managedFields")
	unstructured.RemoveNestedField(content, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
}
