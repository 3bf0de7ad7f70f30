package discovery

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"proviso.dev/proviso/internal/state/snapshot"
)

// definitionsByKind finds definitions by the kind they define.
func definitionsByKind(definitions snapshot.Objects) (func(schema.GroupKind) *apiextensionsv1.CustomResourceDefinition, error) {
	const byKind = "proviso-kind"
	err := definitions.GetIndexer().AddIndexers(cache.Indexers{byKind: func(obj any) ([]string, error) {
		crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
		if !ok {
			return nil, nil
		}
		return []string{schema.GroupKind{Group: crd.Spec.Group, Kind: snapshot.CustomKind(crd)}.String()}, nil
	}})
	if err != nil {
		return nil, err
	}
	return func(kind schema.GroupKind) *apiextensionsv1.CustomResourceDefinition {
		found, err := definitions.GetIndexer().ByIndex(byKind, kind.String())
		if err != nil {
			return nil
		}
		for _, obj := range found {
			// Of two definitions with the same kind only the one whose names were accepted is served.
			if crd := obj.(*apiextensionsv1.CustomResourceDefinition); crd.Status.AcceptedNames.Kind == kind.Kind {
				return crd
			}
		}
		if len(found) == 1 {
			// One in a file was never accepted.
			if crd := found[0].(*apiextensionsv1.CustomResourceDefinition); crd.Status.AcceptedNames.Kind == "" && len(crd.Status.Conditions) == 0 {
				return crd
			}
		}
		return nil
	}, nil
}
