package ruleset

import (
	"slices"
	"strings"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// NamedConnections are the connections that a rule names: by their subresource, or by the verb exec or proxy. On those
// its `where` is about the target. On others that the rule reaches by a wildcard, `where` has no object. Only the text
// of the rule counts, so resources that are served later cannot change the meaning of a rule.
func NamedConnections(rule *policyv1alpha1.PolicyRule) connect.Set {
	var kinds []matching.Pattern
	for _, entry := range rule.ResourceKinds {
		p, err := matching.ParseKind(entry) // a negated entry is not a name
		if err == nil && p.Mode == matching.SubExact && connect.Connects(p.Sub) {
			kinds = append(kinds, p)
		}
	}
	exec, proxy := slices.Contains(rule.Verbs, "exec"), slices.Contains(rule.Verbs, "proxy")
	if len(kinds) == 0 && !exec && !proxy {
		return 0
	}
	return connect.Where(func(c connect.Connection) bool {
		switch c.Kind() {
		case connect.Exec:
			if exec {
				return true
			}
		case connect.Proxy:
			if proxy {
				return true
			}
		}
		return slices.ContainsFunc(kinds, func(p matching.Pattern) bool {
			return p.Sub == c.Subresource && p.InGroup("") && (p.AnyRes || p.Res == c.Resource || p.Res == strings.ToLower(c.ResourceKind))
		})
	})
}
