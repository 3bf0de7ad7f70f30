package snapshot

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/engine/shadowrule"
)

// TR-6: protected attributes that are not enforced are in an index of their own, each alone and all together, with the
// exemptions of the one that decides; one that does not say what it protects is in none.
func TestShadowProtections(t *testing.T) {
	one := func(name, key string) shadowedProtection {
		a := &policyv1alpha1.ClusterProtectedAttribute{ObjectMeta: metav1.ObjectMeta{Name: name}}
		return shadowedProtection{shadowrule.OfClusterAttribute(a), protectedattr.Protection{Name: name, Attribute: protectedattr.Label, Key: key}}
	}
	if s := newShadowProtections(protectedattr.Config{}, nil); s.Index != nil || s.Each != nil {
		t.Errorf("of none: %+v", s)
	}
	s := newShadowProtections(protectedattr.Config{}, []shadowedProtection{one("a", "team"), one("bad", ""), one("b", "tier")})
	if s.Index == nil || s.Index.Len() != 2 || len(s.Each) != 2 {
		t.Fatalf("%d apart, together %v", len(s.Each), s.Index)
	}
	for i, want := range []string{"a", "b"} {
		if got := s.Each[i]; got.Rule.ID.Name != want || got.Index == nil || got.Index.Len() != 1 {
			t.Errorf("%d: %+v", i, got)
		}
	}
	if all := (&Shadow{Protect: s}).All(); len(all) != 2 {
		t.Errorf("listed: %+v", all)
	}
}

// TR-6: a field permission that is not enforced has the table as if it was, and concerns its own resources and what
// carries them.
func TestShadowFields(t *testing.T) {
	permission := func(name, resource string) *policyv1alpha1.FieldPermission {
		return &policyv1alpha1.FieldPermission{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1alpha1.FieldPermissionSpec{
			Resources: []string{resource}, Field: ".data.x", Permission: "example.com/x", Exclusive: true,
		}}
	}
	all := newShadowFields(fieldperm.Config{}, []*policyv1alpha1.FieldPermission{permission("good", "configmaps"), permission("bad", "")})
	if len(all) != 1 || all[0].Rule.ID.Name != "good" {
		t.Fatalf("%+v", all)
	}
	if !all[0].Concerns(fieldperm.Resource{Resource: "configmaps"}) || all[0].Concerns(fieldperm.Resource{Resource: "secrets"}) {
		t.Error("it concerns something else")
	}
	if table := all[0].Table(); table == nil {
		t.Error("no table")
	}
}
