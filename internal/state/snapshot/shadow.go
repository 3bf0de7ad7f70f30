package snapshot

import (
	"slices"
	"sync"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/shadowrule"
)

// Shadow holds the shadow rules, which are evaluated but not enforced (TR-6).
type Shadow struct {
	// Rules is the index of shadow rules of Policy; nil if there are none.
	Rules *ruleset.Index
	// Protect are such protected attributes.
	Protect ShadowProtections
	// Fields are such field permissions.
	Fields []ShadowFields
}

// All lists what is not enforced, in no order.
func (s *Shadow) All() []shadowrule.Rule {
	var all []shadowrule.Rule
	s.Rules.Shadows(func(role ruleset.RoleRef, index int, rule *policyv1alpha1.PolicyRule) {
		all = append(all, shadowrule.OfRole(role, index, rule))
	})
	for _, p := range s.Protect.Each {
		all = append(all, p.Rule)
	}
	for _, f := range s.Fields {
		all = append(all, f.Rule)
	}
	return all
}

// ShadowProtections are protected attributes that are not enforced.
type ShadowProtections struct {
	// Index has all of them; nil if there are none. What it allows, each of them allows.
	Index *protectedattr.Index
	// Each is an index of one of them.
	Each []ShadowProtection
}

// ShadowProtection is one protected attribute that is not enforced.
type ShadowProtection struct {
	Rule  shadowrule.Rule
	Index *protectedattr.Index
}

type shadowedProtection struct {
	rule       shadowrule.Rule
	protection protectedattr.Protection
}

// newShadowProtections builds indexes with the same exemptions as the one that decides. Nothing can be said about a
// protection that does not say what it protects; such an object cannot be written.
func newShadowProtections(decides protectedattr.Config, shadowed []shadowedProtection) (s ShadowProtections) {
	if len(shadowed) == 0 {
		return s
	}
	of := func(protections ...protectedattr.Protection) *protectedattr.Index {
		index, err := protectedattr.New(protectedattr.Config{Protections: protections, ExemptUsers: decides.ExemptUsers, ExemptGroups: decides.ExemptGroups, Master: decides.Master})
		if err != nil {
			return nil
		}
		return index
	}
	var all []protectedattr.Protection
	for _, one := range shadowed {
		if index := of(one.protection); index != nil {
			s.Each = append(s.Each, ShadowProtection{one.rule, index})
			all = append(all, one.protection)
		}
	}
	s.Index = of(all...)
	return s
}

// ShadowFields is one field permission that is not enforced.
type ShadowFields struct {
	Rule shadowrule.Rule
	// Resources are the resources that it covers.
	Resources []fieldperm.Resource
	// Hides is true if it would hide a field from readers.
	Hides bool
	// carriers are the resources that carry others.
	carriers fieldperm.Carriers
	// Table returns the table as if it were enforced. It is built when a request needs it.
	Table func() *fieldperm.Table
}

// Concerns reports whether a write of the resource could be answered differently. The zero resource stands for any. A
// resource that carries another one, such as a pod template, counts as that one, too.
func (s *ShadowFields) Concerns(r fieldperm.Resource) bool {
	return slices.ContainsFunc(s.Resources, func(own fieldperm.Resource) bool {
		return own == fieldperm.Resource{} || s.carriers.Carry(r, own)
	})
}

func newShadowFields(decides fieldperm.Config, shadowed []*policyv1alpha1.FieldPermission) []ShadowFields {
	var all []ShadowFields
	for _, p := range shadowed {
		declared, err := fieldperm.FromFieldPermission(p)
		if err != nil {
			continue
		}
		cfg := decides
		cfg.FieldPermissions = append(slices.Clone(decides.FieldPermissions), p)
		all = append(all, ShadowFields{Rule: shadowrule.OfField(p), Resources: declared.Resources, Hides: declared.ReadExclusive, carriers: fieldperm.CarriersOf(slices.Concat(decides.Templates, declared.Templates)...), Table: sync.OnceValue(func() *fieldperm.Table {
			table, _ := fieldperm.New(cfg)
			return table
		})})
	}
	return all
}
