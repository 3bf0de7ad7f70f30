package server

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
)

// assemble connects the servers by delegation, from the inside out: custom resources, built-in resources, our own groups,
// and the aggregator in front.
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
		if delegate, err = newGroupsServer(c.opts.own, c.groups, c.informers, c.stages.registryConfig(c), delegate); err != nil {
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
	local, err := localAPIs(context.TODO(), kube.GenericAPIServer, own, extensions.GenericAPIServer, aggregator.GenericAPIServer)
	if err != nil {
		return nil, err
	}
	apiServices := aggregator.APIRegistrationInformers.Apiregistration().V1().APIServices().Informer()
	elsewhere, err := watchAPIServices(apiServices)
	if err != nil {
		return nil, err
	}
	c.stages.gate.Local = elsewhere.local
	if c.stages.definition, err = definitionsByKind(crds.Informer()); err != nil {
		return nil, err
	}
	if c.stages.fields != nil {
		c.stages.fields.schemas.definition = c.stages.definition
	}
	definitions := crds.Informer()
	if !crdsServed {
		definitions = nil // nobody would ever list them
	}
	c.stages.known = newKnownAPIs(local, apiServices, definitions)
	discovery, err := newDiscoverer(c.stages.store.Changed, local, apiServices, definitions)
	if err != nil {
		return nil, err
	}
	return aggregator, c.stages.start(c, aggregator.GenericAPIServer, discovery, crds.Informer())
}
