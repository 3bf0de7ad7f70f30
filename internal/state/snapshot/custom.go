package snapshot

import (
	"cmp"
	"slices"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"proviso.dev/proviso/internal/engine/verbs"
)

// CustomLists returns what definitions make the server serve. It does not wait until a definition is established, so
// rules by kind know the kind before the first object can exist. Definitions whose names were accepted come first, so
// one that claims the kind of another has no effect.
func CustomLists(definitions []*apiextensions.CustomResourceDefinition) (lists []*metav1.APIResourceList) {
	definitions = slices.Clone(definitions)
	slices.SortFunc(definitions, func(a, b *apiextensions.CustomResourceDefinition) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
	})
	for _, d := range definitions {
		lists = append(lists, customLists(d)...)
	}
	return lists
}

func rank(d *apiextensions.CustomResourceDefinition) int {
	if holds(d, apiextensions.NamesAccepted) {
		return 0
	}
	return 1
}

func holds(d *apiextensions.CustomResourceDefinition, condition apiextensions.CustomResourceDefinitionConditionType) bool {
	return slices.ContainsFunc(d.Status.Conditions, func(c apiextensions.CustomResourceDefinitionCondition) bool {
		return c.Type == condition && c.Status == apiextensions.ConditionTrue
	})
}

// CustomKind returns the kind that a definition gives its resource: the accepted one, once there is one.
func CustomKind(d *apiextensions.CustomResourceDefinition) string {
	return cmp.Or(d.Status.AcceptedNames.Kind, d.Spec.Names.Kind)
}

// unlisted are the verbs of a definition without a served version. Its objects are still stored, and rules about its
// kind still apply to them; they are deleted with the definition, and the garbage collector processes them again when
// they are served again.
var unlisted = metav1.Verbs{"delete"}

// customLists returns what one definition makes the server serve, in the order in which Kubernetes prefers versions. It
// does not use the group's ranking of versions, which other servers can influence.
func customLists(d *apiextensions.CustomResourceDefinition) (lists []*metav1.APIResourceList) {
	kind, plural := CustomKind(d), d.Spec.Names.Plural
	var serves metav1.Verbs
	served := slices.ContainsFunc(d.Spec.Versions, func(v apiextensions.CustomResourceDefinitionVersion) bool { return v.Served })
	if holds(d, apiextensions.NamesAccepted) || holds(d, apiextensions.Established) { // before, there is nothing to list
		serves = verbs.Served()
		if !served {
			serves = unlisted
		}
	}
	for _, v := range d.Spec.Versions {
		if !v.Served && (served || !v.Storage) {
			continue
		}
		list := &metav1.APIResourceList{GroupVersion: d.Spec.Group + "/" + v.Name}
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: plural, Kind: kind, Namespaced: d.Spec.Scope == apiextensions.NamespaceScoped, Verbs: serves})
		if v.Subresources != nil && v.Subresources.Status != nil {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: plural + "/status", Kind: kind})
		}
		if v.Subresources != nil && v.Subresources.Scale != nil {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: plural + "/scale", Group: "autoscaling", Version: "v1", Kind: "Scale"})
		}
		lists = append(lists, list)
	}
	slices.SortStableFunc(lists, func(a, b *metav1.APIResourceList) int {
		return version.CompareKubeAwareVersionStrings(b.GroupVersion[len(d.Spec.Group)+1:], a.GroupVersion[len(d.Spec.Group)+1:])
	})
	return lists
}
