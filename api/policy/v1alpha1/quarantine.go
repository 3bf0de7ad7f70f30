package v1alpha1

// AnnotationQuarantined marks an object, or an entry of one, that was stored by a version of Proviso that knows more, or that
// cannot be read as what it claims to be. Its value says why. It is never stored: the server sets it when it reads the
// object, and refuses to write an object that has it, since writing would lose what it did not understand.
const AnnotationQuarantined = "policy.proviso.dev/quarantined"
