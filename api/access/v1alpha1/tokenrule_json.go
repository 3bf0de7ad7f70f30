package v1alpha1

import (
	"encoding/json"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"
	strictjson "sigs.k8s.io/json"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// fieldNamespaces is the field that a rule of a token has and a rule of Policy has not.
const fieldNamespaces = "namespaces"

// UnmarshalJSON reads the rule of Policy as such, with what it does not know, and the namespaces out of that.
func (r *TokenRule) UnmarshalJSON(data []byte) error {
	*r = TokenRule{}
	type plainRule policyv1alpha1.PolicyRule // without methods, to read known fields, each once, in one pass
	var known struct {
		plainRule  `json:",inline"`
		Namespaces []string `json:"namespaces,omitempty"`
	}
	if strict, err := strictjson.UnmarshalStrict(data, &known); err == nil && len(strict) == 0 {
		r.PolicyRule, r.Namespaces = policyv1alpha1.PolicyRule(known.plainRule), known.Namespaces
		r.Unrecognized = nil
		return nil
	}
	if err := r.PolicyRule.UnmarshalJSON(data); err != nil {
		return err
	}
	raw, ok := r.Unrecognized[fieldNamespaces]
	if !ok {
		return nil
	}
	delete(r.Unrecognized, fieldNamespaces)
	if len(r.Unrecognized) == 0 {
		r.Unrecognized = nil
	}
	return json.Unmarshal(raw.Raw, &r.Namespaces)
}

// MarshalJSON writes the rule with everything that was read.
func (r TokenRule) MarshalJSON() ([]byte, error) {
	if r.Namespaces == nil {
		return r.PolicyRule.MarshalJSON()
	}
	names, err := json.Marshal(r.Namespaces)
	if err != nil {
		return nil, err
	}
	rule := r.PolicyRule
	rule.Unrecognized = maps.Clone(rule.Unrecognized)
	if rule.Unrecognized == nil {
		rule.Unrecognized = map[string]runtime.RawExtension{}
	}
	rule.Unrecognized[fieldNamespaces] = runtime.RawExtension{Raw: names}
	return rule.MarshalJSON()
}
