package bypass

import (
	"path"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// endpoint is a resource or a subresource in one version.
type endpoint struct {
	schema.GroupVersionResource
	// sub is the subresource, or empty.
	sub string
	// kind is what requests to it carry; own is the kind of the resource itself.
	kind, own  schema.GroupVersionKind
	namespaced bool
	verbs      []string
}

func (e endpoint) String() string {
	name := e.Resource
	if e.sub != "" {
		name += "/" + e.sub
	}
	return path.Join(e.Group, e.Version, name)
}

func (e endpoint) has(verb string) bool { return slices.Contains(e.verbs, verb) }

// isConnect tells the endpoints that open a connection: their bodies are options.
func (e endpoint) isConnect() bool { return strings.HasSuffix(e.kind.Kind, "Options") }

// root is where its group version is served.
func (e endpoint) root() string {
	if e.Group == "" {
		return "/api/" + e.Version
	}
	return "/apis/" + e.Group + "/" + e.Version
}

// collection is where its resource is served; below, if it is not empty, comes between the version and that ("watch").
func (e endpoint) collection(below, namespace string) string {
	if e.namespaced && namespace != "" {
		return path.Join(e.root(), below, "namespaces", namespace, e.Resource)
	}
	return path.Join(e.root(), below, e.Resource)
}

// item is where one object, or a subresource of one, is served.
func (e endpoint) item(namespace, name string) string {
	return path.Join(e.collection("", namespace), name, e.sub)
}

// main is the endpoint of the resource itself.
func (e endpoint) main() endpoint {
	e.sub, e.kind = "", e.own
	return e
}

// discover lists what is served, in all versions.
func discover(t testing.TB, h *host) []endpoint {
	t.Helper()
	_, lists, err := discovery.NewDiscoveryClientForConfigOrDie(h.admin).ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	var all []endpoint
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		own := map[string]schema.GroupVersionKind{}
		for _, r := range list.APIResources {
			e := endpoint{GroupVersionResource: gv.WithResource(r.Name), kind: gv.WithKind(r.Kind), namespaced: r.Namespaced, verbs: r.Verbs}
			if r.Version != "" {
				e.kind = schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
			}
			if resource, sub, ok := strings.Cut(r.Name, "/"); ok {
				e.Resource, e.sub = resource, sub
			} else {
				own[r.Name] = e.kind
			}
			all = append(all, e)
		}
		for i := range all {
			if all[i].GroupVersion() == gv {
				all[i].own = own[all[i].Resource]
			}
		}
	}
	return all
}

// byResource brings together what is about the same stored objects.
func byResource(all []endpoint) (order []schema.GroupResource, grouped map[schema.GroupResource][]endpoint) {
	grouped = map[schema.GroupResource][]endpoint{}
	for _, e := range all {
		gr := e.GroupResource()
		if grouped[gr] == nil {
			order = append(order, gr)
		}
		grouped[gr] = append(grouped[gr], e)
	}
	return order, grouped
}
