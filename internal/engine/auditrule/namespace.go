package auditrule

import "slices"

// inNamespace restricts a policy to the requests about one namespace. All others get level None.
func inNamespace(namespace string, byDefault Level, clauses []clause) (Level, []clause) {
	restricted := make([]clause, 0, len(clauses)+1)
	for _, c := range clauses {
		if p, some := c.within(namespace); some {
			restricted = append(restricted, clause{p, c.level})
		}
	}
	if byDefault != None {
		restricted = append(restricted, clause{everythingIn(namespace), byDefault})
	}
	return None, restricted
}

// everythingIn selects every request about a namespace.
func everythingIn(namespace string) *predicate {
	return &predicate{target: targetResource, pairs: []groupResource{{wildcard, wildcard}}, subresources: subAll, scope: scopeListed, namespaces: []string{namespace}}
}

// within returns the part of a clause that is about one namespace; false if there is none.
func (c clause) within(namespace string) (*predicate, bool) {
	p := *c.predicate
	switch p.target {
	case targetPath:
		return nil, false
	case targetAny:
		all := everythingIn(namespace)
		p.target, p.pairs, p.subresources = all.target, all.pairs, all.subresources
	case targetResource:
		if p.scope == scopeCluster || p.scope == scopeListed && !slices.Contains(p.namespaces, namespace) {
			return nil, false
		}
	}
	p.scope, p.namespaces = scopeListed, []string{namespace}
	return &p, true
}
