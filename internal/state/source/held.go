package source

import (
	"context"
	"encoding/json"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/engine/revision"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Held caches earlier dumps, from one server by one user. It must not be used concurrently.
type Held struct {
	mu    sync.Mutex
	kinds map[schema.GroupResource]*heldKind
	lists map[string]*unstructured.Unstructured // what is served, by group and version
}

// heldKind are the objects of a kind, and their combined state (TR-13).
type heldKind struct {
	objects []*unstructured.Unstructured
	state   uint64
}

// served returns a list of what is served: the cached one if it is equal.
func (h *Held) served(groupVersion string, content map[string]any) *unstructured.Unstructured {
	if h.lists == nil {
		h.lists = map[string]*unstructured.Unstructured{}
	}
	if had := h.lists[groupVersion]; had == nil || !reflect.DeepEqual(had.Object, content) {
		h.lists[groupVersion] = &unstructured.Unstructured{Object: content}
	}
	return h.lists[groupVersion]
}

// list reads a kind, unless the server decides by exactly the cached objects: the state is computed from the identity
// and version of every object, so it can be compared at any time. Whether the caller may list the kind is checked in
// any case.
func (h *Held) list(ctx context.Context, client dynamic.Interface, kind snapshot.Kind, now revision.Vector) ([]*unstructured.Unstructured, error) {
	h.mu.Lock()
	had := h.kinds[kind.GroupResource()]
	h.mu.Unlock()
	if entry, ok := now.Entry(kind.GroupResource().String()); !ok || had == nil || entry.State != had.state {
		return listed(ctx, client, kind)
	}
	_, err := client.Resource(kind.GroupVersionResource).List(ctx, metav1.ListOptions{Limit: 1})
	return had.objects, err
}

// known caches what was read, and reuses cached objects of the same version.
func (h *Held) known(kind snapshot.Kind, objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	h.mu.Lock()
	defer h.mu.Unlock()
	had := h.kinds[kind.GroupResource()]
	if h.kinds == nil {
		h.kinds = map[schema.GroupResource]*heldKind{}
	}
	type version struct{ uid, version string }
	same := map[version]*unstructured.Unstructured{}
	if had != nil {
		for _, o := range had.objects {
			same[version{string(o.GetUID()), o.GetResourceVersion()}] = o
		}
	}
	next := &heldKind{}
	var sum uint64
	for _, o := range objects {
		v := version{string(o.GetUID()), o.GetResourceVersion()}
		if known := same[v]; known != nil && v.uid != "" && v.version != "" {
			o = known
		}
		next.objects = append(next.objects, o)
		sum += revision.Mark(v.uid, v.version)
	}
	next.state = revision.State(sum)
	h.kinds[kind.GroupResource()] = next
	return next.objects
}

// server can be asked what it serves, and how recent its policy is.
type server struct{ *discovery.DiscoveryClient }

// revision returns how recent the policy is by which the server decides; empty if it does not say.
func (s server) revision(ctx context.Context) revision.Vector {
	review := &authz.SubjectAccessReview{TypeMeta: metav1.TypeMeta{APIVersion: authz.SchemeGroupVersion.String(), Kind: "SubjectAccessReview"},
		Spec: authz.SubjectAccessReviewSpec{Verb: "list", ResourceKind: "namespaces"}}
	body, err := json.Marshal(review)
	if err != nil {
		return nil
	}
	body, err = s.RESTClient().Post().AbsPath("/apis/"+authz.SchemeGroupVersion.String()+"/subjectaccessreviews").SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Raw()
	if err != nil || json.Unmarshal(body, review) != nil {
		return nil
	}
	vector, err := revision.Parse(review.Status.PolicyRevision)
	if err != nil {
		return nil
	}
	return vector
}
