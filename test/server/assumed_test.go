package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"proviso.dev/proviso/internal/hosts/offline"
)

// NI-8: what tools assume to be served if they have files only is what a server serves.
func TestToolsAssumeWhatIsServed(t *testing.T) {
	s := hidingServer.get(t)
	_, lists, err := discovery.NewDiscoveryClientForConfigOrDie(s.admin).ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	host, err := offline.New(offline.Config{MasterNamespace: "master"})
	if err != nil {
		t.Fatal(err)
	}
	line := func(group, name, kind string, namespaced bool) string {
		return fmt.Sprintf("%s %s, namespaced %v", schema.GroupResource{Group: group, Resource: name}, kind, namespaced)
	}
	assumed := map[string]bool{}
	for _, r := range host.Resources() {
		assumed[line(r.GroupVersion.Group, r.Name, r.Body.Kind, r.Namespaced)] = true
	}
	var missing []string
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if !strings.HasSuffix(gv.Group, "example.com") && !assumed[line(gv.Group, r.Name, r.Kind, r.Namespaced)] {
				missing = append(missing, line(gv.Group, r.Name, r.Kind, r.Namespaced))
			}
		}
	}
	slices.Sort(missing)
	for _, m := range slices.Compact(missing) {
		t.Error("served and not assumed so: " + m)
	}
}
