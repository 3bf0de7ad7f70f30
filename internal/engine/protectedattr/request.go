package protectedattr

import (
	"slices"

	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// Request is what a check needs to know in addition to the object.
type Request struct {
	// User and Groups are the caller's authenticated identity, after impersonation.
	User   string
	Groups []string
	// Group, Resource and Subresource are the request's own, Name is empty on a create with a generated name.
	Group, Resource, Subresource string
	Name                         string
	// Namespace of the resource being written; empty for a cluster-scoped one.
	Namespace string
	// Member reports whether the caller is bound, directly or through a group, to exactly this role: by a RoleBinding
	// in namespace or by a ClusterRoleBinding, and by a ClusterRoleBinding alone if namespace is empty (PA-3). It is
	// never asked about a role that cannot be bound, and never for members of system:masters. A nil Member has no
	// members.
	Member func(namespace string, role Role) bool
	// Kinds resolves names of resources. If it is nil, every name may mean every resource.
	Kinds *matching.Kinds
	// Everywhere reports whether the request is granted for the whole cluster. Unreadable protections yield to that.
	// Nil means that it is not.
	Everywhere func() bool
}

// scope returns the namespace whose protections apply. A Namespace object does not belong to itself, although
// Kubernetes gives its requests a namespace.
func (r *Request) scope() string {
	if r.Group == "" && r.Resource == "namespaces" {
		return ""
	}
	return r.Namespace
}

// omnipotent reports whether the caller is a member of every role, existing or future.
func (r *Request) omnipotent() bool { return slices.Contains(r.Groups, mastersGroup) }

func (r *Request) member(p *protection) bool {
	if p.unreadable {
		return r.Everywhere != nil && r.Everywhere()
	}
	return p.role.resolvable() && r.Member != nil && r.Member(r.scope(), p.role)
}
