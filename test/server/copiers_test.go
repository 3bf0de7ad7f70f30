package server

import (
	"os"
	"reflect"
	"strings"
	"testing"

	apiextensionsinternal "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kube-aggregator/pkg/registry/apiservice"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/protectedattr"
)

// PA-13: the controllers that are exempt by name exist, and may write what they are said to make.
func TestCopiersExist(t *testing.T) {
	const prefix = "system:controller:"
	roles := bootstrappolicy.ControllerRoles()
	may := map[string]map[string]bool{}
	for _, role := range roles {
		name := "system:serviceaccount:kube-system:" + strings.TrimPrefix(role.Name, prefix)
		may[name] = map[string]bool{}
		for _, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				for _, resource := range rule.Resources {
					may[name][verb+" "+resource] = true
				}
			}
		}
	}
	copiers, err := os.ReadFile("../../internal/engine/protectedattr/testdata/copiers.txt") // compared with the table there
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(copiers)) {
		user, resource, _ := strings.Cut(strings.TrimSpace(line), " ")
		_, plural, _ := strings.Cut(resource, "/")
		if strings.HasPrefix(user, "system:serviceaccount:") && !may[user]["create "+plural] {
			t.Errorf("%s does not make %s: Kubernetes grants it nothing of the kind", user, resource)
		}
	}
	if !protectedattr.Copies("system:kube-controller-manager", "", "pods", "") || protectedattr.Copies("system:kube-controller-manager", "apps", "deployments", "scale") {
		t.Error("the controller manager makes what its controllers make, and nothing else")
	}
}

// FP-16: the endpoints that are said to set the status of a new object themselves do so, whatever the caller sends.
// Nodes keep it.
func TestStatusIsReset(t *testing.T) {
	for name, tc := range map[string]struct {
		resource fieldperm.Resource
		strategy rest.RESTCreateStrategy
		plain    runtime.Object
		filled   runtime.Object
	}{
		"pods":       {fieldperm.Resource{Resource: "pods"}, pod.Strategy, &api.Pod{}, &api.Pod{Status: api.PodStatus{Message: "x"}}},
		"namespaces": {fieldperm.Resource{Resource: "namespaces"}, namespace.Strategy, &api.Namespace{}, &api.Namespace{Status: api.NamespaceStatus{Phase: "x"}}},
		"persistentvolumes": {fieldperm.Resource{Resource: "persistentvolumes"}, persistentvolume.Strategy,
			&api.PersistentVolume{}, &api.PersistentVolume{Status: api.PersistentVolumeStatus{Message: "x"}}},
		"customresourcedefinitions": {fieldperm.Resource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, customresourcedefinition.NewStrategy(apiextensionsapiserver.Scheme),
			&apiextensionsinternal.CustomResourceDefinition{}, &apiextensionsinternal.CustomResourceDefinition{Status: apiextensionsinternal.CustomResourceDefinitionStatus{StoredVersions: []string{"x"}}}},
		"apiservices": {fieldperm.Resource{Group: "apiregistration.k8s.io", Resource: "apiservices"}, apiservice.NewStrategy(aggregatorscheme.Scheme),
			&apiregistration.APIService{}, &apiregistration.APIService{Status: apiregistration.APIServiceStatus{Conditions: []apiregistration.APIServiceCondition{{Type: "x"}}}}},
		"nodes": {fieldperm.Resource{Resource: "nodes"}, node.Strategy, &api.Node{}, &api.Node{Status: api.NodeStatus{Phase: "x"}}},
	} {
		status := func(o runtime.Object) any {
			tc.strategy.PrepareForCreate(t.Context(), o)
			v := reflect.ValueOf(o).Elem().FieldByName("Status")
			if f := v.FieldByName("LastPhaseTransitionTime"); f.IsValid() {
				f.SetZero() // now
			}
			if f := v.FieldByName("Conditions"); f.IsValid() && name == "apiservices" && f.Len() == 1 {
				f.Index(0).FieldByName("LastTransitionTime").SetZero()
			}
			return v.Interface()
		}
		resets := reflect.DeepEqual(status(tc.plain), status(tc.filled))
		if want := fieldperm.ResetsStatus(tc.resource); resets != want {
			t.Errorf("%s: the endpoint sets the status itself: %v, assumed %v", name, resets, want)
		}
	}
}
