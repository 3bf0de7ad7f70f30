package game

import (
	"slices"
	"strings"
)

// Who is an identity that acts.
type Who struct {
	User   string
	Groups []string
	// Links are those of the narrowed token that they act with.
	Links [][]Rule
}

// Wants asks for one.
func (w Who) Wants(verb, resource, ns, name string) Ask {
	return Ask{User: w.User, Groups: w.Groups, Verb: verb, Resource: resource, NS: ns, Name: name}
}

// ServiceAccount is the identity of one.
func ServiceAccount(ns, name string) Who {
	return Who{User: "system:serviceaccount:" + ns + ":" + name}
}

// Sovereign reports whether an actor may take any right there is in a namespace: such a right was given to them.
func (o *Oracle) Sovereign(w Who, ns string) bool {
	for _, verb := range []string{"escalate", "bind", "impersonate"} {
		for _, r := range []string{"roles.authorization.proviso.dev", "rolebindings.authorization.proviso.dev", "roles.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io", "users", "groups"} {
			if o.Decide(w.Wants(verb, r, ns, "")) == Allow {
				return true
			}
		}
	}
	return false
}

// Identities are those whom an actor can act as, their own included: a service account, if they may get a token of it,
// start pods under it, write its secrets, or impersonate it. What can be reached through one of these is in, too.
func (o *Oracle) Identities(w Who) []Who {
	out := []Who{w}
	for i := 0; i < len(out); i++ {
		for _, sa := range o.Case.accounts() {
			ns, name, _ := strings.Cut(strings.TrimPrefix(sa.User, "system:serviceaccount:"), ":")
			if slices.ContainsFunc(out, func(x Who) bool { return x.User == sa.User }) {
				continue
			}
			can := func(verb, resource, object string) bool {
				return o.Decide(out[i].Wants(verb, resource, ns, object)) == Allow
			}
			if can("create", "serviceaccounts/token", name) || can("create", "pods", "") || can("impersonate", "serviceaccounts", name) ||
				can("create", "secrets", "") && can("get", "secrets", "") || can("get", "secrets", "") && can("update", "secrets", "") || o.creates(out[i], ns) {
				out = append(out, sa)
			}
		}
	}
	return out
}

// creates reports whether an actor may make pods by way of a workload.
func (o *Oracle) creates(w Who, ns string) bool {
	return slices.ContainsFunc([]string{"deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch", "cronjobs.batch", "replicationcontrollers"}, func(r string) bool {
		return o.Decide(w.Wants("create", r, ns, "")) == Allow
	})
}

// accounts are the service accounts that the case mentions.
func (c *Case) accounts() []Who {
	var out []Who
	add := func(at string) {
		ns, name, _ := strings.Cut(at, "/")
		if w := ServiceAccount(ns, name); !slices.ContainsFunc(out, func(x Who) bool { return x.User == w.User }) {
			out = append(out, w)
		}
	}
	for _, g := range c.Grants {
		for _, to := range g.To {
			if at, ok := strings.CutPrefix(to, "sa:"); ok {
				add(at)
			}
		}
	}
	for _, p := range c.Prey {
		if p.Resource == "serviceaccounts" {
			add(p.NS + "/" + p.Name)
		}
	}
	return out
}

// Party is everybody who has acted, and what came of it.
type Party struct {
	Oracle *Oracle
	// Granters have changed who may do what.
	Granters []Who
	// Changed: an actor has, with or without the power to give more.
	Changed bool
}

// Grants notes that an actor has changed who may do what. With a token nobody gives rights: it takes bind or escalate,
// named by every link (TK-3), and no link of the hunt names them.
func (p *Party) Grants(all ...Who) {
	p.Changed = true
	for _, w := range all {
		if len(w.Links) == 0 {
			p.Granters = append(p.Granters, w)
		}
	}
}

// May reports whether an actor may have done what they did: it was theirs by the policy of the beginning, or a granter
// since then held it, and could lift what forbade it.
func (p *Party) May(w Who, a Ask) (bool, Answer) {
	a.User, a.Groups = w.User, w.Groups
	if len(w.Links) > 0 {
		a.Bare = true // no token of the hunt includes grants
		if !p.Oracle.Linked(w.Links, a) {
			return false, None
		}
	}
	answer, local := p.Oracle.decide(a)
	if answer == Allow {
		return true, answer
	}
	if answer == None && slices.Contains([]string{"create", "update", "patch"}, a.Verb) && p.Oracle.Granular(a) {
		return true, Allow
	}
	for _, g := range p.Granters {
		if answer == Deny && !p.lifts(g, a, local) {
			continue
		}
		// A deny that is lifted uncovers what was granted below it.
		if p.Oracle.lifted(a, func(local bool) bool { return p.lifts(g, a, local) }) == Allow || p.held(g, a) {
			return true, answer
		}
	}
	return false, answer
}

// held reports whether a granter, or an identity that they can act as, has the right, or would have it without a deny
// that they can lift.
func (p *Party) held(g Who, a Ask) bool {
	for _, id := range p.Oracle.Identities(g) {
		b := a
		b.User, b.Groups = id.User, id.Groups
		if p.Oracle.lifted(b, func(local bool) bool { return p.lifts(g, a, local) }) == Allow || p.Oracle.Sovereign(id, a.NS) {
			return true
		}
	}
	return false
}

// lifts reports whether a granter can have a deny out of the way: they may unbind it, or they hold the right in the
// whole cluster and a rule of a namespace denies it.
func (p *Party) lifts(g Who, a Ask, local bool) bool {
	place := "master"
	if local {
		place = a.NS
	}
	for _, id := range p.Oracle.Identities(g) {
		if p.Oracle.Decide(id.Wants("deny", "roles.authorization.proviso.dev", place, "")) == Allow || p.Oracle.Sovereign(id, place) {
			return true
		}
		b := a
		b.User, b.Groups, b.NS = id.User, id.Groups, Anywhere
		if local && p.Oracle.Decide(b) == Allow {
			return true
		}
	}
	return false
}
