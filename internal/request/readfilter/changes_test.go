package readfilter

import (
	"cmp"
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/kubernetes/scheme"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// states is a storage that tries a change on one state after the other, as after a conflict. The last failure counts.
type states struct {
	storage.Interface
	all []*corev1.ConfigMap
	// own is what the storage says itself in the end, of a state that is not tried.
	own error
}

func (s *states) GuaranteedUpdate(_ context.Context, _ string, _ runtime.Object, _ bool, _ *storage.Preconditions, try storage.UpdateFunc, _ runtime.Object) (err error) {
	for _, o := range s.all {
		_, _, err = try(o.DeepCopy(), storage.ResponseMeta{})
	}
	if s.own != nil {
		return s.own
	}
	return err
}

// What is said about a change that fails may quote the state that it was last tried on, if the caller may get that one
// (RD-4); not another state, another object, or what only a handler looks up.
func TestAFailedChangeIsToldByTheStateItWasTriedOn(t *testing.T) {
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rule := func(verbs ...string) policyv1alpha1.PolicyRule {
		return policyv1alpha1.PolicyRule{Verbs: verbs, ResourceKinds: []string{"configmaps"}, Where: `resource.metadata.labels.team == "a"`}
	}
	index := ruleset.Build(ruleset.Input{MasterNamespace: "master", CompileRule: (&rulecondition.Compiler{CEL: cel}).CompileRule,
		Kinds: ruleset.NewKinds([]ruleset.Served{{Resource: "configmaps", Kind: "ConfigMap", Builtin: true}}),
		Policies: []*policyv1alpha1.Policy{{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "master"},
			Roles: map[string]policyv1alpha1.PolicyRole{"all": {Rules: []policyv1alpha1.PolicyRule{rule("get", "patch")}}, "write": {Rules: []policyv1alpha1.PolicyRule{rule("patch")}}}}},
		PolicyBindings: []*policyv1alpha1.PolicyBinding{{ObjectMeta: metav1.ObjectMeta{Name: "master", Namespace: "master"},
			RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"all": {RoleName: "all", UserNames: []string{"ann"}}, "write": {RoleName: "write", UserNames: []string{"wes"}}}}}})
	chain, err := authorize.NewChain(authorize.Link{Name: "policy-master", Authorizer: authorize.NewPolicyMaster(snapshot.NewStore())})
	if err != nil {
		t.Fatal(err)
	}
	gate := authorize.NewGate(authorize.GateConfig{Chain: chain, Conditional: true, Reads: authorize.ReadsFunc(func(authorizer.Attributes) error { return nil }), Local: authorize.LocalFunc(func(string, string) bool { return true })})
	object := func(name, team string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", ResourceVersion: "1", Labels: map[string]string{"team": team}}}
	}
	served := snapshot.Sources{Local: []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap", Namespaced: true}}}}}.Served()
	hers, theirs := object("x", "a"), object("x", "b")
	fails := errors.New("invalid")
	for _, tc := range []struct {
		name, user, verb, resource string
		states                     []*corev1.ConfigMap
		err, own                   error
		want                       bool
	}{
		{name: "a state that may be seen", states: []*corev1.ConfigMap{hers}, err: fails, want: true},
		{name: "a state that may not", states: []*corev1.ConfigMap{theirs}, err: fails},
		{name: "it may be seen no more", states: []*corev1.ConfigMap{hers, theirs}, err: fails},
		{name: "it may be seen now", states: []*corev1.ConfigMap{theirs, hers}, err: fails, want: true},
		{name: "nothing is there yet", states: []*corev1.ConfigMap{{}}, err: fails, want: true},
		{name: "the storage refuses the next state", states: []*corev1.ConfigMap{hers}, err: fails, own: errors.New("precondition failed")},
		{name: "another object", states: []*corev1.ConfigMap{object("y", "a")}, err: fails},
		{name: "no failure", states: []*corev1.ConfigMap{hers}},
		{name: "who may see none", user: "wes", states: []*corev1.ConfigMap{hers}, err: fails},
		{name: "another verb", verb: "delete", states: []*corev1.ConfigMap{hers}, err: fails},
		{name: "another resource", resource: "secrets", states: []*corev1.ConfigMap{hers}, err: fails},
	} {
		t.Run(tc.name, func(t *testing.T) {
			attrs := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "ann"}, Verb: "patch", APIVersion: "v1", Resource: "configmaps", Namespace: "default", Name: "x", ResourceRequest: true}
			if tc.user != "" {
				attrs.User = &user.DefaultInfo{Name: tc.user}
			}
			if tc.verb != "" {
				attrs.Verb = tc.verb
			}
			if tc.resource != "" {
				attrs.Resource = tc.resource
			}
			ctx := requestctx.WithNotes(requestctx.With(t.Context(), &snapshot.Snapshot{Rules: index, Served: served}))
			requestctx.From(ctx).Put(requestctx.Request, attrs, requestctx.Conditional(resolves(authorizer.DecisionAllow)))
			s := newStore(&states{all: tc.states, own: tc.own})
			s.stores, s.convert = New(Config{Gate: gate}), scheme.Scheme
			err := s.GuaranteedUpdate(ctx, "/configmaps/default/x", &corev1.ConfigMap{}, true, nil, func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
				input.(*corev1.ConfigMap).Labels = map[string]string{"team": "a"} // what a change does to it does not count
				return input, nil, tc.err
			}, nil)
			if !errors.Is(err, cmp.Or(tc.own, tc.err)) || requestctx.NotesOf(ctx).MaySee() != tc.want {
				t.Errorf("%v, may see %v", err, !tc.want)
			}
		})
	}
}
