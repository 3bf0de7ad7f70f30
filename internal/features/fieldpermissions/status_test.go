package fieldpermissions

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/state/snapshot"
)

// onlyNamespaces are built in.
type onlyNamespaces struct{ allCustom }

func (onlyNamespaces) Recognizes(kind schema.GroupVersionKind) bool { return kind.Kind == "Namespace" }

// FP-4: a declaration that does not compile, which only another version can have stored, is told from one that does.
func TestFieldStatusOfBroken(t *testing.T) {
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rights := &rights{store: snapshot.NewStore(), cel: newExpressions(expr.NewCache(cel)), schemas: newSchemas(onlyNamespaces{}, func(schema.GroupKind) *apiextensionsv1.CustomResourceDefinition { return nil })}
	declared := func(name, field, when string) *policyv1alpha1.FieldPermission {
		fp := &policyv1alpha1.FieldPermission{}
		fp.Name, fp.Generation = name, 7
		fp.Spec = policyv1alpha1.FieldPermissionSpec{Resources: []string{"namespaces"}, Field: field, Permission: "example.com/x", Exclusive: true, ExclusiveWhen: when}
		return fp
	}
	all := map[string]*policyv1alpha1.FieldPermission{
		"fine": declared("fine", ".spec.finalizers", "self == null"), "cel": declared("cel", ".spec.finalizers", "self =="), "path": declared("path", "spec", ""),
	}
	var list []*policyv1alpha1.FieldPermission
	for _, fp := range all {
		list = append(list, fp)
	}
	if when, err := rights.cel.Stored().When("self =="); err == nil { // as the background does
		_, _ = when.Holds(t.Context(), fieldperm.Change{})
	}
	table, _ := fieldperm.New(fieldperm.Config{FieldPermissions: list, Expressions: rights.cel.Stored()})
	status := rights.statuses(&snapshot.Snapshot{Fields: table, Served: snapshot.Sources{Local: []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "namespaces", Kind: "Namespace"}}},
	}}.Served()})
	for name, want := range map[string]struct {
		compiled, resolved metav1.ConditionStatus
		covered            int
		says               string
	}{
		"fine": {metav1.ConditionTrue, metav1.ConditionTrue, 1, ""},
		"cel":  {metav1.ConditionFalse, metav1.ConditionTrue, 1, "exclusiveWhen: "}, // what it excludes stays excluded
		"path": {metav1.ConditionFalse, metav1.ConditionFalse, 0, "must start with a dot"},
	} {
		got := status(all[name])
		compiled := meta.FindStatusCondition(got.Conditions, policyv1alpha1.ConditionRulesCompiled)
		if compiled.Status != want.compiled || resolved(got) != want.resolved || len(got.CoveredResources) != want.covered ||
			!strings.Contains(compiled.Message, want.says) || strings.Contains(compiled.Message, "FieldPermission") || got.ObservedGeneration != 7 {
			t.Errorf("%s: %+v", name, got)
		}
		if slices.Contains(got.UnresolvedResources, "namespaces") != (want.covered == 0) {
			t.Errorf("%s: unresolved are %v", name, got.UnresolvedResources)
		}
	}
}

func resolved(s policyv1alpha1.FieldPermissionStatus) metav1.ConditionStatus {
	if c := meta.FindStatusCondition(s.Conditions, policyv1alpha1.ConditionKindsResolved); c != nil {
		return c.Status
	}
	return metav1.ConditionUnknown
}
