package server

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/expr"
	"proviso.dev/proviso/internal/fieldperm"
	"proviso.dev/proviso/internal/snapshot"
)

// switched is a part of the snapshot that is complete when it is told so.
type switched struct{ synced chan struct{} }

func (switched) Name() string { return "switched" }

func (s switched) HasSynced() bool {
	select {
	case <-s.synced:
		return true
	default:
		return false
	}
}

func (switched) Apply(*snapshot.Snapshot) {}

// SV-8: a status is computed from a complete snapshot, once, and again if it could not be written.
func TestPerSnapshot(t *testing.T) {
	store, part := snapshot.NewStore(), switched{make(chan struct{})}
	store.Add(part)
	go store.Run(t.Context().Done())
	var seen []uint64
	var failure error
	report := perSnapshot(store, func(_ context.Context, snap *snapshot.Snapshot) error {
		seen = append(seen, snap.Generation)
		return failure
	})
	run := func() error { return report(t.Context()) }
	awaited := func(condition func() bool) {
		t.Helper()
		if err := wait.PollUntilContextCancel(t.Context(), 5*time.Millisecond, true, func(context.Context) (bool, error) { return condition(), nil }); err != nil {
			t.Fatal(err)
		}
	}

	awaited(func() bool { return store.Current().Generation > 0 })
	if err := run(); err != nil || len(seen) > 0 {
		t.Errorf("reported of a snapshot that is not complete: %v", err)
	}
	close(part.synced)
	awaited(func() bool { return store.Current().Synced })
	failure = errors.New("no etcd")
	if err := run(); !errors.Is(err, failure) || len(seen) != 1 {
		t.Errorf("%v after %v", err, seen)
	}
	failure = nil
	if err := run(); err != nil || len(seen) != 2 {
		t.Errorf("not tried again: %v after %v", err, seen)
	}
	last := seen[len(seen)-1]
	if err := run(); err != nil || store.Current().Generation == last && len(seen) != 2 {
		t.Errorf("reported twice of one snapshot: %v, %v", seen, err)
	}
	store.Changed()
	awaited(func() bool { return store.Current().Generation > last })
	if err := run(); err != nil || seen[len(seen)-1] <= last {
		t.Errorf("not reported of the next snapshot: %v, %v", seen, err)
	}
}

// FP-4: a declaration that does not compile, which only another version can have stored, is told from one that does.
func TestFieldStatusOfBroken(t *testing.T) {
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rights := newFieldRights(snapshot.NewStore(), expr.NewCache(cel))
	rights.schemas.definition = func(schema.GroupKind) *apiextensionsv1.CustomResourceDefinition { return nil }
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
