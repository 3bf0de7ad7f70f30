package offline

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/features/feature"
)

// builtin are the kinds of Kubernetes as its clients know them, with the schemas of server-side apply.
type builtin struct{}

var _ feature.Builtin = builtin{}

// Schemas implements feature.Builtin.
func (builtin) Schemas() (*fieldperm.Schemas, error) {
	return fieldperm.SchemasBy(applyconfigurations.NewTypeConverter(scheme.Scheme)), nil
}

// Recognizes implements feature.Builtin.
func (builtin) Recognizes(kind schema.GroupVersionKind) bool { return scheme.Scheme.Recognizes(kind) }
