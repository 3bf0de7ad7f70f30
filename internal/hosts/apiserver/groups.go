package apiserver

import (
	genericapiserver "k8s.io/apiserver/pkg/server"

	"proviso.dev/proviso/internal/apis/registry"
)

// newGroupsConfig derives the configuration of the server of our own groups from kube-apiserver's, as upstream derives
// that of the extensions: no hooks and health checks twice.
func newGroupsConfig(opts *completed, kube genericapiserver.Config) (*genericapiserver.Config, error) {
	generic := kube
	generic.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{}
	etcd := *opts.Etcd
	etcd.SkipHealthEndpoints = true
	return &generic, registry.Configure(&generic, etcd, allDefinitions)
}
