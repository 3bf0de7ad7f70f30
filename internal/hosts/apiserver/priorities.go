package apiserver

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
)

// groupPriority orders an API group in discovery. Versions map to their order within the group.
type groupPriority struct {
	group    string
	priority int32
	versions map[string]int32
}

// kubePriorities are kube-apiserver's own, for the groups that upstream does not export. A group version that is
// missing here is served as a 404: test/drift compares the table with upstream's.
var kubePriorities = []groupPriority{
	{"", 18000, map[string]int32{"v1": 1}},
	{"apps", 17800, map[string]int32{"v1": 15}},
	{"autoscaling", 17500, map[string]int32{"v1": 15, "v2": 30, "v2beta1": 9, "v2beta2": 1}},
	{"batch", 17400, map[string]int32{"v1": 15, "v1beta1": 9, "v2alpha1": 9}},
	{"networking.k8s.io", 17200, map[string]int32{"v1": 15, "v1beta1": 9}},
	{"policy", 17100, map[string]int32{"v1": 15, "v1beta1": 9}},
	{"storage.k8s.io", 16800, map[string]int32{"v1": 15, "v1beta1": 9, "v1alpha1": 1}},
	{"scheduling.k8s.io", 16600, map[string]int32{"v1": 15, "v1beta1": 9, "v1alpha3": 3}},
	{"node.k8s.io", 16300, map[string]int32{"v1": 15, "v1beta1": 9, "v1alpha1": 1}},
	{"resource.k8s.io", 16200, map[string]int32{"v1": 21, "v1beta2": 15, "v1beta1": 9, "v1alpha3": 1}},
	{"lifecycle.k8s.io", 15700, map[string]int32{"v1alpha1": 1}},
}

// ownPriorities: our groups stand behind all of Kubernetes' own, so that no short name of kubectl changes its meaning,
// and before those of CRDs, which all have 1000: upstream orders equal ones in one way in /apis and in another in the
// aggregated document.
var ownPriorities = []groupPriority{
	{"authorization.k8s.io", 17600, map[string]int32{"v1alpha1": 1}}, // AuthorizationConditionsReview, behind upstream's v1
	{"authorization.proviso.dev", 1200, map[string]int32{"v1alpha1": 15}},
	{"policy.proviso.dev", 1100, map[string]int32{"v1alpha1": 15}},
	{"auditregistration.k8s.io", 1050, map[string]int32{"v1alpha1": 15}},
	{"access.proviso.dev", 1040, map[string]int32{"v1alpha1": 15}},
}

// APIVersionPriorities is the order of all group versions this process serves.
func APIVersionPriorities() map[schema.GroupVersion]controlplaneapiserver.APIServicePriority {
	all := controlplaneapiserver.DefaultGenericAPIServicePriorities()
	for _, groups := range [][]groupPriority{kubePriorities, ownPriorities} {
		for _, g := range groups {
			for version, priority := range g.versions {
				all[schema.GroupVersion{Group: g.group, Version: version}] =
					controlplaneapiserver.APIServicePriority{Group: g.priority, Version: priority}
			}
		}
	}
	return all
}
