package source

import (
	"fmt"
	"runtime"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/state/snapshot"
)

// received is a cluster role binding as a server sends it: every string of it is its own.
func received(b *testing.B, i int) *rbacv1.ClusterRoleBinding {
	b.Helper()
	sent := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("binding-%06d", i), UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)),
			ResourceVersion: fmt.Sprint(1_000_000 + i), CreationTimestamp: metav1.Now()},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: fmt.Sprintf("user-%06d@example.com", i)}},
	}
	data, err := sent.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	got := &rbacv1.ClusterRoleBinding{}
	if err := got.Unmarshal(data); err != nil {
		b.Fatal(err)
	}
	return got
}

// BenchmarkHeld is what a binding takes in memory once it has been read: what the mirror keeps of it, the index, and
// the strings that they share.
func BenchmarkHeld(b *testing.B) {
	const n = 100_000
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for b.Loop() {
		before := heap()
		m := newMirror(snapshot.ClusterRoleBindings, nil, func() {})
		changes := []ruleset.Change{ruleset.Put(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}})}
		if _, err := m.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
			changes = append(changes, ruleset.Put(obj.(*rbacv1.ClusterRoleBinding)))
		}}); err != nil {
			b.Fatal(err)
		}
		objects := make([]any, n)
		for i := range objects {
			objects[i] = received(b, i)
		}
		whole := heap()
		if err := m.replace(objects, "2000000"); err != nil {
			b.Fatal(err)
		}
		ix := ruleset.Build(ruleset.Input{}).Apply(changes...)
		if ix.Bindings() != n {
			b.Fatal(ix.Bindings())
		}
		changes, objects = nil, nil
		b.ReportMetric(float64(heap()-before)/n, "B/binding")
		b.ReportMetric(float64(whole-before)/n, "B/object")
		runtime.KeepAlive(m)
		runtime.KeepAlive(ix)
		runtime.KeepAlive(changes)
		runtime.KeepAlive(objects)
	}
}
