package policies

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/state/snapshot"
)

// maxCheckedKinds bounds how many schemas one rule is checked against.
const maxCheckedKinds = 8

// RuleTypes finds the schemas that an expression of a rule must fit, when it is written: those of the kinds it names,
// if it names them one by one and they are served (CA-11). A where on a connection that is named is about its target.
// A rule for everything, for other subresources or for what is not served yet is left unchecked; it is evaluated with
// whatever comes.
func RuleTypes(rule *policyv1alpha1.PolicyRule, kind expr.Kind, served *snapshot.Served, find func(schema.GroupVersionKind) (*spec.Schema, error)) []*expr.Type {
	var types []*expr.Type
	for _, named := range namedKinds(rule, kind, served) {
		gvk := named.WithVersion(rule.APIVersion)
		if gvk.Version == "" {
			gvk.Version = served.PreferredVersion(named)
		}
		s, err := find(gvk)
		if err != nil {
			return nil
		}
		if t := expr.NewType(gvk.String(), s); t != nil {
			types = append(types, t)
		}
	}
	return types
}

// namedKinds are the kinds of a rule that names every one of them, and nothing otherwise.
func namedKinds(rule *policyv1alpha1.PolicyRule, kind expr.Kind, served *snapshot.Served) []schema.GroupKind {
	if served == nil {
		return nil
	}
	var kinds []schema.GroupKind
	for _, entry := range rule.ResourceKinds {
		if kind == expr.Where && ruleset.NamedConnections(&policyv1alpha1.PolicyRule{ResourceKinds: []string{entry}}) != 0 {
			entry, _, _ = strings.Cut(entry, "/")
		}
		if strings.ContainsAny(entry, "*/") || strings.HasPrefix(entry, "-") {
			return nil
		}
		resources := served.Kinds().Resolve(entry)
		if len(resources) == 0 {
			return nil
		}
		for _, r := range resources {
			if len(rule.APIGroups) > 0 && !slices.Contains(rule.APIGroups, "*") && !slices.Contains(rule.APIGroups, r.Group) {
				continue
			}
			if k := (schema.GroupKind{Group: r.Group, Kind: served.OwnKind(r)}); !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
	}
	if len(kinds) > maxCheckedKinds {
		return nil
	}
	return kinds
}
