package server

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"proviso.dev/proviso/internal/auditing"
	"proviso.dev/proviso/internal/auditsink"
	"proviso.dev/proviso/internal/ground"
	"proviso.dev/proviso/internal/lineup"
	"proviso.dev/proviso/internal/registry"
)

// PO-7: an authorizer that can allow ahead of Policy voids its denies, which is said; Policy first, or behind what only
// denies, is not.
func TestDeniesVoided(t *testing.T) {
	if err := RegisterFeatures(); err != nil {
		t.Fatal(err)
	}
	file := func(types ...string) string {
		var b strings.Builder
		b.WriteString("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n")
		for _, kind := range types {
			b.WriteString("- {type: " + kind + ", name: " + strings.ToLower(kind) + "}\n")
		}
		return b.String()
	}
	for _, test := range []struct {
		types []string
		want  string
	}{
		{[]string{"RBAC", "Policy"}, "what rbac allows"},
		{[]string{"Node", "RBAC", "Policy"}, "what node, rbac allows"},
		{[]string{"AlwaysAllow", "Policy"}, "what alwaysallow allows"},
		{[]string{"Policy", "Node", "RBAC"}, ""},
		{[]string{"Node", "RBAC"}, ""}, // Policy is put first
	} {
		plan, err := parseAuthzFile([]byte(file(test.types...)), lineup.All())
		if err != nil {
			t.Fatalf("%v: %v", test.types, err)
		}
		if got := plan.deniesVoided(); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%v: %q, want %q in it", test.types, got, test.want)
		}
	}
	if got := (*authzPlan)(nil).deniesVoided(); got != "" {
		t.Errorf("a stock server: %q", got)
	}
}

// SV-13: a drop-in that is not told which authorizers there are is safe and says so; one that is told, and a server of
// its own, say nothing.
func TestModesAssumed(t *testing.T) {
	if err := RegisterFeatures(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		given []string
		says  bool
	}{
		{[]string{"etcd-servers"}, true},
		{[]string{"etcd-servers", "authorization-mode"}, false},
		{[]string{"etcd-servers", "data-dir"}, false},
		{nil, false},
	} {
		o := NewOptions()
		o.changed = func(name string) bool { return slices.Contains(test.given, name) }
		plan, err := planAuthorization(o, o.switches())
		if err != nil {
			t.Fatal(err)
		}
		if got := plan.modesAssumed(); test.says != strings.Contains(got, "Node,RBAC is used") || !test.says && got != "" {
			t.Errorf("%v: %q", test.given, got)
		}
		if assumed := !slices.Contains(test.given, "authorization-mode"); assumed && (!plan.has("Node") || !plan.has("RBAC")) {
			t.Errorf("%v: %v", test.given, plan.authorizers)
		}
	}
	if got := (*authzPlan)(nil).modesAssumed(); got != "" {
		t.Errorf("a stock server: %q", got)
	}
}

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
	kernel, err := ground.NewKernel(ground.KernelConfig{Master: "master"})
	if err != nil {
		t.Fatal(err)
	}
	systems, err := lineup.All().Build(kernel, lineup.Config{Auditing: auditing.Config{Router: auditsink.Config{Dir: o.spoolDir()}}})
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
