package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/state/snapshot"
)

// mostReplicas is the condition of a conditional role: fewer than these.
const mostReplicas, wantedReplicas = 10, 3

// admitted is the update of a deployment as the enforcer hands it to conditions.
type admitted struct {
	admission.Attributes
	data    expr.Data
	objects expr.Static
}

func (a *admitted) Expr() *expr.Data { return &a.data }
func (a *admitted) Trusted() error   { return nil }

func scaled(replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas},
	}
}

// provisoConditions decides, and then resolves the condition on the object, with the chain that the server uses.
func provisoConditions(h holds) (question, error) {
	compiler, err := expr.New(expr.Config{})
	if err != nil {
		return nil, err
	}
	policy := &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{
		"scale": {Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"update"}, ResourceKinds: []string{"deployments.apps"},
			When: fmt.Sprintf("object.spec.replicas < %d", mostReplicas)}}}}}
	bindings := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "hammer"}, PolicyRef: policyv1alpha1.PolicyReference{Namespace: "hammer"},
		RoleBindings: make(map[string]policyv1alpha1.PolicyRoleBinding, h.n)}
	for i := range h.n {
		bindings.RoleBindings[fmt.Sprintf("binding-%06d", i)] = policyv1alpha1.PolicyRoleBinding{RoleName: "scale", UserNames: []string{userName(i)}}
	}
	ctx := pinned(ruleset.Build(ruleset.Input{MasterNamespace: "master", CompileRule: (&rulecondition.Compiler{CEL: compiler}).CompileRule,
		Kinds:    ruleset.NewKinds([]ruleset.Served{{Group: "apps", Resource: "deployments", Kind: "Deployment", Builtin: true}}),
		Policies: []*policyv1alpha1.Policy{policy}, PolicyBindings: []*policyv1alpha1.PolicyBinding{bindings}}))
	chain, err := authorize.NewChain(authorize.Link{Name: "policy-namespace", Authorizer: authorize.NewPolicyNamespace(snapshot.NewStore(), nil)})
	if err != nil {
		return nil, err
	}
	return func(name string) func() (bool, error) { return resolving(ctx, chain, name) }, nil
}

func resolving(ctx context.Context, chain *authorize.Chain, name string) func() (bool, error) {
	who := &user.DefaultInfo{Name: name, Groups: groups}
	var attrs authorizer.Attributes = &authorizer.AttributesRecord{User: who, Verb: "update", Namespace: "hammer",
		APIGroup: "apps", APIVersion: "v1", Resource: "deployments", Name: "web", ResourceRequest: true}
	kind, resource := appsv1.SchemeGroupVersion.WithKind("Deployment"), appsv1.SchemeGroupVersion.WithResource("deployments")
	old, updated := scaled(1), scaled(wantedReplicas)
	record := admission.NewAttributesRecord(updated, old, kind, "hammer", "web", resource, "", admission.Update, &metav1.UpdateOptions{}, false, who)
	return func() (bool, error) {
		v := chain.Decide(ctx, attrs)
		if v.Pending == nil {
			return v.Decision == authorizer.DecisionAllow, v.Err
		}
		a := &admitted{Attributes: record, objects: expr.Static{New: updated, Old: old}}
		a.data.Init(&expr.DataConfig{Operation: "UPDATE", OwnKind: true, Objects: &a.objects})
		out := v.Pending.Resolve(ctx, a)
		return out.Decision == authorizer.DecisionAllow, out.Detail
	}
}
