package conditions

import (
	"context"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/featuregate"

	"proviso.dev/proviso/internal/apis/accessreview"
	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/enforce"
)

// Gate switches the system.
const Gate featuregate.Feature = "ConditionalAuthorization"

// Config is what a host knows.
type Config struct {
	// Nodes is what no node may do, whatever others allow (CA-18); nil if the host knows no nodes.
	Nodes authorizer.Authorizer
}

// New makes the system.
func New(k *feature.Kernel, cfg Config) (feature.System, error) {
	s := feature.System{
		Name: "conditional authorization", Gate: Gate,
		Provide: map[string]func(feature.Provider) (feature.Provider, error){
			authorizationv1.GroupName: func(feature.Provider) (feature.Provider, error) { return reviews(k) },
		},
	}
	if cfg.Nodes != nil {
		s.Links = append(s.Links, authorize.Link{Name: links.NodeRestriction, Authorizer: cfg.Nodes})
	}
	if k.Gate.UniformConnect() {
		s.Enforce = func(c *enforce.Config) { c.Connect = k.Gate }
	}
	return s, nil
}

// reviews are our access reviews, which can show conditions, for the place of upstream's.
func reviews(k *feature.Kernel) (feature.Provider, error) {
	return accessreview.New(accessreview.Config{
		Chain:   k.Gate.Chain,
		Honours: k.Gate.Unseen,
		Before:  k.Before,
		Known: func(ctx context.Context, attrs authorizer.Attributes) error {
			return k.Served.Known(authorize.SnapshotOf(ctx, k.Store), attrs)
		},
		AlsoNeeds: func(ctx context.Context, attrs authorizer.Attributes) string { return alsoNeeds(ctx, k.Gate, attrs) },
		MaySee:    func(ctx context.Context, of user.Info) bool { return maySee(ctx, k.Gate.Chain, of) },
		Narrowed: func(ctx context.Context, attrs authorizer.Attributes) string {
			return k.Gate.Narrowed(ctx, authorize.SnapshotOf(ctx, k.Store), attrs)
		},
		Fresh:    k.Fresh,
		Evaluate: authorize.NewCELConditions(k.Compiler.CEL).Evaluate,
	})
}

// alsoNeeds is the second verb of connections. A kubelet asks about requests to itself, which it names nodes/proxy, and
// which do not come through this server: it gets the answer that it gets everywhere.
func alsoNeeds(ctx context.Context, gate *authorize.Gate, attrs authorizer.Attributes) string {
	if attrs.GetResource() == "nodes" {
		if caller, ok := request.UserFrom(ctx); ok && slices.Contains(caller.GetGroups(), user.NodesGroup) {
			return ""
		}
	}
	return gate.AlsoNeeds(attrs)
}

// maySee: everybody sees his own conditions, and those of others whoever may ask about anybody in the whole cluster.
func maySee(ctx context.Context, chain authorizer.UnconditionalAuthorizer, of user.Info) bool {
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return false
	}
	if caller.GetName() == of.GetName() && sets.New(caller.GetGroups()...).HasAll(of.GetGroups()...) {
		return true
	}
	decision, _, _ := chain.Authorize(ctx, authorizer.AttributesRecord{User: caller, Verb: "create", APIGroup: authorizationv1.GroupName,
		APIVersion: "v1", Resource: "subjectaccessreviews", ResourceRequest: true})
	return decision == authorizer.DecisionAllow
}
