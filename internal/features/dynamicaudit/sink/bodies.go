package sink

import (
	"encoding/json"
	"maps"
)

// withoutBodies returns an encoded event without the objects of request and response, marked as truncated; false if it
// has none, so that leaving them out would not help.
func withoutBodies(event []byte) ([]byte, bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(event, &fields) != nil {
		return nil, false
	}
	before := len(fields)
	delete(fields, "requestObject")
	delete(fields, "responseObject")
	if len(fields) == before {
		return nil, false
	}
	annotations := map[string]string{}
	if text, ok := fields["annotations"]; ok && json.Unmarshal(text, &annotations) != nil {
		return nil, false
	}
	annotations = maps.Clone(annotations)
	annotations[truncatedKey] = truncatedValue
	text, err := json.Marshal(annotations)
	if err != nil {
		return nil, false
	}
	fields["annotations"] = text
	out, err := json.Marshal(fields)
	return out, err == nil
}
