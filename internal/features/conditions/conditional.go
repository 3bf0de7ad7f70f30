package conditions

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/featuregate"

	"proviso.dev/proviso/internal/apis/accessreview"
	"proviso.dev/proviso/internal/apis/policyreview"
	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/enforce"
)

// Gate switches the system.
const Gate featuregate.Feature = "ConditionalAuthorization"

// Config is what a host knows.
type Config struct {
	// Nodes denies what no node may do, whatever others allow (CA-18); nil if the host does not know nodes.
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

// reviews returns our access reviews, which can show conditions and replace upstream's.
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

// requests tells access reviews what would happen to requests here.
type requests struct{ k *feature.Kernel }

var (
	_ accessreview.Requests = requests{}
	_ accessreview.Sight    = requests{}
)

// Unseen implements accessreview.Requests. A review can ask about what is not served here: no request comes of it.
func (r requests) Unseen(attrs authorizer.Attributes) error {
	if err := r.k.Gate.Unseen(attrs); err != nil || strings.HasPrefix(attrs.GetVerb(), "impersonate") || r.k.Served.Offers(attrs) {
		return err
	}
	return fmt.Errorf("%s is not served in %s", resourceOf(attrs), schema.GroupVersion{Group: attrs.GetAPIGroup(), Version: attrs.GetAPIVersion()})
}

func resourceOf(attrs authorizer.Attributes) string {
	if sub := attrs.GetSubresource(); sub != "" {
		return attrs.GetResource() + "/" + sub
	}
	return attrs.GetResource()
}

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

// AlsoNeeds is the second verb of connections. A kubelet asks about requests to itself, as nodes/proxy, which do not
// pass through this server: it gets the same answer as from stock Kubernetes.
func (r requests) AlsoNeeds(ctx context.Context, attrs authorizer.Attributes) string {
	if attrs.GetResource() == "nodes" {
		if caller, ok := request.UserFrom(ctx); ok && slices.Contains(caller.GetGroups(), user.NodesGroup) {
			return ""
		}
	}
	return r.k.Gate.AlsoNeeds(attrs)
}

// Of implements accessreview.Sight: every caller sees their own conditions, those of roles that they may read, and all
// if they may ask about anybody in the whole cluster.
func (r requests) Of(ctx context.Context, attrs authorizer.Attributes) accessreview.View {
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return policyreview.View{}
	}
	if of := attrs.GetUser(); caller.GetName() == of.GetName() && sets.New(caller.GetGroups()...).HasAll(of.GetGroups()...) {
		return policyreview.Everything()
	}
	questions := []authorizer.Attributes{attrs}
	if verb := r.AlsoNeeds(ctx, attrs); verb != "" {
		questions = append(questions, authorize.WithVerb(attrs, verb))
	}
	return policyreview.ViewOf(ctx, r.k.Gate.Chain, caller, questions...)
}
