package server

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/featuregate"

	"proviso.dev/proviso/internal/registry"
)

// featureOf says which feature gate serves a resource of ours.
var featureOf = map[string]featuregate.Feature{
	"policies": PolicyAuthorization, "policybindings": PolicyAuthorization, "roles": PolicyAuthorization, "rolebindings": PolicyAuthorization,
	"resourceaccessreviews": PolicyAuthorization, "subjectaccessreviews": PolicyAuthorization,
	"fieldpermissions": FieldPermissions, "permissions": FieldPermissions,
	"protectedattributes": ProtectedAttributes, "clusterprotectedattributes": ProtectedAttributes,
	"auditsinks": DynamicAudit, "auditclasses": DynamicAudit,
}

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
func newGroupsServer(opts *Options, generic *genericapiserver.Config, informers informers.SharedInformerFactory, cfg registry.Config, delegate genericapiserver.DelegationTarget) (*genericapiserver.GenericAPIServer, error) {
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
		if dropDisabled(group, opts) {
			served = append(served, group)
		}
	}
	if err := server.InstallAPIGroups(served...); err != nil {
		return nil, err
	}
	registry.ServeClusterReviews(server)
	return server, nil
}

// dropDisabled takes out what belongs to features that are off. A group of which nothing is left is not served at all.
func dropDisabled(group *genericapiserver.APIGroupInfo, opts *Options) bool {
	any := false
	for _, storage := range group.VersionedResourcesStorageMap {
		for name, unused := range storage {
			feature := featureOf[resourceOf(name)]
			if !enabled(feature) || (feature == DynamicAudit && !opts.dynamicAudit()) {
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

// ownClient is a client for one of our groups, through the loopback.
func ownClient(loopback *rest.Config, gv schema.GroupVersion) (*rest.RESTClient, error) {
	config := rest.CopyConfig(loopback)
	config.ContentType = "application/json"
	config.AcceptContentTypes = "application/json"
	config.APIPath = "/apis"
	config.GroupVersion = &gv
	config.NegotiatedSerializer = registry.Codecs.WithoutConversion()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return ownTransport{next} })
	return rest.RESTClientFor(config)
}

// ownHeader and ownMark tell the requests of these clients from those of the controllers, which use the same loopback. The mark is
// known in this process only.
const ownHeader = "X-Proviso-Own"

var ownMark = rand.Text()

type ownTransport struct{ next http.RoundTripper }

func (t ownTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(ownHeader, ownMark)
	return t.next.RoundTrip(r)
}

// ownContext tells the registry of such a request.
func ownContext(r *http.Request) context.Context {
	mark := r.Header.Get(ownHeader)
	if mark == "" {
		return r.Context()
	}
	r.Header.Del(ownHeader)
	if subtle.ConstantTimeCompare([]byte(mark), []byte(ownMark)) != 1 {
		return r.Context()
	}
	return registry.AsServer(r.Context())
}

// ownInformer watches a stored kind of ours.
func ownInformer(client cache.Getter, resource string, example runtime.Object) cache.SharedIndexInformer {
	source := cache.NewFilteredListWatchFromClient(client, resource, metav1.NamespaceAll, func(*metav1.ListOptions) {})
	return cache.NewSharedIndexInformer(source, example, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

// versionOf is the group version of a kind of ours; every one of them has exactly one.
func versionOf(example runtime.Object) schema.GroupVersion {
	kinds, _, err := registry.VersionedScheme().ObjectKinds(example)
	if err != nil || len(kinds) == 0 {
		return schema.GroupVersion{}
	}
	return kinds[0].GroupVersion()
}
