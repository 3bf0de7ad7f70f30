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
		Chain:    k.Gate.Chain,
		Requests: requests{k},
		Sight:    requests{k},
		Guards:   k,
		Fresh:    k.Fresh,
		Evaluate: authorize.NewCELConditions(k.Compiler.CEL).Evaluate,
	})
}

// requests says to access reviews what becomes of requests here.
type requests struct{ k *feature.Kernel }

var (
	_ accessreview.Requests = requests{}
	_ accessreview.Sight    = requests{}
)

// Unseen implements accessreview.Requests.
func (r requests) Unseen(attrs authorizer.Attributes) error { return r.k.Gate.Unseen(attrs) }

// Narrowed implements accessreview.Requests.
func (r requests) Narrowed(ctx context.Context, attrs authorizer.Attributes) string {
	return r.k.Gate.Narrowed(ctx, authorize.SnapshotOf(ctx, r.k.Store), attrs)
}

// United implements accessreview.Requests.
func (r requests) United(ctx context.Context, attrs authorizer.Attributes) (text string, whole bool) {
	return r.k.Gate.United(ctx, authorize.SnapshotOf(ctx, r.k.Store), attrs)
}

// Known implements accessreview.Sight.
func (r requests) Known(ctx context.Context, attrs authorizer.Attributes) error {
	return r.k.Served.Known(authorize.SnapshotOf(ctx, r.k.Store), attrs)
}

// AlsoNeeds is the second verb of connections. A kubelet asks about requests to itself, which it names nodes/proxy, and
// which do not come through this server: it gets the answer that it gets everywhere.
func (r requests) AlsoNeeds(ctx context.Context, attrs authorizer.Attributes) string {
	if attrs.GetResource() == "nodes" {
		if caller, ok := request.UserFrom(ctx); ok && slices.Contains(caller.GetGroups(), user.NodesGroup) {
			return ""
		}
	}
	return r.k.Gate.AlsoNeeds(attrs)
}

// MaySee implements accessreview.Sight: everybody sees their own conditions. Who may ask about anybody in the whole
// cluster sees those of others.
func (r requests) MaySee(ctx context.Context, of user.Info) bool {
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return false
	}
	if caller.GetName() == of.GetName() && sets.New(caller.GetGroups()...).HasAll(of.GetGroups()...) {
		return true
	}
	decision, _, _ := r.k.Gate.Chain.Authorize(ctx, authorizer.AttributesRecord{User: caller, Verb: "create", APIGroup: authorizationv1.GroupName,
		APIVersion: "v1", Resource: "subjectaccessreviews", ResourceRequest: true})
	return decision == authorizer.DecisionAllow
}
