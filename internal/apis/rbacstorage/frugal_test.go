package rbacstorage

import (
	"reflect"
	"testing"
	"unsafe"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/rbac"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
)

// What is read twice says the same as what was stored, and has its words once.
func TestStoredWordsAreShared(t *testing.T) {
	plain := legacyscheme.Codecs.LegacyCodec(rbacv1.SchemeGroupVersion)
	frugal := frugalCodec{plain}
	twice := func(obj runtime.Object) (a, b runtime.Object) {
		data, err := runtime.Encode(plain, obj)
		if err != nil {
			t.Fatal(err)
		}
		want, err := runtime.Decode(plain, data)
		if err != nil {
			t.Fatal(err)
		}
		for _, into := range []*runtime.Object{&a, &b} {
			if *into, err = runtime.Decode(frugal, data); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(*into, want) {
				t.Errorf("read %+v, stored %+v", *into, want)
			}
		}
		return a, b
	}
	same := func(a, b string) {
		t.Helper()
		if unsafe.StringData(a) != unsafe.StringData(b) {
			t.Errorf("%q is there twice", a)
		}
	}
	rule := rbac.PolicyRule{Verbs: []string{"get", "frobnicate"}, APIGroups: []string{"", "example.com"}, Resources: []string{"widgets"}, ResourceNames: []string{"w"}, NonResourceURLs: []string{"/healthz"}}
	subject := rbac.Subject{Kind: "ServiceAccount", Namespace: "team-a", Name: "bot"}
	ref := rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "one-of-many"}

	a, b := twice(&rbac.ClusterRole{Rules: []rbac.PolicyRule{rule}})
	same(a.(*rbac.ClusterRole).Rules[0].Verbs[1], b.(*rbac.ClusterRole).Rules[0].Verbs[1])
	same(a.(*rbac.ClusterRole).Rules[0].Resources[0], b.(*rbac.ClusterRole).Rules[0].Resources[0])
	a, b = twice(&rbac.Role{Rules: []rbac.PolicyRule{rule}})
	same(a.(*rbac.Role).Rules[0].APIGroups[1], b.(*rbac.Role).Rules[0].APIGroups[1])
	a, b = twice(&rbac.ClusterRoleBinding{RoleRef: ref, Subjects: []rbac.Subject{subject}})
	same(a.(*rbac.ClusterRoleBinding).RoleRef.Name, b.(*rbac.ClusterRoleBinding).RoleRef.Name)
	a, b = twice(&rbac.RoleBinding{RoleRef: ref, Subjects: []rbac.Subject{subject}})
	same(a.(*rbac.RoleBinding).Subjects[0].Namespace, b.(*rbac.RoleBinding).Subjects[0].Namespace)
}
