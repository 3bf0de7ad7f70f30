package v1alpha1

// Enforcement says whether a rule decides, or only shows what it would decide.
// +enum
type Enforcement string

const (
	// EnforcementEnforce lets the rule decide. It is what leaving enforcement out means.
	EnforcementEnforce Enforcement = "Enforce"
	// EnforcementWarn records what the rule would change, and warns the caller.
	EnforcementWarn Enforcement = "Warn"
	// EnforcementShadow records what the rule would change.
	EnforcementShadow Enforcement = "Shadow"
)

// Enforcements are those that there are.
func Enforcements() []Enforcement {
	return []Enforcement{EnforcementEnforce, EnforcementWarn, EnforcementShadow}
}

// Shadowed tells that the rule decides nothing. A value that is not known is not one of these: what cannot be
// understood fails closed.
func (e Enforcement) Shadowed() bool { return e == EnforcementWarn || e == EnforcementShadow }

// Known reports whether the value can be understood.
func (e Enforcement) Known() bool { return e == "" || e == EnforcementEnforce || e.Shadowed() }

// Shadowed tells that the rule decides nothing. A rule that is not understood as a whole is not one of these: it is
// quarantined.
func (r *PolicyRule) Shadowed() bool {
	return r.Enforcement.Shadowed() && len(r.Unrecognized) == 0 && (r.AttributeRestrictions == nil || len(r.AttributeRestrictions.Unrecognized) == 0)
}

// Shadowed tells that the attribute is not protected. An object that is not understood as a whole is.
func (a *ProtectedAttribute) Shadowed() bool {
	return a.Enforcement.Shadowed() && a.Annotations[AnnotationQuarantined] == ""
}

// Shadowed tells that the attribute is not protected. An object that is not understood as a whole is.
func (a *ClusterProtectedAttribute) Shadowed() bool {
	return a.Enforcement.Shadowed() && a.Annotations[AnnotationQuarantined] == ""
}

// Shadowed tells that the declaration guards and covers nothing. An object that is not understood as a whole does.
func (p *FieldPermission) Shadowed() bool {
	return p.Spec.Enforcement.Shadowed() && p.Annotations[AnnotationQuarantined] == ""
}
