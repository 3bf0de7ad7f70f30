package expr

// Effect says what a condition does when it holds. How a condition is decided
// depends on it, because an error is harmless for one effect and decisive for
// another (CA-2, CA-12).
//
// The zero value is Deny, the effect under which the least is simplified away.
type Effect uint8

const (
	// Deny refuses the request when the condition holds; a failing Deny is an
	// error that the caller's failure mode turns into Deny (the default) or
	// NoOpinion.
	Deny Effect = iota
	// NoOpinion ends the evaluation of its set without an answer when the
	// condition holds or fails.
	NoOpinion
	// Allow permits the request when the condition holds; a failing Allow is
	// ignored, so "false" and "fails" are the same for it.
	Allow
)

// String returns the spelling used in reviews.
func (e Effect) String() string {
	switch e {
	case Allow:
		return "Allow"
	case NoOpinion:
		return "NoOpinion"
	default:
		return "Deny"
	}
}
