package policycodec

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// everything replaces a list of verbs, kinds or URLs that cannot be read and must not cover too little.
const everything = "*"

// damage is what is known about a stored container that cannot be read as it is.
type damage struct {
	reason string
	// whole is true if the container itself is not understood: it is of another version, or has an unknown field that
	// may hold anything, even entries that deny.
	whole bool
	// harmless are the fields that its writer lists as harmless.
	harmless paths
}

// salvagePolicy reads the roles of a policy one by one. Those that this version understands are unchanged, unless the
// container itself is not understood.
func salvagePolicy(p *policy.Policy, top parts, d damage) {
	_ = top.one("lastModified", &p.LastModified)
	var roles map[string]json.RawMessage
	readable := top.one("roles", &roles)
	if !readable || d.whole || repeated(top, "roles") != "" {
		unreadable(p, d.reason)
	}
	for name, raw := range roles {
		if p.Roles == nil {
			p.Roles = map[string]policy.PolicyRole{}
		}
		if strings.ContainsRune(name, 0) { // such names have a meaning in the index
			unreadable(p, d.reason)
			continue
		}
		p.Roles[name] = salvageRole(name, raw, d)
	}
}

// unreadable marks a container whose entries cannot be read.
func unreadable(o metav1.Object, reason string) {
	annotations := maps.Clone(o.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[policy.AnnotationUnreadable] = reason
	o.SetAnnotations(annotations)
}

// salvageRole reads the rules of a role one by one. An unknown field of the role may be a list of deny rules, so it
// counts as an unreadable rule.
func salvageRole(name string, raw json.RawMessage, d damage) policy.PolicyRole {
	var out policy.PolicyRole
	var fields parts
	denied := ruleset.Unreadable(fmt.Sprintf("role %q cannot be read: %s", name, d.reason))
	if string(raw) == "null" || json.Unmarshal(raw, &fields) != nil {
		out.Rules = []policy.PolicyRule{denied}
		return out
	}
	_ = fields.one("metadata", &out.ObjectMeta)
	strange := len(roleShape().strangers(raw, ".roles[]", d.harmless)) > 0
	// If the list is duplicate, every rule counts: an allow rule grants nothing here anyway.
	for _, values := range fields["rules"] {
		var rules []json.RawMessage
		if json.Unmarshal(values, &rules) != nil {
			out.Rules = append(out.Rules, denied)
			continue
		}
		for _, rule := range rules {
			salvaged, readable := salvageRule(rule, d, d.whole || strange)
			if !readable {
				salvaged = denied
			}
			out.Rules = append(out.Rules, salvaged)
		}
	}
	if strange {
		out.Rules = append(out.Rules, denied)
	}
	return out
}

// salvageRule reads one rule. One that is not understood gets a field that no rule has, which quarantines it wherever
// it is compiled: it grants nothing, or denies without a condition. An unreadable part of a deny rule's extent counts
// as everything. It returns false if it is not even clear whether the rule denies.
func salvageRule(raw json.RawMessage, d damage, bad bool) (policy.PolicyRule, bool) {
	var rule policy.PolicyRule
	if err := json.Unmarshal(raw, &rule); err == nil && string(raw) != "null" {
		d.harmless.ignoreIn(&rule)
		disown(&rule)
		if bad {
			quarantineRule(&rule, d.reason)
		}
		return rule, true
	}
	var fields parts
	if string(raw) == "null" || json.Unmarshal(raw, &fields) != nil {
		return rule, false
	}
	rule = policy.PolicyRule{}
	rule.Deny = slices.ContainsFunc(fields["deny"], func(v json.RawMessage) bool { return string(v) != "false" && string(v) != "null" })
	all := []string{everything}
	if !fields.one("verbs", &rule.Verbs) {
		rule.Verbs = all
	}
	if !fields.one("apiGroups", &rule.APIGroups) {
		rule.APIGroups = nil
	}
	if !fields.one("resourceNames", &rule.ResourceNames) {
		rule.ResourceNames = nil
	}
	if !fields.one("resourceKinds", &rule.ResourceKinds) || !fields.one("nonResourceURLs", &rule.NonResourceURLs) {
		rule.ResourceKinds, rule.NonResourceURLs, rule.APIGroups = all, all, nil
	}
	_ = fields.one("description", &rule.Description)
	for key, values := range fields {
		if ruleShape().field(key) == nil {
			keepUnknown(&rule, key, values[0])
		}
	}
	d.harmless.ignoreIn(&rule)
	disown(&rule)
	quarantineRule(&rule, d.reason)
	return rule, true
}

func quarantineRule(rule *policy.PolicyRule, reason string) {
	text, err := json.Marshal(reason)
	if err != nil {
		text = []byte(`""`)
	}
	keepUnknown(rule, policy.QuarantinedField, text)
}

func keepUnknown(rule *policy.PolicyRule, key string, value []byte) {
	if rule.Unrecognized == nil {
		rule.Unrecognized = map[string]runtime.RawExtension{}
	}
	rule.Unrecognized[key] = runtime.RawExtension{Raw: value}
}

// salvageBindings reads role bindings one by one. One that is not understood is marked, so only the deny rules of its
// role apply; if it is not even clear to whom, they apply to all users.
func salvageBindings(b *policy.PolicyBinding, top parts, d damage) {
	_ = top.one("lastModified", &b.LastModified)
	var entries map[string]json.RawMessage
	readable := top.one("roleBindings", &entries)
	if !top.one("policyRef", &b.PolicyRef) {
		d.whole = true
	}
	if !readable || d.whole || repeated(top, "roleBindings") != "" {
		unreadable(b, d.reason)
	}
	for name, raw := range entries {
		if b.RoleBindings == nil {
			b.RoleBindings = map[string]policy.PolicyRoleBinding{}
		}
		if strings.ContainsRune(name, 0) {
			unreadable(b, d.reason)
			continue
		}
		b.RoleBindings[name] = salvageBinding(raw, d)
	}
}

func salvageBinding(raw json.RawMessage, d damage) policy.PolicyRoleBinding {
	var out policy.PolicyRoleBinding
	var fields parts
	object := string(raw) != "null" && json.Unmarshal(raw, &fields) == nil
	_ = fields.one("metadata", &out.ObjectMeta)
	// If the role is unknown, it may deny anything: then everything is denied to its subjects.
	named := object && fields.one("roleName", &out.RoleName) && out.RoleName != ""
	// A role of another kind, or an instant that cannot be read, is not understood.
	clear := fields.one("spellings", &out.Spellings) && fields.one("roleRef", &out.RoleRef) && fields.one("notBefore", &out.NotBefore) && fields.one("notAfter", &out.NotAfter) && named
	strange := roleBindingShape().strangers(raw, ".roleBindings[]", d.harmless)
	subjects := object && fields.one("userNames", &out.UserNames) && fields.one("groupNames", &out.GroupNames) && !mayNameSubjects(fields, strange)
	if !subjects {
		out.UserNames, out.GroupNames = nil, []string{user.AllAuthenticated, user.AllUnauthenticated}
	}
	if d.whole || !clear || !subjects || len(strange) > 0 {
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[policy.AnnotationQuarantined] = d.reason
		delete(out.Annotations, policy.AnnotationUnreadable)
		switch {
		case !named:
			out.Annotations[policy.AnnotationUnreadable] = policy.UnreadableRole
		case !subjects:
			out.Annotations[policy.AnnotationUnreadable] = policy.UnreadableSubjects
		}
	}
	return out
}

// mayNameSubjects reports whether unknown fields may say whom a binding binds: it has no list of subjects, or one of
// the two lists is missing and something else holds several values.
func mayNameSubjects(fields parts, strange []stranger) bool {
	users, groups := len(fields["userNames"]) > 0, len(fields["groupNames"]) > 0
	switch {
	case len(strange) == 0 || users && groups:
		return false
	case !users && !groups:
		return true
	}
	return slices.ContainsFunc(strange, stranger.holdsSeveral)
}
