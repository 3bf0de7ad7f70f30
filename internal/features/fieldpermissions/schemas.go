package fieldpermissions

import (
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdbuilder "k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/features/feature"
)

// schemaSet is the schemas by which changed fields are told: of built-in kinds those that server-side apply uses too,
// of custom ones what their definitions say. They are made when they are first needed, since most servers never need
// them.
type schemaSet struct {
	kinds feature.Builtin
	// builtin are the schemas of those, made once.
	builtin func() (*fieldperm.Schemas, error)
	// definition finds the definition of a custom kind.
	definition func(kind schema.GroupKind) *apiextensionsv1.CustomResourceDefinition

	mu     sync.Mutex
	custom map[schema.GroupVersionKind]customSchemas
}

type customSchemas struct {
	uid        string
	generation int64
	schemas    *fieldperm.Schemas
}

func newSchemas(kinds feature.Builtin, definition func(schema.GroupKind) *apiextensionsv1.CustomResourceDefinition) *schemaSet {
	return &schemaSet{kinds: kinds, builtin: sync.OnceValues(kinds.Schemas), definition: definition, custom: map[schema.GroupVersionKind]customSchemas{}}
}

// For returns the schemas that hold a kind. A built-in kind without one is taken as schemaless; a custom kind whose
// definition is not known, or cannot be read, is an error.
func (f *schemaSet) For(kind schema.GroupVersionKind) (fieldperm.Converter, error) {
	schemas, err := f.find(kind)
	if err != nil {
		return nil, err
	}
	return schemas, nil
}

func (f *schemaSet) find(kind schema.GroupVersionKind) (*fieldperm.Schemas, error) {
	builtin, err := f.builtin()
	if err != nil {
		return nil, err
	}
	if _, ok := builtin.Type(kind); ok || f.kinds.Recognizes(kind) {
		return builtin, nil
	}
	crd := f.definition(kind.GroupKind())
	if crd == nil {
		return nil, fmt.Errorf("kind %s has no schema: no definition of it is known", kind)
	}
	return f.ofDefinition(kind, crd)
}

// typeOf returns the type of a kind, and false if it has none.
func (f *schemaSet) typeOf(kind schema.GroupVersionKind) (typed.ParseableType, bool, error) {
	schemas, err := f.find(kind)
	if err != nil {
		return typed.ParseableType{}, false, err
	}
	t, ok := schemas.Type(kind)
	return t, ok, nil
}

// ofDefinition makes the schemas of one version of a custom resource, once per generation of its definition.
func (f *schemaSet) ofDefinition(kind schema.GroupVersionKind, crd *apiextensionsv1.CustomResourceDefinition) (*fieldperm.Schemas, error) {
	f.mu.Lock()
	known, ok := f.custom[kind]
	f.mu.Unlock()
	if ok && known.uid == string(crd.UID) && known.generation == crd.Generation {
		return known.schemas, nil
	}
	openapi, err := crdbuilder.BuildOpenAPIV3(crd, kind.Version, crdbuilder.Options{})
	if err != nil {
		return nil, fmt.Errorf("schema of %s cannot be built: %w", kind, err)
	}
	schemas, err := fieldperm.NewSchemas(openapi.Components.Schemas, crd.Spec.PreserveUnknownFields)
	if err != nil {
		return nil, fmt.Errorf("schema of %s cannot be read: %w", kind, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for other := range f.custom {
		if f.definition(other.GroupKind()) == nil { // it is gone
			delete(f.custom, other)
		}
	}
	f.custom[kind] = customSchemas{uid: string(crd.UID), generation: crd.Generation, schemas: schemas}
	return schemas, nil
}
