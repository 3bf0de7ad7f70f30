package authorize

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/request/requestctx"
)

// nodePrefix begins the names of nodes.
const nodePrefix = "system:node:"

// SeesAll reports whether nothing is hidden from the caller, because of who they are (HF-7). A narrowed token itself
// says what it reveals.
func (g *Gate) SeesAll(ctx context.Context, attrs authorizer.Attributes) bool {
	if SeesAlways(ctx, attrs) {
		return true
	}
	caller := attrs.GetUser()
	return caller != nil && requestctx.TokenOf(ctx) == nil && strings.HasPrefix(caller.GetName(), nodePrefix) &&
		slices.Contains(caller.GetGroups(), user.NodesGroup) && g.grantedToNode(ctx, attrs)
}

// SeesAlways reports the same of callers for whom no policy can change it: system:masters, to which this server itself
// belongs, and controllers.
func SeesAlways(ctx context.Context, attrs authorizer.Attributes) bool {
	caller := attrs.GetUser()
	return caller != nil && requestctx.TokenOf(ctx) == nil &&
		(slices.Contains(caller.GetGroups(), user.SystemPrivilegedGroup) || protectedattr.IsController(caller.GetName()))
}

// grantedToNode reports whether the Node authorizer itself allows the request.
func (g *Gate) grantedToNode(ctx context.Context, attrs authorizer.Attributes) bool {
	for _, link := range g.Chain.Links() {
		if link.Type == TypeNode {
			if decision, _, _ := link.Authorizer.Authorize(ctx, attrs); decision == authorizer.DecisionAllow {
				return true
			}
		}
	}
	return false
}
