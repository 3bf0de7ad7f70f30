package apiserver

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/kube-openapi/pkg/validation/spec"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/features/policies"
	"proviso.dev/proviso/internal/state/selfclient"
	"proviso.dev/proviso/internal/state/snapshot"
)

// ruleTypes finds schemas for rules that are written. Those of built-in kinds are in this process; those of others are
// asked for.
func ruleTypes(clients *selfclient.Clients) (func(*snapshot.Store) rulecondition.Types, error) {
	client, err := discovery.NewDiscoveryClientForConfig(clients.JSON())
	if err != nil {
		return nil, err
	}
	asked := &resolver.ClientDiscoveryResolver{Discovery: client}
	known := sync.OnceValue(func() resolver.SchemaResolver {
		return resolver.NewDefinitionsSchemaResolver(allDefinitions, allSchemes()...).Combine(asked)
	})
	find := func(gvk schema.GroupVersionKind) (*spec.Schema, error) { return known().ResolveSchema(gvk) }
	return func(store *snapshot.Store) rulecondition.Types {
		return rulecondition.TypesFunc(func(rule *policyv1alpha1.PolicyRule, kind expr.Kind) []*expr.Type {
			return policies.RuleTypes(rule, kind, store.Current().Served, find)
		})
	}, nil
}
