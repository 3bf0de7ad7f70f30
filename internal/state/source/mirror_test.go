package source

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"proviso.dev/proviso/internal/engine/revision"
	"proviso.dev/proviso/internal/state/snapshot"
)

func role(name, uid string, version int) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(uid), ResourceVersion: strconv.Itoa(version)}}
}

// heard is what a handler was told, by name.
type heard map[string]string

func (h heard) handler() cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { h[obj.(*rbacv1.Role).Name] = versionOf(obj) },
		UpdateFunc: func(_, obj any) { h[obj.(*rbacv1.Role).Name] = versionOf(obj) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			delete(h, obj.(*rbacv1.Role).Name)
		},
	}
}

// TR-13: what the revision of a mirror says has been handled by everybody by then: after every event, and after a list
// that brings what was deleted in between.
func TestMirror(t *testing.T) {
	moved := 0
	m := newMirror(snapshot.Roles, nil, func() { moved++ })
	early := heard{}
	registration, err := m.AddEventHandler(early.handler())
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	if _, err := m.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { order = append(order, "+"+obj.(*rbacv1.Role).Name) },
		DeleteFunc: func(obj any) { order = append(order, fmt.Sprintf("-%T", obj)) },
	}); err != nil {
		t.Fatal(err)
	}
	check := func(what string, at uint64, want heard) {
		t.Helper()
		if got := m.entry(); got.At != at || got.Source != "roles.rbac.authorization.k8s.io" {
			t.Errorf("%s: at %+v, want %d", what, got, at)
		}
		if fmt.Sprint(early) != fmt.Sprint(want) {
			t.Errorf("%s: the handler has %v, want %v", what, early, want)
		}
		if n := len(m.GetIndexer().List()); n != len(want) {
			t.Errorf("%s: %d objects", what, n)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if registration.HasSynced() || m.LastSyncResourceVersion() != "" {
		t.Error("synced before the first list")
	}
	must(queue{m}.Replace([]any{role("x", "1", 3), role("y", "2", 4)}, "10"))
	check("the first list", 10, heard{"x": "3", "y": "4"})
	if !registration.HasSynced() {
		t.Error("not synced after the first list")
	}
	must(queue{m}.Add(role("z", "3", 11)))
	must(queue{m}.Update(role("x", "1", 12)))
	check("events", 12, heard{"x": "12", "y": "4", "z": "11"})
	must(queue{m}.Delete(role("y", "2", 13)))
	check("a deletion", 13, heard{"x": "12", "z": "11"})
	before := m.entry()
	must(queue{m}.Bookmark("20"))
	check("a bookmark", 20, heard{"x": "12", "z": "11"})
	if m.entry().State != before.State {
		t.Error("a bookmark changes the content")
	}
	// What comes is there before what goes is gone.
	order = nil
	must(queue{m}.Replace([]any{role("x", "1", 12), role("w", "5", 25)}, "30"))
	if len(order) != 2 || order[0] != "+w" || !strings.HasPrefix(order[1], "-") {
		t.Errorf("a later list: %q", order)
	}
	check("a later list", 30, heard{"x": "12", "w": "25"})
	if moved != 6 {
		t.Errorf("told of %d moves", moved)
	}
}

// Of RBAC, which the index is made of, nothing stays but what tells one object from another: a handler that would be
// told of nothing is refused. Of everything else all stays but who wrote it, and who comes late is told.
func TestMirrorHoldsNoMoreThanIsNeeded(t *testing.T) {
	managed := []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	slim := newMirror(snapshot.Roles, nil, func() {})
	told := 0
	if _, err := slim.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { told += len(obj.(*rbacv1.Role).Rules) }}); err != nil {
		t.Fatal(err)
	}
	full := role("x", "1", 3)
	full.Rules, full.ManagedFields = []rbacv1.PolicyRule{{Verbs: []string{"get"}}}, managed
	if err := (queue{slim}).Replace([]any{full}, "10"); err != nil {
		t.Fatal(err)
	}
	held := slim.GetIndexer().List()
	if _, ok := held[0].(*stub); !ok || told != 1 {
		t.Errorf("holds %T, and the handler saw %d rules", held[0], told)
	}
	if _, exists, err := slim.GetIndexer().GetByKey("a/x"); err != nil || !exists {
		t.Errorf("the role is not found by its key: %v", err)
	}
	if _, err := slim.AddEventHandler(cache.ResourceEventHandlerFuncs{}); err == nil {
		t.Error("a handler that comes too late is taken")
	}

	namespaces := newMirror(snapshot.Namespaces, nil, func() {})
	if err := (queue{namespaces}).Replace([]any{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}, ManagedFields: managed}}}, "10"); err != nil {
		t.Fatal(err)
	}
	var late *corev1.Namespace
	if _, err := namespaces.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { late = obj.(*corev1.Namespace) }}); err != nil {
		t.Fatal(err)
	}
	if late == nil || late.Labels["a"] != "b" || late.ManagedFields != nil {
		t.Errorf("a late handler has %+v", late)
	}
}

// Two mirrors that have the same objects in the same versions have the same state, by whatever way, and otherwise not.
func TestMirrorsOfTheSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		live := map[string]*rbacv1.Role{}
		a := newMirror(snapshot.Roles, nil, func() {})
		_ = queue{a}.Replace(nil, "1")
		for version := 2; version < 40; version++ {
			name := string(rune('a' + rng.IntN(6)))
			switch old := live[name]; {
			case old == nil:
				live[name] = role(name, strconv.Itoa(version), version)
				_ = queue{a}.Add(live[name])
			case rng.IntN(2) == 0:
				live[name] = role(name, string(old.UID), version)
				_ = queue{a}.Update(live[name])
			default:
				delete(live, name)
				_ = queue{a}.Delete(role(name, string(old.UID), version))
			}
		}
		var all []any
		for _, r := range live {
			all = append(all, r)
		}
		b := newMirror(snapshot.Roles, nil, func() {})
		_ = queue{b}.Replace(slices.Clone(all), "60")
		if a.entry().State != b.entry().State {
			t.Fatal("the same content in two states")
		}
		if lacks := (revision.Vector{a.entry()}).Lacks(revision.Vector{b.entry()}); len(lacks) > 0 {
			t.Fatalf("the same content lacks %v", lacks)
		}
		_ = queue{b}.Add(role("more", "9", 61))
		if lacks := (revision.Vector{a.entry()}).Lacks(revision.Vector{b.entry()}); len(lacks) == 0 {
			t.Fatal("an object more is not missed")
		}
	}
}

// Every kind that policy is made of has its place in tokens.
func TestKindsAreSources(t *testing.T) {
	for _, kind := range snapshot.Kinds() {
		if !revision.IsSource(kind.GroupResource().String()) {
			t.Errorf("%s has no place in tokens", kind.GroupResource())
		}
	}
}
