package adversary

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/engine/narrowedtoken"
	"proviso.dev/proviso/test/adversary/game"
)

const accessRoot = "/apis/access.proviso.dev/v1alpha1/"

// welcome makes the rules by which actors ask.
func (g *table) welcome() {
	for _, a := range g.c.Access {
		role := g.place("clusterroles."+rbacGroup, "", "")
		g.must("POST", role, object{"metadata": object{"name": a.Name}, "rules": rbacRules(a.Rules)})
		g.leave(role + "/" + a.Name)
		body := object{"apiVersion": "access.proviso.dev/v1alpha1", "kind": "AccessRule", "metadata": object{"name": a.Name}, "spec": object{"subjects": listed(a.Asks), "namespaces": []any{a.NS},
			"roleRef": object{"apiGroup": rbacGroup, "kind": "ClusterRole", "name": a.Name}, "maxDurationSeconds": 7200}}
		spec := body["spec"].(object)
		if spec["approvals"] = (object{"count": a.Count, "subjects": listed(a.Approves)}); a.Glass {
			delete(spec, "approvals")
			spec["breakGlass"], spec["auditSinks"] = true, []any{map[bool]string{false: sinkUp, true: sinkDown}[a.Down]}
		}
		g.poll("the role of rule "+a.Name, func() bool {
			made := g.sudo("POST", accessRoot+"accessrules", body)
			if !made.ok() && !strings.Contains(string(made.body), "there is no such") {
				panic(unsettled(string(made.body)))
			}
			return made.ok()
		})
		g.leave(accessRoot + "accessrules/" + a.Name)
	}
	for _, a := range g.c.Actors {
		if len(a.Links) > 0 {
			g.carried[a.Name] = g.issue(a)
		}
	}
}

func listed(to []string) object {
	users, groups := []any{}, []any{}
	for _, s := range to {
		switch kind, name, _ := strings.Cut(s, ":"); kind {
		case "user":
			users = append(users, name)
		case "group":
			groups = append(groups, name)
		}
	}
	return object{"userNames": users, "groupNames": groups}
}

// issue gets the token of an actor: the first link from the server, the others offline.
func (g *table) issue(a game.Actor) (token string) {
	rules := func(link []game.Rule) []any {
		all := policyRules(link)
		for _, r := range all {
			delete(r.(object), "description")
		}
		return all
	}
	ask := call{method: "POST", path: accessRoot + "narrowedtokens", body: object{"apiVersion": "access.proviso.dev/v1alpha1", "kind": "NarrowedToken", "spec": object{"rules": rules(a.Links[0])}}}
	g.poll("a token of "+a.Name, func() bool {
		made := g.by(who{user: a.Name, groups: a.Groups}, ask)
		token, _ = game.Dig(made.object(), "status", "token").(string)
		if !made.ok() && made.code != http.StatusForbidden {
			panic(unsettled(string(made.body)))
		}
		return token != ""
	})
	for _, link := range a.Links[1:] {
		raw, err := json.Marshal(rules(link))
		var further []accessv1alpha1.TokenRule
		if err == nil {
			err = json.Unmarshal(raw, &further)
		}
		if err == nil {
			token, err = narrowedtoken.Attenuate(token, narrowedtoken.Link{Rules: further})
		}
		if err != nil {
			panic(unsettled(err.Error()))
		}
	}
	return token
}

// soon bounds how long a grant may take to begin, and to end.
const soon = 3 * time.Second

// accessed checks what was asked for or decided, and knows what is granted from then on.
func (g *table) accessed(d *doing) {
	g.policyWritten = true
	if d.Name == "" {
		return
	}
	r := g.oracle.Requests[d.Name]
	switch {
	case d.Resource == game.AccessRequests && d.Verb == "create":
		g.asked(d)
		return
	case r == nil:
		return
	case d.Resource == game.AccessRequests && d.Verb == "delete":
		// A holder of delete may, too: see succeeded.
		own, _ := g.party.May(d.who, game.Ask{Verb: "delete", Resource: game.AccessRequests, NS: d.NS, Name: d.Name, Bare: true})
		if r.By.User != d.who.User && !own {
			g.report("request", "withdrawn", "%s withdraws what %s has asked for", d.who.User, r.By.User)
		}
		g.over(r, d.NS)
	case d.Resource == game.Revocation:
		if !g.oracle.MayEnd(d.who, r) || d.who.User != d.actor.User {
			g.report("request", "revoked", "%s (%s) revokes what %s has asked for", d.who.User, d.actor.User, r.By.User)
		}
		g.over(r, d.NS)
	case d.Resource == game.Approval:
		if !g.oracle.MayApprove(d.who, r) || d.who.User != d.actor.User {
			g.report("request", "decided", "%s (%s) decides about what %s has asked for", d.who.User, d.actor.User, r.By.User)
		}
		if verdict := g.said(d); verdict == "Deny" {
			g.over(r, d.NS)
		} else if !slices.Contains(r.Approved, d.who.User) {
			r.Approved = append(r.Approved, d.who.User)
			g.begun(r, d.NS)
		}
	}
}

func (g *table) said(d *doing) string {
	for _, e := range d.Edits {
		if e.Path == "decision" {
			text, _ := e.Value.(string)
			return text
		}
	}
	return ""
}

// asked notes a new request. Whom it is for is not for the caller to say.
func (g *table) asked(d *doing) {
	stored := d.answer.object()
	name, _ := game.Dig(stored, "spec", "ruleRef", "name").(string)
	rule, _ := g.oracle.RuleOf(name)
	if !g.oracle.MayAsk(d.who, name, d.NS) || d.who.User != d.actor.User {
		g.report("request", "asked", "%s (%s) asks by rule %q", d.who.User, d.actor.User, name)
	}
	if by := game.Dig(stored, "spec", "requester", "username"); by != d.who.User {
		g.report("request", "for another", "%s asks, and %v is the requester", d.who.User, by)
	}
	if g.oracle.Requests == nil {
		g.oracle.Requests = game.Requests{}
	}
	once, _ := game.Dig(stored, "spec", "once").(bool)
	r := &game.Request{By: game.Who{User: d.who.User, Groups: d.who.Groups}, Rule: rule, Once: once}
	g.oracle.Requests[d.Name] = r
	switch {
	case rule.Down:
		g.unheard(d)
	case rule.Glass:
		g.begun(r, d.NS)
	}
}

// unheard waits until the server has given up to tell a sink that is down. Nothing may come of the request.
func (g *table) unheard(d *doing) {
	state := any("Pending")
	for deadline := time.Now().Add(bound); state == "Pending" && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		state = game.Dig(g.get(game.Ref{Resource: game.AccessRequests, NS: d.NS, Name: d.Name}), "status", "state")
	}
	if state == "Active" || state == "Approved" {
		g.report("request", "unheard", "%s breaks the glass, and no sink was told", d.who.User)
	}
}

// rights are what a request is about, as far as the requester has it by nothing else.
func (g *table) rights(r *game.Request, ns string) (out []game.Ask) {
	for _, p := range g.c.Prey {
		for _, verb := range r.Rule.Rules[0].Verbs {
			a := r.By.Wants(verb, p.Resource, ns, p.Name)
			a.Bare = true
			if g.oracle.Decide(a) == game.None {
				a.Bare = false
				out = append(out, a)
			}
		}
	}
	return out
}

// begun waits until a grant counts.
func (g *table) begun(r *game.Request, ns string) {
	for _, a := range g.rights(r, ns) {
		if g.oracle.Decide(a) == game.Allow {
			for deadline := time.Now().Add(soon); !g.allowed(a) && time.Now().Before(deadline); {
				time.Sleep(5 * time.Millisecond)
			}
			g.grants++
			return
		}
	}
}

// over ends a request, and waits until nothing counts any more that it granted.
func (g *table) over(r *game.Request, ns string) {
	r.Over = true
	for _, a := range g.rights(r, ns) {
		if g.oracle.Decide(a) != game.None {
			continue // another request grants it
		}
		if may, _ := g.party.May(r.By, a); may {
			continue // somebody has granted it since
		}
		deadline := time.Now().Add(soon)
		for g.allowed(a) && time.Now().Before(deadline) {
			time.Sleep(5 * time.Millisecond)
		}
		if g.allowed(a) {
			g.report("outlives", a.Verb, "%s may still %s %s %s/%s", a.User, a.Verb, a.Resource, a.NS, a.Name)
		}
	}
}

// shownRequests checks that those who see only their own requests see no others.
func (g *table) shownRequests(d *doing) {
	if d.Resource != game.AccessRequests || d.Verb != "get" && d.Verb != "list" || !d.answer.ok() {
		return
	}
	if may, _ := g.party.May(d.who, game.Ask{Verb: d.Verb, Resource: d.Resource, NS: d.NS, Name: d.ask().Name, Bare: true}); may {
		return
	}
	o := d.answer.object()
	for _, item := range append(list(o["items"]), o) {
		r, _ := item.(map[string]any)
		if by, _ := game.Dig(r, "spec", "requester", "username").(string); by != "" && by != d.who.User {
			granted, _ := g.party.May(d.who, game.Ask{Verb: d.Verb, Resource: d.Resource, NS: d.NS, Name: "of others"})
			if !granted {
				g.report("read", "request", "%s sees what %s has asked for", d.who.User, by)
			}
		}
	}
}
