package escalation

import (
	"errors"
	"math/rand"
	"strings"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/test/refmodel"
)

type rules = []policyv1alpha1.PolicyRule

func allow(verb, kind string) policyv1alpha1.PolicyRule {
	return policyv1alpha1.PolicyRule{Verbs: []string{verb}, ResourceKinds: []string{kind}}
}

// picker draws from a seed that is shown when a test fails.
func picker(seed int64) refmodel.Pick { return refmodel.Pick(rand.New(rand.NewSource(seed)).Intn) }

// compileText stands for the CEL compiler: a condition is what is written.
func compileText(_ ruleset.RoleRef, _ int, r *policyv1alpha1.PolicyRule) (matching.Condition, error) {
	if strings.Contains(r.When, refmodel.Broken) {
		return nil, errors.New("when: syntax error")
	}
	return asWritten{r}, nil
}

func inputOf(w *refmodel.World) ruleset.Input {
	var served []matching.Served
	for _, r := range w.Served {
		served = append(served, matching.Served{Group: r.Group, Resource: r.Plural, Kind: r.Kind, Builtin: r.Builtin()})
	}
	return ruleset.Input{MasterNamespace: w.Master, Kinds: matching.NewKinds(served), CompileRule: compileText,
		Policies: w.Policies, PolicyBindings: w.PolicyBindings, Roles: w.Roles, ClusterRoles: w.ClusterRoles,
		RoleBindings: w.RoleBindings, ClusterRoleBindings: w.ClusterRoleBindings}
}
