package registry

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// everything is what a list of verbs, kinds or URLs covers when it cannot be read and must not cover too little.
const everything = "*"

// salvagePolicy reads the roles of a policy one by one. Those that this version understands stay as they are, unless the whole
// object is of another version.
func salvagePolicy(p *policy.Policy, top parts, reason string, whole bool) {
	whole = whole || top.beyond(policyKeys...) != ""
	_ = top.one("lastModified", &p.LastModified)
	var roles map[string]json.RawMessage
	if !top.one("roles", &roles) {
		return
	}
	p.Roles = map[string]policy.PolicyRole{}
	for name, raw := range roles {
		p.Roles[name] = salvageRole(raw, reason, whole)
	}
}

func salvageRole(raw json.RawMessage, reason string, whole bool) policy.PolicyRole {
	var out policy.PolicyRole
	var fields parts
	if json.Unmarshal(raw, &fields) != nil {
		return out
	}
	_ = fields.one("metadata", &out.ObjectMeta)
	bad := whole || fields.beyond(roleKeys...) != ""
	// Of a list that is given twice, every rule counts: an allow rule grants nothing here anyway.
	for _, values := range fields["rules"] {
		var rules []json.RawMessage
		if json.Unmarshal(values, &rules) != nil {
			continue
		}
		for _, rule := range rules {
			out.Rules = append(out.Rules, salvageRule(rule, reason, bad))
		}
	}
	return out
}

// salvageRule reads one rule. One that is not understood carries a field that no rule has, which quarantines it wherever it
// is compiled: it grants nothing, or denies without a condition. A deny rule whose extent cannot be read denies everything.
func salvageRule(raw json.RawMessage, reason string, bad bool) policy.PolicyRule {
	var rule policy.PolicyRule
	if err := json.Unmarshal(raw, &rule); err == nil {
		if bad {
			quarantineRule(&rule, reason)
		}
		return rule
	}
	var fields parts
	if json.Unmarshal(raw, &fields) != nil {
		fields = nil
	}
	rule = policy.PolicyRule{}
	rule.Deny = slices.ContainsFunc(fields["deny"], func(v json.RawMessage) bool { return string(v) != "false" && string(v) != "null" })
	readable := fields.one("verbs", &rule.Verbs) && fields.one("apiGroups", &rule.APIGroups) && fields.one("resourceKinds", &rule.ResourceKinds) &&
		fields.one("resourceNames", &rule.ResourceNames) && fields.one("nonResourceURLs", &rule.NonResourceURLs)
	if !readable {
		all := []string{everything}
		rule = policy.PolicyRule{Deny: rule.Deny, Verbs: all, ResourceKinds: all, NonResourceURLs: all}
	}
	_ = fields.one("description", &rule.Description)
	quarantineRule(&rule, reason)
	return rule
}

// quarantinedField is the field that no rule has.
const quarantinedField = "quarantined"

func quarantineRule(rule *policy.PolicyRule, reason string) {
	text, err := json.Marshal(reason)
	if err != nil {
		text = []byte(`""`)
	}
	if rule.Unrecognized == nil {
		rule.Unrecognized = map[string]runtime.RawExtension{}
	}
	rule.Unrecognized[quarantinedField] = runtime.RawExtension{Raw: text}
}

// salvageBindings reads role bindings one by one. One that is not understood is marked, so that only the deny rules of its role
// hold; if it is not even clear for whom, they hold for everybody.
func salvageBindings(b *policy.PolicyBinding, top parts, reason string, whole bool) {
	whole = whole || top.beyond(policyBindingKeys...) != "" || !top.one("policyRef", &b.PolicyRef)
	_ = top.one("lastModified", &b.LastModified)
	var entries map[string]json.RawMessage
	if !top.one("roleBindings", &entries) {
		return
	}
	b.RoleBindings = map[string]policy.PolicyRoleBinding{}
	for name, raw := range entries {
		b.RoleBindings[name] = salvageBinding(raw, reason, whole)
	}
}

func salvageBinding(raw json.RawMessage, reason string, whole bool) policy.PolicyRoleBinding {
	var out policy.PolicyRoleBinding
	var fields parts
	clear := json.Unmarshal(raw, &fields) == nil
	_ = fields.one("metadata", &out.ObjectMeta)
	clear = fields.one("roleName", &out.RoleName) && clear
	if !fields.one("userNames", &out.UserNames) || !fields.one("groupNames", &out.GroupNames) {
		out.UserNames, out.GroupNames = nil, []string{user.AllAuthenticated, user.AllUnauthenticated}
		clear = false
	}
	if whole || !clear || fields.beyond(roleBindingKeys...) != "" {
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[policy.AnnotationQuarantined] = reason
	}
	return out
}
