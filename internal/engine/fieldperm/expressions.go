package fieldperm

import "context"

// Expressions compiles the CEL of declarations. It is injected, so this package needs no CEL environment.
type Expressions interface {
	// When compiles an exclusiveWhen.
	When(expression string) (When, error)
	// Parameter compiles a parameter's from.
	Parameter(expression string) (Parameterizer, error)
}

// When is a compiled exclusiveWhen.
type When interface {
	// Holds reports whether the field is exclusive for this change. An error counts as yes. It ends with the request.
	Holds(ctx context.Context, change Change) (bool, error)
}

// Change is what an exclusiveWhen is about. Values are decoded JSON; nil stands for a missing field.
type Change struct {
	// Key of the nearest map entry or list element, empty if the field is in none.
	Key string
	// Self is the new value, OldSelf the stored one.
	Self, OldSelf any
}

// Parameterizer is a compiled parameter.
type Parameterizer interface {
	// Parameter computes the text from one version of the field: the key of the nearest map entry or list element, the
	// field's value, and the nearest list element. An error means that the permission does not cover the field.
	Parameter(ctx context.Context, key string, value, element any) (string, error)
}
