package apiserver

import (
	"testing"

	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"proviso.dev/proviso/internal/apis/registry"
	"proviso.dev/proviso/internal/features"
	"proviso.dev/proviso/internal/features/base"
	"proviso.dev/proviso/internal/features/dynamicaudit"
	"proviso.dev/proviso/internal/features/dynamicaudit/sink"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/state/selfclient"
)

type destroyed struct {
	rest.Storage
	count int
}

func (d *destroyed) Destroy() { d.count++ }

// SV-13: what is not served is closed, so that nothing goes on watching for it; what is served stays open.
func TestWhatIsNotServedIsClosed(t *testing.T) {
	if err := RegisterFeatures(); err != nil {
		t.Fatal(err)
	}
	o := NewOptions()
	o.changed = func(name string) bool { return name == "etcd-servers" } // a drop-in without a spool
	kernel, err := base.NewKernel(base.KernelConfig{Warner: selfclient.NewEvents(), Replicas: authorize.Alone{}, Age: authorize.Ageless{}, Master: "master"})
	if err != nil {
		t.Fatal(err)
	}
	systems, err := features.All().Build(kernel, features.Config{Auditing: dynamicaudit.Config{Router: sink.Config{Dir: o.spoolDir()}}})
	if err != nil {
		t.Fatal(err)
	}
	sinks, policies := &destroyed{}, &destroyed{}
	for name, storage := range map[string]*destroyed{"auditsinks": sinks, "policies": policies} {
		group := &genericapiserver.APIGroupInfo{VersionedResourcesStorageMap: map[string]map[string]rest.Storage{"v1alpha1": {name: storage}}}
		if served := registry.DropDisabled(group, (&stages{systems: systems}).serves); served != (name == "policies") {
			t.Errorf("%s served: %v", name, served)
		}
	}
	if sinks.count != 1 || policies.count != 0 {
		t.Errorf("sinks were closed %d times, policies %d times", sinks.count, policies.count)
	}
}
