package law

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/test/refmodel"
)

// world is policies and a chain of authorizers, and the server made of them.
type world struct {
	*refmodel.World
	order      []string
	others     map[string]*other
	namespaces map[string]map[string]any

	snapshot *snapshot.Snapshot
	gate     *authorize.Gate
	filter   authorizer.Authorizer
	enforcer *enforce.Plugin
	// target is what the connection that is being admitted goes to.
	target map[string]any
}

// Target implements enforce.Targets.
func (w *world) Target(context.Context, schema.GroupResource, string, string) (runtime.Object, error) {
	return &unstructured.Unstructured{Object: w.target}, nil
}

// rule finds the rule of a hit.
func (w *world) rule(h refmodel.Hit) *policyv1alpha1.PolicyRule {
	ns, name, _ := strings.Cut(strings.TrimPrefix(h.Role, "Policy "), "/")
	for _, p := range w.Policies {
		if p.Namespace == ns {
			return &p.Roles[name].Rules[h.Rule]
		}
	}
	return nil
}

// drawWorld draws policies with conditions of every sort, and a chain: both policy tiers, RBAC and others, in any
// order, some missing.
func drawWorld(t testing.TB, p refmodel.Pick, e *pool, compiler *expr.Compiler) *world {
	w := &world{World: p.World(), others: map[string]*other{}, namespaces: map[string]map[string]any{}}
	for _, c := range w.Policies {
		for name := range 4 {
			role, ok := c.Roles[fmt.Sprint("r", name)]
			if !ok {
				continue
			}
			if p(400) == 0 { // more than a set of conditions holds (CA-1)
				for range 140 {
					role.Rules = append(role.Rules, policyv1alpha1.PolicyRule{Deny: p(2) == 0, Verbs: []string{"*"}, ResourceKinds: []string{"*"}})
				}
				c.Roles[fmt.Sprint("r", name)] = role
			}
			for i := range role.Rules {
				e.condition(p, &role.Rules[i])
			}
		}
	}
	for _, ns := range refmodel.Namespaces {
		if p(6) != 0 {
			w.namespaces[ns] = map[string]any{"metadata": map[string]any{"name": ns, "labels": map[string]any{"tier": []string{"prod", "test"}[p(2)]}}}
		}
	}
	w.others["webhook"], w.others["opaque"] = drawOther(p, e, compiler), drawOther(p, e, compiler)
	w.order = []string{"policy-master", "policy-namespace", "rbac", "webhook", "opaque"}
	for i := range w.order {
		j := i + p(len(w.order)-i)
		w.order[i], w.order[j] = w.order[j], w.order[i]
	}
	w.order = w.order[:1+max(p(5), p(5))]
	w.serve(t, compiler)
	return w
}

// serve puts the world behind the gate and the enforcer.
func (w *world) serve(t testing.TB, compiler *expr.Compiler) {
	served := discovered(w.Served)
	w.snapshot = &snapshot.Snapshot{Synced: true, Served: served, Rules: ruleset.Build(ruleset.Input{
		MasterNamespace: w.Master, Kinds: served.Kinds(), CompileRule: (&rulecondition.Compiler{CEL: compiler}).CompileRule,
		Policies: w.Policies, PolicyBindings: w.PolicyBindings, Roles: w.Roles, ClusterRoles: w.ClusterRoles,
		RoleBindings: w.RoleBindings, ClusterRoleBindings: w.ClusterRoleBindings,
	})}
	var links []authorize.Link
	store := snapshot.NewStore()
	for _, name := range w.order {
		link := authorize.Link{Name: name}
		switch name {
		case "policy-master":
			link.Authorizer = authorize.NewPolicyMaster(store).ServedBy(here)
		case "policy-namespace":
			link.Authorizer = authorize.NewPolicyNamespace(store, nil).ServedBy(here)
		case "rbac":
			link.Authorizer = authorize.NewRBAC(store)
		default:
			link.Authorizer, link.FailOpen = w.others[name], w.others[name].failOpen
		}
		links = append(links, link)
	}
	chain, err := authorize.NewChain(links...)
	if err != nil {
		t.Fatal(err)
	}
	w.gate = authorize.NewGate(authorize.GateConfig{Chain: chain, Conditional: true, Local: here})
	w.filter = w.gate.AtFilter()
	w.enforcer = enforce.New(enforce.Config{Targets: w, Namespaces: authorize.NamespacesFunc(func(name string) (runtime.Object, error) {
		ns, ok := w.namespaces[name]
		if !ok {
			return nil, errNoNamespace
		}
		return &unstructured.Unstructured{Object: ns}, nil
	})})
}

// here is where everything is served.
var here = authorize.LocalFunc(func(string, string) bool { return true })

type effect int

const (
	denying effect = iota
	abstaining
	allowing
)

// other is an authorizer of somebody else, such as a webhook: its conditions are CEL in text, or opaque.
type other struct {
	conditions []otherCondition
	failOpen   bool
	// usual is what it answers when it needs no object.
	usual [4]string
	cel   *authorize.CELConditions
	set   authorizer.ConditionsAwareDecision
}

type otherCondition struct {
	effect effect
	source string // CEL, or
	old    bool   // which object an opaque one looks at
}

func drawOther(p refmodel.Pick, e *pool, compiler *expr.Compiler) *other {
	o := &other{failOpen: p(4) == 0, cel: authorize.NewCELConditions(compiler)}
	for i := range o.usual {
		o.usual[i] = []string{"if", "if", "none", "none", "allow", "deny"}[p(6)]
	}
	var sets [3][]authorizer.Condition
	for i := range 1 + p(4) {
		c := otherCondition{effect: effect(p(3)), old: p(3) == 0}
		condition := authorizer.GenericCondition{ID: fmt.Sprintf("other.example.com/c%d", i), Type: "other.example.com/opaque", EvaluateFunc: c.evaluate}
		if p(2) == 0 {
			for c.source == "" || strings.Contains(c.source, "request.") { // a webhook fills in what it knows of the request
				c.source = expression(p, when, 1)
			}
			condition.Type, condition.Condition, condition.EvaluateFunc = expr.TypeCEL, c.source, nil
		}
		o.conditions = append(o.conditions, c)
		sets[c.effect] = append(sets[c.effect], condition)
	}
	o.set = authorizer.ConditionsAwareDecisionConditionsMap(sets[denying], sets[abstaining], sets[allowing])
	return o
}

// answers says what it does about a request: allow, deny, none, or if.
func (o *other) answers(r authorizer.Attributes) string {
	return o.usual[(len(r.GetVerb())+len(r.GetUser().GetName())+len(r.GetResource()))%len(o.usual)]
}

func (c otherCondition) body(object, old map[string]any) map[string]any {
	if c.old {
		return old
	}
	return object
}

func (otherCondition) about(body map[string]any) answer {
	labels, _ := metadata(body)["labels"].(map[string]any)
	return map[any]answer{"dev": yes, "bad": fails}[labels["env"]]
}

func (c otherCondition) evaluate(_ context.Context, data authorizer.ConditionsData) authorizer.ConditionEvaluationResult {
	content := func(o runtime.Object) map[string]any {
		if u, ok := o.(*unstructured.Unstructured); ok {
			return u.Object
		}
		return nil
	}
	body := c.body(content(data.GetObject()), content(data.GetOldObject()))
	if body == nil {
		return authorizer.ConditionEvaluationResultError(errors.New("nothing to look at"))
	}
	if a := c.about(body); a != fails {
		return authorizer.ConditionEvaluationResultBoolean(a == yes)
	}
	return authorizer.ConditionEvaluationResultError(errors.New("a bad label"))
}

func (o *other) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	d := o.ConditionsAwareAuthorize(ctx, attrs)
	if d.IsAllow() {
		return authorizer.DecisionAllow, "", nil
	}
	return d.FailureDecision(), "", nil
}

func (o *other) ConditionsAwareAuthorize(_ context.Context, attrs authorizer.Attributes) authorizer.ConditionsAwareDecision {
	switch o.answers(attrs) {
	case "allow":
		return authorizer.ConditionsAwareDecisionAllow("as usual", nil)
	case "deny":
		return authorizer.ConditionsAwareDecisionDeny("as usual", nil)
	case "none":
		return authorizer.ConditionsAwareDecisionNoOpinion("", nil)
	}
	return o.set
}

func (o *other) EvaluateConditions(ctx context.Context, d authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return d.ConditionsMap().Evaluate(ctx, data, o.cel.Evaluate)
}
