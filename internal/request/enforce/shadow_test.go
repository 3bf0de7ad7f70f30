package enforce

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/admission"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/engine/shadowrule"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/request/shadow"
	"proviso.dev/proviso/internal/state/snapshot"
)

// many is more than are tried on one request.
const many = authorize.MaxSuppositions + 24

// counted adds up what a recorder has.
func counted(r *shadow.Recorder) (denies, undecided, applied int) {
	for _, one := range r.List() {
		denies, undecided, applied = denies+int(one.WouldDeny), undecided+int(one.Undecided), applied+int(one.Applied)
	}
	return denies, undecided, applied
}

// TR-6: of protected attributes that are not enforced, a request is held against a bounded number; the others are
// undecided. Those of other namespaces have no part in it.
func TestShadowProtectionsAreBounded(t *testing.T) {
	w := protectedWorld(t)
	w.snap.Protect = nil
	index := func(p ...protectedattr.Protection) *protectedattr.Index {
		ix, err := protectedattr.New(protectedattr.Config{Protections: p})
		if err != nil {
			t.Fatal(err)
		}
		return ix
	}
	var all []protectedattr.Protection
	for i := range many + 5 {
		p := protectedattr.Protection{Name: fmt.Sprint("tier", i), Namespace: "hammer", Key: "tier", Role: protectedattr.Role{Kind: protectedattr.KindRole, Namespace: "hammer", Name: "clerks"}}
		if i < 5 {
			p.Namespace, p.Role.Namespace = "elsewhere", "elsewhere"
		}
		all = append(all, p)
		w.snap.Shadow.Protect.Each = append(w.snap.Shadow.Protect.Each, snapshot.ShadowProtection{
			Rule:  shadowrule.Rule{ID: shadowrule.ID{Kind: shadowrule.ProtectedAttribute, Namespace: p.Namespace, Name: p.Name}, Enforcement: policy.EnforcementShadow, Denies: true},
			Index: index(p)})
	}
	w.snap.Shadow.Protect.Index = index(all...)
	recorder := shadow.New(time.Now)
	w.plugin.Protected = &ProtectedAttributes{Shadow: recorder}
	wants(t, "nothing is enforced", w.admit(t, writeOf(admission.Update, "", widget(nil), tier("a"))), "")
	if denies, undecided, applied := counted(recorder); denies != authorize.MaxSuppositions || undecided != many-authorize.MaxSuppositions || applied != many {
		t.Errorf("%d would deny, %d are undecided, %d applied", denies, undecided, applied)
	}
	wants(t, "a label that nothing protects", w.admit(t, writeOf(admission.Update, "", widget(nil), widget(map[string]string{"x": "y"}))), "")
	if _, _, applied := counted(recorder); applied != many {
		t.Errorf("%d applied", applied)
	}
}

// TR-6: the same for field permissions; those of other resources have no part in it.
func TestShadowFieldsAreBounded(t *testing.T) {
	w, _ := withFields(t, "update", requestctx.Allowed())
	table, _ := fieldperm.New(fieldperm.Config{})
	w.snap.Fields = table
	made := 0
	for i := range many + 5 {
		resource := "widgets.example.com"
		if i < 5 {
			resource = "pods"
		}
		p := &policy.FieldPermission{Spec: policy.FieldPermissionSpec{Resources: []string{resource}, Field: ".metadata.labels[tier]", Permission: fmt.Sprintf("example.com/tier%c%c", 'a'+i/26, 'a'+i%26), Exclusive: true}}
		p.Name = fmt.Sprint("tier", i)
		declared, err := fieldperm.FromFieldPermission(p)
		if err != nil {
			t.Fatal(err)
		}
		w.snap.Shadow.Fields = append(w.snap.Shadow.Fields, snapshot.ShadowFields{Rule: shadowrule.OfField(p), Resources: declared.Resources, Table: func() *fieldperm.Table {
			made++
			table, issues := fieldperm.New(fieldperm.Config{FieldPermissions: []*policy.FieldPermission{p}})
			if len(issues) > 0 {
				t.Fatal(issues)
			}
			return table
		}})
	}
	recorder := shadow.New(time.Now)
	w.plugin.Fields.Shadow = recorder
	wants(t, "nothing is enforced", w.admit(t, writeOf(admission.Update, "", tier("a"), tier("b"))), "")
	if denies, undecided, applied := counted(recorder); denies != authorize.MaxSuppositions || undecided != many-authorize.MaxSuppositions || applied != many || made != authorize.MaxSuppositions {
		t.Errorf("%d would deny, %d are undecided, %d applied, %d tables were made", denies, undecided, applied, made)
	}
}
