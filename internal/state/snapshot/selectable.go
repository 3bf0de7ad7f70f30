package snapshot

import (
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/engine/expr"
)

// SelectableFields returns the fields by which custom resources can be listed (selectableFields of a version). A
// selector is about the version of the request and a condition about the preferred one. Only without a conversion
// webhook is a field the same in both, so resources with one are left out. So is a field whose name or type would not
// be read the same way in a condition.
func SelectableFields(definitions []*apiextensions.CustomResourceDefinition) map[schema.GroupVersionResource][]expr.SelectableField {
	all := map[schema.GroupVersionResource][]expr.SelectableField{}
	for _, d := range definitions {
		if c := d.Spec.Conversion; c != nil && c.Strategy != apiextensions.NoneConverter {
			continue
		}
		for i := range d.Spec.Versions {
			v := &d.Spec.Versions[i]
			gvr := schema.GroupVersionResource{Group: d.Spec.Group, Version: v.Name, Resource: d.Spec.Names.Plural}
			for _, f := range v.SelectableFields {
				if typ, ok := typeOf(v, f.JSONPath); ok {
					path := strings.TrimPrefix(f.JSONPath, ".")
					all[gvr] = append(all[gvr], expr.SelectableField{Key: path, Path: path, Type: typ})
				}
			}
		}
	}
	return all
}

// ConvertedResources returns the custom resources whose versions a webhook converts. The webhook may give the versions
// of one object different labels.
func ConvertedResources(definitions []*apiextensions.CustomResourceDefinition) map[schema.GroupResource]bool {
	all := map[schema.GroupResource]bool{}
	for _, d := range definitions {
		if d != nil && converts(d) {
			all[schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural}] = true
		}
	}
	return all
}

var fieldTypes = map[string]expr.FieldType{"string": expr.StringField, "integer": expr.IntField, "boolean": expr.BoolField}

// typeOf returns the type of the field at a simple path, .spec.color.
func typeOf(v *apiextensions.CustomResourceDefinitionVersion, path string) (expr.FieldType, bool) {
	rest, simple := strings.CutPrefix(path, ".")
	if !simple || strings.ContainsAny(rest, "[]'\"\\") || v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return 0, false
	}
	node := *v.Schema.OpenAPIV3Schema
	for name := range strings.SplitSeq(rest, ".") {
		next, ok := node.Properties[name]
		if !ok {
			return 0, false
		}
		node = next
	}
	typ, ok := fieldTypes[node.Type]
	return typ, ok && !node.XIntOrString
}
