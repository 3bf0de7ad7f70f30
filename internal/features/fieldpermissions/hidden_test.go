package fieldpermissions

import (
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
