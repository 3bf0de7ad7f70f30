package shadowrule

import (
	"fmt"
	"hash/fnv"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// Kind is the kind of an object that is not enforced.
type Kind string

// The kinds.
const (
	Role                      Kind = "Role"
	ProtectedAttribute        Kind = "ProtectedAttribute"
	ClusterProtectedAttribute Kind = "ClusterProtectedAttribute"
	FieldPermission           Kind = "FieldPermission"
)

// ID identifies a rule: the object that has it, and its position in a role.
type ID struct {
	Kind            Kind
	Namespace, Name string
	Index           int
}

// String returns the ID as it appears in audit events: role.hammer.dev-volumes.0.
func (id ID) String() string {
	parts := []string{strings.ToLower(string(id.Kind))}
	if id.Namespace != "" {
		parts = append(parts, id.Namespace)
	}
	return strings.Join(append(parts, id.local()), ".")
}

// Object returns the name under which the rule is served, in its namespace.
func (id ID) Object() string { return strings.ToLower(string(id.Kind)) + "." + id.local() }

func (id ID) local() string {
	if id.Kind == Role {
		return fmt.Sprintf("%s.%d", id.Name, id.Index)
	}
	return id.Name
}

// Rule is a rule that is not enforced.
type Rule struct {
	ID
	Enforcement policyv1alpha1.Enforcement
	// Denies is true if it takes rights away; otherwise it gives rights.
	Denies bool
	// Hides is true if it hides a field from readers.
	Hides       bool
	Description string
	// Text is a hash of its content, which shows whether it is still the same rule.
	Text uint64
}

// OfRole returns the shadow rule for a rule of a Policy role.
func OfRole(ref ruleset.RoleRef, index int, rule *policyv1alpha1.PolicyRule) Rule {
	return Rule{
		ID: ID{Role, ref.Namespace, ref.Name, index}, Enforcement: rule.Enforcement, Denies: rule.Deny, Description: rule.Description, Text: textOf(rule),
	}
}

// OfHit returns the rule that was found for a request, without its content: see Recorder.Keep.
func OfHit(hit ruleset.Hit) Rule {
	rule := hit.PolicyRule()
	return Rule{ID: ID{Role, hit.Role().Namespace, hit.Role().Name, hit.RuleIndex()}, Enforcement: rule.Enforcement, Denies: rule.Deny, Description: rule.Description}
}

// OfAttribute returns the shadow rule for a protected attribute of a namespace.
func OfAttribute(a *policyv1alpha1.ProtectedAttribute) Rule {
	return Rule{
		ID: ID{Kind: ProtectedAttribute, Namespace: a.Namespace, Name: a.Name}, Enforcement: a.Enforcement, Denies: true,
		Description: attribute(a.AttributeKind, a.AttributeName), Text: textOf([]any{a.UID, a.RoleRef, a.ProtectedValues, a.Scope, a.Enforcement}),
	}
}

// OfClusterAttribute returns the shadow rule for a protected attribute of the cluster.
func OfClusterAttribute(a *policyv1alpha1.ClusterProtectedAttribute) Rule {
	return Rule{
		ID: ID{Kind: ClusterProtectedAttribute, Name: a.Name}, Enforcement: a.Enforcement, Denies: true,
		Description: attribute(a.AttributeKind, a.AttributeName), Text: textOf([]any{a.UID, a.RoleRef, a.ProtectedValues, a.Scope, a.Enforcement}),
	}
}

// OfField returns the shadow rule for a field permission.
func OfField(p *policyv1alpha1.FieldPermission) Rule {
	return Rule{
		ID: ID{Kind: FieldPermission, Name: p.Name}, Enforcement: p.Spec.Enforcement, Denies: p.Spec.Exclusive || p.Spec.ReadExclusive, Hides: p.Spec.ReadExclusive,
		Description: p.Spec.Permission + " of " + p.Spec.Field, Text: textOf([]any{p.UID, p.Spec}),
	}
}

func attribute(kind policyv1alpha1.AttributeKind, name string) string {
	return strings.ToLower(string(kind)) + " " + name
}

func textOf(v any) uint64 {
	h := fnv.New64a()
	if data, err := json.Marshal(v); err == nil {
		_, _ = h.Write(data)
	}
	return h.Sum64()
}

// Describe names the rule for people.
func (r Rule) Describe() string {
	switch r.Kind {
	case Role:
		return fmt.Sprintf("rule %d of role %q in namespace %q", r.Index, r.Name, r.Namespace)
	case ProtectedAttribute:
		return fmt.Sprintf("%s %q in namespace %q", r.Kind, r.Name, r.Namespace)
	}
	return fmt.Sprintf("%s %q", r.Kind, r.Name)
}
