package enforce

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/discovery"
	"proviso.dev/proviso/internal/state/snapshot"
)

type indexedKey struct{}

// indexed reports whether the index of owners knows every kind that the garbage collector could delete. The index knows
// a kind that was just defined from the first look at it on.
func (c *cause) indexed(ctx context.Context) bool {
	if c.Owners == nil {
		return false
	}
	all, _ := requestctx.NotesOf(ctx).Keep(indexedKey{}, func() any {
		for _, r := range c.snapshot().Resources {
			if r.Unlisted {
				return false // what is stored of it is not known
			}
			if stored := discovery.StoredAs(r.GroupResource()); r.Deletable && !c.Owners.Knows(stored) {
				if _, _, err := c.Stored.List(ctx, r.GroupVersionResource, "", 1); err != nil || !c.Owners.Knows(stored) {
					return false // it is stored elsewhere
				}
			}
		}
		return true
	}).(bool)
	return all
}

// descend walks from an owner down to its dependents.
func (c *cause) descend(ctx context.Context, namespace, kind string, owner types.UID) (found []member, err error) {
	type node struct {
		kind string
		uid  types.UID
	}
	resources := map[schema.GroupResource][]snapshot.Resource{}
	for _, r := range c.snapshot().Resources {
		if stored := discovery.StoredAs(r.GroupResource()); r.Deletable {
			resources[stored] = append(resources[stored], r)
		}
	}
	covered := map[schema.GroupVersionResource][]string{}
	next, seen := []node{{kind, owner}}, map[types.UID]bool{owner: true}
	for len(next) > 0 {
		at := next[0]
		next = next[1:]
		objects, err := c.Owners.Owned(ctx, at.kind, at.uid)
		if err != nil {
			return nil, errors.New("what the object owns cannot be listed")
		}
		for _, o := range objects {
			served := resources[o.Resource]
			if seen[o.UID] || len(served) == 0 || namespace != "" && o.Namespace != namespace {
				continue // it was found before, or the garbage collector does not reach it
			}
			if len(seen) > maxListed {
				return nil, errTooMany
			}
			seen[o.UID] = true
			next = append(next, node{served[0].Kind, o.UID})
			for _, r := range served {
				in, known := covered[r.GroupVersionResource]
				if !known {
					in = c.covered(r, namespace)
					covered[r.GroupVersionResource] = in
				}
				if slices.Contains(in, o.Namespace) || slices.Contains(in, "") {
					found = append(found, member{r, o.Namespace, o.Name})
				}
			}
		}
	}
	return found, nil
}
