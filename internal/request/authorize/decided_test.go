package authorize

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// decidedIndex has a grant of every kind.
func decidedIndex(t *testing.T) *ruleset.Index {
	t.Helper()
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	ref := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: "reader"}
	}
	reads := func(verb string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{"configmaps"}}}
	}
	group := []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "team"}}
	return ruleset.Build(ruleset.Input{
		MasterNamespace: "master",
		CompileRule:     (&rulecondition.Compiler{CEL: cel}).CompileRule,
		Kinds:           ruleset.NewKinds([]ruleset.Served{{Resource: "configmaps", Kind: "ConfigMap", Builtin: true}}),
		ClusterRoles:    []*rbacv1.ClusterRole{{ObjectMeta: meta("", "reader"), Rules: reads("get")}},
		Roles:           []*rbacv1.Role{{ObjectMeta: meta("hammer", "reader"), Rules: reads("list")}},
		RoleBindings: []*rbacv1.RoleBinding{
			{ObjectMeta: meta("hammer", "bots"), RoleRef: ref("Role"), Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "bot", Namespace: "ci"}}},
			{ObjectMeta: meta("hammer", "readers"), RoleRef: ref("ClusterRole"), Subjects: group},
		},
		ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{{ObjectMeta: meta("", "everywhere"), RoleRef: ref("ClusterRole"), Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "ada"}}}},
		Policies: []*policyv1alpha1.Policy{{ObjectMeta: meta("hammer", "default"), Roles: map[string]policyv1alpha1.PolicyRole{"r": {Rules: []policyv1alpha1.PolicyRule{
			{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"configmaps"}},
			onlyGoodRule,
		}}}}},
		PolicyBindings: []*policyv1alpha1.PolicyBinding{{ObjectMeta: meta("hammer", "hammer"),
			RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"b": {RoleName: "r", UserNames: []string{"edgar"}}}}},
	})
}

// CA-21: the audit event has the decision in the shape of KEP-6001, of the authorizer that had the last word, and only
// of that.
func TestDecisionInTheShapeOfTheKEP(t *testing.T) {
	chain, err := NewChain(
		Link{Name: "policy-namespace", Type: "Policy", Authorizer: NewPolicyNamespace(snapshot.NewStore(), nil)},
		Link{Name: "rbac", Type: "RBAC", Authorizer: NewRBAC(snapshot.NewStore())},
		Link{Name: "corporate", Type: TypeWebhook, Authorizer: byVerb{allowed: []string{"webhooked"}}},
		Link{Name: "front", Authorizer: byVerb{allowed: []string{"fronted"}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	snap := &snapshot.Snapshot{Rules: decidedIndex(t)}
	rule := func(authorizer, decision, kind, role, binding string) string {
		return `{"decision":"` + decision + `","authorizer":"` + authorizer + `","` + kind + `":{"role":` + role + `,"binding":` + binding + `}}`
	}
	const clusterRole, policyBinding = `{"kind":"ClusterRole","name":"reader"}`, `{"kind":"RoleBinding","name":"b","namespace":"hammer","matchedSubject":{"kind":"User","name":"edgar"}}`
	for name, tt := range map[string]struct {
		user, group, verb, label string
		conditional              bool
		want                     string
	}{
		"a cluster role binding": {"ada", "", "get", "", false,
			rule("RBAC", "allow", "rbac", clusterRole, `{"kind":"ClusterRoleBinding","name":"everywhere","matchedSubject":{"kind":"User","name":"ada"}}`)},
		"a cluster role, bound in a namespace": {"tim", "team", "get", "", false,
			rule("RBAC", "allow", "rbac", clusterRole, `{"kind":"RoleBinding","name":"readers","namespace":"hammer","matchedSubject":{"kind":"Group","name":"team"}}`)},
		"a service account": {"system:serviceaccount:ci:bot", "", "list", "", false,
			rule("RBAC", "allow", "rbac", `{"kind":"Role","name":"reader","namespace":"hammer"}`, `{"kind":"RoleBinding","name":"bots","namespace":"hammer","matchedSubject":{"kind":"ServiceAccount","name":"bot","namespace":"ci"}}`)},
		"a deny of Policy": {"edgar", "", "delete", "", false, rule("Policy", "deny", "policy", `{"kind":"Role","name":"r","namespace":"hammer"}`, policyBinding)},
		"a condition that is met": {"edgar", "", "create", "yes", true,
			rule("Policy", "allow", "policy", `{"kind":"Role","name":"r","namespace":"hammer"}`, policyBinding)},
		"a condition that is not met": {"edgar", "", "create", "no", true, ""},
		"a condition that folds, and RBAC": {"edgar", "team", "get", "", false,
			rule("RBAC", "allow", "rbac", clusterRole, `{"kind":"RoleBinding","name":"readers","namespace":"hammer","matchedSubject":{"kind":"Group","name":"team"}}`)},
		"a webhook":         {"tim", "", "webhooked", "", false, `{"decision":"allow","authorizer":"Webhook","webhook":{"name":"corporate"}}`},
		"what is in front":  {"tim", "", "fronted", "", false, `{"decision":"allow","authorizer":"front"}`},
		"nobody's decision": {"tim", "", "update", "", false, `{"decision":"deny"}`},
	} {
		t.Run(name, func(t *testing.T) {
			attrs := asks(tt.verb)
			attrs.User, attrs.Path = &user.DefaultInfo{Name: tt.user, Groups: []string{tt.group}}, "/x"
			ctx := audited(t, requestctx.With(t.Context(), snap), attrs)
			gate := NewGate(GateConfig{Chain: chain, Conditional: true, Local: LocalFunc(func(string, string) bool { return true })})
			_, _, err := gate.AtFilter().Authorize(ctx, attrs)
			if err != nil {
				t.Fatal(err)
			}
			pending := requestctx.From(ctx).Get(requestctx.Request).Pending()
			if (pending != nil) != tt.conditional {
				t.Fatalf("pending: %v", pending)
			}
			if pending != nil {
				if early, said := audit.AuditContextFrom(ctx).GetEventAnnotation(AnnotationAuthorizationDecision); said {
					t.Errorf("before it is decided: %s", early)
				}
				Enforce(ctx, pending, created(tt.label))
			}
			if got, _ := audit.AuditContextFrom(ctx).GetEventAnnotation(AnnotationAuthorizationDecision); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// Who decided is not looked for, and nothing is allocated, where nobody audits the request.
func TestDecisionIsNotRecordedForNobody(t *testing.T) {
	chain := tiers(t, snapshot.NewStore())
	gate := NewGate(GateConfig{Chain: chain, Local: LocalFunc(func(string, string) bool { return true })})
	ctx := audit.WithAuditContext(requestctx.With(t.Context(), &snapshot.Snapshot{Rules: decidedIndex(t)}))
	var attrs authorizer.Attributes = asks("get")
	out := requestctx.Outcome{Decision: authorizer.DecisionAllow, Authorizer: "rbac"}
	if n := testing.AllocsPerRun(100, func() { gate.record(ctx, requestctx.Request, attrs, out) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if all := audit.AuditContextFrom(ctx).GetEventAnnotations(); len(all) > 0 {
		t.Errorf("%v", all)
	}
}
