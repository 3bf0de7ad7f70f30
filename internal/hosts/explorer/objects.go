package explorer

import (
	"context"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

// sessionAnswer is who the page acts as, and where.
type sessionAnswer struct {
	User       string   `json:"user"`
	Groups     []string `json:"groups"`
	Server     string   `json:"server"`
	Context    string   `json:"context"`
	Namespace  string   `json:"namespace"`
	Version    string   `json:"version"`
	AllowApply bool     `json:"allowApply"`
}

func (h *handler) session(r *http.Request, _ struct{}) (*sessionAnswer, error) {
	client, err := kubernetes.NewForConfig(h.Rest)
	if err != nil {
		return nil, err
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(r.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return &sessionAnswer{
		User: review.Status.UserInfo.Username, Groups: review.Status.UserInfo.Groups, Server: h.Rest.Host,
		Context: h.Context, Namespace: h.Namespace, Version: h.Version, AllowApply: h.AllowApply,
	}, nil
}

// servedResource is something to ask about.
type servedResource struct {
	Name         string   `json:"name"`
	Kind         string   `json:"kind"`
	Namespaced   bool     `json:"namespaced"`
	Verbs        []string `json:"verbs"`
	Subresources []string `json:"subresources,omitempty"`
}

// resourcesAnswer is what the fields of the screens are completed from.
type resourcesAnswer struct {
	Resources  []servedResource `json:"resources"`
	Namespaces []string         `json:"namespaces"`
}

// maxNames bounds what a list of choices holds; a user who looks for another one types its name.
const maxNames = 500

func (h *handler) resources(r *http.Request, _ struct{}) (*resourcesAnswer, error) {
	client, err := discovery.NewDiscoveryClientForConfig(h.Rest)
	if err != nil {
		return nil, err
	}
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil && len(lists) == 0 {
		return nil, err
	}
	found := map[string]*servedResource{}
	out := &resourcesAnswer{Resources: []servedResource{}, Namespaces: []string{}}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, one := range list.APIResources {
			plural, sub, _ := strings.Cut(one.Name, "/")
			name := schema.GroupResource{Group: gv.Group, Resource: plural}.String()
			if found[name] == nil {
				found[name] = &servedResource{Name: name}
			}
			entry := found[name]
			switch {
			case sub == "" && entry.Kind == "":
				entry.Kind, entry.Namespaced, entry.Verbs = one.Kind, one.Namespaced, one.Verbs
			case sub != "" && !slices.Contains(entry.Subresources, sub):
				entry.Subresources = append(entry.Subresources, sub)
			}
		}
	}
	for _, entry := range found {
		if entry.Kind != "" {
			out.Resources = append(out.Resources, *entry)
		}
	}
	slices.SortFunc(out.Resources, func(a, b servedResource) int { return strings.Compare(a.Name, b.Name) })
	out.Namespaces = h.namespaces(r.Context())
	return out, nil
}

// namespaces are those to choose from: none for a user who may not list them.
func (h *handler) namespaces(ctx context.Context) []string {
	names := []string{}
	client, err := kubernetes.NewForConfig(h.Rest)
	if err != nil {
		return names
	}
	list, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{Limit: maxNames})
	if err != nil {
		return names
	}
	for _, ns := range list.Items {
		names = append(names, ns.Name)
	}
	return names
}

type objectQuestion struct {
	Resource  string `json:"resource"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// client finds a resource as the server serves it.
func (h *handler) client(q objectQuestion) (dynamic.ResourceInterface, metav1.APIResource, schema.GroupVersion, error) {
	var none metav1.APIResource
	finder, err := discovery.NewDiscoveryClientForConfig(h.Rest)
	if err != nil {
		return nil, none, schema.GroupVersion{}, err
	}
	lists, err := finder.ServerPreferredResources()
	if err != nil && len(lists) == 0 {
		return nil, none, schema.GroupVersion{}, err
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, one := range list.APIResources {
			if (schema.GroupResource{Group: gv.Group, Resource: one.Name}).String() != q.Resource {
				continue
			}
			dyn, err := dynamic.NewForConfig(h.Rest)
			if err != nil {
				return nil, none, gv, err
			}
			resource := dyn.Resource(gv.WithResource(one.Name))
			if one.Namespaced && q.Namespace != "" {
				return resource.Namespace(q.Namespace), one, gv, nil
			}
			return resource, one, gv, nil
		}
	}
	return nil, none, schema.GroupVersion{}, refused{http.StatusNotFound, "the server does not serve " + q.Resource}
}

// objects are the names of objects to pick from.
func (h *handler) objects(r *http.Request, q objectQuestion) ([]string, error) {
	client, _, _, err := h.client(q)
	if err != nil {
		return nil, err
	}
	list, err := client.List(r.Context(), metav1.ListOptions{Limit: maxNames})
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, item := range list.Items {
		names = append(names, item.GetName())
	}
	return names, nil
}

// object is one object as YAML, without the server's bookkeeping.
func (h *handler) object(r *http.Request, q objectQuestion) (map[string]string, error) {
	client, _, _, err := h.client(q)
	if err != nil {
		return nil, err
	}
	object, err := client.Get(r.Context(), q.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
	text, err := yaml.Marshal(object.Object)
	return map[string]string{"yaml": string(text)}, err
}
