package selfclient

import (
	"context"
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// ownKey is a context key because clients do not know requests, and it is set before a request has its State.
type ownKey struct{}

// AsServer marks a request as one that the server makes for its own policy. The controllers in the same process use the
// same loopback identity, but see what every user sees.
func AsServer(ctx context.Context) context.Context { return context.WithValue(ctx, ownKey{}, true) }

// IsServer reports whether a request is one of those.
func IsServer(ctx context.Context) bool {
	own, _ := ctx.Value(ownKey{}).(bool)
	u, ok := request.UserFrom(ctx)
	return own && ok && u.GetName() == user.APIServerUser && slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)
}
