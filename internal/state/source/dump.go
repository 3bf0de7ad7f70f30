package source

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/engine/revision"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Dump reads from a cluster everything that ReadFiles reads: the policy objects, and what is served. It contains no
// secrets: managed fields, what kubectl applied last, the addresses of audit sinks and access requests are left out. If
// something may not be read, nothing is returned: half a policy is not a policy.
func Dump(ctx context.Context, config *rest.Config) ([]*unstructured.Unstructured, error) {
	return new(Held).Dump(ctx, config)
}

// Dump is like the function Dump for repeated calls: unchanged objects are the same pointers, and a kind that the
// server reports as unchanged is not read again.
func (h *Held) Dump(ctx context.Context, config *rest.Config) ([]*unstructured.Unstructured, error) {
	all, _, err := h.DumpWithin(ctx, config, nil)
	return all, err
}

// DumpWithin is Dump for a user who may only read the policy of some namespaces (TR-19): kinds that may not be listed
// everywhere are listed in these, and unseen names what is left out. It is an error if none of the policy of a
// namespace may be read either.
func (h *Held) DumpWithin(ctx context.Context, config *rest.Config, namespaces []string) (all []*unstructured.Unstructured, unseen []string, err error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 100, 200
	finder, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	asked := server{finder}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	lists, err := servedBy(asked.DiscoveryClient)
	if err != nil {
		return nil, nil, err
	}
	has := map[schema.GroupVersionResource]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, nil, err
		}
		for _, r := range list.APIResources {
			has[gv.WithResource(r.Name)] = true
		}
		list.Kind, list.APIVersion = "APIResourceList", "v1"
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(list)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, h.served(list.GroupVersion, content))
	}
	var now revision.Vector
	if len(h.kinds) > 0 && has[authz.SchemeGroupVersion.WithResource("subjectaccessreviews")] {
		now = asked.revision(ctx)
	}
	kinds := slices.DeleteFunc(snapshot.Kinds(), func(kind snapshot.Kind) bool { return !dumped(kind) || !has[kind.GroupVersionResource] })
	results, errs := make([][]*unstructured.Unstructured, len(kinds)), make([]error, len(kinds))
	var some sync.WaitGroup
	turns := make(chan struct{}, dumpers)
	for i, kind := range kinds {
		some.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			if results[i], errs[i] = h.list(ctx, client, kind, now); errs[i] == nil {
				results[i] = h.known(kind, results[i])
			}
		})
	}
	some.Wait()
	var refused []string
	read := false
	for i, kind := range kinds {
		if err := errs[i]; refusal(err) {
			within, left, err := listedWithin(ctx, client, kind, namespaces)
			if err != nil {
				return nil, nil, fmt.Errorf("list %s: %w", kind.GroupResource(), err)
			}
			refused, unseen = append(refused, kind.GroupResource().String()), append(unseen, left)
			read, all = read || within != nil, append(all, within...)
			continue
		} else if err != nil {
			return nil, nil, fmt.Errorf("list %s: %w", kind.GroupResource(), err)
		}
		all = append(all, results[i]...)
	}
	if len(refused) > 0 && !read {
		return nil, nil, fmt.Errorf("you may not list %s in all namespaces, and without them the policy is not known; ask for a cluster role that allows it, "+
			"or have a user who may run `proviso dump > policy.yaml`, and use --from policy.yaml", strings.Join(refused, ", "))
	}
	return all, unseen, nil
}

// dumped reports whether a dump has a kind. Access requests are not policy, and name persons and their reasons (TM-10).
func dumped(kind snapshot.Kind) bool { return kind != snapshot.AccessRequests }

// refusal reports whether the error is a refusal.
func refusal(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// seenAs are the views on the content of policy containers.
var seenAs = map[schema.GroupResource]schema.GroupVersionResource{
	snapshot.Policies.GroupResource():       authz.SchemeGroupVersion.WithResource("roles"),
	snapshot.PolicyBindings.GroupResource(): authz.SchemeGroupVersion.WithResource("rolebindings"),
}

// listedWithin reads a kind in some namespaces, directly or through its views. It returns nil if it may not be read in
// any, and left says which part of the kind was not read.
func listedWithin(ctx context.Context, client dynamic.Interface, kind snapshot.Kind, namespaces []string) (all []*unstructured.Unstructured, left string, err error) {
	var in []string
	for _, namespace := range namespaces {
		for _, resource := range []schema.GroupVersionResource{kind.GroupVersionResource, seenAs[kind.GroupResource()]} {
			if resource.Resource == "" {
				continue
			}
			list, err := client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
			if refusal(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue
			}
			if err != nil {
				return nil, "", err
			}
			if all == nil {
				all = []*unstructured.Unstructured{}
			}
			for i := range list.Items {
				all = append(all, disclosed(kind, &list.Items[i]))
			}
			in = append(in, namespace)
			break
		}
	}
	left = kind.GroupResource().String()
	if len(in) > 0 {
		left += " outside " + strings.Join(in, ", ")
	}
	return all, left, nil
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
				continue // another server that does not answer: the cluster does not know what it serves either
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

// dumpers is how many kinds are read at a time, and pageSize how many objects: a page costs the server a request.
const (
	dumpers  = 3
	pageSize = 5000
)

func listed(ctx context.Context, client dynamic.Interface, kind snapshot.Kind) (all []*unstructured.Unstructured, err error) {
	options := metav1.ListOptions{Limit: pageSize}
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

// disclosed returns an object without private data. The content of containers has its own metadata.
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
	if kind == snapshot.AuditSinks || kind == snapshot.NamespaceAuditSinks {
		// An address can contain a token, and does not affect decisions.
		if _, found, err := unstructured.NestedString(object.Object, "spec", "webhook", "clientConfig", "url"); found && err == nil {
			_ = unstructured.SetNestedField(object.Object, "https://withheld.invalid", "spec", "webhook", "clientConfig", "url")
		}
	}
	return object
}

// undress removes the metadata about authors of fields, and kubectl's own annotation.
func undress(content map[string]any) {
	unstructured.RemoveNestedField(content, "metadata", "managedFields")
	unstructured.RemoveNestedField(content, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
}
