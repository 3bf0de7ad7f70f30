package game

import (
	"slices"
	"strings"
)

// The resources of asking and approving.
const (
	AccessRequests = "accessrequests.access.proviso.dev"
	Approval       = AccessRequests + "/approval"
	Revocation     = AccessRequests + "/revocation"
	accessRules    = "accessrules.access.proviso.dev"
)

// Access is a rule by which some ask for a role in a namespace, and others approve.
type Access struct {
	// Name is that of the AccessRule and of its ClusterRole.
	Name  string `json:"name"`
	NS    string `json:"ns"`
	Rules []Rule `json:"rules"`
	// Asks and Approves are subjects, Count is how many have to approve.
	Asks     []string `json:"asks"`
	Approves []string `json:"approves"`
	Count    int      `json:"count"`
	// Glass: it takes no approval, but a sink that was told. Down: the sink does not answer.
	Glass bool `json:"glass,omitempty"`
	Down  bool `json:"down,omitempty"`
}

// Requests are what was asked for during the game, by the name of the request.
type Requests map[string]*Request

// Request is one of them.
type Request struct {
	By       Who
	Rule     Access
	Approved []string
	Over     bool
	// Once: it is for one write.
	Once bool
}

// Counts reports whether a request grants something: its approvals are there, or a sink was told that the glass was
// broken (TM-13).
func (r *Request) Counts() bool {
	return !r.Over && !r.Rule.Down && len(r.Approved) >= r.Rule.Count
}

// givers are the requests that grant something, by name: those that last, and those that are for one write (TM-11).
func (o *Oracle) givers(q question) (lasting, once []string) {
	for name, r := range o.Requests {
		switch {
		case r.By.User != q.User || !r.Counts() || r.Rule.NS != q.namespace() || o.Gone[r.Rule.NS]:
		case !slices.ContainsFunc(r.Rule.Rules, func(rule Rule) bool { return rbacRule(&rule, q) }):
		case !r.Once:
			lasting = append(lasting, name)
		case q.Verb != "deletecollection" && connection(q) == "":
			once = append(once, name)
		}
	}
	slices.Sort(once)
	return lasting, once
}

// Givers are the requests of which one made something possible that nothing else allows: those that last, or else those
// that are for one write.
func (o *Oracle) Givers(a Ask) (lasting, once []string) { return o.givers(o.fold(a)) }

// assignable reports whether every use can have been that of another request.
func assignable(uses [][]string, taken ...string) bool {
	if len(uses) == 0 {
		return true
	}
	return slices.ContainsFunc(uses[0], func(name string) bool {
		return !slices.Contains(taken, name) && assignable(uses[1:], append(slices.Clone(taken), name)...)
	})
}

// RuleOf finds a rule.
func (o *Oracle) RuleOf(name string) (Access, bool) {
	i := slices.IndexFunc(o.Case.Access, func(a Access) bool { return a.Name == name })
	if i < 0 {
		return Access{}, false
	}
	return o.Case.Access[i], true
}

// granted is the last element of the chain: what was asked for and approved, while it counts (TM-11).
func (o *Oracle) granted(q question) bool {
	if q.Bare {
		return false
	}
	lasting, once := o.givers(q)
	return len(lasting) > 0 || assignable(append(slices.Clone(o.Uses), once))
}

// own is what subjects of a rule may do, about their own requests (TM-9).
func (o *Oracle) own(q question) bool {
	verbs := map[string][]string{"": {"create", "get", "list", "watch", "delete"}, "revocation": {"create"}}[q.sub]
	if q.Bare || q.resource.String() != AccessRequests || !slices.Contains(verbs, q.Verb) {
		return false
	}
	return slices.ContainsFunc(o.Case.Access, func(a Access) bool {
		return a.NS == q.NS && slices.ContainsFunc(a.Asks, func(to string) bool { return is(to, q.User, q.Groups) })
	})
}

// MayAsk reports whether an actor may ask by a rule.
func (o *Oracle) MayAsk(w Who, rule, ns string) bool {
	a, ok := o.RuleOf(rule)
	return ok && a.NS == ns && slices.ContainsFunc(a.Asks, func(to string) bool { return is(to, w.User, w.Groups) })
}

// MayApprove reports whether the word of an actor counts: they are listed, have the verb, not by a grant, and it is not
// their own request (TM-12). Nobody approves that the glass is broken.
func (o *Oracle) MayApprove(w Who, r *Request) bool {
	return !r.Rule.Glass && r.By.User != w.User && slices.ContainsFunc(r.Rule.Approves, func(to string) bool { return is(to, w.User, w.Groups) }) && o.hasApprove(w, r)
}

func (o *Oracle) hasApprove(w Who, r *Request) bool {
	approve := w.Wants("approve", accessRules, "", r.Rule.Name)
	approve.Bare = true
	return o.Decide(approve) == Allow && o.Linked(w.Links, approve)
}

// MayEnd reports whether an actor may revoke a request: the requester, an approver, or a holder of bind. Where glass is
// broken, those who have the verb are the approvers.
func (o *Oracle) MayEnd(w Who, r *Request) bool {
	return r.By.User == w.User || o.MayApprove(w, r) || r.Rule.Glass && o.hasApprove(w, r) ||
		o.Decide(w.Wants("bind", "clusterroles.rbac.authorization.k8s.io", "", r.Rule.Name)) == Allow
}

// rulesOfAccess lets some ask and some approve.
func (d *draw) rulesOfAccess() {
	if !d.chance(d.theme.access) {
		return
	}
	subject := func(a Actor) string {
		if len(a.Groups) > 0 && d.chance(40) {
			return "group:" + a.Groups[0]
		}
		return "user:" + a.Name
	}
	for i := range 1 + d.IntN(2) {
		a := Access{Name: d.fresh("rule"), NS: Home, Count: 1 + d.IntN(10)/7, Rules: []Rule{{Verbs: some(d, []string{"get", "list", "create", "update", "patch", "delete"}), Kinds: d.resources()}}}
		if d.chance(25) { // what could be used to approve, or to make itself permanent
			a.Rules = append(a.Rules, pick(d, []Rule{
				{Verbs: []string{"create"}, Kinds: []string{Approval, Revocation, AccessRequests}},
				{Verbs: []string{"create", "update"}, Kinds: []string{"roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io"}},
				{Verbs: []string{"*"}, Kinds: []string{"*"}},
			}))
		}
		for j := range d.Actors {
			if j == i%len(d.Actors) || d.chance(40) {
				a.Asks = append(a.Asks, subject(d.Actors[j]))
			}
			if j != i%len(d.Actors) || d.chance(40) {
				a.Approves = append(a.Approves, subject(d.Actors[j]))
			}
		}
		if d.chance(30) {
			a.Glass, a.Down, a.Count, a.Approves = true, d.chance(30), 0, nil
		}
		slices.Sort(a.Asks)
		slices.Sort(a.Approves)
		a.Asks, a.Approves = slices.Compact(a.Asks), slices.Compact(a.Approves)
		if len(a.Approves) == 0 && !a.Glass {
			a.Approves = []string{"user:" + Bystander}
		}
		d.Access = append(d.Access, a)
		if len(a.Approves) > 0 && d.chance(85) {
			d.Grants = append(d.Grants, d.grant(ByClusterRole, a.Approves, Rule{Verbs: []string{"create"}, Kinds: []string{Approval, Revocation}},
				Rule{Verbs: []string{"approve"}, Kinds: []string{accessRules}, Names: pick(d, [][]string{{a.Name}, nil})}))
		}
	}
}

// rulesFor are the rules whose list has an actor.
func (d *draw) rulesFor(a *Actor, list func(Access) []string) []Access {
	return slices.DeleteFunc(slices.Clone(d.Access), func(r Access) bool {
		return !slices.ContainsFunc(list(r), func(to string) bool { return is(to, a.Name, a.Groups) })
	})
}

// asks reports whether an actor may ask for anything.
func (d *draw) asks(a *Actor) bool {
	return len(d.rulesFor(a, func(r Access) []string { return r.Asks })) > 0
}

// ask asks for access.
func ask(d *draw, a *Actor) (Step, bool) {
	rules := d.Access
	if d.chance(85) {
		rules = d.rulesFor(a, func(r Access) []string { return r.Asks })
	}
	if len(rules) == 0 {
		return Step{}, false
	}
	s := Step{Verb: "create", Resource: AccessRequests, NS: Home, Name: d.fresh("q"), Edits: []Edit{{"spec ruleRef name", pick(d, rules).Name}, {"spec durationSeconds", 3600}}}
	if d.chance(15) {
		s.Edits = append(s.Edits, Edit{"spec requester username", pick(d, d.Actors).Name})
	}
	if d.chance(35) {
		s.Edits = append(s.Edits, Edit{"spec once", true})
	}
	return d.disguised(d.add(s)), true
}

// again does the same once more, at the same time: what is for one write is for one of them.
func again(d *draw, a *Actor) (Step, bool) {
	if len(d.Steps) == 0 {
		return Step{}, false
	}
	last := &d.Steps[len(d.Steps)-1]
	writes := slices.Contains([]string{"create", "update", "patch", "apply", "delete"}, last.Verb) && !strings.Contains(last.Query, "dryRun")
	if last.Actor != a.Name || last.As != "" || !writes || strings.HasPrefix(last.Resource, AccessRequests) {
		return Step{}, false
	}
	s := *last
	s.Edits = slices.Clone(s.Edits)
	if s.Verb == "create" && !strings.Contains(s.Resource, "/") {
		s.Name = d.fresh("m")
		d.add(s)
	}
	last.With = len(d.Steps) < 2 || !d.Steps[len(d.Steps)-2].With
	return s, true
}

// disguised makes some steps in the name of another actor.
func (d *draw) disguised(s Step) Step {
	if d.chance(10) {
		s.As = "user:" + pick(d, d.Actors).Name
	}
	return s
}

// decide approves, denies, revokes, withdraws or looks at what was asked for.
func decide(d *draw, a *Actor) (Step, bool) {
	if len(d.made[AccessRequests]) == 0 {
		return ask(d, a)
	}
	ref, ok := d.target(AccessRequests)
	approves := len(d.rulesFor(a, func(r Access) []string { return r.Approves })) > 0
	if !ok || !approves && !d.chance(25) {
		return Step{}, false
	}
	s := Step{Verb: "create", Resource: Approval, NS: ref.NS, Name: ref.Name, Edits: []Edit{{"requestUID", "$uid:" + ref.String()}, {"decision", "Approve"}}}
	switch d.IntN(12) {
	case 0:
		s.Resource, s.Edits = Revocation, s.Edits[:1]
	case 1:
		s.Edits[1].Value = "Deny"
	case 2:
		s = Step{Verb: "delete", Resource: AccessRequests, NS: ref.NS, Name: ref.Name}
	case 3:
		s = Step{Verb: pick(d, []string{"get", "list"}), Resource: AccessRequests, NS: ref.NS}
		if s.Verb == "get" {
			s.Name = ref.Name
		}
	case 4:
		s = Step{Verb: pick(d, []string{"update", "patch"}), Resource: AccessRequests, NS: ref.NS, Name: ref.Name,
			Edits: []Edit{pick(d, []Edit{{"status state", "Active"}, {"spec durationSeconds", 7200}, {"spec requester username", pick(d, d.Actors).Name}})}}
	}
	return d.disguised(s), true
}

// links draws the links of an actor's token.
func (d *draw) links() (out [][]Rule) {
	kinds := d.resources()
	for range 1 + d.IntN(2) {
		link := []Rule{pick(d, []Rule{
			{Verbs: []string{"*"}, Kinds: []string{"*"}}, {Verbs: []string{"get", "list"}, Kinds: []string{"*"}}, {Verbs: []string{"*"}, Kinds: kinds},
			{Verbs: some(d, []string{"get", "list", "create", "update", "patch", "delete", "deletecollection"}), Kinds: kinds},
			{Verbs: []string{"*", "-delete"}, Kinds: append([]string{"*"}, "-"+kinds[0])},
		})}
		for _, p := range d.theme.powers {
			if d.chance(25) {
				link = append(link, Rule{Verbs: slices.Clone(p.verbs), Kinds: slices.Clone(p.kinds)})
			}
		}
		if d.chance(25) {
			link = append(link, Rule{Deny: true, Verbs: []string{pick(d, []string{"delete", "update", "create"})}, Kinds: kinds[:1]})
		}
		if d.chance(20) {
			link[0].Names = []string{d.Prey[0].Name}
		}
		out = append(out, link)
	}
	return out
}

// Linked reports whether every link of a token allows something (TK-3), and names it if it is as good as more rights
// (TK-4). No links allow everything.
func (o *Oracle) Linked(links [][]Rule, a Ask) bool {
	q := o.fold(a)
	for _, link := range links {
		allows := func(r Rule) bool { return !r.Deny && o.policyRule(&r, q) && (!powerful(q) || o.names(&r, q)) }
		denies := func(r Rule) bool { return r.Deny && o.policyRule(&r, q) }
		if !slices.ContainsFunc(link, allows) || slices.ContainsFunc(link, denies) {
			return false
		}
	}
	return true
}

// names reports whether a rule has the verb and the resource written out.
func (o *Oracle) names(r *Rule, q question) bool {
	named := Rule{Verbs: literal(r.Verbs), Kinds: literal(r.Kinds)}
	return len(named.Verbs) > 0 && len(named.Kinds) > 0 && o.policyRule(&named, q)
}

func literal(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(e string) bool { return strings.Contains(e, "*") || strings.HasPrefix(e, "-") })
}

// powerful tells what is as good as more rights, as the specification lists it.
func powerful(q question) bool {
	writes := slices.Contains([]string{"create", "update", "patch"}, q.Verb)
	changes := writes || strings.HasPrefix(q.Verb, "delete")
	resource := q.resource.Plural
	if q.sub != "" {
		resource += "/" + q.sub
	}
	if special(q.Verb) && !strings.Contains(q.Verb, ":") || q.Verb == "approve" {
		return true
	}
	switch q.resource.Group {
	case "":
		return resource == "secrets" || resource == "serviceaccounts/token" || connection(q) != "" || resource == "pods/ephemeralcontainers" ||
			writes && slices.Contains([]string{"pods", "podtemplates", "replicationcontrollers", "pods/binding", "bindings", "persistentvolumes"}, resource)
	case "apps", "batch":
		return writes
	case "access.proviso.dev":
		return changes && resource != "narrowedtokens" && resource != "tokenrevocations"
	case "authorization.proviso.dev":
		return changes && (resource == "roles" || resource == "rolebindings")
	case "rbac.authorization.k8s.io", "admissionregistration.k8s.io", "apiregistration.k8s.io", "apiextensions.k8s.io", "certificates.k8s.io":
		return changes
	}
	return false
}
