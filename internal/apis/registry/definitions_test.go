package registry

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"proviso.dev/proviso/api/openapi"
)

// SC-14: of the definitions of Kubernetes' own kinds, a server of our groups keeps those that ours refer to.
func TestDefinitionsThatAreKept(t *testing.T) {
	all := func(common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		return map[string]common.OpenAPIDefinition{
			"dev.proviso.policy.v1alpha1.Policy":                {Dependencies: []string{"io.k8s.api.core.v1.Used", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}},
			"io.k8s.auditregistration.v1alpha1.AuditSink":       {},
			"io.k8s.apimachinery.pkg.apis.meta.v1.Status":       {},
			"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta":   {},
			"io.k8s.api.core.v1.Used":                           {Dependencies: []string{"io.k8s.api.core.v1.Deep"}},
			"io.k8s.api.core.v1.Deep":                           {Dependencies: []string{"io.k8s.api.core.v1.Used"}},
			"io.k8s.api.core.v1.Pod":                            {Dependencies: []string{"io.k8s.api.core.v1.Deep"}},
			"io.k8s.kube-aggregator.pkg.apis.v1.APIServiceSpec": {},
		}
	}
	want := []string{"dev.proviso.policy.v1alpha1.Policy", "io.k8s.api.core.v1.Deep", "io.k8s.api.core.v1.Used", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
		"io.k8s.apimachinery.pkg.apis.meta.v1.Status", "io.k8s.auditregistration.v1alpha1.AuditSink"}
	if got := slices.Sorted(maps.Keys(needed(all)(nil))); !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
	// None of ours is missing, whatever its group is called.
	ref := func(string) spec.Ref { return spec.Ref{} }
	every, kept := openapi.Definitions(ref), needed(definitions)(ref)
	for name := range every {
		if _, ok := kept[name]; !ok {
			t.Errorf("%s is not kept", name)
		}
	}
}
