package v1alpha1

// AnnotationQuarantined marks an object, or an entry of one, that was stored by a version of Proviso that knows more,
// or that cannot be read as what it claims to be. Its value says why. It is never stored: the server sets it when it
// reads the object, and refuses to write an object that has it, since writing would lose what it did not understand.
const AnnotationQuarantined = "policy.proviso.dev/quarantined"

// AnnotationUnreadable marks a container of which not even the entries can be read: it denies to its namespace (SV-8).
// It comes with AnnotationQuarantined, and is treated in the same way. On an entry of a container it says which part of
// the entry cannot be read.
const AnnotationUnreadable = "policy.proviso.dev/unreadable"

// The parts of a role binding that can be unreadable.
const (
	UnreadableRole     = "role"
	UnreadableSubjects = "subjects"
)

// UnreadableField is a field that no rule has. The server gives it to the rule that stands for what cannot be read:
// such a rule denies everything to whom it reaches, except what a cluster-wide grant allows.
const UnreadableField = "unreadable"

// QuarantinedField is another field that no rule has. The server gives it to a rule that it can read only in part, or
// that stands in something it does not understand: such a rule grants nothing, or denies without its condition.
const QuarantinedField = "quarantined"
