package hiddenfield

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Redact removes the fields from JSON that is an object, a list of objects, or a patch of one; false if it cannot be
// read, or is a table, whose cells may show any field.
func (s Set) Redact(text []byte) ([]byte, bool) {
	var operations []map[string]json.RawMessage
	if json.Unmarshal(text, &operations) == nil {
		return s.redactOperations(operations)
	}
	content, err := decode(text)
	if err != nil || content["kind"] == "Table" {
		return nil, false
	}
	if items, ok := content["items"].([]any); ok {
		for i, item := range items {
			if one, ok := item.(map[string]any); ok {
				items[i] = s.redactObject(one)
			}
		}
	}
	out, err := json.Marshal(s.redactObject(content))
	return out, err == nil
}

// redactObject redacts an object, or the part of one in a merge patch. A client may have written it, so a field may be
// spelled in any way.
func (s Set) redactObject(content map[string]any) map[string]any {
	content = s.withoutSpelled(content)
	if _, isObject := content["kind"].(string); isObject && content["items"] == nil && content["kind"] != "Status" {
		if shown, err := s.Show(&unstructured.Unstructured{Object: content}, nil); err == nil {
			return shown.(*unstructured.Unstructured).Object
		}
	}
	if m, ok := content["metadata"].(map[string]any); ok {
		delete(m, "managedFields")
		if annotations, ok := m["annotations"].(map[string]any); ok {
			delete(annotations, lastApplied)
		}
	}
	return content
}

// redactOperations removes the values from operations on places of hidden fields and on their containers.
func (s Set) redactOperations(operations []map[string]json.RawMessage) ([]byte, bool) {
	for _, o := range operations {
		for _, f := range s {
			for _, p := range Places(f) {
				if p.relate(text(o["path"])) != apart {
					delete(o, "value")
				}
			}
		}
	}
	out, err := json.Marshal(operations)
	return out, err == nil
}
