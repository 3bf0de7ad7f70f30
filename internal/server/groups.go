package server

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/client-go/informers"

	"proviso.dev/proviso/internal/registry"
)

// newGroupsConfig derives the configuration of the server of our own groups from kube-apiserver's, as upstream derives that of
// the extensions: own scheme, own storage codec, no hooks and health checks twice.
func newGroupsConfig(opts *completed, kube genericapiserver.Config) (*genericapiserver.Config, error) {
	generic := kube
	generic.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{}
	generic.RESTOptionsGetter = nil
	generic.Serializer = registry.Codecs

	etcd := *opts.Etcd
	etcd.StorageConfig.Codec = registry.StorageCodec()
	etcd.StorageConfig.EncodeVersioner = nil
	etcd.DefaultStorageMediaType = "application/json"
	etcd.SkipHealthEndpoints = true
	if err := etcd.ApplyTo(&generic); err != nil {
		return nil, err
	}
	generic.RESTOptionsGetter = registry.ReadableStorage(generic.RESTOptionsGetter)
	resources := serverstorage.NewResourceConfig()
	resources.EnableVersions(registry.GroupVersions()...)
	generic.MergedResourceConfig = resources

	// Versioned types only: with the internal ones, every definition would claim to be of two versions.
	namer := openapinamer.NewDefinitionNamer(registry.VersionedScheme())
	generic.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(allDefinitions, namer)
	generic.OpenAPIConfig.Info.Title = "Proviso"
	generic.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(allDefinitions, namer)
	generic.OpenAPIV3Config.Info.Title = "Proviso"
	return &generic, nil
}

// newGroupsServer serves policy.proviso.dev, authorization.proviso.dev and auditregistration.k8s.io in front of the delegate.
func newGroupsServer(generic *genericapiserver.Config, informers informers.SharedInformerFactory, cfg registry.Config, serves func(resource string) bool, delegate genericapiserver.DelegationTarget) (*genericapiserver.GenericAPIServer, error) {
	server, err := generic.Complete(informers).New("proviso", delegate)
	if err != nil {
		return nil, err
	}
	groups, err := registry.APIGroupInfos(cfg, generic.RESTOptionsGetter)
	if err != nil {
		return nil, err
	}
	var served []*genericapiserver.APIGroupInfo
	for _, group := range groups {
		if dropDisabled(group, serves) {
			served = append(served, group)
		}
	}
	if err := server.InstallAPIGroups(served...); err != nil {
		return nil, err
	}
	registry.ServeClusterReviews(server)
	return server, nil
}

// dropDisabled takes out what belongs to systems that are off. A group of which nothing is left is not served at all.
func dropDisabled(group *genericapiserver.APIGroupInfo, serves func(resource string) bool) bool {
	any := false
	for _, storage := range group.VersionedResourcesStorageMap {
		for name, unused := range storage {
			if !serves(resourceOf(name)) {
				delete(storage, name)
				unused.Destroy() // its watch cache would go on watching
				continue
			}
			any = true
		}
	}
	return any
}

func resourceOf(name string) string {
	for i := range len(name) {
		if name[i] == '/' {
			return name[:i]
		}
	}
	return name
}

// rbacRoles answers from the informers which RBAC roles exist.
type rbacRoles struct {
	informers informers.SharedInformerFactory
}

// RoleExists looks for a Role, or for a ClusterRole.
func (r rbacRoles) RoleExists(_ context.Context, kind, namespace, name string) (bool, error) {
	var err error
	if kind == "ClusterRole" {
		_, err = r.informers.Rbac().V1().ClusterRoles().Lister().Get(name)
	} else {
		_, err = r.informers.Rbac().V1().Roles().Lister().Roles(namespace).Get(name)
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
