package offline

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/apis/policyreview"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
)

// Answer is what is known about a request without its object. The zero value refuses.
type Answer uint8

// The answers.
const (
	// Refused: nothing allows it.
	Refused Answer = iota
	// Denied: a rule forbids it.
	Denied
	// Depends: the object decides, or the fields that it changes.
	Depends
	// Allowed: whatever the object is.
	Allowed
)

// Decide returns the answer to a request. It also asks about everything that the request needs in addition to its own
// verb.
func (h *Host) Decide(ctx context.Context, attrs authorizer.Attributes) Answer {
	answer := h.decide(ctx, attrs)
	if answer < Depends {
		return answer
	}
	if also := h.kernel.Gate.AlsoNeeds(attrs); also != "" {
		return min(answer, h.decide(ctx, authorize.WithVerb(attrs, also)))
	}
	return answer
}

func (h *Host) decide(ctx context.Context, attrs authorizer.Attributes) Answer {
	switch h.kernel.Gate.Decide(requestctx.With(ctx, h.Snapshot()), attrs).Answer {
	case authorize.Allowed:
		return Allowed
	case authorize.Open:
		return Depends
	case authorize.Unanswered:
		return Refused
	}
	return Denied
}

// AlsoNeeds returns the verb that a request needs in addition to its own; empty if there is none.
func (h *Host) AlsoNeeds(attrs authorizer.Attributes) string { return h.kernel.Gate.AlsoNeeds(attrs) }

// Blinded returns the users and groups that may get objects of a resource but do not hold a verb on them, and whether
// the list is complete.
func (h *Host) Blinded(ctx context.Context, r fieldperm.Resource, verb string) ([]ruleset.Subject, bool) {
	return policyreview.Blinded(ctx, h.kernel.Gate, h.Snapshot(), r, verb)
}

// Without returns the users and groups that may make a request but do not hold a verb on a resource, and whether the
// list is complete.
func (h *Host) Without(ctx context.Context, attrs authorizer.AttributesRecord, r fieldperm.Resource, verb string) ([]ruleset.Subject, bool) {
	return policyreview.Without(ctx, h.kernel.Gate, h.Snapshot(), attrs, r, verb)
}

// Master is the master namespace.
func (h *Host) Master() string { return h.kernel.Master }

// CEL is the compiler of conditions.
func (h *Host) CEL() *expr.Compiler { return h.kernel.Compiler.CEL }

// Elsewhere reports whether a resource is served by another server, whose requests are not admitted here.
func (h *Host) Elsewhere(group, resource string) bool {
	for _, list := range h.remote {
		if gv, err := schema.ParseGroupVersion(list.GroupVersion); err != nil || gv.Group != group {
			continue
		}
		if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource }) {
			return true
		}
	}
	return false
}

// Scoped is the request as the rules see it.
func (h *Host) Scoped(attrs authorizer.Attributes) authorizer.Attributes {
	return h.kernel.Gate.Chain.Scoped(attrs)
}

// Guards reports whether protected attributes or field permissions have a word about a request that the rules allow.
func (h *Host) Guards(ctx context.Context, attrs authorizer.Attributes) bool {
	for _, e := range h.kernel.Before(ctx, attrs) {
		if !e.Decision.IsNoOpinion() {
			return true
		}
	}
	return false
}

// Serves reports whether a server with these files would know a resource. A resource that it does not know is refused
// for all users.
func (h *Host) Serves(resource schema.GroupResource) bool {
	return h.Snapshot().Served.OwnKind(resource) != ""
}
