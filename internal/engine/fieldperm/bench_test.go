package fieldperm

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// megabyte is a pod of about a megabyte in thousands of fields, which is the hard sort: a megabyte of text in one field
// costs nothing.
func megabyte() *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "big", Namespace: "hammer", Labels: map[string]string{"a": "1"}}}
	p.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	for i := range 100 {
		c := corev1.Container{Name: fmt.Sprint("c", i), Image: "registry.example.com/team/app:v1"}
		for j := range 100 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("VARIABLE_", j), Value: strings.Repeat("v", 60)})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return p
}

// writes is one update of a big pod: a label and an image change.
func writes(t testing.TB) (live, changed *corev1.Pod, manager *managedfields.FieldManager) {
	t.Helper()
	manager = managedfieldstest.NewFakeFieldManager(builtin(), schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
	obj, err := manager.Update(&corev1.Pod{TypeMeta: megabyte().TypeMeta}, megabyte(), "creator")
	if err != nil {
		t.Fatal(err)
	}
	live = obj.(*corev1.Pod)
	if raw, err := json.Marshal(live); err != nil || len(raw) < 1_000_000 {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	changed = live.DeepCopy()
	changed.Labels["a"] = "2"
	changed.Spec.Containers[50].Image = "registry.example.com/team/app:v2"
	return live, changed, manager
}

func BenchmarkMegabyte(b *testing.B) {
	live, changed, manager := writes(b)
	table := mustTable(b)
	unvalidated := unvalidatedPods(b)
	for _, bc := range []struct {
		name string
		run  func() error
	}{
		{"upstream bookkeeping", func() error { _, err := manager.Update(live, changed, "updater"); return err }},
		{"decide, upstream's converter", func() error { return decideWith(table, builtin(), live, changed) }},
		{"decide, without validation", func() error { return decideWith(table, unvalidated, live, changed) }},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := bc.run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// unvalidatedPods makes values like Schemas, of the types that upstream's converter has.
func unvalidatedPods(t testing.TB) Converter {
	pt, _ := typeOf(t, &corev1.Pod{})
	return &Schemas{types: map[schema.GroupVersionKind]typed.ParseableType{{Version: "v1", Kind: "Pod"}: pt}}
}

func decideWith(table *Table, c Converter, old, new runtime.Object) error {
	r := table.Decide(Request{Target: podTarget, Check: holds("granular:metadata", "granular:specification").check,
		Objects: func() (*typed.TypedValue, *typed.TypedValue, error) {
			before, err := c.ObjectToTyped(old, typed.AllowDuplicates)
			if err != nil {
				return nil, nil, err
			}
			after, err := c.ObjectToTyped(new, typed.AllowDuplicates)
			return before, after, err
		}})
	if !r.Allowed() {
		return fmt.Errorf("refused: %s %w", r.Reason(), r.Err)
	}
	return nil
}

// FP-13: comparing a megabyte costs no more than upstream's own field tracking of it. Both do the same work in the same
// run; memory is compared first because it does not depend on what else the machine does, and the margin in time is
// tenfold.
func TestDiffCostsNoMoreThanUpstream(t *testing.T) {
	if testing.Short() {
		t.Skip("measures")
	}
	live, changed, manager := writes(t)
	table := mustTable(t)
	unvalidated := unvalidatedPods(t)
	var err error
	upstream := func() { _, err = manager.Update(live, changed, "updater") }
	ours := func() { err = decideWith(table, unvalidated, live, changed) }
	cost := func(run func()) (time.Duration, float64) {
		best := time.Hour
		allocations := testing.AllocsPerRun(2, func() {
			start := time.Now()
			run()
			best = min(best, time.Since(start))
		})
		if err != nil {
			t.Fatal(err)
		}
		return best, allocations
	}
	theirTime, theirAllocs := cost(upstream)
	ourTime, ourAllocs := cost(ours)
	// Whatever else the machine does, one of many attempts is not disturbed.
	for attempt := 0; attempt < 20 && ourTime > theirTime; attempt++ {
		theirTime, theirAllocs = cost(upstream)
		ourTime, ourAllocs = cost(ours)
	}
	t.Logf("time %v of %v, allocations %.0f of %.0f", ourTime, theirTime, ourAllocs, theirAllocs)
	if ourAllocs > theirAllocs || ourTime > theirTime {
		t.Errorf("time %v of %v, allocations %.0f of %.0f", ourTime, theirTime, ourAllocs, theirAllocs)
	}
}

// FP-13: a caller with the general verb pays nothing where no field is exclusive.
func BenchmarkGeneralWriter(b *testing.B) {
	live, changed, _ := writes(b)
	plain := mustTable(b)
	guarded := mustTable(b, permissionObject("x", ".metadata.labels[tier]", "ex.com/tier", exclusive, "pods"))
	before, after := typedOf(b, live), typedOf(b, changed)
	pair := func() (*typed.TypedValue, *typed.TypedValue, error) { return before, after, nil }
	for name, table := range map[string]*Table{"nothing exclusive": plain, "a label exclusive": guarded} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !table.Decide(Request{Target: podTarget, Mode: General, Objects: pair}).Allowed() {
					b.Fatal("refused")
				}
			}
		})
	}
}
