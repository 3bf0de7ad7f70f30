package policies

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/state/snapshot"
)

// maxCheckedKinds bounds how many schemas one rule is checked against.
const maxCheckedKinds = 8

// RuleTypes finds the schemas that a rule's expressions must fit, when it is written: those of the kinds it names, if
// it names them one by one and they are served (CA-11). A rule for everything, for subresources or for what is not
// served yet is left unchecked; it is evaluated with whatever comes.
func RuleTypes(rule *policyv1alpha1.PolicyRule, served *snapshot.Served, find func(schema.GroupVersionKind) (*spec.Schema, error)) []*expr.Type {
	var types []*expr.Type
	for _, kind := range namedKinds(rule, served) {
		gvk := kind.WithVersion(rule.APIVersion)
		if gvk.Version == "" {
			gvk.Version = served.PreferredVersion(kind)
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
func namedKinds(rule *policyv1alpha1.PolicyRule, served *snapshot.Served) []schema.GroupKind {
	if served == nil {
		return nil
	}
	var kinds []schema.GroupKind
	for _, entry := range rule.ResourceKinds {
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
			kinds = append(kinds, schema.GroupKind{Group: r.Group, Kind: served.OwnKind(r)})
		}
	}
	if len(kinds) > maxCheckedKinds {
		return nil
	}
	return kinds
}
