package ruleset

import (
	"encoding/binary"

	rbacv1 "k8s.io/api/rbac/v1"

	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// manyRoles is how many roles have to come together for their rules to be compared.
const manyRoles = 64

// alikeRules are the rules of RBAC that one edit has compiled, by their place in the role and all that they say. Roles
// that were made from one template differ in a rule or in none: a hundred thousand of them share the rest, compiled and
// as written.
type alikeRules map[string]alikeRule

type alikeRule struct {
	rule   *matching.Rule
	source rbacv1.PolicyRule
}

// rule compiles a rule, unless that has been done. What src refers to is then what the first of them refers to.
func (a alikeRules) rule(i int, src *rbacv1.PolicyRule) *matching.Rule {
	if a == nil {
		return rbacRule(i, src)
	}
	text := binary.AppendUvarint(make([]byte, 0, 512), uint64(i))
	for _, list := range [][]string{src.Verbs, src.APIGroups, src.Resources, src.ResourceNames, src.NonResourceURLs} {
		if list == nil {
			text = append(text, 0)
			continue
		}
		text = binary.AppendUvarint(text, uint64(len(list))+1)
		for _, s := range list {
			text = append(binary.AppendUvarint(text, uint64(len(s))), s...)
		}
	}
	known, ok := a[string(text)]
	if !ok {
		known = alikeRule{rbacRule(i, src), *src}
		a[string(text)] = known
	}
	*src = known.source
	return known.rule
}
