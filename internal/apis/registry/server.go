package registry

import (
	"slices"
	"strings"

	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serveroptions "k8s.io/apiserver/pkg/server/options"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/client-go/informers"
	openapicommon "k8s.io/kube-openapi/pkg/common"

	"proviso.dev/proviso/internal/state/policycodec"
)

// Configure makes a configuration one of a server of our groups: own scheme, own storage, own OpenAPI.
func Configure(generic *genericapiserver.Config, etcd serveroptions.EtcdOptions, definitions openapicommon.GetOpenAPIDefinitions) error {
	generic.RESTOptionsGetter = nil
	generic.Serializer = policycodec.Codecs
	etcd.StorageConfig.Codec = policycodec.StorageCodec()
	etcd.StorageConfig.EncodeVersioner = nil
	etcd.DefaultStorageMediaType = "application/json"
	if err := etcd.ApplyTo(generic); err != nil {
		return err
	}
	generic.RESTOptionsGetter = policycodec.ReadableStorage(generic.RESTOptionsGetter)
	resources := serverstorage.NewResourceConfig()
	resources.EnableVersions(policycodec.GroupVersions()...)
	generic.MergedResourceConfig = resources

	definitions = needed(definitions)
	// Versioned types only: with the internal ones, every definition would claim to be of two versions.
	namer := openapinamer.NewDefinitionNamer(policycodec.VersionedScheme())
	generic.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	generic.OpenAPIConfig.Info.Title = "Proviso"
	generic.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	generic.OpenAPIV3Config.Info.Title = "Proviso"
	return nil
}

// definedHere begin the names of the definitions of our groups, and of what every server serves.
var definedHere = []string{"dev.proviso.", "io.k8s.auditregistration.", "io.k8s.api.authorization.", "io.k8s.apimachinery."}

// needed limits definitions to those of our groups, of what every server serves, and of what these refer to. The
// builders of OpenAPI keep whatever they are given, and all of Kubernetes is some ten megabytes.
func needed(all openapicommon.GetOpenAPIDefinitions) openapicommon.GetOpenAPIDefinitions {
	return func(ref openapicommon.ReferenceCallback) map[string]openapicommon.OpenAPIDefinition {
		every, some := all(ref), map[string]openapicommon.OpenAPIDefinition{}
		var take func(name string)
		take = func(name string) {
			definition, exists := every[name]
			if _, taken := some[name]; taken || !exists {
				return
			}
			some[name] = definition
			for _, other := range definition.Dependencies {
				take(other)
			}
		}
		for name := range every {
			if slices.ContainsFunc(definedHere, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
				take(name)
			}
		}
		return some
	}
}

// NewServer serves policy.proviso.dev, authorization.proviso.dev and auditregistration.k8s.io in front of the delegate.
func NewServer(generic *genericapiserver.Config, informers informers.SharedInformerFactory, cfg Config, serves func(resource string) bool, delegate genericapiserver.DelegationTarget) (*genericapiserver.GenericAPIServer, error) {
	server, err := generic.Complete(informers).New("proviso", delegate)
	if err != nil {
		return nil, err
	}
	stored := generic.RESTOptionsGetter
	if cfg.Storage != nil {
		stored = cfg.Storage(stored)
	}
	groups, err := APIGroupInfos(cfg, stored)
	if err != nil {
		return nil, err
	}
	var served []*genericapiserver.APIGroupInfo
	for _, group := range groups {
		if DropDisabled(group, serves) {
			served = append(served, group)
		}
	}
	if err := server.InstallAPIGroups(served...); err != nil {
		return nil, err
	}
	ServeClusterReviews(server)
	return server, nil
}

// DropDisabled takes out what belongs to systems that are off. A group of which nothing is left is not served at all.
func DropDisabled(group *genericapiserver.APIGroupInfo, serves func(resource string) bool) bool {
	any := false
	for _, storage := range group.VersionedResourcesStorageMap {
		for name, unused := range storage {
			resource, _, _ := strings.Cut(name, "/")
			if !serves(resource) {
				delete(storage, name)
				unused.Destroy() // its watch cache would go on watching
				continue
			}
			any = true
		}
	}
	return any
}
