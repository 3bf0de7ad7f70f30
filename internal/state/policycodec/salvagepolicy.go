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

// everything is what a list of verbs, kinds or URLs covers when it cannot be read and must not cover too little.
const everything = "*"

// salvagePolicy reads the roles of a policy one by one. Those that this version understands stay as they are, unless
// the whole object is of another version.
func salvagePolicy(p *policy.Policy, top parts, reason string, whole bool) {
	_ = top.one("lastModified", &p.LastModified)
	var roles map[string]json.RawMessage
	readable := top.one("roles", &roles)
	// Of another version nobody knows where it keeps what it denies.
	if !readable || whole || repeated(top, "roles") != "" {
		unreadable(p, reason)
	}
	whole = whole || top.beyond(policyKeys...) != ""
	for name, raw := range roles {
		if p.Roles == nil {
			p.Roles = map[string]policy.PolicyRole{}
		}
		if strings.ContainsRune(name, 0) { // such names mean something to the index
			unreadable(p, reason)
			continue
		}
		p.Roles[name] = salvageRole(name, raw, reason, whole)
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

func salvageRole(name string, raw json.RawMessage, reason string, whole bool) policy.PolicyRole {
	var out policy.PolicyRole
	var fields parts
	denied := ruleset.Unreadable(fmt.Sprintf("role %q cannot be read: %s", name, reason))
	if json.Unmarshal(raw, &fields) != nil {
		out.Rules = []policy.PolicyRule{denied}
		return out
	}
	_ = fields.one("metadata", &out.ObjectMeta)
	bad := whole || fields.beyond(roleKeys...) != ""
	// Of a list that is given twice, every rule counts: an allow rule grants nothing here anyway.
	for _, values := range fields["rules"] {
		var rules []json.RawMessage
		if json.Unmarshal(values, &rules) != nil {
			out.Rules = append(out.Rules, denied)
			continue
		}
		for _, rule := range rules {
			salvaged, readable := salvageRule(rule, reason, bad)
			if !readable {
				salvaged = denied
			}
			out.Rules = append(out.Rules, salvaged)
		}
	}
	return out
}

// salvageRule reads one rule. One that is not understood carries a field that no rule has, which quarantines it
// wherever it is compiled: it grants nothing, or denies without a condition. What of a deny rule's extent cannot be
// read is everything. It is false for something of which is not even clear whether it denies.
func salvageRule(raw json.RawMessage, reason string, bad bool) (policy.PolicyRule, bool) {
	var rule policy.PolicyRule
	if err := json.Unmarshal(raw, &rule); err == nil && string(raw) != "null" {
		_, claimed := rule.Unrecognized[policy.UnreadableField]
		delete(rule.Unrecognized, policy.UnreadableField) // only the server says that
		if bad || claimed {
			quarantineRule(&rule, reason)
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
	quarantineRule(&rule, reason)
	return rule, true
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

// salvageBindings reads role bindings one by one. One that is not understood is marked, so that only the deny rules of
// its role hold; if it is not even clear for whom, they hold for everybody.
func salvageBindings(b *policy.PolicyBinding, top parts, reason string, whole bool) {
	_ = top.one("lastModified", &b.LastModified)
	var entries map[string]json.RawMessage
	readable := top.one("roleBindings", &entries)
	if !readable || whole || repeated(top, "roleBindings") != "" || !top.one("policyRef", &b.PolicyRef) {
		unreadable(b, reason)
	}
	whole = whole || top.beyond(policyBindingKeys...) != "" || !top.one("policyRef", &b.PolicyRef)
	for name, raw := range entries {
		if b.RoleBindings == nil {
			b.RoleBindings = map[string]policy.PolicyRoleBinding{}
		}
		if strings.ContainsRune(name, 0) {
			unreadable(b, reason)
			continue
		}
		b.RoleBindings[name] = salvageBinding(raw, reason, whole)
	}
}

func salvageBinding(raw json.RawMessage, reason string, whole bool) policy.PolicyRoleBinding {
	var out policy.PolicyRoleBinding
	var fields parts
	clear := json.Unmarshal(raw, &fields) == nil && string(raw) != "null"
	_ = fields.one("metadata", &out.ObjectMeta)
	// Whichever role it is, it may deny: then everything is denied to its subjects.
	named := clear && fields.one("roleName", &out.RoleName) && out.RoleName != ""
	clear = named && clear
	if !clear && fields == nil {
		out.GroupNames = []string{user.AllAuthenticated, user.AllUnauthenticated}
	}
	clear = fields.one("spellings", &out.Spellings) && clear
	subjects := true
	if !fields.one("userNames", &out.UserNames) || !fields.one("groupNames", &out.GroupNames) {
		out.UserNames, out.GroupNames = nil, []string{user.AllAuthenticated, user.AllUnauthenticated}
		clear, subjects = false, false
	}
	if whole || !clear || fields.beyond(roleBindingKeys...) != "" {
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[policy.AnnotationQuarantined] = reason
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
