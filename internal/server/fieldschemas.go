package server

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	crdbuilder "k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kube-openapi/pkg/builder3"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	ownopenapi "proviso.dev/proviso/api/openapi"
	"proviso.dev/proviso/internal/fieldperm"
	"proviso.dev/proviso/internal/registry"
)

// fieldSchemas are the schemas by which changed fields are told: of built-in kinds those that server-side apply uses too, of
// custom ones what their definitions say. They are made when they are first needed, since most servers never need them.
type fieldSchemas struct {
	builtin func() (*fieldperm.Schemas, error)
	// definition finds the definition of a custom kind; it is set before the server runs.
	definition func(kind schema.GroupKind) *apiextensionsv1.CustomResourceDefinition

	mu     sync.Mutex
	custom map[schema.GroupVersionKind]customSchemas
}

type customSchemas struct {
	uid        string
	generation int64
	schemas    *fieldperm.Schemas
}

func newFieldSchemas() *fieldSchemas {
	return &fieldSchemas{builtin: sync.OnceValues(builtinSchemas), custom: map[schema.GroupVersionKind]customSchemas{}}
}

// of returns the schemas that hold a kind. A built-in kind without one is taken as schemaless; a custom kind whose
// definition is not known, or cannot be read, is an error.
func (f *fieldSchemas) of(kind schema.GroupVersionKind) (fieldperm.Converter, error) {
	schemas, err := f.find(kind)
	if err != nil {
		return nil, err
	}
	return schemas, nil
}

func (f *fieldSchemas) find(kind schema.GroupVersionKind) (*fieldperm.Schemas, error) {
	builtin, err := f.builtin()
	if err != nil {
		return nil, err
	}
	if _, ok := builtin.Type(kind); ok || isOurs(kind) {
		return builtin, nil
	}
	crd := f.definition(kind.GroupKind())
	if crd == nil {
		return nil, fmt.Errorf("kind %s has no schema: no definition of it is known", kind)
	}
	return f.ofDefinition(kind, crd)
}

// typeOf returns the type of a kind, and false if it has none.
func (f *fieldSchemas) typeOf(kind schema.GroupVersionKind) (typed.ParseableType, bool, error) {
	schemas, err := f.find(kind)
	if err != nil {
		return typed.ParseableType{}, false, err
	}
	t, ok := schemas.Type(kind)
	return t, ok, nil
}

// ofDefinition makes the schemas of one version of a custom resource, once per generation of its definition.
func (f *fieldSchemas) ofDefinition(kind schema.GroupVersionKind, crd *apiextensionsv1.CustomResourceDefinition) (*fieldperm.Schemas, error) {
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
	f.custom[kind] = customSchemas{uid: string(crd.UID), generation: crd.Generation, schemas: schemas}
	return schemas, nil
}

// isOurs tells the kinds that some scheme of this process knows, with or without a schema.
func isOurs(kind schema.GroupVersionKind) bool {
	return slices.ContainsFunc(allSchemes(), func(s *runtime.Scheme) bool { return s.Recognizes(kind) })
}

// allSchemes are those of every server of this process.
func allSchemes() []*runtime.Scheme {
	return []*runtime.Scheme{legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme, registry.VersionedScheme()}
}

// allDefinitions are the OpenAPI definitions of upstream's kinds and of ours.
func allDefinitions(ref openapicommon.ReferenceCallback) map[string]openapicommon.OpenAPIDefinition {
	all := generatedopenapi.GetOpenAPIDefinitions(ref)
	maps.Copy(all, ownopenapi.Definitions(ref))
	return all
}

// builtinSchemas builds the OpenAPI definitions of every kind that is not custom, as upstream does for server-side apply.
func builtinSchemas() (*fieldperm.Schemas, error) {
	namer := openapinamer.NewDefinitionNamer(allSchemes()...)
	config := genericapiserver.DefaultOpenAPIV3Config(allDefinitions, namer)
	var names []string
	for name := range config.Definitions {
		if _, extensions := namer.GetDefinitionName(name); len(extensions) > 0 {
			names = append(names, name)
		}
	}
	schemas, err := builder3.BuildOpenAPIDefinitionsForResources(config, names...)
	if err != nil {
		return nil, fmt.Errorf("schemas of the built-in kinds cannot be built: %w", err)
	}
	return fieldperm.NewSchemas(schemas, false)
}

// definitionsByKind finds definitions by the kind they define.
func definitionsByKind(definitions cache.SharedIndexInformer) (func(schema.GroupKind) *apiextensionsv1.CustomResourceDefinition, error) {
	const byKind = "proviso-kind"
	err := definitions.AddIndexers(cache.Indexers{byKind: func(obj any) ([]string, error) {
		crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
		if !ok {
			return nil, nil
		}
		return []string{schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}.String()}, nil
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
		return nil
	}, nil
}
