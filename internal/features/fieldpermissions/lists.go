package fieldpermissions

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/features/feature"
)

// Lists knows the fields that identify the elements of lists.
type Lists struct{ schemas *schemaSet }

// NewLists returns Lists for the schemas of built-in kinds and the definitions of custom ones.
func NewLists(builtin feature.Builtin, definition func(schema.GroupKind) *apiextensionsv1.CustomResourceDefinition) *Lists {
	if builtin == nil {
		builtin = allCustom{}
	}
	return &Lists{newSchemas(builtin, definition)}
}

// ListKeys returns these fields for a list of a kind; none if no schema says so.
func (l *Lists) ListKeys(kind schema.GroupVersionKind, list fieldperm.Path) []string {
	t, ok, err := l.schemas.typeOf(kind)
	if err != nil || !ok {
		return nil
	}
	return fieldperm.ListKeys(list, t)
}
