package authorize

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// foreign is a condition that nobody here has made.
type foreign struct{}

func (foreign) RuleCondition() {}

// SV-8: a condition that is not one of ours, or that is none, fails closed: an allow grants nothing, a deny denies. The
// twin is a condition of ours that holds.
func TestForeignConditionsFailClosed(t *testing.T) {
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	own, err := (&rulecondition.Compiler{CEL: cel}).CompileRule(ruleset.RoleRef{}, 0, &policyv1alpha1.PolicyRule{When: "request.user == 'edgar'"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name        string
		cond        ruleset.Condition
		allow, deny authorizer.Decision
	}{
		{"ours", own, authorizer.DecisionAllow, authorizer.DecisionDeny},
		{"another type", foreign{}, authorizer.DecisionNoOpinion, authorizer.DecisionDeny},
		{"a pointer to nothing", (*rulecondition.Compiled)(nil), authorizer.DecisionNoOpinion, authorizer.DecisionDeny},
		{"compiled to nothing", &rulecondition.Compiled{}, authorizer.DecisionNoOpinion, authorizer.DecisionDeny},
	} {
		for effect, want := range map[bool]authorizer.Decision{false: test.allow, true: test.deny} {
			rules := []policyv1alpha1.PolicyRule{{Deny: effect, Verbs: []string{"update"}, ResourceKinds: []string{"pods"}, When: "whatever"}}
			if effect { // something that the deny denies
				rules = append(rules, policyv1alpha1.PolicyRule{Verbs: []string{"update"}, ResourceKinds: []string{"pods"}})
			}
			ix := ruleset.Build(ruleset.Input{
				MasterNamespace: "master", Kinds: ruleset.NewKinds([]ruleset.Served{{Resource: "pods", Kind: "Pod"}}),
				CompileRule: func(ruleset.RoleRef, int, *policyv1alpha1.PolicyRule) (ruleset.Condition, error) {
					return test.cond, nil
				},
				Policies: []*policyv1alpha1.Policy{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "default"},
					Roles: map[string]policyv1alpha1.PolicyRole{"r": {Rules: rules}}}},
				PolicyBindings: []*policyv1alpha1.PolicyBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "hammer"},
					RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"b": {RoleName: "r", UserNames: []string{"edgar"}}}}},
			})
			ctx := requestctx.With(t.Context(), &snapshot.Snapshot{Rules: ix})
			attrs := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "edgar"}, Verb: "update", Namespace: "hammer", APIVersion: "v1", Resource: "pods", Name: "p", ResourceRequest: true}
			if v := tiers(t, snapshot.NewStore()).Decide(ctx, attrs); v.Pending != nil || v.Decision != want {
				t.Errorf("%s, deny %v: %s (%s), want %s", test.name, effect, v.Decision, v.Reason, want)
			}
		}
	}
}
