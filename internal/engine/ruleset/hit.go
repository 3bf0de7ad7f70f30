package ruleset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// Hit is a rule that applies to a request, and how the caller got it: subject, binding, role, rule.
type Hit struct {
	rule *matching.Rule
	role *role
	// grant and who are how a decision found the rule. They are read only on demand: a decision does not wait for
	// memory that it does not need.
	grant *roleGrant
	who   *subject
	// via is set instead where every binding counts.
	via         *via
	nameUnknown bool
	byDelete    bool
}

// via is one binding of one subject.
type via struct {
	binding *binding
	subject Subject
}

// Found reports whether there is a rule at all. The other methods need one.
func (h Hit) Found() bool { return h.rule != nil }

// Yields reports whether the rule denies only because something cannot be read: then cluster-wide grants override it,
// whichever tier it is in.
func (h Hit) Yields() bool { return h.rule != nil && h.rule.Soft }

// Effect reports whether the rule allows or denies.
func (h Hit) Effect() Effect {
	if h.rule.Deny {
		return Denies
	}
	return Allows
}

// Role returns the role that has the rule.
func (h Hit) Role() RoleRef { return h.role.Ref.plain() }

// RuleIndex returns the position of the rule in the role.
func (h Hit) RuleIndex() int { return h.rule.Index }

// Binding returns the binding that grants the role.
func (h Hit) Binding() BindingRef { return h.bound().ref }

func (h Hit) bound() *binding {
	if h.via != nil {
		return h.via.binding
	}
	return h.grant.bindings.first
}

// Subject returns the user or group of the request that the binding names.
func (h Hit) Subject() Subject {
	if h.via != nil {
		return h.via.subject
	}
	return h.who.key
}

// Condition returns the rule's compiled condition; nil if it has none. A quarantined deny rule has none either.
func (h Hit) Condition() matching.Condition { return h.rule.Cond }

// Aims returns the connections on which the where of the rule is about the target.
func (h Hit) Aims() connect.Set { return h.rule.Aims }

// Names is set if the rule denies only objects of these names and the request does not name an object, as for create,
// list, watch and deletecollection. Then it is part of the condition: the rule denies if the object's name is one of
// them. A caller that cannot check that has to deny.
func (h Hit) Names() []string {
	if !h.nameUnknown {
		return nil
	}
	return h.rule.Names
}

// ByDelete reports whether the request is an eviction and the rule denies the delete that it causes. Then its condition
// is about the pod, and about the request to delete it.
func (h Hit) ByDelete() bool { return h.byDelete }

// PolicyRule returns the rule as written, or nil for a rule of RBAC. It must not be changed.
func (h Hit) PolicyRule() *policyv1alpha1.PolicyRule {
	if h.role.Policy == nil {
		return nil
	}
	return &h.role.Policy[h.rule.Index]
}

// RBACRule returns the rule as written, or nil for a rule of Policy. It must not be changed.
func (h Hit) RBACRule() *rbacv1.PolicyRule {
	if h.role.RBAC == nil {
		return nil
	}
	return &h.role.RBAC[h.rule.Index]
}

// Reason returns, in upstream's words, which binding of which role to which subject decided, such as `allowed by
// ClusterRoleBinding "admins" of ClusterRole "cluster-admin" to Group "ops"`. It is empty without a rule.
func (h Hit) Reason() string {
	if !h.Found() {
		return ""
	}
	b := h.bound()
	subject, key := h.Subject(), h.rule
	if h.rule.RBAC {
		key = nil
	}
	if r := b.reason.Load(); r != nil && r.subject == subject && r.rule == key {
		return r.text
	}
	r := &reason{subject, key, h.word()}
	b.reason.Store(r)
	return r.text
}

// word builds the text of the reason.
func (h Hit) word() string {
	verb := "allowed"
	if h.rule.Deny {
		verb = "denied"
	}
	if h.rule.RBAC {
		by := "RBAC: "
		if h.bound().ref.Kind == PolicyRoleBinding {
			by = "Policy: "
		}
		return by + verb + " by " + h.source()
	}
	if _, unreadable := h.PolicyRule().Unrecognized[policyv1alpha1.UnreadableField]; unreadable {
		return "Policy: denied, since " + h.PolicyRule().Description
	}
	text := fmt.Sprintf("Policy: %s by %s, rule %d", verb, h.source(), h.rule.Index)
	if d := h.PolicyRule().Description; d != "" {
		text += ": " + d
	}
	return text
}

// source returns the binding, role and subject in upstream's words for RBAC: name/namespace.
func (h Hit) source() string {
	b := h.bound()
	to := h.entry()
	switch {
	case b.ref.Kind == ClusterRoleBinding:
		return fmt.Sprintf("%s of ClusterRole %q to %s", b.ref, b.named.Name, to.describe())
	case b.ref.Kind == RoleBinding:
		kind := "Role"
		if b.named.Kind == ClusterRole {
			kind = "ClusterRole"
		}
		return fmt.Sprintf("RoleBinding %q of %s %q to %s", b.ref.Name+"/"+b.ref.Namespace, kind, b.named.Name, to.describe())
	}
	return fmt.Sprintf("%s of %s to %s", b.ref, *b.named, to.describe())
}

// maxDescribed is how many entries of a list a description shows.
const maxDescribed = 8

// Describe describes the rule in one line, for blockedBy and traces: what it matches, not who has it.
func (h Hit) Describe() string {
	parts := []string{"allow"}
	if h.rule.Deny {
		parts[0] = "deny"
	}
	add := func(label string, list []string) {
		switch more := len(list) - maxDescribed; {
		case more > 1:
			parts = append(parts, label+" "+strings.Join(list[:maxDescribed], ",")+fmt.Sprintf(" and %d more", more))
		case len(list) > 0:
			parts = append(parts, label+" "+strings.Join(list, ","))
		}
	}
	if r := h.PolicyRule(); r != nil {
		add("verbs", r.Verbs)
		add("of", r.ResourceKinds)
		add("in groups", groupNames(r.APIGroups))
		add("named", r.ResourceNames)
		add("at", r.NonResourceURLs)
		if r.Description != "" {
			parts = append(parts, "("+r.Description+")")
		}
	} else if r := h.RBACRule(); r != nil {
		add("verbs", r.Verbs)
		add("of", r.Resources)
		add("in groups", groupNames(r.APIGroups))
		add("named", r.ResourceNames)
		add("at", r.NonResourceURLs)
	}
	return strings.Join(parts, " ")
}

// groupNames returns groups by the names that people use: the empty one is core.
func groupNames(groups []string) []string {
	i := slices.Index(groups, "")
	if i < 0 {
		return groups
	}
	named := slices.Clone(groups)
	named[i] = "core"
	return named
}

// Compare orders hits by binding, role and rule.
func (h Hit) Compare(o Hit) int {
	return cmp.Or(h.Binding().compare(o.Binding()), h.Role().compare(o.Role()), cmp.Compare(h.RuleIndex(), o.RuleIndex()))
}
