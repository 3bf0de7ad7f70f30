package protectedattr

// Kinds of role that a protection can name.
const (
	KindRole        = "Role"
	KindClusterRole = "ClusterRole"
)

// mastersGroup is a member of every role, so that no protection can lock out the last administrator.
const mastersGroup = "system:masters"

// Role names an RBAC Role or ClusterRole. It is comparable, so that an index of memberships can be keyed by it.
type Role struct {
	// Kind is Role or ClusterRole.
	Kind string
	// Namespace is set for a Role only.
	Namespace string
	// Name of the role.
	Name string
}

// String is how refusals name a role: ClusterRole "release-managers".
func (r Role) String() string { return r.Kind + " " + quote(r.Name) }

// resolvable reports whether any binding could ever name this role. A protection with another kind of reference still
// protects; it just has no members.
func (r Role) resolvable() bool {
	switch r.Kind {
	case KindClusterRole:
		return r.Name != "" && r.Namespace == ""
	case KindRole:
		return r.Name != "" && r.Namespace != ""
	}
	return false
}
