package server

import (
	"math/rand/v2"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/snapshot"
)

// TestPreferredVersionIsStable: conditions and field permissions see a kind in the version that its group prefers, in whatever
// order discovery gives the versions (FP-10).
func TestPreferredVersionIsStable(t *testing.T) {
	group := func(name string, versions ...string) *metav1.APIGroup {
		g := &metav1.APIGroup{Name: name}
		for _, v := range versions {
			g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + v, Version: v})
		}
		return g
	}
	groups := []*metav1.APIGroup{group("autoscaling", "v2", "v1"), group("example.com", "v1", "v1beta1", "v1alpha1")}
	var lists []*metav1.APIResourceList
	for _, g := range groups {
		for _, v := range g.Versions {
			lists = append(lists, &metav1.APIResourceList{GroupVersion: v.GroupVersion, APIResources: []metav1.APIResource{{Name: "things", Kind: "Thing"}}})
		}
	}
	for range 100 {
		rand.Shuffle(len(lists), func(i, j int) { lists[i], lists[j] = lists[j], lists[i] })
		served := snapshot.NewServed(byPreference(groups, lists))
		for name, want := range map[string]string{"autoscaling": "v2", "example.com": "v1"} {
			if got := served.PreferredVersion(schema.GroupKind{Group: name, Kind: "Thing"}); got != want {
				t.Fatalf("%s prefers %s, want %s", name, got, want)
			}
		}
	}
}
