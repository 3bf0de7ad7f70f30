package game

import (
	"slices"
	"strings"
)

// rbacRule reads a rule of RBAC. RBAC's wildcard covers every verb.
func rbacRule(r *Rule, q question) bool {
	verbs := []string{q.Verb}
	if q.Verb == "connect" {
		verbs = []string{"get", "create"}
	}
	if !slices.ContainsFunc(verbs, func(v string) bool { return slices.Contains(r.Verbs, v) || slices.Contains(r.Verbs, "*") }) {
		return false
	}
	want := q.resource.String()
	if q.sub != "" {
		want += "/" + q.sub
	}
	if !slices.Contains(r.Kinds, "*") && !slices.Contains(r.Kinds, want) {
		return false
	}
	return named(r, q)
}

// policyRule reads a rule of Policy (PO-1, PO-2, PO-9).
func (o *Oracle) policyRule(r *Rule, q question) bool {
	verbs, notVerbs := signed(r.Verbs)
	kinds, notKinds := signed(r.Kinds)
	if slices.ContainsFunc(notVerbs, func(v string) bool { return verbEntry(v, q, r.Deny) }) ||
		slices.ContainsFunc(notKinds, func(k string) bool { return o.kindEntry(k, q, true, true) }) {
		return false
	}
	reached := slices.ContainsFunc(kinds, func(k string) bool {
		if o.kindEntry(k, q, r.Deny, false) && slices.ContainsFunc(verbs, func(v string) bool { return verbEntry(v, q, r.Deny) }) {
			return true
		}
		// exec and proxy work on the parent, too
		parent := q
		parent.sub = ""
		c := connection(q)
		return c != "" && slices.Contains(verbs, c) && o.kindEntry(k, parent, r.Deny, false)
	})
	return reached && named(r, q) && holds(r, q)
}

// signed splits a list into what it names and what it negates; a list of only negations names everything.
func signed(list []string) (positive, negative []string) {
	for _, e := range list {
		if n, ok := strings.CutPrefix(e, "-"); ok {
			negative = append(negative, n)
		} else {
			positive = append(positive, e)
		}
	}
	if len(positive) == 0 {
		positive = []string{"*"}
	}
	return positive, negative
}

// special verbs match only when they are named; in denies the wildcard covers them, too (PO-9).
func special(verb string) bool {
	return slices.Contains([]string{"escalate", "bind", "deny", "unsafe-delete-ignore-read-errors"}, verb) ||
		strings.HasPrefix(verb, "impersonate") || strings.HasPrefix(verb, "granular:") || strings.HasPrefix(verb, "reveal:")
}

func verbEntry(entry string, q question, deny bool) bool {
	if entry == "*" {
		return deny || !special(q.Verb)
	}
	switch q.Verb {
	case "connect":
		return entry == "create" || entry == connection(q)
	case "patch":
		return entry == "patch" || entry == "update"
	case "deletecollection":
		return entry == "deletecollection" || entry == "delete"
	}
	if prefix, ok := strings.CutSuffix(entry, "*"); ok && strings.HasPrefix(q.Verb, prefix) {
		return true
	}
	return entry == q.Verb
}

// connection is the verb of Policy that stands for a connection.
func connection(q question) string {
	switch q.resource.Plural + "/" + q.sub {
	case "pods/exec", "pods/attach", "pods/portforward":
		return "exec"
	case "pods/proxy", "services/proxy", "nodes/proxy":
		return "proxy"
	}
	return ""
}

// kindEntry reports whether an entry of resourceKinds means what is asked about. Denies and negations mean every group,
// as a plural and as a kind, at all times; an allow means what is built in, and custom resources only if nothing built
// in has the name (PO-2).
func (o *Oracle) kindEntry(entry string, q question, cautious, negation bool) bool {
	entry = strings.ToLower(entry)
	if entry == "*" {
		return true
	}
	left, sub, hasSub := strings.Cut(entry, "/")
	name, group, qualified := strings.Cut(left, ".")
	switch {
	case hasSub && sub == "*" && q.sub == "", hasSub && sub != "*" && sub != q.sub:
		return false
	case !hasSub && q.sub != "" && name != "*" && !negation:
		return false
	case qualified && group != q.resource.Group:
		return false
	case name == "*":
		return true
	case name != q.resource.Plural && name != strings.ToLower(q.resource.Kind):
		return false
	}
	if cautious || qualified {
		return true
	}
	if q.custom {
		return !o.Catalog.builtIn(name)
	}
	return !slices.Contains(guarded, q.resource.Group)
}

// named reports whether the names of a rule let it reach the object. A connection has the name that it is for, however
// the URL spells it (PO-20).
func named(r *Rule, q question) bool {
	if len(r.Names) == 0 {
		return true
	}
	if r.Deny {
		return q.Name != "" && slices.Contains(r.Names, Bare(q.Name))
	}
	if q.Name == "" || q.Verb == "create" && q.sub == "" {
		return false
	}
	return slices.Contains(r.Names, q.Name) || slices.Contains(r.Names, Bare(q.Name))
}

// Bare is the name itself in scheme:name:port.
func Bare(name string) string {
	part := strings.Split(name, ":")
	switch len(part) {
	case 2:
		return part[0]
	case 3:
		return part[1]
	}
	return name
}

// defaultRole is the most that a default role may give in a namespace (PO-10). The namespace itself is for reading
// only, and so is what limits it.
func defaultRole(role string, q question) bool {
	read := slices.Contains([]string{"get", "list", "watch"}, q.Verb)
	r := q.resource
	switch {
	case r.String() == "protectedattributes.policy.proviso.dev":
		return read && q.sub == "" // what a refusal names can be read (PA-16)
	case slices.Contains(guarded, r.Group), r.Plural == "clusterroles", r.Plural == "clusterrolebindings":
		return false
	case r.Plural == "namespaces" && r.Group == "":
		return read && q.sub == ""
	case !r.Namespaced:
		return false
	case (r.Plural == "resourcequotas" || r.Plural == "limitranges") && r.Group == "":
		return read
	}
	membership := (r.Plural == "roles" || r.Plural == "rolebindings") && (r.Group == "rbac.authorization.k8s.io" || r.Group == "authorization.proviso.dev")
	switch role {
	case "view":
		return read && !membership && r.Plural != "secrets" && connection(q) == ""
	case "edit":
		return !membership && (!special(q.Verb) || q.Verb == "impersonate" && r.Plural == "serviceaccounts")
	case "admin":
		return !special(q.Verb) || q.Verb == "impersonate" && r.Plural == "serviceaccounts" || q.Verb == "deny" && r.String() == "roles.authorization.proviso.dev"
	}
	return false
}
