package snapshot

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/tools/cache"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
)

func namespaceAt(uid string, created time.Time) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "hammer", UID: types.UID(uid), CreationTimestamp: metav1.NewTime(created)}}
}

// PO-20: what of a container counts, as its namespace comes and goes.
func TestPlaces(t *testing.T) {
	now := time.Now()
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	p := &places{master: "master", namespaces: store, dead: map[types.UID]bool{}}
	in := func(ns, uid string) *policyv1alpha1.PolicyBinding {
		b := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: ns, UID: types.UID("of-" + uid), CreationTimestamp: metav1.NewTime(now)}}
		if uid != "" {
			b.Annotations = map[string]string{policyv1alpha1.AnnotationNamespaceUID: uid}
		}
		return b
	}
	released := in("hammer", "1")
	released.DeletionTimestamp, released.Finalizers = &metav1.Time{Time: now}, []string{policyv1alpha1.FinalizerNamespace}
	expect := func(when string, object *policyv1alpha1.PolicyBinding, want effect) {
		t.Helper()
		if got := p.of(object); got != want {
			t.Errorf("%s, %q: %d, want %d", when, object.Annotations[policyv1alpha1.AnnotationNamespaceUID], got, want)
		}
	}
	expect("no namespace is known", in("hammer", "1"), denials)
	expect("in the master namespace", in("master", "9"), everything)
	if err := store.Add(namespaceAt("1", now.Add(-time.Minute))); err != nil {
		t.Fatal(err)
	}
	expect("its own namespace", in("hammer", "1"), everything)
	expect("an older namespace, no UID", in("hammer", ""), everything)
	expect("another UID", in("hammer", "2"), denials)
	expect("released", released, denials)

	for _, o := range []*policyv1alpha1.PolicyBinding{in("hammer", "1"), in("hammer", ""), in("hammer", "2")} {
		p.bury(o, namespaceAt("1", now.Add(-time.Minute)))
	}
	if err := store.Update(namespaceAt("2", now.Add(time.Minute))); err != nil {
		t.Fatal(err)
	}
	expect("made again", in("hammer", "1"), nothing)
	expect("made again, released before", released, nothing)
	expect("made again, no UID", in("hammer", ""), nothing)
	expect("made again, its own", in("hammer", "2"), everything)
	p.forget(in("hammer", "1"))
	p.forget("what is no object")
	(*places)(nil).forget(in("hammer", "1"))
	if len(p.dead) != 1 {
		t.Errorf("%d objects are remembered", len(p.dead))
	}
}

// PO-20: a container that only denies, denies.
func TestDenyingBindings(t *testing.T) {
	policy := &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{
		"both":  {Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"*"}, ResourceKinds: []string{"*"}}, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"pods"}}}},
		"grant": {Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"*"}, ResourceKinds: []string{"*"}}}}}}
	binding := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "hammer"}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{
		"both": {RoleName: "both", UserNames: []string{"edgar"}}, "grant": {RoleName: "grant", UserNames: []string{"hubert"}}}}
	ask := func(ix *ruleset.Index, who, verb string) ruleset.Standing {
		return ix.Decide(authorizer.AttributesRecord{User: &user.DefaultInfo{Name: who}, Verb: verb, Namespace: "hammer", Resource: "pods", ResourceRequest: true})
	}
	full := ruleset.Build(ruleset.Input{MasterNamespace: "master", Policies: []*policyv1alpha1.Policy{policy}, PolicyBindings: []*policyv1alpha1.PolicyBinding{binding}})
	if ask(full, "edgar", "get").Certainty != ruleset.Always || ask(full, "hubert", "get").Certainty != ruleset.Always || !ask(full, "edgar", "delete").Deny.Found() {
		t.Fatal("the bindings do not do what they say")
	}
	denying := full.Apply(ruleset.PutDenying(binding))
	if ask(denying, "edgar", "get").Certainty != ruleset.Never || ask(denying, "hubert", "get").Certainty != ruleset.Never {
		t.Error("a container that only denies has granted something")
	}
	if !ask(denying, "edgar", "delete").Deny.Found() {
		t.Error("its deny is gone")
	}
	if ask(denying.Apply(ruleset.Put(binding)), "hubert", "get").Certainty != ruleset.Always || ask(denying.Apply(ruleset.Delete(binding)), "edgar", "delete").Deny.Found() {
		t.Error("it does not change back, or is not removed")
	}
}
