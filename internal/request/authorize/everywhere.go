package authorize

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/state/snapshot"
)

// GrantedEverywhere reports whether a grant for the whole cluster allows the request, without a condition:
// system:masters, a role of the master namespace, a cluster role binding or the Node authorizer. A refusal that is only
// due to unreadable policy yields to that, so users who could repair it are not locked out (SV-8).
func (c *Chain) GrantedEverywhere(ctx context.Context, snap *snapshot.Snapshot, attrs authorizer.Attributes) bool {
	if attrs == nil {
		return false
	}
	attrs = c.Scoped(attrs)
	for _, l := range c.Links() {
		if !l.isOurs(links.SystemMasters) && l.Type != TypeNode {
			continue
		}
		if decision, _, _ := l.Authorizer.Authorize(ctx, attrs); decision == authorizer.DecisionAllow {
			return true
		}
	}
	if snap == nil || snap.Rules == nil {
		return false
	}
	var q ruleset.Query
	q.Reset(snap.Rules, attrs)
	master := q.PolicyMaster()
	return master.Allow.Found() && !master.Denies() || q.ClusterGrant().Found()
}
