package adversary

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"proviso.dev/proviso/test/adversary/game"
)

// bound is what one request, or a change of policy, may take (PO-21). It leaves room for a machine that is ten times
// slower and on which others are busy: both the clock and the process's own time count.
const bound = 10 * time.Second

// look reads all prey.
func (g *table) look() []map[string]any {
	out := make([]map[string]any, len(g.c.Prey))
	for i, p := range g.c.Prey {
		if out[i] = g.get(p.Ref()); out[i] == nil && i < len(g.prey) && g.dormant(p.Resource) {
			out[i] = g.prey[i]
		}
	}
	return out
}

// check holds what came of some steps, made at the same time, against the oracle.
func (g *table) check(all []*doing) {
	before := g.oracle.Uses
	for _, d := range all {
		g.succeeded(d)
		g.told(d)
		g.used(d)
		if d.wall > bound && d.cpu > bound && !g.crowded {
			g.report("cost", d.Verb+" "+d.Resource, "the request took %v, and %v of processor time", d.wall.Round(time.Millisecond), d.cpu.Round(time.Millisecond))
		}
	}
	if !slices.ContainsFunc(all, func(d *doing) bool { return d.writes() && d.answer.ok() }) {
		return
	}
	after, used := g.look(), g.oracle.Uses
	g.oracle.Uses = before // what was used up allowed all of this
	for i, p := range g.c.Prey {
		g.effect(p, g.prey[i], after[i], all)
	}
	g.prey, g.oracle.Uses = after, used
	g.consumed(used[len(before):])
}

// passed reports whether a request was let through. A connection is, unless it was refused: nothing answers at its end.
func (d *doing) passed() bool {
	if d.Verb == "connect" {
		return d.answer.code >= 500 || d.answer.ok() || d.answer.code == http.StatusSwitchingProtocols
	}
	return d.answer.ok()
}

// ask is what a step takes.
func (d *doing) ask() game.Ask {
	verb := d.Verb
	if verb == "apply" {
		verb = "patch"
	}
	a := game.Ask{Verb: verb, Resource: d.Resource, NS: d.NS, Name: d.Name, Old: d.old, New: d.new}
	switch {
	case verb == "delete":
		a.New = nil
	case verb == "list" && a.Name == "" && strings.HasPrefix(d.Query, game.ByName):
		a.Name = strings.TrimPrefix(d.Query, game.ByName)
	}
	return a
}

// may asks the oracle. Of requests made at the same time nobody knows which came first: what was so before them counts
// as much as what is so after them, if one of them deletes a namespace with its policy.
func (g *table) may(who game.Who, ask game.Ask) (bool, game.Answer) {
	may, answer := g.party.May(who, ask)
	if may || g.earlier == nil {
		return may, answer
	}
	now := g.oracle.Gone
	g.oracle.Gone = g.earlier
	defer func() { g.oracle.Gone = now }()
	if may, was := g.party.May(who, ask); may || answer == game.Deny {
		return may, was
	}
	return false, answer
}

// succeeded checks that what went through was allowed.
func (g *table) succeeded(d *doing) {
	if !d.passed() {
		return
	}
	main, _, isSub := strings.Cut(d.Resource, "/")
	if d.caller.as != "" && !strings.HasPrefix(d.As, "token:") {
		resource, ns, name := "users", "", d.caller.as
		if rest, ok := strings.CutPrefix(name, "system:serviceaccount:"); ok {
			resource = "serviceaccounts"
			ns, name, _ = strings.Cut(rest, ":")
		}
		if may, answer := g.may(d.actor, game.Ask{Verb: "impersonate", Resource: resource, NS: ns, Name: name}); !may {
			g.report("allowed", "impersonate "+resource, "%s acts as %s: %v", d.actor.User, d.caller.as, answer)
		}
	}
	asks := []game.Ask{d.ask()}
	if d.old == nil && d.new != nil && d.Verb != "create" && d.writes() && !isSub { // it was created by the way
		asks[0].Verb = "create"
	}
	for _, a := range asks {
		if may, answer := g.may(d.who, a); !may {
			g.report("allowed", a.Verb+" "+d.Resource, "%s %ss %s %s/%s, answered with %d: %v", d.who.User, a.Verb, d.Resource, d.NS, d.Name, d.answer.code, answer)
		}
	}
	if d.writes() && d.new != nil && !isSub {
		g.guarded(game.Ref{Resource: main, NS: d.NS, Name: d.Name}, d.old, d.new, []*doing{d})
	}
}

// told checks that nobody was told what he may not see. Whoever may write an object sees it in the answer.
func (g *table) told(d *doing) {
	g.shownRequests(d)
	for i, p := range g.c.Prey {
		canary := g.canary(i)
		if !bytes.Contains(d.answer.body, []byte(canary)) && !bytes.Contains(d.answer.body, []byte(base64.StdEncoding.EncodeToString([]byte(canary)))) {
			continue
		}
		if main, _, _ := strings.Cut(d.Resource, "/"); main == p.Resource && d.Name == p.Name && d.NS == p.NS {
			continue // he asked for it, or wrote it: see succeeded
		}
		seen := false
		for _, verb := range []string{"get", "list", "watch", "update", "patch", "delete", "deletecollection", "create"} {
			may, _ := g.may(d.who, game.Ask{Verb: verb, Resource: p.Resource, NS: p.NS, Name: p.Name, Old: g.prey[i]})
			seen = seen || may
		}
		if granular, _ := g.may(d.who, game.Ask{Verb: "granular", Resource: p.Resource, NS: p.NS, Name: p.Name}); !seen && !granular {
			g.report("read", p.Resource, "%s is told %s by a %s of %s (%d)", d.who.User, p.Ref(), d.Verb, d.Resource, d.answer.code)
		}
	}
}

// effect checks what became of one object.
func (g *table) effect(p game.Prey, before, after map[string]any, all []*doing) {
	if before == nil || reflect.DeepEqual(before, after) {
		return
	}
	uid := func(o map[string]any) any { return game.Dig(o, "metadata", "uid") }
	deleted := after == nil || uid(after) != uid(before) ||
		game.Dig(after, "metadata", "deletionTimestamp") != nil && game.Dig(before, "metadata", "deletionTimestamp") == nil
	if deleted && game.Dig(before, "metadata", "deletionTimestamp") == nil {
		ask := game.Ask{Verb: "delete", Resource: p.Resource, NS: p.NS, Name: p.Name, Old: before}
		if !g.somebody(all, ask) {
			g.report("deleted", p.Resource, "%s is gone, and %s is denied to delete it", p.Ref(), names(all))
		}
		return
	}
	if after == nil {
		return
	}
	if own := slices.ContainsFunc(all, func(d *doing) bool {
		main, _, _ := strings.Cut(d.Resource, "/")
		return d.writes() && d.answer.ok() && (main == p.Resource || main == "bindings" && p.Resource == "pods") && d.Name == p.Name
	}); !own && len(game.Changed(before, after)) > 0 && !g.orphaned(before, after, all) {
		ask := game.Ask{Verb: "update", Resource: p.Resource, NS: p.NS, Name: p.Name, Old: before, New: after}
		if !g.somebody(all, ask) {
			g.report("changed", p.Resource, "%s has changed (%v), and %s is denied to change it", p.Ref(), game.Changed(before, after), names(all))
		}
	}
	g.guarded(p.Ref(), before, after, all)
}

// orphaned reports whether all that has changed is that references to owners are gone, which were deleted in the same
// steps, or because of them: a deletion that orphans is the way to delete an owner of what one is denied to delete, and
// what has another owner stays, too (docs/explanation/effects.md).
func (g *table) orphaned(before, after map[string]any, all []*doing) bool {
	if !slices.Equal(game.Changed(before, after), []string{".metadata.ownerReferences"}) {
		return false
	}
	owners := func(o map[string]any) []any {
		list, _ := game.Dig(o, "metadata", "ownerReferences").([]any)
		return list
	}
	same := func(a any) func(any) bool { return func(b any) bool { return reflect.DeepEqual(a, b) } }
	for _, owner := range owners(after) {
		if !slices.ContainsFunc(owners(before), same(owner)) {
			return false
		}
	}
	for _, owner := range owners(before) {
		gone := !slices.ContainsFunc(owners(after), same(owner))
		prey := slices.IndexFunc(g.prey, func(o map[string]any) bool { return game.Dig(o, "metadata", "uid") == owner.(map[string]any)["uid"] })
		collected := prey >= 0 && g.get(g.c.Prey[prey].Ref()) == nil
		if gone && !collected && !slices.ContainsFunc(all, func(d *doing) bool {
			return d.answer.ok() && (d.Verb == "deletecollection" || d.Verb == "delete" && d.Name == owner.(map[string]any)["name"])
		}) {
			return false
		}
	}
	return true
}

// somebody reports whether one of those who acted is not denied something. What nobody forbids may come about by the
// way (PO-20).
func (g *table) somebody(all []*doing, ask game.Ask) bool {
	return slices.ContainsFunc(all, func(d *doing) bool {
		may, answer := g.may(d.who, ask)
		if d.who.User != d.actor.User && !strings.HasPrefix(d.As, "token:") {
			return may || answer != game.Deny
		}
		return d.answer.ok() && (may || answer != game.Deny)
	})
}

func names(all []*doing) string {
	var out []string
	for _, d := range all {
		out = append(out, d.who.User)
	}
	return strings.Join(out, " or ")
}

// guarded checks exclusive fields (FP-5) and protected attributes (PA-2) of an object before and after.
func (g *table) guarded(ref game.Ref, before, after map[string]any, all []*doing) {
	for _, f := range g.c.Fields {
		if a, b := f.Value(before), f.Value(after); f.Covers(ref.Resource) && !reflect.DeepEqual(a, b) {
			ask := game.Ask{Verb: "granular:" + f.Permission, Resource: ref.Resource, NS: ref.NS, Name: ref.Name}
			if !slices.ContainsFunc(all, func(d *doing) bool { may, _ := g.may(d.who, ask); return may }) {
				g.report("field", f.Path, "%s of %s went from %v to %v by %s, who does not hold %s", f.Path, ref, a, b, names(all), f.Permission)
			}
		}
	}
	for _, p := range g.c.Protected { // nobody is a member
		if a, b := p.Value(before), p.Value(after); p.Guards(a, b) {
			g.report("attribute", p.Kind, "%s %s of %s went from %v to %v by %s, who is no member", p.Kind, p.Attribute, ref, a, b, names(all))
		}
	}
}

// decisions asks the server what everybody may do: those who act, a service account, and a bystander.
func (g *table) decisions(first bool) map[string]bool {
	if first && !g.mayChangePolicy() {
		return nil
	}
	out := map[string]bool{}
	for _, a := range g.universe() {
		out[key(a)] = g.allowed(a)
	}
	return out
}

func key(a game.Ask) string {
	return fmt.Sprintf("%s %s %s %s/%s", a.User, a.Verb, a.Resource, a.NS, a.Name)
}

// mayChangePolicy reports whether a step of the case could change a decision.
func (g *table) mayChangePolicy() bool {
	return slices.ContainsFunc(g.c.Steps, func(s game.Step) bool {
		main, _, _ := strings.Cut(s.Resource, "/")
		return s.Verb != "get" && s.Verb != "list" && (aboutPolicy(main) || main == "namespaces" || strings.HasPrefix(main, "customresourcedefinitions"))
	})
}

// universe is what is asked before and after.
func (g *table) universe() (out []game.Ask) {
	subjects := []game.Who{{User: strings.ReplaceAll(game.Bystander, game.Run, g.run), Groups: []string{"team" + g.run}}}
	for _, a := range g.c.Actors {
		subjects = append(subjects, game.Who{User: a.Name, Groups: a.Groups})
	}
	home := strings.ReplaceAll(game.Home, game.Run, g.run)
	subjects = append(subjects, game.ServiceAccount(home, game.Bot))
	for _, w := range subjects {
		for _, p := range g.c.Prey {
			for _, verb := range []string{"get", "update", "delete"} {
				out = append(out, w.Wants(verb, p.Resource, p.NS, p.Name))
			}
		}
		out = append(out, w.Wants("get", "secrets", home, "x"), w.Wants("create", "rolebindings.authorization.proviso.dev", home, ""), w.Wants("get", "secrets", "kube-system", "x"),
			w.Wants("delete", "namespaces", "", home))
	}
	return out
}

// finish is what is checked in the end.
func (g *table) finish() {
	time.Sleep(10 * time.Millisecond)
	g.wake()
	after := g.look()
	for i, p := range g.c.Prey { // what came late
		if g.prey[i] != nil && after[i] == nil && game.Dig(g.prey[i], "metadata", "deletionTimestamp") == nil {
			ask := game.Ask{Verb: "delete", Resource: p.Resource, NS: p.NS, Name: p.Name, Old: g.prey[i]}
			ok := slices.ContainsFunc(g.c.Actors, func(a game.Actor) bool {
				_, answer := g.party.May(game.Who{User: a.Name, Groups: a.Groups}, ask)
				return answer != game.Deny
			})
			if !ok {
				g.report("deleted", p.Resource, "%s went in the end, and all are denied to delete it", p.Ref())
			}
		}
	}
	g.handedOver(after)
	g.reported()
	if !g.policyWritten || g.before == nil {
		return
	}
	g.changedDecisions()
	if now := g.served(); now != g.groups {
		g.report("served", "groups", "what is served of groups that are built in has changed:\n%s", now)
	}
	cpu := processTime()
	if took := g.settle(); took > bound && processTime()-cpu > bound && !g.crowded {
		g.report("stale", "policy", "a change of policy took %v to become effective", took)
	}
}

// handedOver lets the appliers of shared prey apply again what they have always applied, which must not change anything
// but by somebody who may write the object.
func (g *table) handedOver(now []map[string]any) {
	for i, p := range g.c.Prey {
		if !p.Shared || now[i] == nil || game.Dig(now[i], "metadata", "deletionTimestamp") != nil {
			continue
		}
		var lost []string
		var worse map[string]any
		for _, manager := range []string{game.Gitops, game.Second} { // each must leave the other's label alone
			g.reapply(p, manager)
			after := g.get(p.Ref())
			for _, key := range shared {
				if game.HasLabel(now[i], key) && !game.HasLabel(after, key) {
					lost, worse = append(lost, key), after
				}
			}
		}
		if len(lost) == 0 {
			continue
		}
		if !slices.ContainsFunc(g.c.Actors, func(a game.Actor) bool {
			return slices.ContainsFunc([]string{"update", "patch"}, func(verb string) bool {
				may, _ := g.party.May(game.Who{User: a.Name, Groups: a.Groups}, game.Ask{Verb: verb, Resource: p.Resource, NS: p.NS, Name: p.Name, Old: now[i], New: worse})
				return may
			})
		}) {
			g.report("handed over", p.Resource, "%s lost %v when its appliers applied again: somebody has changed its managed fields", p.Ref(), lost)
		}
	}
}

// changedDecisions compares with the beginning. A right that is new was held by somebody who granted; one that is lost
// was in reach of somebody who changed policy.
func (g *table) changedDecisions() {
	for _, a := range g.universe() {
		if _, builtIn := g.catalog.Find(a.Resource); !builtIn && g.get(game.Ref{Resource: definitions, Name: a.Resource}) == nil {
			continue // nothing of it is left, and its kind is known to nobody
		}
		was, is := g.before[key(a)], g.allowed(a)
		ns := a.NS
		if a.Resource == "namespaces" {
			ns = a.Name
		}
		switch {
		case is && (!was || g.oracle.Gone[ns]):
			if may, answer := g.party.May(game.Who{User: a.User, Groups: a.Groups}, a); !may {
				g.report("gained", a.Verb+" "+a.Resource, "%s may now %s %s %s/%s: %v, and nobody who acted could grant it", a.User, a.Verb, a.Resource, a.NS, a.Name, answer)
			}
		case was && !is && !g.oracle.Gone[ns] && !g.party.Changed && !g.terminating(ns):
			g.report("lost", a.Verb+" "+a.Resource, "%s may no longer %s %s %s/%s, and nobody has changed policy", a.User, a.Verb, a.Resource, a.NS, a.Name)
		}
	}
}

func (g *table) terminating(ns string) bool {
	return ns != "" && game.Dig(g.get(game.Ref{Resource: "namespaces", Name: ns}), "metadata", "deletionTimestamp") != nil
}

// served is which versions of the built-in groups and of ours are served, as discovery tells.
func (h *hunt) served() string {
	var list struct {
		Groups []struct {
			Name             string
			Versions         []struct{ Version string }
			PreferredVersion struct{ Version string }
		}
	}
	_ = json.Unmarshal(h.sudo("GET", "/apis", nil).body, &list)
	var out []string
	for _, group := range list.Groups {
		if slices.ContainsFunc(h.catalog, func(r game.Resource) bool { return r.Group == group.Name }) {
			out = append(out, fmt.Sprint(group.Name, group.Versions, group.PreferredVersion))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// discover lists the preferred version of everything that is served.
func (h *hunt) discover() game.Catalog {
	type resource struct {
		Name, Kind string
		Namespaced bool
		Verbs      []string
	}
	var catalog game.Catalog
	add := func(group, version, at string) {
		var list struct{ Resources []resource }
		_ = json.Unmarshal(h.sudo("GET", at, nil).body, &list)
		for _, r := range list.Resources {
			if plural, sub, ok := strings.Cut(r.Name, "/"); ok {
				for i := range catalog {
					if catalog[i].Plural == plural && catalog[i].Group == group {
						catalog[i].Subs = append(catalog[i].Subs, sub)
					}
				}
				continue
			}
			catalog = append(catalog, game.Resource{Group: group, Version: version, Plural: r.Name, Kind: r.Kind, Namespaced: r.Namespaced, Verbs: r.Verbs})
		}
	}
	add("", "v1", "/api/v1")
	var groups struct {
		Groups []struct {
			Name             string
			PreferredVersion struct{ Version string }
		}
	}
	_ = json.Unmarshal(h.sudo("GET", "/apis", nil).body, &groups)
	for _, group := range groups.Groups {
		add(group.Name, group.PreferredVersion.Version, "/apis/"+group.Name+"/"+group.PreferredVersion.Version)
	}
	slices.SortFunc(catalog, func(a, b game.Resource) int { return strings.Compare(a.String(), b.String()) })
	return catalog
}
