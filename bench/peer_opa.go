package main

import (
	"context"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
)

const opaModule = `package authz

default allow := false

allow if {
	some subject in input.subjects
	some role in data.bindings[subject]
	some rule in data.roles[role]
	input.verb in rule.verbs
	input.kind in rule.kinds
	met(rule)
}

met(rule) if not rule.replicasBelow
met(rule) if input.replicas < rule.replicasBelow
`

// opaEngine has bindings and roles as data in memory, in the form in which reading costs OPA nothing, and one prepared
// query.
func opaEngine(h holds) (question, error) {
	kinds := []any{}
	for _, k := range viewKinds() {
		kinds = append(kinds, k)
	}
	rule := map[string]any{"verbs": []any{"get", "list", "watch"}, "kinds": kinds}
	verb := "get"
	if h.condition {
		verb = "update"
		rule = map[string]any{"verbs": []any{verb}, "kinds": kinds, "replicasBelow": mostReplicas}
	}
	bindings := make(map[string]any, h.n)
	for i := range h.n {
		bindings[userName(i)] = []any{"view"}
	}
	data := map[string]any{"bindings": bindings, "roles": map[string]any{"view": []any{rule}}}
	ctx := context.Background()
	prepared, err := rego.New(rego.Query("data.authz.allow"), rego.Module("authz.rego", opaModule),
		rego.Store(inmem.NewFromObjectWithOpts(data, inmem.OptRoundTripOnWrite(false), inmem.OptReturnASTValuesOnRead(true)))).PrepareForEval(ctx)
	if err != nil {
		return nil, err
	}
	return func(user string) func() (bool, error) {
		subjects := []any{user}
		for _, g := range groups {
			subjects = append(subjects, g)
		}
		input := ast.MustInterfaceToValue(map[string]any{"subjects": subjects, "verb": verb, "kind": "apps/deployments", "replicas": wantedReplicas})
		return func() (bool, error) {
			got, err := prepared.Eval(ctx, rego.EvalParsedInput(input))
			return got.Allowed(), err
		}
	}, nil
}
