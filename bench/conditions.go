package main

import (
	"context"
	"fmt"

	"github.com/google/cel-go/cel"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/state/snapshot"
)

// conditions measures one conditional rule against a ValidatingAdmissionPolicy, and few conditional rules against many.
func conditions(b *bench) error {
	compiler, err := expr.New(expr.Config{})
	if err != nil {
		return err
	}
	if err := b.oneCondition(compiler); err != nil {
		return err
	}
	return b.manyConditions(&rulecondition.Compiler{CEL: compiler})
}

// peerExpressions are conditions, and the same in the words of a ValidatingAdmissionPolicy, where the user is
// elsewhere.
var peerExpressions = []struct{ name, ours, theirs string }{
	{"object", `object.spec.nodeName == "n1"`, `object.spec.nodeName == "n1"`},
	{"loop", `object.spec.containers.all(c, c.image.startsWith("registry/"))`, `object.spec.containers.all(c, c.image.startsWith("registry/"))`},
	{"user", `object.metadata.labels["owner"] == request.user && object.spec.nodeName == "n1"`,
		`object.metadata.labels["owner"] == request.userInfo.username && object.spec.nodeName == "n1"`},
}

func workloadPod() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", Labels: map[string]string{"env": "dev", "owner": "bot-1"}},
		Spec: corev1.PodSpec{NodeName: "n1", RestartPolicy: "Always", Containers: []corev1.Container{
			{Name: "a", Image: "registry/a"}, {Name: "b", Image: "registry/b"}, {Name: "c", Image: "registry/c"},
		}},
	}
}

type validation string

func (v validation) GetExpression() string  { return string(v) }
func (validation) ReturnTypes() []*cel.Type { return []*cel.Type{cel.BoolType} }

// oneCondition is authorize and enforce of one condition. Both sides start from what the API server hands them, and
// both see the object for the first time.
func (b *bench) oneCondition(compiler *expr.Compiler) error {
	ctx, pod := context.Background(), workloadPod()
	bot := &user.DefaultInfo{Name: "bot-1", Groups: []string{"system:authenticated", "dev"}}
	gvk, gvr := corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithResource("pods")
	attrs := admission.NewAttributesRecord(pod, nil, gvk, "ns", "p", gvr, "", admission.Create, &metav1.CreateOptions{}, false, bot)
	authz := authorizer.AttributesRecord{User: bot, Verb: "create", Namespace: "ns", APIVersion: "v1", Resource: "pods", Name: "p", ResourceRequest: true}
	policies := plugincel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	for _, e := range peerExpressions {
		theirs := policies.CompileCondition([]plugincel.ExpressionAccessor{validation(e.theirs)}, plugincel.OptionalVariableDeclarations{}, environment.StoredExpressions)
		if errs := theirs.CompilationErrors(); len(errs) > 0 {
			return errs[0]
		}
		program, issues := compiler.Compile(e.ours, expr.Options{Kind: expr.When})
		if issues != nil {
			return fmt.Errorf("%s: %v", e.ours, issues)
		}
		ours := side{"proviso", func() error {
			out := program.Decide(expr.NewRequest(authz), expr.Allow)
			data := expr.NewData(expr.DataConfig{Operation: "CREATE", OwnKind: true, Objects: expr.Static{New: pod}})
			if holds, err := out.Residual().Evaluate(ctx, data); err != nil || !holds {
				return fmt.Errorf("evaluated to %v: %v", holds, err)
			}
			return nil
		}}
		peer := side{"validating-admission-policy", func() error {
			versioned := &admission.VersionedAttributes{Attributes: attrs, VersionedKind: gvk, VersionedObject: admission.NewLazyObject(pod)}
			request := plugincel.CreateAdmissionRequest(attrs, metav1.GroupVersionResource(gvr), metav1.GroupVersionKind(gvk))
			got, _, err := theirs.ForInput(ctx, versioned, request, plugincel.OptionalVariableBindings{}, nil, celconfig.RuntimeCELCostBudget)
			if err != nil || got[0].Error != nil || got[0].EvalResult.Value() != true {
				return fmt.Errorf("evaluated to %v: %v", got, err)
			}
			return nil
		}}
		if err := b.compare("condition-"+e.name, 1, ours, peer); err != nil {
			return err
		}
	}
	return nil
}

// manyConditions is a request that one conditional rule concerns, among ten thousand and among ten: rules of as many
// users, of one user in one role, and of one user in as many roles.
func (b *bench) manyConditions(compiler *rulecondition.Compiler) error {
	const few, many = 10, 10_000
	for _, shape := range []string{"users", "rules", "roles"} {
		name := "authorize-conditional-" + shape
		if !b.wanted(name) {
			continue
		}
		if err := b.compare(name, many, conditionalRules("proviso", compiler, shape, many), conditionalRules("ten", compiler, shape, few)); err != nil {
			return err
		}
	}
	return nil
}

func conditionalRules(name string, compiler *rulecondition.Compiler, shape string, n int) side {
	policy := &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{}}
	bindings := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "hammer"}, PolicyRef: policyv1alpha1.PolicyReference{Namespace: "hammer"},
		RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{}}
	var served []ruleset.Served
	for i := range n {
		role, holder := fmt.Sprintf("role-%05d", i), userName(7)
		switch shape {
		case "users":
			holder = userName(i)
		case "rules":
			role = "role"
		}
		served = append(served, ruleset.Served{Group: "example.com", Resource: fmt.Sprintf("widgets%d", i), Kind: fmt.Sprintf("Widget%d", i)})
		policy.Roles[role] = policyv1alpha1.PolicyRole{Rules: append(policy.Roles[role].Rules, policyv1alpha1.PolicyRule{
			Verbs: []string{"update"}, ResourceKinds: []string{fmt.Sprintf("widgets%d.example.com", i)}, When: fmt.Sprintf("object.spec.replicas < %d", i+2),
		})}
		bindings.RoleBindings[role] = policyv1alpha1.PolicyRoleBinding{RoleName: role, UserNames: []string{holder}}
	}
	ix := ruleset.Build(ruleset.Input{MasterNamespace: "master", Kinds: ruleset.NewKinds(served), CompileRule: compiler.CompileRule,
		Policies: []*policyv1alpha1.Policy{policy}, PolicyBindings: []*policyv1alpha1.PolicyBinding{bindings}})
	ctx, tier := pinned(ix), authorize.NewPolicyNamespace(snapshot.NewStore(), nil)
	var attrs authorizer.Attributes = &authorizer.AttributesRecord{User: &user.DefaultInfo{Name: userName(7), Groups: []string{"system:authenticated"}},
		Verb: "update", Namespace: "hammer", APIGroup: "example.com", APIVersion: "v1", Resource: "widgets7", Name: "w", ResourceRequest: true}
	return side{name, func() error {
		d := tier.ConditionsAwareAuthorize(ctx, attrs)
		if d.IsAllow() || d.IsDeny() || d.IsNoOpinion() {
			return fmt.Errorf("decided without the object: %s, %v", d.Reason(), d.Error())
		}
		return nil
	}}
}
