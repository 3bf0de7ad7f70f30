package policyreview

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/request"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/compare"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/test/refmodel"
)

const master = "master"

// discovery is what the tests' server serves.
func discovery() *snapshot.Served {
	list := func(gv string, resources ...metav1.APIResource) *metav1.APIResourceList {
		return &metav1.APIResourceList{GroupVersion: gv, APIResources: resources}
	}
	return snapshot.Sources{Local: []*metav1.APIResourceList{
		list("v1", metav1.APIResource{Name: "pods", Kind: "Pod"}, metav1.APIResource{Name: "pods/exec", Kind: "PodExecOptions"},
			metav1.APIResource{Name: "pods/status", Kind: "Pod"}, metav1.APIResource{Name: "pods/eviction", Kind: "Eviction", Group: "policy", Version: "v1"},
			metav1.APIResource{Name: "secrets", Kind: "Secret"}, metav1.APIResource{Name: "nodes", Kind: "Node"}),
		list("apps/v1", metav1.APIResource{Name: "deployments", Kind: "Deployment"},
			metav1.APIResource{Name: "deployments/scale", Kind: "Scale", Group: "autoscaling", Version: "v1"}),
		list("apps/v1beta1", metav1.APIResource{Name: "deployments", Kind: "Deployment"}),
		list("authorization.proviso.dev/v1alpha1", metav1.APIResource{Name: "roles", Kind: "Role"}),
	}, Custom: []*metav1.APIResourceList{
		list("example.com/v1", metav1.APIResource{Name: "widgets", Kind: "Widget"}),
	}}.Served()
}

// house is a server without the server: a chain, a reviewer, and a policy that can be changed.
type house struct {
	*Reviewer
	compiler *rulecondition.Compiler
	served   *snapshot.Served
	// compiled keeps conditions from one world to the next, which are mostly the same.
	compiled map[string]ruleset.Condition
}

func (h *house) compile(role ruleset.RoleRef, index int, rule *policyv1alpha1.PolicyRule) (ruleset.Condition, error) {
	key := fmt.Sprint(role, index, rule.Deny, rule.Where, rule.When, rule.APIVersion, rule.AttributeRestrictions)
	if c, ok := h.compiled[key]; ok {
		return c, nil
	}
	c, err := h.compiler.CompileRule(role, index, rule)
	if err == nil {
		h.compiled[key] = c
	}
	return c, err
}

func newHouse(t testing.TB, more ...authorize.Link) *house {
	t.Helper()
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	store := snapshot.NewStore()
	tiers := []authorize.Link{
		{Name: "system-masters", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)},
		{Name: "policy-master", Authorizer: authorize.NewPolicyMaster(store).ServedBy(here)},
		{Name: "policy-namespace", Authorizer: authorize.NewPolicyNamespace(store, nil).ServedBy(here)},
		{Name: "rbac", Authorizer: authorize.NewRBAC(store)},
	}
	chain := func(links ...authorize.Link) *authorize.Chain {
		c, err := authorize.NewChain(links...)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	return &house{
		Reviewer: &Reviewer{Store: store, Gate: authorize.NewGate(authorize.GateConfig{Chain: chain(append(slices.Clone(tiers), more...)...), Conditional: true, Local: here, Limit: unasked{}}), Indexed: chain(tiers...), Master: master,
			Comparer: &compare.Comparer{Cache: expr.NewCache(cel)}},
		compiler: &rulecondition.Compiler{CEL: cel}, served: discovery(), compiled: map[string]ruleset.Condition{},
	}
}

// here is where everything is served.
var here = authorize.LocalFunc(func(string, string) bool { return true })

// unasked folds conditions on impersonation: a question has no content for it, so brute force cannot try objects.
type unasked struct{}

func (unasked) Check(attrs authorizer.Attributes) error {
	if strings.HasPrefix(attrs.GetVerb(), "impersonate") {
		return errors.New("impersonation has no object")
	}
	return nil
}

// auditor asks, and sees everything.
var auditor = &user.DefaultInfo{Name: "caller", Groups: []string{user.SystemPrivilegedGroup}}

// in pins a world to a context, as a request's snapshot is pinned.
func (h *house) in(w *refmodel.World) context.Context {
	return requestctx.With(request.WithUser(context.Background(), auditor), &snapshot.Snapshot{Synced: true, Served: h.served, Rules: ruleset.Build(ruleset.Input{
		MasterNamespace: w.Master, Kinds: h.served.Kinds(), CompileRule: h.compile,
		Policies: w.Policies, PolicyBindings: w.PolicyBindings, Roles: w.Roles, ClusterRoles: w.ClusterRoles,
		RoleBindings: w.RoleBindings, ClusterRoleBindings: w.ClusterRoleBindings,
	})})
}

// conditions that random rules have. Some are decided by the caller alone, one always fails, one does not compile.
var conditions = []func(*policyv1alpha1.PolicyRule){
	func(*policyv1alpha1.PolicyRule) {}, func(*policyv1alpha1.PolicyRule) {}, func(*policyv1alpha1.PolicyRule) {},
	func(r *policyv1alpha1.PolicyRule) { r.Where = `resource.metadata.name == "web"` },
	func(r *policyv1alpha1.PolicyRule) {
		r.When = `operation == "DELETE" || object.metadata.labels["x"] == "1"`
	},
	func(r *policyv1alpha1.PolicyRule) {
		r.When = `request.user == "alice" || "team-a" in request.groups`
	},
	func(r *policyv1alpha1.PolicyRule) { r.When = `!request.user.startsWith("system:")` },
	func(r *policyv1alpha1.PolicyRule) {
		r.AttributeRestrictions = &policyv1alpha1.AttributeRestrictions{LabelsContain: []string{"x=1"}}
	},
	func(r *policyv1alpha1.PolicyRule) { r.When = `object.spec.no.such.field == 1` },
	func(r *policyv1alpha1.PolicyRule) { r.When = `this does not compile` },
}

// world draws a world whose conditions are real ones.
func world(seed int64) (*refmodel.World, refmodel.Pick) {
	pick := refmodel.Pick(rand.New(rand.NewSource(seed)).Intn)
	w := pick.World()
	for _, p := range w.Policies {
		for name, role := range p.Roles {
			for i := range role.Rules {
				role.Rules[i].When = ""
				if len(role.Rules[i].NonResourceURLs) == 0 {
					conditions[pick(len(conditions))](&role.Rules[i])
				}
			}
			p.Roles[name] = role
		}
	}
	nameAll(w)
	return w, pick
}

// nameAll gives the user without a name one: no binding that is accepted names such a user, and an unnamed member of a
// group must not be taken for it.
func nameAll(w *refmodel.World) {
	for _, c := range w.PolicyBindings {
		for _, b := range c.RoleBindings {
			for i, u := range b.UserNames {
				b.UserNames[i] = cmp.Or(u, "carol")
			}
		}
	}
	rename := func(subjects []rbacv1.Subject) {
		for i := range subjects {
			subjects[i].Name = cmp.Or(subjects[i].Name, "carol")
		}
	}
	for _, b := range w.RoleBindings {
		rename(b.Subjects)
	}
	for _, b := range w.ClusterRoleBindings {
		rename(b.Subjects)
	}
}

// asked is a question of a random kind: a write, a read, a special verb.
type asked struct {
	namespace, verb, kind, name string
	apiVersion, own             string
}

func ask(pick refmodel.Pick) asked {
	one := func(from ...string) string { return from[pick(len(from))] }
	q := asked{
		namespace: one("", "hammer", "anvil", master), name: one("", "web", "db"),
		verb: one("create", "update", "patch", "delete", "deletecollection", "get", "list", "watch", "impersonate", "escalate"),
	}
	switch pick(4) {
	case 0:
		q.kind, q.apiVersion, q.own = "pods", "v1", "Pod"
	case 1:
		q.kind, q.apiVersion, q.own = "deployments.apps", "apps/v1", "Deployment"
	case 2:
		q.kind, q.apiVersion, q.own = "widgets.example.com", "example.com/v1", "Widget"
	default:
		q.kind, q.apiVersion, q.own = "secrets", "v1", "Secret"
	}
	if q.verb == "deletecollection" || q.verb == "list" || q.verb == "watch" {
		q.name = ""
	} else if q.verb != "create" {
		q.name = cmp.Or(q.name, "web") // such a request always says its name
	}
	return q
}

func (q asked) writes() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, q.verb)
}

// objects are the kinds of objects that the conditions can tell apart.
func (q asked) objects() (all []*runtime.RawExtension) {
	names := []string{"web", "db", "other"}
	if q.name != "" {
		names = []string{q.name}
	}
	for _, name := range names {
		for _, labels := range []map[string]string{nil, {"x": "1"}, {"x": "2"}} {
			raw, err := json.Marshal(map[string]any{"apiVersion": q.apiVersion, "kind": q.own, "metadata": map[string]any{"name": name, "labels": labels}})
			if err != nil {
				panic(err)
			}
			all = append(all, &runtime.RawExtension{Raw: raw})
		}
	}
	return all
}

func (q asked) spec(s ruleset.Subject, content *runtime.RawExtension) authz.SubjectAccessReviewSpec {
	spec := authz.SubjectAccessReviewSpec{Verb: q.verb, ResourceKind: q.kind, ResourceName: q.name, Content: content, Trace: true}
	spec.UserName, spec.GroupName = names(s)
	return spec
}

func (h *house) can(t testing.TB, ctx context.Context, namespace string, spec authz.SubjectAccessReviewSpec) authz.SubjectAccessReviewStatus {
	t.Helper()
	status, err := h.SubjectCan(ctx, auditor, namespace, spec)
	if err != nil {
		t.Fatalf("%+v: %v", spec, err)
	}
	return status
}

// subjects are those that a world's bindings name.
func subjects(w *refmodel.World) (out []ruleset.Subject) {
	users, groups := w.Subjects()
	for _, u := range users {
		out = append(out, ruleset.Subject{Name: u})
	}
	for _, g := range groups {
		out = append(out, ruleset.Subject{Group: true, Name: g})
	}
	return out
}

// noOpinion is an authorizer that somebody else runs.
type noOpinion struct{ authorizer.Authorizer }

func (noOpinion) ConditionsAwareAuthorize(context.Context, authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionNoOpinion("", nil)
}

func (noOpinion) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "", nil
}

// refuser denies everything.
type refuser struct{ authorizer.Authorizer }

func (refuser) ConditionsAwareAuthorize(context.Context, authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionDeny("not today", nil)
}

func (refuser) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "not today", nil
}
