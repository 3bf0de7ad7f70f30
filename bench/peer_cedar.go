package main

import (
	"fmt"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
)

// cedarEngine has one policy for each binding, or one for the role and its users as members of a group. Roles are sets
// of kinds in the resources' hierarchy.
func cedarEngine(h holds, grouped bool) (question, error) {
	verbs, rule := []string{"get", "list", "watch"}, ""
	if h.condition {
		verbs, rule = []string{"update"}, fmt.Sprintf(" when { context.replicas < %d }", mostReplicas)
	}
	actions := ""
	for i, v := range verbs {
		if i > 0 {
			actions += ", "
		}
		actions += fmt.Sprintf("Action::%q", v)
	}
	role, policies, entities := cedar.NewEntityUID("Role", "view"), cedar.NewPolicySet(), types.EntityMap{}
	add := func(id, principal string) error {
		var p cedar.Policy
		text := fmt.Sprintf("permit(principal %s, action in [%s], resource in Kinds::\"view\")%s;", principal, actions, rule)
		if err := p.UnmarshalCedar([]byte(text)); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		policies.Add(cedar.PolicyID(id), &p)
		return nil
	}
	if grouped {
		if err := add("view", `in Role::"view"`); err != nil {
			return nil, err
		}
	}
	for i := range h.n {
		name := userName(i)
		if grouped {
			uid := cedar.NewEntityUID("User", types.String(name))
			entities[uid] = types.Entity{UID: uid, Parents: types.NewEntityUIDSet(role)}
		} else if err := add(fmt.Sprintf("binding-%06d", i), fmt.Sprintf("== User::%q", name)); err != nil {
			return nil, err
		}
	}
	kinds := types.NewEntityUIDSet(cedar.NewEntityUID("Kinds", "view"))
	for _, kind := range viewKinds() {
		uid := cedar.NewEntityUID("Kind", types.String(kind))
		entities[uid] = types.Entity{UID: uid, Parents: kinds}
	}
	return func(user string) func() (bool, error) {
		context := types.NewRecord(types.RecordMap{"replicas": types.Long(wantedReplicas)})
		request := cedar.Request{Principal: cedar.NewEntityUID("User", types.String(user)), Action: cedar.NewEntityUID("Action", types.String(verbs[0])),
			Resource: cedar.NewEntityUID("Kind", "apps/deployments"), Context: context}
		subjects := []cedar.EntityUID{request.Principal}
		for _, g := range groups {
			subjects = append(subjects, cedar.NewEntityUID("Group", types.String(g)))
		}
		return func() (bool, error) {
			if !grouped { // one principal is asked for; a group that is bound would be one more parent of the user
				d, diagnostic := cedar.Authorize(policies, entities, request)
				return d == cedar.Allow, failed(diagnostic)
			}
			for _, s := range subjects {
				request.Principal = s
				d, diagnostic := cedar.Authorize(policies, entities, request)
				if d == cedar.Allow || len(diagnostic.Errors) > 0 {
					return d == cedar.Allow, failed(diagnostic)
				}
			}
			return false, nil
		}
	}, nil
}

func failed(d cedar.Diagnostic) error {
	if len(d.Errors) > 0 {
		return fmt.Errorf("%s", d.Errors[0].Message)
	}
	return nil
}
