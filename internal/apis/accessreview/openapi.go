package accessreview

import (
	"strings"

	"k8s.io/kube-openapi/pkg/common"
	openapiutil "k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"proviso.dev/proviso/api/authorizationreview/openapi"
)

// OpenAPIDefinitions returns the definitions of the reviews. They have the names of Kubernetes' own: merged over those,
// they take their place. References to Kubernetes' other types are by model name, as in Kubernetes' map.
func OpenAPIDefinitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	definitions := openapi.GetOpenAPIDefinitions(func(path string) spec.Ref { return ref(modelName(path)) })
	for name, d := range definitions {
		for i, dependency := range d.Dependencies {
			d.Dependencies[i] = modelName(dependency)
		}
		definitions[name] = d
	}
	return definitions
}

// WithOpenAPIDefinitions merges them over the given ones.
func WithOpenAPIDefinitions(stock common.GetOpenAPIDefinitions) common.GetOpenAPIDefinitions {
	return func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		all := stock(ref)
		for name, d := range OpenAPIDefinitions(ref) {
			all[name] = d
		}
		return all
	}
}

// modelName turns the path of a Go type, which is how the generator names the types of other modules, into the name of
// its model. Names of models are left alone.
func modelName(name string) string {
	if !strings.Contains(name, "/") {
		return name
	}
	return openapiutil.ToRESTFriendlyName(name)
}
