package enforce

import (
	"maps"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/api/equality"
)

// What the server makes of a stored custom resource before anything sees it: it drops what the schema does not have,
// and fills in defaults. A schema that is nil keeps everything and fills in nothing.

// keepsAll reports whether a schema keeps what it has no schema for.
func keepsAll(s *apiextensions.JSONSchemaProps) bool {
	return s == nil || s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
}

// restOf returns the schema of fields that a schema does not name; kept is false if they are dropped.
func restOf(s *apiextensions.JSONSchemaProps) (_ *apiextensions.JSONSchemaProps, kept bool) {
	if s != nil && s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		return s.AdditionalProperties.Schema, true
	}
	return nil, keepsAll(s) || s.AdditionalProperties != nil && s.AdditionalProperties.Allows
}

// fieldOf returns the schema of a field; kept is false if it is dropped.
func fieldOf(s *apiextensions.JSONSchemaProps, name string) (_ *apiextensions.JSONSchemaProps, kept bool) {
	if s != nil {
		if p, ok := s.Properties[name]; ok {
			return &p, true
		}
	}
	return restOf(s)
}

// elementOf returns the schema of the elements of a list; kept is false if what is in them is dropped.
func elementOf(s *apiextensions.JSONSchemaProps) (_ *apiextensions.JSONSchemaProps, kept bool) {
	if s != nil && s.Items != nil && s.Items.Schema != nil {
		return s.Items.Schema, true
	}
	return nil, keepsAll(s)
}

// names are the fields that one of two schemas names.
func names(a, b *apiextensions.JSONSchemaProps) []string {
	all := map[string]bool{}
	for _, s := range []*apiextensions.JSONSchemaProps{a, b} {
		if s != nil {
			for name := range s.Properties {
				all[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// dropped returns a path that one schema keeps and the other drops; empty if there is none.
func dropped(old, new *apiextensions.JSONSchemaProps, path string) string {
	if new == nil {
		return ""
	}
	// The server also cleans up the metadata of an object in the object.
	if keepsAll(old) && !keepsAll(new) || new.XEmbeddedResource != (old != nil && old.XEmbeddedResource) {
		return "what is below " + named(path)
	}
	for _, below := range []struct {
		of   func(*apiextensions.JSONSchemaProps) (*apiextensions.JSONSchemaProps, bool)
		path string
	}{{restOf, path + ".*"}, {elementOf, path + "[]"}} {
		was, kept := below.of(old)
		if !kept {
			continue
		}
		is, keeps := below.of(new)
		if !keeps {
			return "what is below " + named(path)
		}
		if found := dropped(was, is, below.path); found != "" {
			return found
		}
	}
	for _, name := range names(old, new) {
		was, kept := fieldOf(old, name)
		if !kept {
			continue
		}
		is, keeps := fieldOf(new, name)
		if !keeps {
			return path + "." + name
		}
		if found := dropped(was, is, path+"."+name); found != "" {
			return found
		}
	}
	return ""
}

// refilled returns a path at which two schemas have different defaults, or treat null differently; empty if there is
// none. The server removes null where it is not allowed, or replaces it by the default. kept is false for what the old
// schema drops: then only defaults can differ.
func refilled(old, new *apiextensions.JSONSchemaProps, kept bool, path string) string {
	switch {
	case old == nil && new == nil:
		return ""
	case !equality.Semantic.DeepEqual(defaultOf(old), defaultOf(new)), kept && new != nil && new.Nullable != (old == nil || old.Nullable):
		return named(path)
	}
	for _, name := range names(old, new) {
		was, keeps := fieldOf(old, name)
		is, _ := fieldOf(new, name)
		if found := refilled(was, is, kept && keeps, path+"."+name); found != "" {
			return found
		}
	}
	was, keeps := restOf(old)
	is, _ := restOf(new)
	if found := refilled(was, is, kept && keeps, path+".*"); found != "" {
		return found
	}
	was, keeps = elementOf(old)
	is, _ = elementOf(new)
	return refilled(was, is, kept && keeps, path+"[]")
}

func defaultOf(s *apiextensions.JSONSchemaProps) apiextensions.JSON {
	if s == nil || s.Default == nil {
		return nil
	}
	return *s.Default
}

func named(path string) string {
	if path == "" {
		return "the object"
	}
	return path
}
