package ruleset

import (
	"errors"
	"fmt"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// Limits bound what one role, and the roles of one namespace, may cost all users (PO-21). They count and do not measure
// time, so every replica quarantines the same. 0 means no limit.
type Limits struct {
	// RoleRules, RoleEntries, RoleBytes and RoleConditions are the maximum numbers of rules, entries of all lists
	// (verbs, kinds, groups, names, paths), bytes of text and conditional rules of one role.
	RoleRules, RoleEntries, RoleBytes, RoleConditions int
	// NamespaceConditions and NamespaceConditionBytes are the maximum numbers of conditional rules and bytes of
	// expressions of all roles of a namespace. The master namespace, whose roles apply to all users, may have
	// MasterFactor times as much.
	NamespaceConditions, NamespaceConditionBytes int
	MasterFactor                                 int
}

// DefaultLimits returns the limits of a server.
func DefaultLimits() Limits {
	return Limits{
		RoleRules: 1000, RoleEntries: 4000, RoleBytes: 256 << 10, RoleConditions: 128,
		NamespaceConditions: 1000, NamespaceConditionBytes: 256 << 10, MasterFactor: 4,
	}
}

// ErrLimit is wrapped by every error about an exceeded limit.
var ErrLimit = errors.New("over the limit")

// Role returns which limit the size of a role exceeds; nil if none. Such a role is quarantined: it grants nothing, and
// denies without conditions.
func (l Limits) Role(rules []policyv1alpha1.PolicyRule) error {
	if l.RoleRules > 0 && len(rules) > l.RoleRules {
		return fmt.Errorf("%w: the role has %d rules, the limit is %d; split it into several roles", ErrLimit, len(rules), l.RoleRules)
	}
	bytes, entries := 0, 0
	for i := range rules {
		bytes += ruleBytes(&rules[i])
		entries += ruleEntries(&rules[i])
	}
	if l.RoleEntries > 0 && entries > l.RoleEntries {
		return fmt.Errorf("%w: the rules of the role name %d verbs, kinds, groups, names and paths, the limit is %d; split it into several roles",
			ErrLimit, entries, l.RoleEntries)
	}
	if l.RoleBytes > 0 && bytes > l.RoleBytes {
		return fmt.Errorf("%w: the rules of the role take %d bytes, the limit is %d; split it into several roles", ErrLimit, bytes, l.RoleBytes)
	}
	return nil
}

// Conditions returns an error if a role has too many conditional rules. Those are quarantined; its other rules take
// effect.
func (l Limits) Conditions(rules []policyv1alpha1.PolicyRule) error {
	n := 0
	for i := range rules {
		if HasCondition(&rules[i]) {
			n++
		}
	}
	if l.RoleConditions > 0 && n > l.RoleConditions {
		return fmt.Errorf("%w: the role has %d rules with conditions, the limit is %d; join conditions, or split it into several roles", ErrLimit, n, l.RoleConditions)
	}
	return nil
}

// Policy returns which limit the conditional rules of a namespace together exceed; nil if none. Then they are
// quarantined, and the other rules take effect.
func (l Limits) Policy(p *policyv1alpha1.Policy, master string) error {
	return l.policy(p, master, Written)
}

// policy is Policy for a part of the rules.
func (l Limits) policy(p *policyv1alpha1.Policy, master string, part Part) error {
	factor := 1
	if p.Namespace == master {
		factor = max(1, l.MasterFactor)
	}
	n, bytes := 0, 0
	for name := range p.Roles {
		rules := p.Roles[name].Rules
		for i := range rules {
			if HasCondition(&rules[i]) && part.has(&rules[i]) {
				n++
				bytes += len(rules[i].Where) + len(rules[i].When)
			}
		}
	}
	if limit := l.NamespaceConditions * factor; limit > 0 && n > limit {
		return fmt.Errorf("%w: the roles of namespace %q have %d rules with conditions, the limit is %d; join conditions, or bind roles of the master namespace",
			ErrLimit, p.Namespace, n, limit)
	}
	if limit := l.NamespaceConditionBytes * factor; limit > 0 && bytes > limit {
		return fmt.Errorf("%w: the conditions of all roles of namespace %q take %d bytes, the limit is %d; shorten them, or bind roles of the master namespace",
			ErrLimit, p.Namespace, bytes, limit)
	}
	return nil
}

func ruleEntries(r *policyv1alpha1.PolicyRule) int {
	n := len(r.Verbs) + len(r.APIGroups) + len(r.ResourceKinds) + len(r.ResourceNames) + len(r.NonResourceURLs)
	if a := r.AttributeRestrictions; a != nil {
		n += len(a.FieldsMutable) + len(a.LabelsContain)
	}
	return n
}

func ruleBytes(r *policyv1alpha1.PolicyRule) int {
	n := len(r.Where) + len(r.When) + len(r.Description) + len(r.APIVersion)
	for _, list := range [][]string{r.Verbs, r.APIGroups, r.ResourceKinds, r.ResourceNames, r.NonResourceURLs} {
		n += listBytes(list)
	}
	if a := r.AttributeRestrictions; a != nil {
		n += listBytes(a.FieldsMutable) + listBytes(a.LabelsContain)
	}
	return n
}

// listBytes adds a little for each entry: a hundred thousand empty ones are not free.
func listBytes(list []string) int {
	n := 4 * len(list)
	for _, s := range list {
		n += len(s)
	}
	return n
}
