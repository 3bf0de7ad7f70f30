package enforce

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"

	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/selfclient"
	"proviso.dev/proviso/internal/state/snapshot"
)

const (
	// maxDependents is how many dependents of one object are checked; with more of them a deletion is refused.
	maxDependents = 500
	// maxListed is how many objects may be listed for one request to find them.
	maxListed = 10_000
)

const leaveThem = "; delete with propagationPolicy Orphan (kubectl delete --cascade=orphan) to leave them"

// dependents refuses if the caller is denied `delete` on an object that would be deleted with the owner. The kind is
// that of the owner; "" if there are several owners.
func (c *cause) dependents(ctx context.Context, kind string, owner types.UID) error {
	namespace := c.GetNamespace()
	if c.GetResource().GroupResource() == namespaceResource {
		namespace = "" // upstream gives a namespace itself as its namespace
	}
	if !c.reached(namespace) {
		return nil
	}
	below, err := c.below(ctx, namespace, kind, owner)
	if err != nil {
		return forbidden(c, "rules deny you some deletes, and the server cannot determine whether the garbage collector would perform one of them: "+err.Error()+c.remedy())
	}
	return c.each(ctx, below, c.remedy(), "the garbage collector would delete %s that the object owns, which you are denied: %s")
}

// remedy says how to leave the dependents, if the request can.
func (c *cause) remedy() string {
	if c.GetOperation() != admission.Delete || c.GetResource().GroupResource() == definitionResource || !c.mayOrphan() {
		return ""
	}
	return leaveThem
}

// each refuses if the caller is denied `delete` on one of the objects. It does not name them: the caller may not be
// allowed to know the names.
func (c *cause) each(ctx context.Context, objects []member, advice, refusal string) error {
	for i, m := range objects {
		if i == maxDependents {
			return forbidden(c, fmt.Sprintf("rules deny you some deletes, and deleting this would delete more than %d objects that must be checked%s", maxDependents, advice))
		}
		kind := schema.GroupVersionKind{Group: m.resource.Group, Version: m.resource.Version, Kind: m.resource.Kind}
		request := c.deletes(m.resource.GroupVersionResource, m.namespace, m.name)
		if why, denied := c.denied(ctx, kind, request, c.read(ctx, m.resource, m.namespace, m.name)); denied {
			return forbidden(c, fmt.Sprintf(refusal, m.resource.GroupResource(), why)+advice)
		}
	}
	return nil
}

// member is a stored object of a kind that the caller's denies cover.
type member struct {
	resource        snapshot.Resource
	namespace, name string
}

// below returns the objects of kinds that the caller's denies cover that would be deleted with the owner.
func (c *cause) below(ctx context.Context, namespace, kind string, owner types.UID) ([]member, error) {
	if kind != "" && c.indexed(ctx) {
		return c.descend(ctx, namespace, kind, owner)
	}
	family := c.family(ctx, namespace)
	return family.below[owner], family.err
}

// family records which objects of those kinds are below which owner, directly or through others.
type family struct {
	below map[types.UID][]member
	err   error // it could not be found out
}

type familyKey struct{ namespace string }

// family is computed once per request and namespace. An object knows its owners but an owner does not know its
// dependents, so the walk goes upwards, from the objects that the caller's denies could be about.
func (c *cause) family(ctx context.Context, namespace string) *family {
	found := requestctx.NotesOf(ctx).Keep(familyKey{namespace}, func() any {
		w := &climb{cause: c, ctx: ctx, namespace: namespace, family: family{below: map[types.UID][]member{}}, lists: map[listKey]listing{}}
		w.family.err = w.all()
		return &w.family
	})
	f, _ := found.(*family)
	return f
}

// climb is the walk in progress.
type climb struct {
	*cause
	ctx       context.Context
	namespace string // "" is everywhere
	family    family
	lists     map[listKey]listing
	listed    int
}

type listing map[types.UID]*metav1.PartialObjectMetadata

type listKey struct {
	resource  schema.GroupVersionResource
	namespace string
}

// all visits every object that has an owner and is of a kind that the caller's denies cover.
func (w *climb) all() error {
	for _, r := range w.snapshot().Resources {
		if !r.Deletable || !r.Namespaced && w.namespace != "" {
			continue
		}
		for _, namespace := range w.covered(r, w.namespace) {
			objects, err := w.list(r, namespace)
			if err != nil {
				return err
			}
			for _, o := range objects {
				if namespace != "" && o.Namespace != namespace {
					continue
				}
				if err := w.up(r, o); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// covered lists the namespaces in which the caller's denies could be about objects of a resource, within the given
// namespace or ("") everywhere.
func (c *cause) covered(r snapshot.Resource, within string) []string {
	rules := c.snapshot().Rules
	may := func(namespace string) bool {
		_, may := rules.MayDeny(c.deletes(r.GroupVersionResource, namespace, ""))
		return may
	}
	if may(within) {
		return []string{within}
	}
	var in []string
	if within == "" && r.Namespaced {
		for _, namespace := range rules.DeniesDeleteIn(c.GetUserInfo()) {
			if may(namespace) {
				in = append(in, namespace)
			}
		}
	}
	return in
}

// up records an object below each of its owners, and below theirs.
func (w *climb) up(r snapshot.Resource, object *metav1.PartialObjectMetadata) error {
	seen := map[types.UID]bool{}
	next := object.OwnerReferences
	for len(next) > 0 {
		var further []metav1.OwnerReference
		for _, owner := range next {
			if seen[owner.UID] {
				continue
			}
			seen[owner.UID] = true
			w.family.below[owner.UID] = append(w.family.below[owner.UID], member{r, object.Namespace, object.Name})
			above, err := w.owners(object.Namespace, owner)
			if err != nil {
				return err
			}
			further = append(further, above...)
		}
		next = further
	}
	return nil
}

// owners returns the owners of an owner. One that does not exist has none.
func (w *climb) owners(namespace string, of metav1.OwnerReference) ([]metav1.OwnerReference, error) {
	gv, err := schema.ParseGroupVersion(of.APIVersion)
	if err != nil {
		return nil, nil //nolint:nilerr // an owner that cannot be named does not exist
	}
	r, served := w.snapshot().Resources.Of(schema.GroupKind{Group: gv.Group, Kind: of.Kind})
	if !served {
		return nil, nil // the garbage collector cannot find it either, and does not touch its dependents
	}
	if !r.Namespaced {
		namespace = ""
	}
	objects, err := w.list(r, namespace)
	if err != nil {
		return nil, err
	}
	if owner, ok := objects[of.UID]; ok {
		return owner.OwnerReferences, nil
	}
	return nil, nil
}

// list reads the objects of a resource, once.
func (w *climb) list(r snapshot.Resource, namespace string) (listing, error) {
	for _, within := range []string{namespace, ""} {
		if objects, ok := w.lists[listKey{r.GroupVersionResource, within}]; ok {
			return objects, nil
		}
	}
	objects, err := w.fetch(r, namespace)
	if err != nil {
		return nil, err
	}
	found := make(listing, len(objects))
	for i := range objects {
		found[objects[i].UID] = &objects[i]
	}
	w.lists[listKey{r.GroupVersionResource, namespace}] = found
	return found, nil
}

func (w *climb) fetch(r snapshot.Resource, namespace string) ([]metav1.PartialObjectMetadata, error) {
	if r.Unlisted {
		return nil, fmt.Errorf("%s are stored, and no version of them is served", r.GroupResource())
	}
	if w.listed >= maxListed {
		return nil, errTooMany
	}
	objects, more, err := w.Stored.List(w.ctx, r.GroupVersionResource, namespace, maxListed-w.listed)
	switch {
	case apierrors.IsMethodNotSupported(err):
		return nil, nil
	case apierrors.IsNotFound(err):
		// It is no longer served. The next snapshot knows whether any objects are left.
		return nil, fmt.Errorf("%s are not served any more; try again", r.GroupResource())
	case errors.Is(err, selfclient.ErrMayNotRead):
		return nil, fmt.Errorf("%s cannot be listed: %w", r.GroupResource(), selfclient.ErrMayNotRead)
	case err != nil:
		return nil, fmt.Errorf("%s cannot be listed", r.GroupResource())
	case more:
		return nil, errTooMany
	}
	w.listed += len(objects)
	return objects, nil
}

var errTooMany = fmt.Errorf("there are more than %d objects of kinds that must be checked", maxListed)
