package ruleset

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/test/refmodel"
)

// SV-8: a quarantined binding grants nothing, while the deny rules of its role hold, with their conditions; the role
// follows its changes, and the bindings beside it are as they were.
func TestQuarantinedBinding(t *testing.T) {
	conditional := deny("update", "secrets")
	conditional.When = "a"
	w := refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{
		"alice": {allow("*", "*"), deny("delete", "pods"), conditional},
		"bob":   {allow("*", "*")},
	}, map[string][]policyv1alpha1.PolicyRule{"carl": {allow("*", "*")}, "alice": {allow("delete", "pods")}})
	master := w.PolicyBindings[0]
	if master.Namespace != "master" {
		master = w.PolicyBindings[1]
	}
	good := master.DeepCopy()
	entry := master.RoleBindings["alice"]
	entry.Annotations = map[string]string{policyv1alpha1.AnnotationQuarantined: "from the future"}
	master.RoleBindings["alice"] = entry
	ix := Build(inputOf(w))
	check := func(ix *Index, who, verb, resource string, want Certainty) {
		t.Helper()
		if got := ix.Decide(in("hammer", who, verb, resource)).Certainty; got != want {
			t.Errorf("%s %s %s: %v, want %v", who, verb, resource, got, want)
		}
	}
	check(ix, "alice", "get", "pods", Never)
	check(ix, "alice", "delete", "pods", Never) // her own namespace allows it, the quarantined binding of the master denies it
	check(ix, "bob", "get", "pods", Always)
	check(ix, "carl", "delete", "pods", Always)
	m := ix.PolicyMaster(in("hammer", "alice", "update", "secrets"))
	if !m.ConditionalDeny || m.Allow.Found() {
		t.Errorf("the conditional deny rule: %+v", m)
	}
	d := ix.Decide(in("hammer", "alice", "delete", "pods")).Deny
	if !d.Found() || d.Role().Name != "alice" || strings.Contains(d.Reason(), "\x00") || !strings.Contains(d.Reason(), `Role "master/alice"`) {
		t.Errorf("denied by %v: %q", d.Role(), d.Reason())
	}

	// The role changes: so does what the binding denies.
	p := w.Policies[0]
	if p.Namespace != "master" {
		p = w.Policies[1]
	}
	p = p.DeepCopy()
	p.Roles["alice"] = policyv1alpha1.PolicyRole{Rules: []policyv1alpha1.PolicyRule{allow("*", "*")}}
	changed := ix.Apply(Put(p))
	check(changed, "alice", "delete", "pods", Always)
	check(changed, "alice", "get", "pods", Never)
	if problems := changed.Problems(); len(problems) != 1 || !strings.Contains(problems[0].Error(), "from the future") {
		t.Errorf("problems %v", problems)
	}

	// Twin: not quarantined, it grants.
	mended := ix.Apply(Put(good))
	check(mended, "alice", "get", "pods", Always)
	check(mended, "alice", "delete", "pods", Never)
	if n := len(mended.Problems()); n != 0 {
		t.Errorf("%d problems: %v", n, mended.Problems())
	}
}

// SV-8: an entry that is quarantined denies what its role denies, whichever namespace that is of; without readable
// subjects, to everybody without a grant for the whole cluster. An entry that can be read is bound to no role of a
// third namespace.
func TestQuarantinedBindingToAThirdNamespace(t *testing.T) {
	build := func(annotations map[string]string) *Index {
		w := refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{"carl": {allow("*", "*")}}, map[string][]policyv1alpha1.PolicyRule{"alice": {allow("*", "*")}, "bob": {allow("*", "*")}})
		third := &policyv1alpha1.Policy{Roles: map[string]policyv1alpha1.PolicyRole{"guard": {Rules: []policyv1alpha1.PolicyRule{allow("*", "*"), deny("delete", "pods")}}}}
		third.Namespace, third.Name = "anvil", "default"
		entry := policyv1alpha1.PolicyRoleBinding{RoleName: "guard", UserNames: []string{"alice"}}
		entry.Annotations = annotations
		if annotations[policyv1alpha1.AnnotationUnreadable] == policyv1alpha1.UnreadableSubjects {
			entry.UserNames, entry.GroupNames = nil, []string{"system:authenticated", "system:unauthenticated"}
		}
		c := &policyv1alpha1.PolicyBinding{RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"guard": entry}}
		c.Namespace, c.Name, c.PolicyRef.Namespace = "hammer", "third", "anvil"
		w.Policies, w.PolicyBindings = append(w.Policies, third), append(w.PolicyBindings, c)
		return Build(inputOf(w))
	}
	const why = "from the future"
	quarantined := map[string]string{policyv1alpha1.AnnotationQuarantined: why}
	nobody := map[string]string{policyv1alpha1.AnnotationQuarantined: why, policyv1alpha1.AnnotationUnreadable: policyv1alpha1.UnreadableSubjects}
	for _, tt := range []struct {
		name        string
		annotations map[string]string
		denied      map[string]bool
	}{
		{"it can be read", nil, map[string]bool{"alice": false, "bob": false, "carl": false}},
		{"it is quarantined", quarantined, map[string]bool{"alice": true, "bob": false, "carl": false}},
		{"its subjects cannot be read", nobody, map[string]bool{"alice": true, "bob": true, "carl": false}},
	} {
		ix := build(tt.annotations)
		for who, denied := range tt.denied {
			request := in("hammer", who, "delete", "pods")
			request.User.(*user.DefaultInfo).Groups = []string{"system:authenticated"}
			want := Always
			if denied {
				want = Never
			}
			if got := ix.Decide(request).Certainty; got != want {
				t.Errorf("%s: %s deletes: %v, want %v", tt.name, who, got, want)
			}
			request.Verb = "get"
			if got := ix.Decide(request).Certainty; got != Always {
				t.Errorf("%s: %s reads: %v", tt.name, who, got)
			}
		}
	}
}

// PO-25: a rule with a field that is not known denies its extent without its condition, whether it allows or denies,
// and yields to a cluster-wide grant. What it is not about stays as it was. Twin: without the field, it does what it
// says.
func TestRuleWithAnUnknownField(t *testing.T) {
	for _, says := range []bool{false, true} {
		for _, unknown := range []bool{false, true} {
			rule := policyv1alpha1.PolicyRule{Deny: says, Verbs: []string{"delete"}, ResourceKinds: []string{"pods"}, When: "a"}
			if unknown {
				rule.Unrecognized = map[string]runtime.RawExtension{"effect": {Raw: []byte(`"Deny"`)}}
			}
			w := refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{"carl": {allow("*", "*")}, "odd": {rule}}, map[string][]policyv1alpha1.PolicyRule{"alice": {allow("*", "*")}})
			for _, b := range w.PolicyBindings {
				if b.Namespace == "master" {
					b.RoleBindings["odd"] = policyv1alpha1.PolicyRoleBinding{RoleName: "odd", UserNames: []string{"alice", "carl"}}
				}
			}
			ix := Build(inputOf(w))
			want := map[string]Certainty{"alice": Always, "carl": Always}
			switch {
			case unknown:
				want["alice"] = Never
			case says:
				want["alice"], want["carl"] = Sometimes, Sometimes
			}
			for who, certainty := range want {
				got := ix.Decide(in("hammer", who, "delete", "pods"))
				if got.Certainty != certainty {
					t.Errorf("deny %v, unknown field %v: %s deletes: %v, want %v", says, unknown, who, got.Certainty, certainty)
				}
				if reason := got.Deny.Reason(); unknown && who == "alice" && (!strings.Contains(reason, "effect") || strings.Contains(reason, "\x00")) {
					t.Errorf("the reason is %q", reason)
				}
				if got := ix.Decide(in("hammer", who, "get", "pods")).Certainty; got != Always {
					t.Errorf("deny %v, unknown field %v: %s reads: %v", says, unknown, who, got)
				}
			}
		}
	}
}
