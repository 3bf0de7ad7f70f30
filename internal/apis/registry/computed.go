package registry

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// computed serves, for reading, what is known and nowhere stored: there is nothing to watch either.
type computed[T any, P interface {
	*T
	object
}] struct {
	table[P]
	// singular and short are its other names, and plain is what messages call all of them.
	singular, short, plain string
	namespaced             bool
	list                   func([]T) runtime.Object
	// find returns all of a namespace, or of all if that is empty. It may leave out what a selector of its own does not
	// select; matches decides about the rest.
	find    func(ctx context.Context, namespace string, selector fields.Selector) ([]T, error)
	matches func(selector fields.Selector, one P) bool
}

var (
	_ rest.Scoper               = &permissions{}
	_ rest.Getter               = &permissions{}
	_ rest.Lister               = &permissions{}
	_ rest.SingularNameProvider = &permissions{}
	_ rest.ShortNamesProvider   = &permissions{}
)

// New returns an empty object.
func (*computed[T, P]) New() runtime.Object { return P(new(T)) }

// NewList returns an empty list.
func (c *computed[T, P]) NewList() runtime.Object { return c.list(nil) }

// Destroy does nothing.
func (*computed[T, P]) Destroy() {}

// NamespaceScoped reports whether they belong to namespaces.
func (c *computed[T, P]) NamespaceScoped() bool { return c.namespaced }

// GetSingularName is the singular of the resource.
func (c *computed[T, P]) GetSingularName() string { return c.singular }

// ShortNames are what a user can type instead of the plural.
func (c *computed[T, P]) ShortNames() []string { return []string{c.short} }

// Get reads one of them.
func (c *computed[T, P]) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	all, err := c.find(ctx, request.NamespaceValue(ctx), fields.Everything())
	if err != nil {
		return nil, err
	}
	for i := range all {
		if one := P(&all[i]); one.GetName() == name {
			return one, nil
		}
	}
	return nil, notFound(c.resource, name)
}

// List reads all of them: a limit is a request, not a promise.
func (c *computed[T, P]) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	label, selector := labels.Everything(), fields.Everything()
	if options != nil {
		if options.Continue != "" {
			return nil, apierrors.NewBadRequest("continue: " + c.plain + " are listed as a whole; leave it out")
		}
		if options.LabelSelector != nil {
			label = options.LabelSelector
		}
		if options.FieldSelector != nil {
			selector = options.FieldSelector
		}
	}
	all, err := c.find(ctx, request.NamespaceValue(ctx), selector)
	if err != nil {
		return nil, err
	}
	items := []T{}
	for i := range all {
		if one := P(&all[i]); label.Matches(labels.Set(one.GetLabels())) && c.matches(selector, one) {
			items = append(items, all[i])
		}
	}
	return c.list(items), nil
}
