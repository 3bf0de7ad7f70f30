package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	kubestorage "k8s.io/apiserver/pkg/storage"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// view serves the entries of containers as if they were separate objects.
type view[C, V object] struct {
	kind       *kind[V]
	containers *containers[C, V]

	// candidates are the containers of a namespace that can hold entries, in the order in which they are looked
	// through.
	candidates func(namespace string) []string
	// home is the container that an entry belongs into.
	home func(entry V) string
	// open makes sure that the container for a new entry exists, or says what the caller can do about it.
	open func(ctx context.Context, entry V, dryRun bool) error
	// admit refuses an entry that is well-formed but must not be. old is nil if it is new.
	admit func(ctx context.Context, entry, old V) error
	// confirm looks again after an entry was added: what admit saw may have changed meanwhile. An error takes it back.
	confirm func(ctx context.Context, entry V) error
	// release is asked before an entry is removed, and may refuse. It returns the version that may be removed, or
	// errChanged if the entry is not the one it was given any more. With background, an entry that cannot go yet is
	// marked to go as soon as it can, which is errPending.
	release func(ctx context.Context, entry V, background, dryRun bool) (version string, err error)
	// removed is called when an entry is gone; may be nil.
	removed func(ctx context.Context, entry V)

	setItems func(list runtime.Object, items []V)
}

var (
	_ rest.Storage              = &view[*noObject, *noObject]{}
	_ rest.Scoper               = &view[*noObject, *noObject]{}
	_ rest.Getter               = &view[*noObject, *noObject]{}
	_ rest.Lister               = &view[*noObject, *noObject]{}
	_ rest.Creater              = &view[*noObject, *noObject]{}
	_ rest.Patcher              = &view[*noObject, *noObject]{}
	_ rest.GracefulDeleter      = &view[*noObject, *noObject]{}
	_ rest.ResetFieldsStrategy  = &view[*noObject, *noObject]{}
	_ rest.SingularNameProvider = &view[*noObject, *noObject]{}
	_ rest.ShortNamesProvider   = &view[*noObject, *noObject]{}
	_ rest.CategoriesProvider   = &view[*noObject, *noObject]{}

	_ rest.CorruptObjectDeleterProvider = &view[*noObject, *noObject]{}
)

// New returns an empty entry.
func (s *view[C, V]) New() runtime.Object { return s.kind.newObject() }

// NewList returns an empty list.
func (s *view[C, V]) NewList() runtime.Object { return s.kind.newList() }

// Destroy does nothing: the containers own the store.
func (*view[C, V]) Destroy() {}

// NamespaceScoped is true: entries live in the namespace of their container.
func (*view[C, V]) NamespaceScoped() bool { return true }

// GetSingularName is the singular of the resource.
func (s *view[C, V]) GetSingularName() string { return s.kind.singular }

// ShortNames are what a user can type instead of the plural.
func (s *view[C, V]) ShortNames() []string { return s.kind.shortNames }

// Categories lets `kubectl get proviso` show all of it.
func (*view[C, V]) Categories() []string { return categories() }

// GetResetFields tells server-side apply that nobody owns the status.
func (s *view[C, V]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return newStrategy(s.kind).GetResetFields()
}

// ConvertToTable prints entries.
func (s *view[C, V]) ConvertToTable(ctx context.Context, object, tableOptions runtime.Object) (*metav1.Table, error) {
	return table[V]{columns: s.kind.columns, resource: s.resource()}.ConvertToTable(ctx, object, tableOptions)
}

func (s *view[C, V]) resource() schema.GroupResource { return s.kind.resource() }

// Get reads an entry.
func (s *view[C, V]) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	namespace, err := namespaceOf(ctx)
	if err != nil {
		return nil, err
	}
	_, entry, err := s.find(ctx, namespace, name, options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	return entry, nil
}

// find looks for an entry in the containers that can hold it.
func (s *view[C, V]) find(ctx context.Context, namespace, name, resourceVersion string) (container string, entry V, err error) {
	for _, container := range s.candidates(namespace) {
		c, err := s.containers.read(ctx, namespace, container, resourceVersion)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return "", entry, err
		}
		if entry, ok := s.containers.get(c, name); ok {
			return container, entry, nil
		}
	}
	return "", entry, notFound(s.resource(), name)
}

// List reads the entries of a namespace, or of all. It always returns all of them: a limit is a request, not a promise.
func (s *view[C, V]) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	namespace := request.NamespaceValue(ctx)
	query := &metainternalversion.ListOptions{}
	label, selector := labels.Everything(), fields.Everything()
	if options != nil {
		if options.Continue != "" {
			return nil, apierrors.NewBadRequest("continue: " + s.resource().String() + " are listed as a whole; leave it out")
		}
		query.ResourceVersion, query.ResourceVersionMatch = options.ResourceVersion, options.ResourceVersionMatch
		if options.LabelSelector != nil {
			label = options.LabelSelector
		}
		if options.FieldSelector != nil {
			selector = options.FieldSelector
		}
	}
	found, err := s.containers.list(ctx, namespace, query)
	if err != nil {
		return nil, err
	}
	matches := kubestorage.SelectionPredicate{Label: label, Field: selector, GetAttrs: kubestorage.DefaultNamespaceScopedAttr}
	var items []V
	if err := meta.EachListItem(found, func(obj runtime.Object) error {
		c, ok := obj.(C)
		if !ok {
			return fmt.Errorf("%s: cannot list entries of a %T", s.resource(), obj)
		}
		for _, name := range s.containers.names(c) {
			entry, _ := s.containers.get(c, name)
			keep, err := matches.Matches(entry)
			if err != nil {
				return err
			}
			if keep {
				items = append(items, entry)
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	slices.SortStableFunc(items, func(a, b V) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	list := s.kind.newList()
	s.setItems(list, items)
	if from, err := meta.ListAccessor(found); err == nil {
		if to, err := meta.ListAccessor(list); err == nil {
			to.SetResourceVersion(from.GetResourceVersion())
		}
	}
	return list, nil
}

func namespaceOf(ctx context.Context) (string, error) {
	namespace := request.NamespaceValue(ctx)
	if namespace == "" {
		return "", apierrors.NewBadRequest("namespace: name the namespace of the object")
	}
	return namespace, nil
}
