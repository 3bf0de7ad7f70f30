package shadow

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/engine/shadowrule"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// tried is an admission of widgets on which everything that is tried refuses, unless it is told otherwise.
type tried struct {
	data               authorizer.ConditionsData
	fields, attributes bool
	unseen             bool
	tables, indexes    int
}

var _ enforce.Trial = (*tried)(nil)

func (t *tried) Aside() authorizer.ConditionsData { return t.data }

func (t *tried) Written() (fieldperm.Resource, bool) {
	return fieldperm.Resource{Group: "example.com", Resource: "widgets"}, !t.unseen
}

func (t *tried) TryFields(context.Context, *fieldperm.Table) bool {
	t.tables++
	return t.fields
}

func (t *tried) TryProtected(context.Context, *protectedattr.Index) bool {
	t.indexes++
	return t.attributes
}

// many is more than are tried on one request.
const many = maxSuppositions + 24

// counted adds up what a recorder has.
func counted(r *Recorder) (denies, undecided, applied int) {
	for _, one := range r.List() {
		denies, undecided, applied = denies+int(one.WouldDeny), undecided+int(one.Undecided), applied+int(one.Applied)
	}
	return denies, undecided, applied
}

// TR-6: of protected attributes that are not enforced, a request is held against a bounded number; the others are
// undecided. Those of other namespaces have no part in it.
func TestShadowProtectionsAreBounded(t *testing.T) {
	snap := &snapshot.Snapshot{Synced: true}
	for i := range many + 5 {
		in := "hammer"
		if i < 5 {
			in = "elsewhere"
		}
		snap.Shadow.Protect.Each = append(snap.Shadow.Protect.Each, snapshot.ShadowProtection{Rule: shadowrule.Rule{
			ID: shadowrule.ID{Kind: shadowrule.ProtectedAttribute, Namespace: in, Name: fmt.Sprint("tier", i)}, Enforcement: policy.EnforcementShadow, Denies: true}})
	}
	recorder, ctx := New(time.Now), requestctx.With(t.Context(), snap)
	trial := &tried{}
	recorder.Admitted(ctx, enforce.Observation{Allowed: true, Namespace: "hammer", Trial: trial})
	if denies, undecided, applied := counted(recorder); denies != maxSuppositions || undecided != many-maxSuppositions || applied != many || trial.indexes != maxSuppositions+1 {
		t.Errorf("%d would deny, %d are undecided, %d applied, %d were tried", denies, undecided, applied, trial.indexes)
	}
	recorder.Admitted(ctx, enforce.Observation{Allowed: true, Namespace: "hammer", Trial: &tried{attributes: true}})
	recorder.Admitted(ctx, enforce.Observation{Namespace: "hammer", Trial: &tried{}})
	if _, _, applied := counted(recorder); applied != many {
		t.Errorf("a write that none of them refuses, and one that was refused: %d applied", applied)
	}
}

// TR-6: the same for field permissions; those of other resources have no part in it.
func TestShadowFieldsAreBounded(t *testing.T) {
	snap, made := &snapshot.Snapshot{Synced: true}, 0
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
		snap.Shadow.Fields = append(snap.Shadow.Fields, snapshot.ShadowFields{Rule: shadowrule.OfField(p), Resources: declared.Resources, Table: func() *fieldperm.Table {
			made++
			return nil
		}})
	}
	recorder, ctx := New(time.Now), requestctx.With(t.Context(), snap)
	trial := &tried{}
	recorder.Admitted(ctx, enforce.Observation{Allowed: true, Trial: trial})
	if denies, undecided, applied := counted(recorder); denies != maxSuppositions || undecided != many-maxSuppositions || applied != many || made != maxSuppositions || trial.tables != made {
		t.Errorf("%d would deny, %d are undecided, %d applied, %d tables were made", denies, undecided, applied, made)
	}
	recorder.Admitted(ctx, enforce.Observation{Trial: &tried{unseen: true}})
	if _, _, applied := counted(recorder); applied != many {
		t.Errorf("a write whose fields were not looked at: %d applied", applied)
	}
}
