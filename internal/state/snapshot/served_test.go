package snapshot

import (
	"math/rand/v2"
	"slices"
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func list(gv string, resources ...metav1.APIResource) *metav1.APIResourceList {
	return &metav1.APIResourceList{GroupVersion: gv, APIResources: resources}
}

// SV-8: what this process serves, it alone speaks for; another server speaks for its own group and version only.
func TestEverybodySpeaksForHimself(t *testing.T) {
	local := []*metav1.APIResourceList{
		list("v1", metav1.APIResource{Name: "secrets", Kind: "Secret"}, metav1.APIResource{Name: "pods", Kind: "Pod"}),
		list("apps/v1", metav1.APIResource{Name: "deployments", Kind: "Deployment"}, metav1.APIResource{Name: "deployments/scale", Group: "autoscaling", Version: "v1", Kind: "Scale"}),
	}
	custom := []*metav1.APIResourceList{
		list("farm.io/v1", metav1.APIResource{Name: "oxen", Kind: "Ox"}),
		list("apps/v9", metav1.APIResource{Name: "deployments", Kind: "Harmless"}, metav1.APIResource{Name: "deployment", Kind: "Deployment"}),
	}
	remote := []*metav1.APIResourceList{
		list("apps/v9", metav1.APIResource{Name: "deployments", Kind: "Deployment"}, metav1.APIResource{Name: "deployments/status", Kind: "Deployment"}),
		list("farm.io/v2", metav1.APIResource{Name: "oxen", Kind: "Harmless"}, metav1.APIResource{Name: "oxen/status", Kind: "Ox"}),
		list("evil.io/v1", metav1.APIResource{Name: "things", Kind: "Thing"},
			metav1.APIResource{Name: "deployments", Group: "apps", Version: "v9", Kind: "Deployment"},
			metav1.APIResource{Name: "oxen", Group: "farm.io", Version: "v9", Kind: "Ox"},
			metav1.APIResource{Name: "things/scale", Group: "autoscaling", Version: "v9", Kind: "Scale"},
			metav1.APIResource{Name: "novel", Group: "new.io", Version: "v9", Kind: "Novel"}),
	}
	s := Sources{Local: local, Custom: custom, Remote: remote}.Served()
	for gk, want := range map[schema.GroupKind]string{
		{Kind: "Secret"}:                      "v1",
		{Group: "apps", Kind: "Deployment"}:   "v1",
		{Group: "autoscaling", Kind: "Scale"}: "v1",
		{Group: "farm.io", Kind: "Ox"}:        "v1",
		{Group: "evil.io", Kind: "Thing"}:     "v1",
		{Group: "new.io", Kind: "Novel"}:      "",
		{Group: "apps", Kind: "Harmless"}:     "",
	} {
		if got := s.PreferredVersion(gk); got != want {
			t.Errorf("%s is seen in version %q, want %q", gk, got, want)
		}
	}
	for gr, want := range map[schema.GroupResource]string{
		{Group: "apps", Resource: "deployments"}:        "Deployment",
		{Group: "apps", Resource: "deployment"}:         "",
		{Group: "apps", Resource: "deployments/status"}: "",
		{Group: "farm.io", Resource: "oxen"}:            "Ox",
		{Group: "farm.io", Resource: "oxen/status"}:     "",
		{Group: "evil.io", Resource: "things"}:          "Thing",
		{Group: "evil.io", Resource: "things/scale"}:    "Scale",
		{Group: "evil.io", Resource: "deployments"}:     "Deployment",
	} {
		if got := s.OwnKind(gr); got != want {
			t.Errorf("%s has kind %q, want %q", gr, got, want)
		}
	}
}

// PO-10: what belongs to no namespace is said of what others serve; our own is told by its name.
func TestClusterScopedOfOthers(t *testing.T) {
	pair := func(gv string) *metav1.APIResourceList {
		return list(gv, metav1.APIResource{Name: "fields", Kind: "Field"}, metav1.APIResource{Name: "fields/status", Kind: "Field"}, metav1.APIResource{Name: "oxen", Kind: "Ox", Namespaced: true})
	}
	s := Sources{Local: []*metav1.APIResourceList{pair("own.io/v1")}, Custom: []*metav1.APIResourceList{pair("farm.io/v1")}, Remote: []*metav1.APIResourceList{pair("far.io/v1")}}.Served()
	if want := []schema.GroupResource{{Group: "farm.io", Resource: "fields"}, {Group: "far.io", Resource: "fields"}}; !slices.Equal(s.clusterScoped, want) {
		t.Errorf("%v, want %v", s.clusterScoped, want)
	}
}

func definition(group, plural, kind string, accepted bool, versions ...string) *apiextensions.CustomResourceDefinition {
	d := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group}}
	d.Spec.Group, d.Spec.Names = group, apiextensions.CustomResourceDefinitionNames{Plural: plural, Kind: kind}
	for _, v := range versions {
		d.Spec.Versions = append(d.Spec.Versions, apiextensions.CustomResourceDefinitionVersion{Name: v, Served: v != "v0",
			Subresources: &apiextensions.CustomResourceSubresources{Status: &apiextensions.CustomResourceSubresourceStatus{}}})
	}
	if accepted {
		d.Status.AcceptedNames = d.Spec.Names
		d.Status.Conditions = []apiextensions.CustomResourceDefinitionCondition{{Type: apiextensions.NamesAccepted, Status: apiextensions.ConditionTrue}}
	}
	return d
}

// PO-2, FP-10: definitions count from the moment that they are stored, with the kind that is accepted, in the version
// that Kubernetes prefers, in whatever order they come.
func TestCustomLists(t *testing.T) {
	pending := definition("farm.io", "oxen", "Ox", false, "v1")
	changed := definition("farm.io", "geese", "Goose", true, "v1")
	changed.Spec.Names.Kind = "Gander" // not accepted
	all := []*apiextensions.CustomResourceDefinition{
		definition("example.com", "things", "Thing", true, "v1alpha1", "v1", "v0", "v1beta1", "v2alpha1"),
		definition("example.com", "a-claim-on-it", "Thing", false, "v3"),
		pending, changed,
	}
	for range 50 {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		s := Sources{Custom: CustomLists(all)}.Served()
		if got := s.PreferredVersion(schema.GroupKind{Group: "example.com", Kind: "Thing"}); got != "v1" {
			t.Fatalf("things are seen in version %q", got)
		}
		for resource, want := range map[string]string{"oxen": "Ox", "geese": "Goose", "oxen/status": "Ox", "oxen/scale": ""} {
			if got := s.OwnKind(schema.GroupResource{Group: "farm.io", Resource: resource}); got != want {
				t.Fatalf("%s has kind %q, want %q", resource, got, want)
			}
		}
	}
}

// PO-20: the objects of a definition are looked at as soon as there can be some: when its names are accepted.
func TestDefinitionsThatHaveObjects(t *testing.T) {
	established := definition("farm.io", "geese", "Goose", false, "v1")
	established.Status.Conditions = []apiextensions.CustomResourceDefinitionCondition{{Type: apiextensions.Established, Status: apiextensions.ConditionTrue}}
	for _, c := range []struct {
		definition *apiextensions.CustomResourceDefinition
		want       int
	}{{definition("farm.io", "geese", "Goose", true, "v1"), 1}, {established, 1}, {definition("farm.io", "geese", "Goose", false, "v1"), 0}} {
		got := Sources{Custom: CustomLists([]*apiextensions.CustomResourceDefinition{c.definition})}.Resources()
		if len(got) != c.want || c.want == 1 && !got[0].Deletable {
			t.Errorf("%v: %v", c.definition.Status.Conditions, got)
		}
	}
}

// PO-20: what is stored and not served now is still known, by its kind and as something that cannot be listed.
func TestDefinitionsThatAreNotServed(t *testing.T) {
	asleep := definition("farm.io", "geese", "Goose", true, "v1", "v2")
	asleep.Spec.Versions[0].Served, asleep.Spec.Versions[1].Served, asleep.Spec.Versions[1].Storage = false, false, true
	halfway := asleep.DeepCopy()
	halfway.Spec.Versions[0].Served = true
	for _, d := range []*apiextensions.CustomResourceDefinition{asleep, halfway} {
		from := Sources{Custom: CustomLists([]*apiextensions.CustomResourceDefinition{d})}
		got := from.Resources()
		if len(got) != 1 || !got[0].Deletable || got[0].Unlisted != (d == asleep) {
			t.Errorf("resources: %+v", got)
		}
		if kinds := from.Served().Kinds().Resolve("Goose"); len(kinds) != 1 {
			t.Errorf("a Goose is %v", kinds)
		}
		want := "v1"
		if d == asleep {
			want = "v2" // as it is stored
		}
		if version := from.Served().PreferredVersion(schema.GroupKind{Group: "farm.io", Kind: "Goose"}); version != want {
			t.Errorf("version %q, want %q", version, want)
		}
	}
}
