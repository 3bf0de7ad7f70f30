package policytools

import (
	"context"
	"io"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/lint"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/analysis/suggest"
	"proviso.dev/proviso/internal/platform/terminal"
)

// lister lists objects of a server, page by page, without what is in them.
type lister func(ctx context.Context, resource schema.GroupVersionResource, namespace string, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)

// maxObjects is how many objects of a kind are read.
const maxObjects = 10_000

// lister asks the server that the policy is from.
func (o *origin) lister() (lister, error) {
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfig(metadata.ConfigFor(config))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, resource schema.GroupVersionResource, namespace string, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		return client.Resource(resource).Namespace(namespace).List(ctx, options)
	}, nil
}

// each visits objects, until there are too many of them: then whole is false.
func (l lister) each(ctx context.Context, of lint.Objects, visit func(*metav1.PartialObjectMetadata)) (whole bool, err error) {
	return l.selected(ctx, of, "", visit)
}

// selected visits the objects that a label selector selects.
func (l lister) selected(ctx context.Context, of lint.Objects, selector string, visit func(*metav1.PartialObjectMetadata)) (whole bool, err error) {
	options := metav1.ListOptions{Limit: 500, LabelSelector: selector}
	for n := 0; n < maxObjects; {
		page, err := l(ctx, of.GroupVersionResource, of.Namespace, options)
		if err != nil {
			return false, err
		}
		for i := range page.Items {
			visit(&page.Items[i])
		}
		n += len(page.Items)
		if options.Continue = page.Continue; options.Continue == "" {
			return true, nil
		}
	}
	return false, nil
}

// reader lists objects of a server, page by page, with all that is in them.
type reader func(ctx context.Context, resource schema.GroupVersionResource, namespace string, options metav1.ListOptions) (*unstructured.UnstructuredList, error)

// reader asks the server that the policy is from. Of secrets it sees metadata only.
func (o *origin) reader() (reader, error) {
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	bare, err := o.lister()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, resource schema.GroupVersionResource, namespace string, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
		if resource.GroupResource() != (schema.GroupResource{Resource: "secrets"}) {
			return client.Resource(resource).Namespace(namespace).List(ctx, options)
		}
		list, err := bare(ctx, resource, namespace, options)
		if err != nil {
			return nil, err
		}
		out := &unstructured.UnstructuredList{}
		out.SetContinue(list.Continue)
		for i := range list.Items {
			object := unstructured.Unstructured{Object: map[string]any{}}
			object.SetName(list.Items[i].Name)
			object.SetLabels(list.Items[i].Labels)
			out.Items = append(out.Items, object)
		}
		return out, nil
	}, nil
}

// there reads the objects of the places in which too many were touched to be named. What could not be read is said, and
// left out.
func (o *SuggestOptions) there(ctx context.Context, in suggest.Input) (map[suggest.Place][]map[string]any, error) {
	out := map[suggest.Place][]map[string]any{}
	for _, at := range suggest.Crowded(in.Uses, in.MaxNames) {
		i := slices.IndexFunc(in.Resources, func(r plan.Resource) bool {
			return r.Group == at.Group && r.Resource == at.Resource && r.Subresource == ""
		})
		if o.objects == nil || i < 0 {
			continue
		}
		of := lint.Objects{GroupVersionResource: schema.GroupVersionResource{Group: at.Group, Version: in.Resources[i].Version, Resource: at.Resource}, Namespace: at.Namespace}
		var all []map[string]any
		options := metav1.ListOptions{Limit: 500}
		for {
			page, err := o.objects(ctx, of.GroupVersionResource, at.Namespace, options)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				terminal.Fprintf(o.ErrOut, "No condition is suggested for %s: %v.\n", of, err)
				break
			}
			for i := range page.Items {
				all = append(all, page.Items[i].Object)
			}
			if options.Continue = page.GetContinue(); options.Continue == "" {
				out[at] = all
				break
			}
			if len(all) >= maxObjects {
				terminal.Fprintf(o.ErrOut, "No condition is suggested for %s: there are more than %d.\n", of, maxObjects)
				break
			}
		}
	}
	return out, nil
}

// labelled reads the objects that places in rules are about, each kind once. What could not be read is said, and left
// out.
func labelled(ctx context.Context, objects lister, namings []lint.Naming, said io.Writer) (map[lint.Objects]lint.Labelled, error) {
	known, tried := map[lint.Objects]lint.Labelled{}, map[lint.Objects]bool{}
	for _, n := range namings {
		if n.Of == nil && n.Kinds > 0 {
			terminal.Fprintf(said, "%s: labels are not checked because the rule names %d kinds and at most %d are read.\n", lint.Remark{Object: n.Object, Path: n.Path}.Place(), n.Kinds, lint.MaxLabelledKinds)
		}
		for _, of := range n.Of {
			if tried[of] {
				continue
			}
			tried[of] = true
			found := lint.Labelled{Labels: map[string]bool{}}
			whole, err := objects.each(ctx, of, func(o *metav1.PartialObjectMetadata) {
				found.Count++
				for key := range o.Labels {
					found.Labels[key] = true
				}
			})
			switch {
			case err == nil && whole:
				known[of] = found
			case err == nil:
				terminal.Fprintf(said, "Labels of %s are not checked: there are more than %d.\n", of, maxObjects)
			case ctx.Err() != nil:
				return nil, ctx.Err()
			case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
				terminal.Fprintf(said, "Labels of %s are not checked: you may not list them.\n", of)
			default:
				terminal.Fprintf(said, "Labels of %s are not checked: %v.\n", of, err)
			}
		}
	}
	return known, nil
}

// automanaged is the label of the APIServices of groups that a server serves itself.
const automanaged = "kube-aggregator.kubernetes.io/automanaged"

// besideStock reports whether the API server hands requests for policy on to a sidecar. Without the right to know, it
// returns false.
func (l lister) besideStock(ctx context.Context) bool {
	services := schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	name := policyv1alpha1.SchemeGroupVersion.Version + "." + policyv1alpha1.GroupName
	found, err := l(ctx, services, "", metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	return err == nil && slices.ContainsFunc(found.Items, func(s metav1.PartialObjectMetadata) bool { return s.Name == name && s.Labels[automanaged] == "" })
}
