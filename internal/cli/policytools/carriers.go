package policytools

import (
	"context"
	"errors"
	"io"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/lint"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/platform/terminal"
	"proviso.dev/proviso/internal/state/snapshot"
)

// guardsOf are the protected attributes that are enforced.
func guardsOf(objects snapshot.Objects) (all []lint.Guard) {
	group := policyv1alpha1.SchemeGroupVersion.Group
	for _, a := range snapshot.Of[*policyv1alpha1.ProtectedAttribute](objects) {
		if !a.Shadowed() {
			all = append(all, lint.Guard{Object: lint.Object{Group: group, Kind: "ProtectedAttribute", Namespace: a.Namespace, Name: a.Name},
				Protection: protectedattr.FromNamespaced(a), Created: a.CreationTimestamp.Time})
		}
	}
	for _, a := range snapshot.Of[*policyv1alpha1.ClusterProtectedAttribute](objects) {
		if !a.Shadowed() {
			all = append(all, lint.Guard{Object: lint.Object{Group: group, Kind: "ClusterProtectedAttribute", Name: a.Name},
				Protection: protectedattr.FromCluster(a), Created: a.CreationTimestamp.Time})
		}
	}
	return all
}

// carriers looks for objects that have a protected value and are older than its protection. What could not be read is
// said, and left out.
func carriers(ctx context.Context, objects lister, searches []lint.Search, said io.Writer) (map[lint.Object][]string, error) {
	found := map[lint.Object][]string{}
	for _, s := range searches {
		if s.Of == nil && s.Kinds > 0 {
			terminal.Fprintf(said, "%s: older objects are not checked because it covers %d kinds and at most %d are read.\n", s.Guard.Object, s.Kinds, lint.MaxLabelledKinds)
		}
		for _, of := range s.Of {
			whole, err := objects.selected(ctx, of, s.Selector, func(o *metav1.PartialObjectMetadata) {
				if s.Guard.Before(o.CreationTimestamp.Time) && s.Guard.Carries(o.Labels, o.Annotations) {
					found[s.Guard.Object] = append(found[s.Guard.Object], of.Resource+" "+strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))
				}
			})
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if why := unread(whole, err, s.Named); why != nil {
				terminal.Fprintf(said, "%s: older objects among %s are not checked: %v.\n", s.Guard.Object, of, why)
			}
		}
	}
	return found, nil
}

// unread is why objects were not read. Kinds that cannot be listed have no objects; they are passed over in silence
// unless they were named.
func unread(whole bool, err error, named bool) error {
	switch {
	case err == nil && whole:
		return nil
	case err == nil:
		return errors.New("there are too many")
	case apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err):
		if named {
			return err
		}
		return nil
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		return errors.New("you may not list them")
	}
	return err
}
