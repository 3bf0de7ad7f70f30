package ruleset

import (
	"cmp"
	"fmt"
	"strings"
)

// RoleKind is one of the three kinds of roles. The zero value is a role that can never exist.
type RoleKind uint8

// The kinds of roles.
const (
	// PolicyRole is a role of authorization.proviso.dev, an entry of a Policy.
	PolicyRole RoleKind = iota + 1
	// Role is a role of rbac.authorization.k8s.io.
	Role
	// ClusterRole is a cluster role of rbac.authorization.k8s.io.
	ClusterRole
)

// RoleRef names a role.
type RoleRef struct {
	Kind      RoleKind
	Namespace string
	Name      string
}

// denials is the suffix of the name of a Policy role's twin, which has only its deny rules. No name in the API can end
// like this. A quarantined binding is bound to the twin: it grants nothing but still denies (SV-8).
const denials = "\x00denials"

// twin names the deny rules of the role.
func (r RoleRef) twin() RoleRef {
	r.Name += denials
	return r
}

// softDenials is the suffix of another twin, which has the deny rules without conditions and yields to cluster-wide
// grants: a binding whose subjects cannot be read binds all users to it.
const softDenials = "\x00denials to whom"

func (r RoleRef) softTwin() RoleRef {
	r.Name += softDenials
	return r
}

func (r RoleRef) isSoft() bool { return strings.HasSuffix(r.Name, softDenials) }

// plain returns the role itself, whether r names it or one of its twins.
func (r RoleRef) plain() RoleRef {
	r.Name = strings.TrimSuffix(strings.TrimSuffix(r.Name, denials), softDenials)
	return r
}

// String returns how reasons and errors name the role: Role "hammer/dev", ClusterRole "view".
func (r RoleRef) String() string {
	r = r.plain()
	switch r.Kind {
	case ClusterRole:
		return fmt.Sprintf("ClusterRole %q", r.Name)
	case PolicyRole, Role:
		return fmt.Sprintf("Role %q", r.Namespace+"/"+r.Name)
	}
	return fmt.Sprintf("role %q", r.Name)
}

func (r RoleRef) compare(o RoleRef) int {
	return cmp.Or(cmp.Compare(r.Kind, o.Kind), strings.Compare(r.Namespace, o.Namespace), strings.Compare(r.Name, o.Name))
}

// BindingKind is one of the three kinds of bindings.
type BindingKind uint8

// The kinds of bindings.
const (
	// PolicyRoleBinding is a role binding of authorization.proviso.dev, an entry of a PolicyBinding.
	PolicyRoleBinding BindingKind = iota + 1
	// RoleBinding is a role binding of rbac.authorization.k8s.io.
	RoleBinding
	// ClusterRoleBinding is a cluster role binding of rbac.authorization.k8s.io.
	ClusterRoleBinding
)

// BindingRef names a binding.
type BindingRef struct {
	Kind      BindingKind
	Namespace string
	// Container is the name of the PolicyBinding that holds the entry; empty for RBAC.
	Container string
	Name      string
}

// String returns how reasons and errors name the binding: RoleBinding "hammer/volumes".
func (b BindingRef) String() string {
	if b.Kind == ClusterRoleBinding {
		return fmt.Sprintf("ClusterRoleBinding %q", b.Name)
	}
	return fmt.Sprintf("RoleBinding %q", b.Namespace+"/"+b.Name)
}

func (b BindingRef) compare(o BindingRef) int {
	return cmp.Or(cmp.Compare(b.Kind, o.Kind), strings.Compare(b.Namespace, o.Namespace),
		strings.Compare(b.Name, o.Name), strings.Compare(b.Container, o.Container))
}

// Subject is a user or a group; a service account counts as a user.
type Subject struct {
	Group bool
	Name  string
}

// String returns how reasons name the subject.
func (s Subject) String() string {
	if s.Group {
		return fmt.Sprintf("Group %q", s.Name)
	}
	return fmt.Sprintf("User %q", s.Name)
}

// Compare orders users before groups, each by name.
func (s Subject) Compare(o Subject) int {
	if s.Group != o.Group {
		if s.Group {
			return 1
		}
		return -1
	}
	return strings.Compare(s.Name, o.Name)
}

// Tier is an element of the chain that the index decides.
type Tier uint8

// The tiers, in the order of the chain.
const (
	// TierMaster is policy-master: the bindings of the master namespace, for every request.
	TierMaster Tier = iota + 1
	// TierNamespace is policy-namespace: the Policy bindings of the request's own namespace.
	TierNamespace
	// TierRBAC is RBAC, cluster role bindings before role bindings.
	TierRBAC
)

// Scope is where a binding applies.
type Scope uint8

// The scopes.
const (
	// ScopeMaster is Policy in the master namespace, which holds everywhere.
	ScopeMaster Scope = iota + 1
	// ScopePolicy is Policy in another namespace.
	ScopePolicy
	// ScopeCluster are cluster role bindings.
	ScopeCluster
	// ScopeRBAC are role bindings.
	ScopeRBAC
)

// scope is a place in which bindings apply: a kind and, for the namespaced ones, a namespace.
type scope struct {
	kind Scope
	ns   string
}
