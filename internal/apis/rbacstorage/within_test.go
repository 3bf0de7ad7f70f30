package rbacstorage

import (
	"context"
	"testing"
	"unsafe"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/apis/rbac"

	"proviso.dev/proviso/internal/state/snapshot"
)

// shelf is a storage with one binding.
type shelf struct {
	checkedStorage
	binding *rbac.ClusterRoleBinding
	events  *watch.FakeWatcher
	asked   *metainternalversion.ListOptions
	ctx     context.Context
}

func (s *shelf) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	s.ctx, s.asked = ctx, options
	return &rbac.ClusterRoleBindingList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []rbac.ClusterRoleBinding{*s.binding}}, nil
}

func (s *shelf) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	s.ctx, s.asked = ctx, options
	return s.events, nil
}

// encoded is an object as the watch cache sends it.
type encoded struct {
	*rbac.ClusterRoleBinding
	runtime.CacheableObject
}

func (e encoded) GetObject() runtime.Object      { return e.ClusterRoleBinding.DeepCopy() }
func (e encoded) DeepCopyObject() runtime.Object { return e }

// What is read within the process is what a client would get, in the version of clients, and shares the names with the
// watch cache without changing them. What is not stored here is read otherwise.
func TestWithin(t *testing.T) {
	bound := &rbac.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b", ResourceVersion: "5", Annotations: map[string]string{"a": "b"}}, RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "r"},
		Subjects: []rbac.Subject{{Kind: "User", APIGroup: rbac.GroupName, Name: "ann"}}}
	stored := &shelf{binding: bound, events: watch.NewFakeWithChanSize(5, false)}
	within := &Within{}
	if within.ListerWatcher(snapshot.ClusterRoleBindings) != nil {
		t.Error("something is read before it is stored")
	}
	within.keep(snapshot.ClusterRoleBindings.Resource, stored)
	if within.ListerWatcher(snapshot.Policies) != nil || within.ListerWatcher(snapshot.Roles) != nil {
		t.Error("something else is read")
	}
	all := cache.ToListerWatcherWithContext(within.ListerWatcher(snapshot.ClusterRoleBindings))
	same := func(obj runtime.Object, shared bool) {
		t.Helper()
		b, ok := obj.(*rbacv1.ClusterRoleBinding)
		if !ok || b.Kind != "" || b.Name != "b" || b.ResourceVersion != "5" || b.Annotations["a"] != "b" || b.RoleRef.Name != "r" || len(b.Subjects) != 1 || b.Subjects[0].Name != "ann" {
			t.Fatalf("%T %+v", obj, obj)
		}
		if (unsafe.SliceData(b.Subjects) == (*rbacv1.Subject)(unsafe.Pointer(unsafe.SliceData(bound.Subjects)))) != shared {
			t.Errorf("shared: %v, want %v", !shared, shared)
		}
	}
	list, err := all.ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "0", Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	bindings, ok := list.(*rbacv1.ClusterRoleBindingList)
	if !ok || bindings.ResourceVersion != "7" || len(bindings.Items) != 1 || stored.asked.ResourceVersion != "0" || stored.asked.Limit != 3 {
		t.Fatalf("%T %+v, asked %+v", list, list, stored.asked)
	}
	same(&bindings.Items[0], true)
	if ns, known := request.NamespaceFrom(stored.ctx); !known || ns != "" {
		t.Errorf("it was read in the namespace %q", ns)
	}
	changes, err := all.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "7", AllowWatchBookmarks: true})
	if err != nil || !stored.asked.AllowWatchBookmarks || stored.asked.ResourceVersion != "7" {
		t.Fatalf("%v, asked %+v", err, stored.asked)
	}
	defer changes.Stop()
	stored.events.Add(bound)
	same((<-changes.ResultChan()).Object, true)
	stored.events.Modify(encoded{ClusterRoleBinding: bound})
	same((<-changes.ResultChan()).Object, false)
	stored.events.Action(watch.Bookmark, &rbac.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9"}})
	if e := <-changes.ResultChan(); e.Type != watch.Bookmark || e.Object.(*rbacv1.ClusterRoleBinding).ResourceVersion != "9" {
		t.Errorf("%+v", e)
	}
	gone := apierrors.NewResourceExpired("gone").Status()
	stored.events.Error(&gone)
	if e := <-changes.ResultChan(); e.Type != watch.Error || e.Object != runtime.Object(&gone) {
		t.Errorf("%+v", e)
	}
	// What cannot be converted ends the watch, and everything is read again; nothing is left out silently.
	stored.events.Add(&metav1.Status{})
	if e := <-changes.ResultChan(); e.Type != watch.Error {
		t.Errorf("%+v", e)
	}
	if bound.Kind != "" || bound.APIVersion != "" {
		t.Errorf("the stored object was changed: %+v", bound)
	}
}
