package server

import (
	"context"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/controller/defaultservicecidr"
	"k8s.io/kubernetes/pkg/controlplane/controller/kubernetesservice"
	kubefeatures "k8s.io/kubernetes/pkg/features"

	"proviso.dev/proviso/internal/authorize"
	"proviso.dev/proviso/internal/enforce"
	"proviso.dev/proviso/internal/expr"
	"proviso.dev/proviso/internal/review"
)

// newKubeServer assembles the server of the built-in resources, as controlplane.CompletedConfig.New does, with one
// difference: storage providers can be replaced before they are installed.
func newKubeServer(c controlplane.CompletedConfig, delegate genericapiserver.DelegationTarget, s *stages) (*controlplaneapiserver.Server, error) {
	server, err := c.ControlPlane.New(controlplaneapiserver.KubeAPIServer, delegate)
	if err != nil {
		return nil, err
	}
	generic := server.GenericAPIServer
	client, err := kubernetes.NewForConfig(generic.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	providers, err := c.StorageProviders(client)
	if err != nil {
		return nil, err
	}
	if s != nil {
		if providers, err = s.replaceReviews(providers); err != nil {
			return nil, err
		}
		if err = s.guardRBAC(providers); err != nil {
			return nil, err
		}
	}
	if err := server.InstallAPIs(providers...); err != nil {
		return nil, err
	}

	reconciler := c.Extra.EndpointReconcilerConfig.Reconciler
	publicIP := c.ControlPlane.Generic.PublicAddress
	if err := reconciler.ValidateIP(publicIP); err != nil {
		return nil, fmt.Errorf("cannot use public IP %s with endpoint reconciler: %w", publicIP, err)
	}
	_, port, err := c.ControlPlane.Generic.SecureServing.HostPort()
	if err != nil {
		return nil, fmt.Errorf("failed to get listener address: %w", err)
	}
	service := kubernetesservice.New(kubernetesservice.Config{
		PublicIP:                  publicIP,
		EndpointReconciler:        reconciler,
		EndpointInterval:          c.Extra.EndpointReconcilerConfig.Interval,
		ServiceIP:                 c.Extra.APIServerServiceIP,
		ServicePort:               c.Extra.APIServerServicePort,
		PublicServicePort:         port,
		KubernetesServiceNodePort: c.Extra.KubernetesServiceNodePort,
	}, client, c.ControlPlane.Extra.VersionedInformers.Core().V1().Services())
	generic.AddPostStartHookOrDie("bootstrap-controller", func(ctx genericapiserver.PostStartHookContext) error {
		service.Start(ctx.Done())
		return nil
	})
	generic.AddPreShutdownHookOrDie("stop-kubernetes-service-controller", func() error {
		service.Stop()
		return nil
	})
	if utilfeature.DefaultFeatureGate.Enabled(kubefeatures.MultiCIDRServiceAllocator) {
		generic.AddPostStartHookOrDie("start-kubernetes-service-cidr-controller", func(ctx genericapiserver.PostStartHookContext) error {
			defaultservicecidr.NewController(c.Extra.ServiceIPRange, c.Extra.SecondaryServiceIPRange, client).Start(ctx)
			return nil
		})
	}
	return server, nil
}

// replaceReviews puts our access reviews, which can show conditions, in the place of upstream's.
func (s *stages) replaceReviews(providers []controlplaneapiserver.RESTStorageProvider) ([]controlplaneapiserver.RESTStorageProvider, error) {
	if !enabled(ConditionalAuthorization) {
		return providers, nil
	}
	ours, err := review.New(review.Config{
		Chain:     s.gate.Chain,
		Honours:   s.gate.Evaluated,
		Before:    s.beforeChain,
		Known:     s.isKnown,
		AlsoNeeds: s.alsoNeeds,
		MaySee:    s.maySee,
		Evaluate:  authorize.NewCELConditions(s.compiler.CEL).Evaluate,
	})
	if err != nil {
		return nil, err
	}
	for i, p := range providers {
		if p.GroupName() == ours.GroupName() {
			providers[i] = ours
			return providers, nil
		}
	}
	return nil, fmt.Errorf("upstream has no storage provider for %s any more", ours.GroupName())
}

// alsoNeeds is the second verb of connections. A kubelet asks about requests to itself, which it names nodes/proxy, and which do not come
// through this server: it gets the answer that it gets everywhere.
func (s *stages) alsoNeeds(ctx context.Context, attrs authorizer.Attributes) string {
	if attrs.GetResource() == "nodes" {
		if caller, ok := request.UserFrom(ctx); ok && slices.Contains(caller.GetGroups(), user.NodesGroup) {
			return ""
		}
	}
	return s.gate.AlsoNeeds(attrs)
}

// maySee: everybody sees his own conditions, and those of others whoever may ask about anybody in the whole cluster.
func (s *stages) maySee(ctx context.Context, of user.Info) bool {
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return false
	}
	if caller.GetName() == of.GetName() && sets.New(caller.GetGroups()...).HasAll(of.GetGroups()...) {
		return true
	}
	decision, _, _ := s.gate.Chain.Authorize(ctx, authorizer.AttributesRecord{User: caller, Verb: "create", APIGroup: authorizationv1.GroupName,
		APIVersion: "v1", Resource: "subjectaccessreviews", ResourceRequest: true})
	return decision == authorizer.DecisionAllow
}

// beforeChain is what an access review shows in front of the chain: what the enforcer would refuse whatever the chain says
// (PA-8).
func (s *stages) beforeChain(ctx context.Context, attrs authorizer.Attributes) []review.ChainElement {
	if !authorize.Writes(attrs) {
		return nil // deleting, connecting and impersonating set no label and no field
	}
	return append(s.protectedAttributes(ctx, attrs), s.exclusiveFields(ctx, attrs)...)
}

func (s *stages) protectedAttributes(ctx context.Context, attrs authorizer.Attributes) []review.ChainElement {
	snap := authorize.SnapshotOf(ctx, s.store)
	if snap.Protect.Len() == 0 {
		return nil
	}
	var denies []authorizer.Condition
	req := enforce.ProtectRequest(snap, attrs.GetUser(), attrs)
	req.Everywhere = func() bool { return s.gate.Chain.GrantedEverywhere(ctx, snap, attrs) }
	for _, c := range snap.Protect.Conditions(req) {
		denies = append(denies, authorizer.GenericCondition{ID: c.ID, Type: expr.TypeCEL, Condition: c.Expression, Description: c.Description})
	}
	if len(denies) == 0 {
		return nil
	}
	return []review.ChainElement{{Name: "protected-attributes", Decision: authorizer.ConditionsAwareDecisionConditionsMap(denies, nil, nil)}}
}
