package fieldpermissions

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/features/feature"
)

// Lists knows by which fields the elements of lists are told apart.
type Lists struct{ schemas *schemaSet }

// NewLists makes it, of the schemas of built-in kinds and of definitions of custom ones.
func NewLists(builtin feature.Builtin, definition func(schema.GroupKind) *apiextensionsv1.CustomResourceDefinition) *Lists {
	if builtin == nil {
		builtin = allCustom{}
	}
	return &Lists{newSchemas(builtin, definition)}
}

// ListKeys are those fields for a list of a kind; none if nothing says so.
func (l *Lists) ListKeys(kind schema.GroupVersionKind, list fieldperm.Path) []string {
	t, ok, err := l.schemas.typeOf(kind)
	if err != nil || !ok {
		return nil
	}
	return fieldperm.ListKeys(list, t)
}
