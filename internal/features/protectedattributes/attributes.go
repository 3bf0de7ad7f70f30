package protectedattributes

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/featuregate"

	"proviso.dev/proviso/internal/apis/accessreview"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Gate switches the system.
const Gate featuregate.Feature = "ProtectedAttributes"

// Config is what a host knows.
type Config struct {
	// ExemptUsers and ExemptGroups copy what was already admitted, beyond the controllers of Kubernetes itself.
	ExemptUsers, ExemptGroups []string
}

// New makes the system.
func New(k *feature.Kernel, cfg Config) (feature.System, error) {
	return feature.System{
		Name: "protected attributes", Gate: Gate,
		Resources: []string{snapshot.ProtectedAttributes.Resource, snapshot.ClusterProtectedAttributes.Resource},
		Parts: func(from snapshot.Source) ([]snapshot.Part, error) {
			part, err := snapshot.NewProtections(snapshot.ProtectionsConfig{
				Source: from, MasterNamespace: k.Master, ExemptUsers: cfg.ExemptUsers, ExemptGroups: cfg.ExemptGroups,
			}, k.Store.Changed)
			return []snapshot.Part{part}, err
		},
		Enforce: func(c *enforce.Config) {
			c.Protected = &enforce.ProtectedAttributes{Chain: k.Gate.Chain, Everywhere: k.Gate.Chain, Behind: k.Behind}
			c.After = append(c.After, c.Protected)
		},
		Mutators: []feature.Mutator{{Name: enforce.PinName, Plugin: &enforce.Pin{Behind: k.Behind}}},
		Before: func(ctx context.Context, attrs authorizer.Attributes) []accessreview.ChainElement {
			return before(ctx, k, attrs)
		},
	}, nil
}

// before is what an access review shows: the attributes that the caller may not set (PA-8).
func before(ctx context.Context, k *feature.Kernel, attrs authorizer.Attributes) []accessreview.ChainElement {
	snap := authorize.SnapshotOf(ctx, k.Store)
	if snap.Protect.Len() == 0 {
		return nil
	}
	var denies []authorizer.Condition
	req := enforce.ProtectRequest(snap, attrs.GetUser(), attrs)
	req.Everywhere = func() bool { return k.Gate.Chain.GrantedEverywhere(ctx, snap, attrs) }
	for _, c := range snap.Protect.Conditions(req) {
		denies = append(denies, authorizer.GenericCondition{ID: c.ID, Type: expr.TypeCEL, Condition: c.Expression, Description: c.Description})
	}
	if len(denies) == 0 {
		return nil
	}
	return []accessreview.ChainElement{{Name: links.ProtectedAttributes, Decision: authorizer.ConditionsAwareDecisionConditionsMap(denies, nil, nil)}}
}
