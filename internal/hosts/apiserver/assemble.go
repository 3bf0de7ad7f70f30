package apiserver

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"

	"proviso.dev/proviso/internal/apis/registry"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/state/discovery"
)

// assemble connects the servers by delegation, from the inside out: custom resources, built-in resources, our own
// groups, and the aggregator in front.
func (c *config) assemble() (*aggregatorapiserver.APIAggregator, error) {
	completedExtensions := c.extensions.Complete()
	notFound := notfoundhandler.New(c.kube.ControlPlane.Generic.Serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey)
	extensions, err := completedExtensions.New(genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
	if err != nil {
		return nil, err
	}
	kube, err := newKubeServer(c.kube.Complete(), extensions.GenericAPIServer, c.stages)
	if err != nil {
		return nil, err
	}
	crds := extensions.Informers.Apiextensions().V1().CustomResourceDefinitions()
	crdsServed := completedExtensions.GenericConfig.MergedResourceConfig.ResourceEnabled(
		apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	delegate := kube.GenericAPIServer
	if c.groups != nil {
		if delegate, err = registry.NewServer(c.groups, c.informers, feature.Registry(c.stages.systems), c.stages.serves, delegate); err != nil {
			return nil, err
		}
	}
	aggregator, err := controlplaneapiserver.CreateAggregatorServer(c.aggregator.Complete(), delegate, crds, crdsServed, APIVersionPriorities())
	if err != nil || c.stages == nil {
		return aggregator, err
	}
	var own *genericapiserver.GenericAPIServer
	if c.groups != nil {
		own = delegate
	}
	local, err := discovery.LocalAPIs(context.Background(), kube.GenericAPIServer, own, extensions.GenericAPIServer, aggregator.GenericAPIServer)
	if err != nil {
		return nil, err
	}
	world := discovery.World{Local: local, Services: aggregator.APIRegistrationInformers.Apiregistration().V1().APIServices().Informer()}
	if crdsServed { // otherwise they would never be listed
		world.Definitions = crds.Informer()
	}
	if err := c.stages.kernel.Served.Watch(world); err != nil {
		return nil, err
	}
	return aggregator, c.stages.start(aggregator.GenericAPIServer, c.stages.source(crds.Informer()))
}
