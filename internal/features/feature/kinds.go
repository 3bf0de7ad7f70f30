package feature

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	openapicommon "k8s.io/kube-openapi/pkg/common"

	"proviso.dev/proviso/internal/engine/fieldperm"
)

// Scheme is a scheme with its codecs.
type Scheme struct {
	*runtime.Scheme
	Codecs serializer.CodecFactory
}

// Kinds is what a process that links Kubernetes knows of the kinds that are built in. A host that does not link it is
// given this.
type Kinds struct {
	// Schemes read objects of the built-in kinds, and convert them from one version to another.
	Schemes []Scheme
	// Schemas are those of server-side apply, and Recognizes tells the kinds that are not custom, with or without a
	// schema.
	Schemas    func() (*fieldperm.Schemas, error)
	Recognizes func(schema.GroupVersionKind) bool
	// Reserved are the API groups that are built in.
	Reserved []string
	// Convert reads content as a server would read it in a request, and converts it.
	Convert func(content *unstructured.Unstructured, to schema.GroupVersion) (runtime.Object, error)
	// Definitions are the OpenAPI definitions of them and of our own kinds.
	Definitions openapicommon.GetOpenAPIDefinitions
	// Codecs write errors.
	Codecs runtime.NegotiatedSerializer
}
