package protectedattr

// Kinds of role that a protection can name.
const (
	KindRole        = "Role"
	KindClusterRole = "ClusterRole"
	// KindPolicyRole is a role of Policy.
	KindPolicyRole = "Policy role"
)

// mastersGroup is a member of every role, so no protection can lock out the last administrator.
const mastersGroup = "system:masters"

// Role names a Role or ClusterRole of RBAC, or a role of Policy. It is comparable: an index of memberships can be keyed
// by it.
type Role struct {
	// Kind is one of the above.
	Kind string
	// Namespace is empty for a ClusterRole.
	Namespace string
	// Name of the role.
	Name string
}

// String returns how refusals name a role: ClusterRole "release-managers", Policy role "master/keepers".
func (r Role) String() string {
	if r.Kind == KindPolicyRole {
		return r.Kind + " " + quote(r.Namespace+"/"+r.Name)
	}
	return r.Kind + " " + quote(r.Name)
}

// resolvable reports whether any binding could ever name this role. A protection with another kind of reference still
// protects; it only has no members.
func (r Role) resolvable() bool {
	switch r.Kind {
	case KindClusterRole:
		return r.Name != "" && r.Namespace == ""
	case KindRole, KindPolicyRole:
		return r.Name != "" && r.Namespace != ""
	}
	return false
}
