package enforce

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/admission"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/request/requestctx"
)

// watcher keeps what it is told, and tries something on it.
type watcher struct {
	seen []Observation
	try  func(ctx context.Context, over Observation)
}

func (w *watcher) Admitted(ctx context.Context, over Observation) {
	if w.seen = append(w.seen, over); w.try != nil {
		w.try(ctx, over)
	}
}

// TR-6: an observer is told once what became of an admission, whatever that was.
func TestObserverIsTold(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		pass := requestctx.Allowed()
		if !allowed {
			pass = requestctx.Pass{}
		}
		w, told := newWorld("patch", pass), &watcher{}
		w.slots[requestctx.Create] = pass
		w.plugin = New(Config{Observer: told})
		err := w.admit(t, writeOf(admission.Create, "", nil, widget(nil)))
		if len(told.seen) != 1 || told.seen[0].Allowed != allowed || (err == nil) != allowed {
			t.Fatalf("told %+v, %v", told.seen, err)
		}
		over := told.seen[0]
		if over.Namespace != "hammer" || !slices.Equal(over.Slots, []requestctx.Slot{requestctx.Request, requestctx.Create}) || over.Aside() == nil {
			t.Errorf("told %+v", over)
		}
		if _, looked := over.Written(); looked {
			t.Error("nothing looks at fields")
		}
	}
}

// TR-6: other protected attributes can be tried on a write. What they would do changes nothing.
func TestTryProtected(t *testing.T) {
	w, told := protectedWorld(t), &watcher{}
	w.snap.Protect = nil
	other, err := protectedattr.New(protectedattr.Config{Protections: []protectedattr.Protection{{
		Name: "tier", Namespace: "hammer", Key: "tier", Role: protectedattr.Role{Kind: protectedattr.KindRole, Namespace: "hammer", Name: "clerks"}}}})
	if err != nil {
		t.Fatal(err)
	}
	w.plugin = New(Config{Observer: told, Protected: &ProtectedAttributes{}})
	for _, c := range []struct {
		name string
		on   admission.Attributes
		want bool
	}{
		{"the label", writeOf(admission.Update, "", widget(nil), tier("a")), false},
		{"another label", writeOf(admission.Update, "", widget(nil), widget(map[string]string{"x": "y"})), true},
		{"a delete", writeOf(admission.Delete, "", tier("a"), nil), true},
	} {
		told.try = func(ctx context.Context, over Observation) {
			if got := over.TryProtected(ctx, other); got != c.want {
				t.Errorf("%s: would be allowed: %v", c.name, got)
			}
		}
		wants(t, c.name, w.admit(t, c.on), "")
	}
	if len(told.seen) != 3 {
		t.Errorf("told %d times", len(told.seen))
	}
}

// TR-6: the same with another table of field permissions, which is asked about aside. A write that something else
// refuses stays refused.
func TestTryFields(t *testing.T) {
	other, issues := fieldperm.New(fieldperm.Config{FieldPermissions: []*policy.FieldPermission{{Spec: policy.FieldPermissionSpec{
		Resources: []string{"widgets.example.com"}, Field: ".metadata.labels[tier]", Permission: "example.com/tier", Exclusive: true}}}})
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	nothing, _ := fieldperm.New(fieldperm.Config{})
	for _, c := range []struct {
		name    string
		held    []string
		refused bool
		want    bool
	}{
		{name: "lacking"},
		{name: "held", held: []string{tierVerb + " aside"}, want: true},
		{name: "refused by something else", held: []string{tierVerb + " aside"}, refused: true},
	} {
		w, asked := withFields(t, "update", requestctx.Allowed(), c.held...)
		w.snap.Fields = nothing
		told := &watcher{}
		w.plugin.cfg.Observer = told
		if c.refused {
			w.plugin.cfg.After = []admission.ValidationInterface{next{asked: new(int), err: context.Canceled}}
		}
		told.try = func(ctx context.Context, over Observation) {
			resource, looked := over.Written()
			if got := over.TryFields(ctx, other); got != c.want || !looked || resource.Resource != "widgets" {
				t.Errorf("%s: would be allowed: %v; %v %v, asked %q", c.name, got, resource, looked, *asked)
			}
		}
		if err := w.admit(t, writeOf(admission.Update, "", tier("a"), tier("b"))); (err != nil) != c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
		if slices.Contains(*asked, tierVerb) {
			t.Errorf("%s: what is not enforced was asked about openly: %q", c.name, *asked)
		}
	}
}
