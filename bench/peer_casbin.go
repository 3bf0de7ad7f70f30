package main

import (
	"fmt"

	"github.com/casbin/casbin/v3"
	"github.com/casbin/casbin/v3/model"
)

// casbinModel is casbin's model of role-based access, with a condition in each policy for the conditional one.
func casbinModel(condition bool) string {
	policy, rule := "sub, obj, act", ""
	if condition {
		policy, rule = "sub, obj, act, rule", " && eval(p.rule)"
	}
	return "[request_definition]\nr = sub, obj, act, replicas\n[policy_definition]\np = " + policy +
		"\n[role_definition]\ng = _, _\n[policy_effect]\ne = some(where (p.eft == allow))\n[matchers]\n" +
		"m = r.obj == p.obj && r.act == p.act && g(r.sub, p.sub)" + rule + "\n"
}

func casbinEngine(h holds) (question, error) {
	m, err := model.NewModelFromString(casbinModel(h.condition))
	if err != nil {
		return nil, err
	}
	enforcer, err := casbin.NewEnforcer(m)
	if err != nil {
		return nil, err
	}
	verbs := []string{"get", "list", "watch"}
	if h.condition {
		verbs = []string{"update"}
	}
	var rules [][]string
	for _, kind := range viewKinds() {
		for _, verb := range verbs {
			rule := []string{"view", kind, verb}
			if h.condition {
				rule = append(rule, fmt.Sprintf("r.replicas < %d", mostReplicas))
			}
			rules = append(rules, rule)
		}
	}
	if _, err := enforcer.AddPolicies(rules); err != nil {
		return nil, err
	}
	bindings := make([][]string, 0, h.n)
	for i := range h.n {
		bindings = append(bindings, []string{userName(i), "view"})
	}
	if _, err := enforcer.AddGroupingPolicies(bindings); err != nil {
		return nil, err
	}
	return func(user string) func() (bool, error) {
		subjects := append([]string{user}, groups...)
		return func() (bool, error) {
			for _, s := range subjects {
				if ok, err := enforcer.Enforce(s, "apps/deployments", verbs[0], wantedReplicas); ok || err != nil {
					return ok, err
				}
			}
			return false, nil
		}
	}, nil
}
