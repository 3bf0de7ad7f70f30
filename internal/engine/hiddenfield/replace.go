package hiddenfield

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"proviso.dev/proviso/internal/engine/fieldperm"
)

// Redacted replaces a value that is not shown.
const Redacted = "REDACTED"

// Replace replaces the values of the fields in JSON that is an object of a kind, a list of them, or known to hold none;
// false for anything else. Keys are kept.
func (s Set) Replace(text []byte, kind string) ([]byte, bool) {
	content, err := decode(text)
	if err != nil || kind == "" {
		return nil, false
	}
	switch content["kind"] {
	case kind, "PartialObjectMetadata":
		s.replaceIn(content)
	case kind + "List", "PartialObjectMetadataList":
		if !s.replaceItems(content["items"]) {
			return nil, false
		}
	case "DeleteOptions":
	case "Status":
		if content["status"] != "Success" { // a failure may quote values
			return nil, false
		}
	default:
		return nil, false
	}
	out, err := json.Marshal(content)
	return out, err == nil
}

func (s Set) replaceItems(items any) bool {
	list, ok := items.([]any)
	for _, item := range list {
		one, isObject := item.(map[string]any)
		if !isObject {
			return false
		}
		s.replaceIn(one)
	}
	return ok || items == nil
}

// replaceIn changes an object: it replaces the values in the object itself, in what kubectl applied, and in the managed
// fields, which quote elements of sets and keys of lists.
func (s Set) replaceIn(content map[string]any) {
	o := unstructured.Unstructured{Object: content}
	if entries := o.GetManagedFields(); len(entries) > 0 {
		o.SetManagedFields(s.managers(entries, nil))
	} else {
		unstructured.RemoveNestedField(content, "metadata", "managedFields")
	}
	if annotations, ok, _ := unstructured.NestedMap(content, "metadata", "annotations"); ok {
		if text, ok := annotations[lastApplied]; ok {
			s.replaceApplied(annotations, text)
			_ = unstructured.SetNestedMap(content, annotations, "metadata", "annotations") // metadata is a map
		}
	}
	s.replaceFields(content)
}

func (s Set) replaceApplied(annotations map[string]any, applied any) {
	delete(annotations, lastApplied)
	text, _ := applied.(string)
	content, err := decode([]byte(text))
	if err != nil || len(s.elsewhere(content)) > 0 {
		return
	}
	s.replaceFields(content)
	if shown, err := json.Marshal(content); err == nil {
		annotations[lastApplied] = string(shown)
	}
}

func (s Set) replaceFields(content map[string]any) {
	for _, f := range s {
		for _, at := range spellings(f.Field) {
			replaceAt(content, at)
		}
	}
}

// replaceAt replaces what is at a path in decoded JSON. In lists it does so in every element: only a schema knows which
// of them a key names.
func replaceAt(v any, at fieldperm.Path) any {
	if len(at) == 0 {
		return replaced(v)
	}
	switch v := v.(type) {
	case map[string]any:
		for key, child := range v {
			if at[0].Any || at[0].Name == key {
				v[key] = replaceAt(child, at[1:])
			}
		}
	case []any:
		for i, child := range v {
			if at[0].Bracket {
				v[i] = replaceAt(child, at[1:])
			}
		}
	}
	return v
}

// replaced returns a value with its keys but without their values.
func replaced(v any) any {
	switch v := v.(type) {
	case nil:
		return nil
	case map[string]any:
		for key, child := range v {
			v[key] = replaced(child)
		}
		return v
	case []any:
		for i, child := range v {
			v[i] = replaced(child)
		}
		return v
	}
	return Redacted
}
