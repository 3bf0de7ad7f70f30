package feature

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	openapicommon "k8s.io/kube-openapi/pkg/common"

	"proviso.dev/proviso/internal/apis/policyreview"
	"proviso.dev/proviso/internal/engine/fieldperm"
)

// Scheme is a scheme with its codecs.
type Scheme struct {
	*runtime.Scheme
	Codecs serializer.CodecFactory
}

// Builtin are the kinds that are not custom.
type Builtin interface {
	// Schemas are those of server-side apply. They are asked for once, when they are first needed.
	Schemas() (*fieldperm.Schemas, error)
	// Recognizes reports whether a kind is among them, with or without a schema.
	Recognizes(schema.GroupVersionKind) bool
}

// Kinds is what a process that links Kubernetes knows of the kinds that are built in. A host that does not link it is
// given this.
type Kinds struct {
	// Schemes read objects of the built-in kinds, and convert them from one version to another.
	Schemes []Scheme
	// Builtin are the kinds that are not custom.
	Builtin Builtin
	// Reserved are the API groups that are built in.
	Reserved []string
	// Converter reads content as a server would read it in a request, and converts it.
	Converter policyreview.Converter
	// Definitions are the OpenAPI definitions of them and of our own kinds.
	Definitions openapicommon.GetOpenAPIDefinitions
	// Codecs write errors.
	Codecs runtime.NegotiatedSerializer
}
