package registry

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	access "proviso.dev/proviso/api/access/v1alpha1"
)

// AccessDesk knows what those who ask, approve and revoke have to do with the rest of the server.
type AccessDesk interface {
	// Serve is given the requests that are stored, once.
	Serve(AccessRequests)
	// Now is the time, and whether it is known.
	Now() (time.Time, bool)
	// Namespace finds a namespace with its labels.
	Namespace(ctx context.Context, name string) (metav1.Object, error)
	// IsImpersonated reports whether the caller of a request acts as another user.
	IsImpersonated(ctx context.Context) bool
	// ByGrant reports whether a request was made possible by a grant.
	ByGrant(ctx context.Context) bool
	// OnlyOwn reports whether a request was allowed to its caller as one who may ask: about their own requests.
	OnlyOwn(ctx context.Context) bool
	// FixedKind reports whether an entry of resourceKinds means the same whatever else will be served.
	FixedKind(entry string) bool
	// CheckSinks checks that the audit sinks of a rule with breakGlass get events from now until an instant.
	CheckSinks(rule *access.AccessRule, until time.Time, path *field.Path) field.ErrorList
	// Breaks begins to tell the sinks of a rule with breakGlass of a request that was stored; decide is called with
	// what came of it.
	Breaks(ctx context.Context, rule *access.AccessRule, r *access.AccessRequest, decide func(context.Context, bool) error)
	// Tell tells those who watch a request what became of it.
	Tell(r *access.AccessRequest, reason string)
}

// AccessRequests are the requests that are stored.
type AccessRequests interface {
	// Consume ends a grant that is for one write. It is an error if it counts no more.
	Consume(ctx context.Context, name string, uid types.UID) error
	// Settle writes down what time has made of a request.
	Settle(ctx context.Context, name string, uid types.UID) error
	// Forget deletes a request.
	Forget(ctx context.Context, name string, uid types.UID) error
}
