package openapi

import (
	"strings"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"

	access "proviso.dev/proviso/api/access/v1alpha1"
	audit "proviso.dev/proviso/api/auditregistration/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// Definitions are the generated definitions, opened for the spellings that the types accept on input. Server-side apply
// checks what it gets against them before the types can normalise it, so without this the original design's own
// examples could be created but not applied.
//
// Types of other modules are referred to by the names that Kubernetes' own definitions have; the generator knows these
// for the packages it generates only.
func Definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	defs := GetOpenAPIDefinitions(func(path string) spec.Ref { return ref(modelName(path)) })
	for _, def := range defs {
		for i, dependency := range def.Dependencies {
			def.Dependencies[i] = modelName(dependency)
		}
	}
	anyType(defs, audit.NamespaceSelector{}.OpenAPIModelName())
	change(defs, audit.Rule{}.OpenAPIModelName(), func(s *spec.Schema) {
		list := s.Properties["nonResourceSelectors"]
		list.Type = nil
		list.Properties = map[string]spec.Schema{"urls": atomicStrings("urls are paths, if a single object takes the place of the list.")}
		s.Properties["nonResourceSelectors"] = list
	})
	change(defs, policy.AttributeRestrictions{}.OpenAPIModelName(), func(s *spec.Schema) {
		s.Properties["fieldsMutatable"] = atomicStrings("fieldsMutatable is a spelling of fieldsMutable, accepted on input.")
		s.Properties["sameMinionRestriction"] = *spec.BooleanProperty().
			WithDescription("sameMinionRestriction is a spelling of sameNodeRestriction, accepted on input.")
		s.Properties["kind"] = *spec.StringProperty().
			WithDescription("kind sameMinionRestriction is a spelling of sameNodeRestriction, accepted on input.")
	})
	// Keys that are not known are kept until they are refused by name. Upstream records before that which fields were
	// written, and would log an error of its own about a key that the schema does not have.
	for _, name := range []string{policy.PolicyRule{}.OpenAPIModelName(), policy.AttributeRestrictions{}.OpenAPIModelName(), access.TokenRule{}.OpenAPIModelName()} {
		change(defs, name, func(s *spec.Schema) { s.AddExtension("x-kubernetes-preserve-unknown-fields", true) })
	}
	return defs
}

// modelName turns the path of a Go type into the name of its model. Names of models are left alone.
func modelName(name string) string {
	if !strings.Contains(name, "/") {
		return name
	}
	return util.ToRESTFriendlyName(name)
}

// anyType drops the type of a definition and keeps its properties: a value of another type is accepted as well.
func anyType(defs map[string]common.OpenAPIDefinition, name string) {
	change(defs, name, func(s *spec.Schema) { s.Type = nil })
}

// change replaces a definition by a changed copy. A name that the generated map does not have is left alone.
func change(defs map[string]common.OpenAPIDefinition, name string, f func(*spec.Schema)) {
	def, ok := defs[name]
	if !ok {
		return
	}
	f(&def.Schema)
	defs[name] = def
}

func atomicStrings(description string) spec.Schema {
	s := spec.ArrayProperty(spec.StringProperty()).WithDescription(description)
	s.AddExtension("x-kubernetes-list-type", "atomic")
	return *s
}
