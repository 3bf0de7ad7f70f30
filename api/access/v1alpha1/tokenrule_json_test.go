package v1alpha1

import (
	"encoding/json"
	"reflect"
	"testing"
)

// TestTokenRuleRoundTrip shows that a rule of a token keeps its namespaces and whatever it does not know (PO-25).
func TestTokenRuleRoundTrip(t *testing.T) {
	for _, text := range []string{
		`{"verbs":["get"],"resourceKinds":["pods"]}`,
		`{"verbs":["get"],"resourceKinds":["pods"],"namespaces":["web"]}`,
		`{"verbs":["get"],"namespaces":[]}`,
		`{"verbs":["get"],"namespaces":["web"],"whre":"true","deny":true}`,
	} {
		var rule, again TokenRule
		if err := json.Unmarshal([]byte(text), &rule); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if _, ok := rule.Unrecognized[fieldNamespaces]; ok {
			t.Errorf("%s: the namespaces are taken for a field that is not known", text)
		}
		written, err := json.Marshal(rule)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if err := json.Unmarshal(written, &again); err != nil || !reflect.DeepEqual(rule, again) {
			t.Errorf("%s became %s (%v)", text, written, err)
		}
		var want, got map[string]any
		if json.Unmarshal([]byte(text), &want) != nil || json.Unmarshal(written, &got) != nil || !reflect.DeepEqual(want, got) {
			t.Errorf("%s was written as %s", text, written)
		}
	}
	var rule TokenRule
	if err := json.Unmarshal([]byte(`{"verbs":["get"],"namespaces":"web"}`), &rule); err == nil {
		t.Error("namespaces that are no list are taken")
	}
}
