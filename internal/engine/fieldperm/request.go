package fieldperm

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Mode says which right brought a caller this far.
type Mode uint8

const (
	// Granular callers do not have the general verb: every changed field must be covered.
	Granular Mode = iota
	// General callers have the general verb: only exclusive fields are checked.
	General
)

// Request is one write to decide.
type Request struct {
	// Context is the request's: once it ends, expressions are no longer evaluated. Nil means that it never ends.
	Context context.Context
	Target  Target
	Mode    Mode
	// Objects returns the stored object, nil on create, and the final, mutated one. It is called only if there is
	// something to compare. Both are of the same type, in the version that Target names, whatever version the request
	// uses (FP-10); see Schemas.
	Objects func() (old, new *typed.TypedValue, err error)
	// Managers returns the managedFields of both objects on an update; nil if there are no managers.
	Managers func() (old, new []metav1.ManagedFieldsEntry)
	// Versioned returns both objects in another version, by its apiVersion, in which a manager has its fields. An error
	// means that there is no such version. May be nil if every manager uses the version of Objects.
	Versioned func(apiVersion string) (old, new *typed.TypedValue, err error)
	// Hidden is set if the body does not show what the request writes: every exclusive field counts. Objects is not
	// used.
	Hidden bool
	// Claimed is set if the request changes who manages the scale field, which a Scale does not show.
	Claimed bool
	// Reset holds the fields that the endpoint itself sets, whatever the caller sends, such as .status of the main
	// resource: they do not count as the caller's change. May be nil.
	Reset *fieldpath.Set
	// Default applies defaulting to a decoded object, which it may change, on create. Without it no field counts as a
	// default.
	Default func(map[string]interface{}) (map[string]interface{}, error)
	// Check asks the whole authorizer chain about the request with only its verb replaced; a conditional answer has
	// been evaluated. An error counts as no.
	Check func(verb string) (allowed bool, err error)
}

// MaxChecks is the number of verbs that one request may need.
const MaxChecks = 32

// Result is what a check found. The zero value refuses.
type Result struct {
	allowed bool
	// Checks are the verbs that were asked about, in order.
	Checks []Check
	// Missing is the first field that no held permission covers, if that is why the request is refused.
	Missing *Missing
	// TooMany is set if the request would have needed more than MaxChecks.
	TooMany bool
	// Err is set if the objects could not be compared; the request is refused. It is for the log, not for the caller.
	Err error
}

// Check is a verb that was asked about.
type Check struct {
	Verb    string
	Allowed bool
	// Err is set if the answer is an error, which counts as no.
	Err error
}

// Missing is a field that the caller may not change.
type Missing struct {
	// Field as in .metadata.labels[other.com/x].
	Field string
	// Permission is the most specific one that would cover it: granular:label(other.com). Empty if there is none.
	Permission string
	// Alternatives would cover it too, from specific to general.
	Alternatives []string
	// Note says why no permission covers it.
	Note string
	// Manager is set if only the manager of the field would change: "flux" (Apply).
	Manager string
}

// Allowed reports whether field permissions allow the write.
func (r Result) Allowed() bool { return r.allowed }

// Reason is the message for the caller; empty if allowed.
func (r Result) Reason() string {
	switch {
	case r.allowed:
		return ""
	case r.TooMany:
		return tooManyReason
	case r.Missing != nil:
		return r.Missing.String()
	case r.Err != nil:
		return "field permissions could not be examined"
	}
	return "field permissions were not examined"
}
