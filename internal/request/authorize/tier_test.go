package authorize

import (
	"cmp"
	"context"
	"strings"
	"sync/atomic"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// world builds an index in which edgar has the given rules in namespace hammer.
func world(t testing.TB, rules []policyv1alpha1.PolicyRule, clusterWide ...rbacv1.PolicyRule) *ruleset.Index {
	t.Helper()
	return worldIn(t, "hammer", rules, clusterWide...)
}

// worldIn does that in any namespace.
func worldIn(t testing.TB, namespace string, rules []policyv1alpha1.PolicyRule, clusterWide ...rbacv1.PolicyRule) *ruleset.Index {
	t.Helper()
	return worldOf(t, map[string][]policyv1alpha1.PolicyRule{namespace: rules}, clusterWide...)
}

// worldOf does that in several.
func worldOf(t testing.TB, rules map[string][]policyv1alpha1.PolicyRule, clusterWide ...rbacv1.PolicyRule) *ruleset.Index {
	t.Helper()
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	in := ruleset.Input{
		MasterNamespace: "master",
		CompileRule:     (&rulecondition.Compiler{CEL: cel}).CompileRule,
		Kinds:           ruleset.NewKinds([]ruleset.Served{{Resource: "configmaps", Kind: "ConfigMap", Builtin: true}, {Resource: "pods", Kind: "Pod", Builtin: true}}),
	}
	for namespace, rules := range rules {
		in.Policies = append(in.Policies, &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: namespace},
			Roles: map[string]policyv1alpha1.PolicyRole{"r": {Rules: rules}}})
		in.PolicyBindings = append(in.PolicyBindings, &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: namespace, Namespace: namespace},
			RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"b": {RoleName: "r", UserNames: []string{"edgar"}}}})
	}
	if len(clusterWide) > 0 {
		in.ClusterRoles = []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Rules: clusterWide}}
		in.ClusterRoleBindings = []*rbacv1.ClusterRoleBinding{{ObjectMeta: metav1.ObjectMeta{Name: "c"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "c"},
			Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "edgar"}}}}
	}
	return ruleset.Build(in)
}

// published is a store whose snapshot has the given index.
type published struct {
	index  *ruleset.Index
	served *snapshot.Served
	next   atomic.Pointer[ruleset.Index] // in the place of index
}

func (p *published) Name() string    { return "test" }
func (p *published) HasSynced() bool { return true }
func (p *published) Apply(next *snapshot.Snapshot) {
	next.Rules, next.Served = cmp.Or(p.next.Load(), p.index), p.served
}

func storeWith(t *testing.T, p *published) *snapshot.Store {
	t.Helper()
	store := snapshot.NewStore()
	store.Add(p)
	stop := make(chan struct{})
	go store.Run(stop)
	t.Cleanup(func() { close(stop) })
	awaitIndex(t, store, p.index)
	return store
}

func awaitIndex(t *testing.T, store *snapshot.Store, want *ruleset.Index) {
	t.Helper()
	for store.Current().Rules != want {
		if t.Context().Err() != nil {
			t.Fatal("the snapshot was never published")
		}
		store.Changed()
	}
}

func tiers(t testing.TB, store *snapshot.Store) *Chain {
	t.Helper()
	chain, err := NewChain(Link{Name: "policy-namespace", Authorizer: NewPolicyNamespace(store, nil).ServedBy(servedHere)}, Link{Name: "rbac", Authorizer: NewRBAC(store)})
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

// servedHere says that everything is served here.
var servedHere = LocalFunc(func(string, string) bool { return true })

func asks(verb string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "edgar", Groups: []string{user.AllAuthenticated}}, Verb: verb, Namespace: "hammer",
		APIVersion: "v1", Resource: "configmaps", ResourceRequest: true}
}

// created is an admission of a config map with the given label.
func created(label string) authorizer.ConditionsData {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x", "labels": map[string]any{"good": label}}}}
	return admission.NewAttributesRecord(u, nil, schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "hammer", "x",
		schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "", admission.Create, nil, false, nil)
}

var onlyGoodRule = policyv1alpha1.PolicyRule{Verbs: []string{"*"}, ResourceKinds: []string{"configmaps"}, Where: `resource.metadata.labels["good"] == "yes"`, Description: "only good ones"}

// CA-5: a policy that changes between authorization and admission does not change the outcome of a request in flight,
// neither by what it takes away nor by what it grants; the next request sees it.
func TestPolicyChangedInFlight(t *testing.T) {
	before, after := world(t, []policyv1alpha1.PolicyRule{onlyGoodRule}), world(t, nil, rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"configmaps"}})
	p := &published{index: before}
	store := storeWith(t, p)
	chain := tiers(t, store)
	ctx := requestctx.With(t.Context(), store.Current())
	v := chain.Decide(ctx, asks("create"))
	if v.Pending == nil {
		t.Fatalf("want a conditional answer, got %+v", v)
	}

	p.next.Store(after) // now a cluster role allows everything, and the condition is gone
	awaitIndex(t, store, after)
	if out := v.Pending.Resolve(ctx, created("yes")); out.Decision != authorizer.DecisionAllow {
		t.Errorf("the old policy allows a good one: %+v", out)
	}
	// RBAC is only asked now, in admission, and must answer by the old policy too.
	if out := v.Pending.Resolve(ctx, created("no")); out.Decision == authorizer.DecisionAllow {
		t.Errorf("a grant that came later reached a request in flight: %+v", out)
	}
	if next := chain.Decide(requestctx.With(t.Context(), store.Current()), asks("create")); next.Decision != authorizer.DecisionAllow {
		t.Errorf("the next request does not see the new policy: %+v", next)
	}
}

// CA-10: a refusal names the condition and its description.
func TestRefusalNamesTheCondition(t *testing.T) {
	store := storeWith(t, &published{index: world(t, []policyv1alpha1.PolicyRule{onlyGoodRule})})
	ctx := requestctx.With(t.Context(), store.Current())
	out := tiers(t, store).Decide(ctx, asks("create")).Pending.Resolve(ctx, created("no"))
	if out.Decision == authorizer.DecisionAllow || !strings.Contains(out.Reason, `condition "policy.proviso.dev/r-`) || !strings.Contains(out.Reason, "was not met: only good ones") {
		t.Errorf("got %s: %q", out.Decision, out.Reason)
	}
	if out.Authorizer != "policy-namespace" || len(out.Conditions) != 1 {
		t.Errorf("audit learns neither authorizer nor condition: %+v", out) // CA-21
	}
}

// PO-7: a namespace's deny yields to a cluster-wide grant, and holds without one.
func TestNamespaceDenyYieldsToClusterGrant(t *testing.T) {
	deny := []policyv1alpha1.PolicyRule{{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"configmaps"}}, {Verbs: []string{"delete"}, ResourceKinds: []string{"configmaps"}}}
	for name, tt := range map[string]struct {
		cluster []rbacv1.PolicyRule
		want    authorizer.Decision
	}{
		"without": {nil, authorizer.DecisionDeny},
		"with":    {[]rbacv1.PolicyRule{{Verbs: []string{"delete"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}}, authorizer.DecisionAllow},
	} {
		t.Run(name, func(t *testing.T) {
			store := storeWith(t, &published{index: world(t, deny, tt.cluster...)})
			got, reason, err := tiers(t, store).Authorize(context.Background(), asks("delete"))
			if got != tt.want || err != nil {
				t.Errorf("got %s (%s, %v), want %s", got, reason, err, tt.want)
			}
			if tt.want == authorizer.DecisionDeny && (!strings.Contains(reason, "denied by") || !strings.Contains(reason, "allowed by")) {
				t.Errorf("want both reasons (PO-8): %q", reason)
			}
		})
	}
}

// PO-25: a rule of the master namespace that cannot be read denies, and yields to a cluster-wide grant. One that says
// deny does not.
func TestUnreadableMasterDenyYields(t *testing.T) {
	odd := policyv1alpha1.PolicyRule{Verbs: []string{"delete"}, ResourceKinds: []string{"configmaps"}, Unrecognized: map[string]runtime.RawExtension{"effect": {Raw: []byte(`"Deny"`)}}}
	plain := policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"configmaps"}}
	grant := rbacv1.PolicyRule{Verbs: []string{"delete"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}
	for name, tt := range map[string]struct {
		rule    policyv1alpha1.PolicyRule
		cluster []rbacv1.PolicyRule
		want    authorizer.Decision
	}{
		"unreadable":                 {odd, nil, authorizer.DecisionDeny},
		"unreadable, with a grant":   {odd, []rbacv1.PolicyRule{grant}, authorizer.DecisionAllow},
		"says deny, with a grant":    {plain, []rbacv1.PolicyRule{grant}, authorizer.DecisionDeny},
		"says deny, without a grant": {plain, nil, authorizer.DecisionDeny},
	} {
		store := storeWith(t, &published{index: worldIn(t, "master", []policyv1alpha1.PolicyRule{tt.rule}, tt.cluster...)})
		chain, err := NewChain(Link{Name: "policy-master", Authorizer: NewPolicyMaster(store)}, Link{Name: "rbac", Authorizer: NewRBAC(store)})
		if err != nil {
			t.Fatal(err)
		}
		if got, reason, err := chain.Authorize(t.Context(), asks("delete")); got != tt.want || err != nil {
			t.Errorf("%s: %s (%s, %v), want %s", name, got, reason, err, tt.want)
		}
	}
}

// CA-16: a list whose selector implies the condition is allowed, one without it is not.
func TestListUnderACondition(t *testing.T) {
	rule := policyv1alpha1.PolicyRule{Verbs: []string{"*"}, ResourceKinds: []string{"pods"}, Where: `resource.spec.nodeName == "n1"`}
	store := storeWith(t, &published{index: world(t, []policyv1alpha1.PolicyRule{rule})})
	list := asks("list")
	list.Resource = "pods"
	if d, reason, _ := tiers(t, store).Authorize(t.Context(), list); d == authorizer.DecisionAllow {
		t.Errorf("a list of everything was allowed: %s", reason)
	}
	list.FieldSelectorRequirements = fields.ParseSelectorOrDie("spec.nodeName=n1").Requirements()
	if d, reason, _ := tiers(t, store).Authorize(t.Context(), list); d != authorizer.DecisionAllow {
		t.Errorf("a list of the node's own pods was refused: %s", reason)
	}
	// CA-6: who serves the resource elsewhere need not honour the selector.
	elsewhere := NewPolicyNamespace(store, nil).ServedBy(LocalFunc(func(group, version string) bool { return group != "" || version != "v1" }))
	list.APIVersion = "v1"
	if d, reason, _ := elsewhere.Authorize(t.Context(), list); d == authorizer.DecisionAllow {
		t.Errorf("a list that another server answers was allowed: %s", reason)
	}
	list.APIVersion = "v2"
	if d, reason, _ := elsewhere.Authorize(t.Context(), list); d != authorizer.DecisionAllow {
		t.Errorf("a list of a version that is served here was refused: %s", reason)
	}
	// A tier that was not told what is served here takes it that nothing is.
	if d, reason, _ := NewPolicyNamespace(store, nil).Authorize(t.Context(), list); d == authorizer.DecisionAllow {
		t.Errorf("a list was allowed that nobody is known to serve here: %s", reason)
	}
}

// SV-8: a tier that has read nothing denies.
func TestTierWithoutAnIndexDenies(t *testing.T) {
	d, _, err := NewRBAC(snapshot.NewStore()).Authorize(t.Context(), asks("get"))
	if d != authorizer.DecisionDeny || err == nil {
		t.Errorf("got %s, %v", d, err)
	}
}

// factsFor is an admission as the enforcer hands it over.
type factsFor struct {
	authorizer.ConditionsData
	data *expr.Data
}

func (f *factsFor) Expr() *expr.Data { return f.data }
func (f *factsFor) Trusted() error   { return nil }
