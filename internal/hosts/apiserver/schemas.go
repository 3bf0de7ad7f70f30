package apiserver

import (
	"fmt"
	"maps"
	"slices"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kube-openapi/pkg/builder3"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"

	ownopenapi "proviso.dev/proviso/api/openapi"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/state/policycodec"
)

// builtin are the kinds of this process.
type builtin struct{}

var _ feature.Builtin = builtin{}

// Recognizes implements feature.Builtin, for the kinds that some scheme of this process knows.
func (builtin) Recognizes(kind schema.GroupVersionKind) bool {
	return slices.ContainsFunc(allSchemes(), func(s *runtime.Scheme) bool { return s.Recognizes(kind) })
}

// allSchemes are those of every server of this process.
func allSchemes() []*runtime.Scheme {
	return []*runtime.Scheme{legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme, policycodec.VersionedScheme()}
}

// allDefinitions are the OpenAPI definitions of upstream's kinds and of ours.
func allDefinitions(ref openapicommon.ReferenceCallback) map[string]openapicommon.OpenAPIDefinition {
	all := generatedopenapi.GetOpenAPIDefinitions(ref)
	maps.Copy(all, ownopenapi.Definitions(ref))
	return all
}

// Schemas implements feature.Builtin. It builds the OpenAPI definitions of every kind that is not custom, as upstream
// does for server-side apply.
func (builtin) Schemas() (*fieldperm.Schemas, error) {
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

// builtinGroups are the groups of Kubernetes' own scheme and of ours, served or not.
func builtinGroups() []string {
	groups := policycodec.Groups()
	for _, gv := range legacyscheme.Scheme.PrioritizedVersionsAllGroups() {
		groups = append(groups, gv.Group)
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}
