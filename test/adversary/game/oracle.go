package game

import (
	"slices"
	"strings"
)

// Answer of the oracle.
type Answer int

// The answers. None is refused, too, but nobody forbade it.
const (
	None Answer = iota
	Allow
	Deny
)

func (a Answer) String() string { return [...]string{"nobody allows it", "allowed", "denied"}[a] }

// Ask is what an actor wants to do.
type Ask struct {
	User     string
	Groups   []string
	Verb     string // connect stands for every way to open a connection
	Resource string // plural.group/sub
	// NS is the namespace; Anywhere asks for a right that holds in all of them.
	NS   string
	Name string
	// Bare leaves out what was granted to people who asked for it, and what they may do about their own requests.
	Bare bool
	// Old and New are the object before and after, where they are known.
	Old, New map[string]any
}

// Anywhere is every namespace.
const Anywhere = "*"

// Oracle says who may do what by the policy with which a case begins.
type Oracle struct {
	Case    *Case
	Catalog Catalog
	// Gone lists namespaces that are no longer those of the beginning: nothing that Policy said about them counts
	// (PO-20).
	Gone map[string]bool
	// Requests are what was asked for during the game.
	Requests Requests
	// Uses are writes that something for one write has allowed: for each, the requests of which one is consumed.
	Uses [][]string
	// Custom resources that were defined during the game, by plural.group.
	Custom map[string]Resource
}

// Decide walks the tiers as the specification words them (PO-7).
func (o *Oracle) Decide(a Ask) Answer {
	answer, _ := o.decide(a)
	return answer
}

// decide also reports whether it is a rule of the namespace that denies.
func (o *Oracle) decide(a Ask) (answer Answer, local bool) {
	return o.decideWithout(a, false, false)
}

// lifted decides as if every deny were gone that an actor can have out of the way.
func (o *Oracle) lifted(a Ask, lifts func(local bool) bool) Answer {
	answer, local := o.decide(a)
	if answer != Deny || !lifts(local) {
		return answer
	}
	if local {
		answer, _ = o.decideWithout(a, false, true)
		return answer
	}
	if answer, local = o.decideWithout(a, true, false); answer == Deny && lifts(local) {
		answer, _ = o.decideWithout(a, true, true)
	}
	return answer
}

// decideWithout decides as if there were no denies in the master namespace, or in other namespaces.
func (o *Oracle) decideWithout(a Ask, master, namespace bool) (answer Answer, local bool) {
	ask := o.fold(a)
	hit := func(deny bool, how string) bool {
		return slices.ContainsFunc(o.Case.Grants, func(g Grant) bool { return g.How == how && o.reaches(&g, ask) && o.says(&g, ask, deny) })
	}
	switch {
	case !master && hit(true, ByMaster):
		return Deny, false
	case hit(false, ByMaster), hit(false, ByClusterRole), everybody(ask):
		return Allow, false
	case !namespace && hit(true, ByNamespace):
		return Deny, true
	case hit(false, ByNamespace), hit(false, ByLocalRole), o.own(ask), o.granted(ask):
		return Allow, false
	}
	return None, false
}

// question is an Ask with its resource taken apart.
type question struct {
	Ask
	resource Resource
	sub      string
	custom   bool
}

// namespace is where a request is made: one for a namespace is in it, unless it lists those with a name.
func (q question) namespace() string {
	if q.Verb != "list" && q.resource.Plural == "namespaces" && q.resource.Group == "" {
		return q.Name
	}
	return q.NS
}

func (o *Oracle) fold(a Ask) question {
	q := question{Ask: a}
	var known bool
	q.resource, known = o.Catalog.Find(a.Resource)
	_, _, q.sub = split(a.Resource)
	q.custom = !known
	if r, ok := o.Custom[q.resource.String()]; ok && q.custom {
		q.resource = r
	}
	if a.User != "" {
		q.Groups = append(slices.Clone(a.Groups), "system:authenticated")
		if rest, ok := strings.CutPrefix(a.User, "system:serviceaccount:"); ok {
			ns, _, _ := strings.Cut(rest, ":")
			q.Groups = append(q.Groups, "system:serviceaccounts", "system:serviceaccounts:"+ns)
		}
	}
	return q
}

// reaches reports whether a grant is about the caller and the place.
func (o *Oracle) reaches(g *Grant, q question) bool {
	if g.How == ByNamespace || g.How == ByLocalRole {
		if g.NS != q.namespace() {
			return false
		}
	}
	if g.How == ByNamespace && o.Gone[g.NS] {
		return false
	}
	return slices.ContainsFunc(g.To, func(to string) bool { return is(to, q.User, q.Groups) })
}

func is(to, user string, groups []string) bool {
	kind, name, _ := strings.Cut(to, ":")
	switch kind {
	case "user":
		return name == user
	case "group":
		return slices.Contains(groups, name)
	}
	return "system:serviceaccount:"+strings.Replace(name, "/", ":", 1) == user
}

// everybody says what every user who is logged in may do on any cluster: ask about themselves.
func everybody(q question) bool {
	if q.Resource == "clusterprotectedattributes.policy.proviso.dev" { // what is protected everywhere (PA-16)
		return q.Verb == "get" || q.Verb == "list" || q.Verb == "watch"
	}
	switch q.Resource {
	case "selfsubjectaccessreviews.authorization.k8s.io", "selfsubjectrulesreviews.authorization.k8s.io", "selfsubjectreviews.authentication.k8s.io",
		"subjectaccessreviews.authorization.proviso.dev", "clustersubjectaccessreviews.authorization.proviso.dev":
		return q.Verb == "create"
	case "narrowedtokens.access.proviso.dev", "tokenrevocations.access.proviso.dev": // of one's own: see the tests of tokens
		return q.Verb == "create"
	}
	return false
}

// says reports whether a grant has a rule that allows, or denies, what is asked.
func (o *Oracle) says(g *Grant, q question, deny bool) bool {
	if g.Role != "" {
		return !deny && defaultRole(g.Role, q)
	}
	return slices.ContainsFunc(g.Rules, func(r Rule) bool {
		if r.Deny != deny {
			return false
		}
		if g.How == ByClusterRole || g.How == ByLocalRole {
			return rbacRule(&r, q)
		}
		return o.policyRule(&r, q)
	})
}
