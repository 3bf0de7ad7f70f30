package fieldpermissions

import (
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/state/snapshot"
)

// HF-1, HF-9: a host that does not hide fields refuses to say so, and policy is not hidden anywhere.
func TestHidingWhereItWorks(t *testing.T) {
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		hides          bool
		resource, want string
	}{
		{true, "secrets", ""}, {false, "secrets", "not available beside a stock API server"}, {true, "policies.policy.proviso.dev", "fields of policy"},
		{true, "auditsinks.auditregistration.k8s.io", "fields of policy"},
	} {
		r := &rights{store: snapshot.NewStore(), hides: tc.hides, cel: newExpressions(expr.NewCache(cel)),
			schemas: newSchemas(onlyNamespaces{}, func(schema.GroupKind) *apiextensionsv1.CustomResourceDefinition { return nil })}
		spec := policyv1alpha1.FieldPermissionSpec{Resources: []string{tc.resource}, Field: ".data", Permission: "example.com/data", ReadExclusive: true}
		errs := r.CheckFieldPermission(spec, field.NewPath("spec"))
		if tc.want == "" && len(errs) > 0 || tc.want != "" && (len(errs) == 0 || !strings.Contains(errs.ToAggregate().Error(), tc.want)) {
			t.Errorf("%s, hidden here: %v: %v", tc.resource, tc.hides, errs)
		}
	}
}

// HF-1: everything that the Scale of a custom resource shows is found in its definition, in every version that is
// served and whatever its name is.
func TestWhatDefinitionsShowInScale(t *testing.T) {
	selector := ".status.odd:name"
	scaled := func(served bool, replicas string, selector *string) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{Served: served, Subresources: &apiextensionsv1.CustomResourceSubresources{
			Scale: &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: replicas, StatusReplicasPath: ".status.count", LabelSelectorPath: selector}}}
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Served: true}, scaled(true, ".spec.count", &selector), scaled(true, ".spec.size", nil), scaled(false, ".spec.gone", nil)}
	custom := readDefinition(crd)
	if got, want := fmt.Sprint(custom.ShownInScale), `[.spec.count .status.count .status["odd:name"] .spec.size .status.count]`; got != want {
		t.Error(got)
	}
	if got, want := fmt.Sprint(custom.Scale), "[.spec.count .spec.size]"; got != want {
		t.Error(got)
	}
}
