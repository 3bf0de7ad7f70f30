package apiserver

import (
	"fmt"

	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/controller/defaultservicecidr"
	"k8s.io/kubernetes/pkg/controlplane/controller/kubernetesservice"
	kubefeatures "k8s.io/kubernetes/pkg/features"
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
		if err := s.provide(providers); err != nil {
			return nil, err
		}
	}
	promptHooks(providers, generic.LoopbackClientConfig)
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
