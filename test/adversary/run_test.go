package adversary

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"proviso.dev/proviso/test/adversary/game"
)

// hunt is the server on which cases are run, one after the other.
type hunt struct {
	*host
	catalog game.Catalog
	// lane tells hunts on the same server apart; crowded is whether there are several.
	lane    string
	crowded bool
	runs    int
	marks   int
	// custom are the custom resources that steps have defined.
	custom map[string]game.Resource
	// last is the prey of the last case as it ended.
	last []map[string]any
	// grants counts those that have begun, once those that one write has used up, and broken what was done by breaking
	// the glass.
	grants, once, broken int
	// feed has what the audit sink was told, of all lanes.
	feed *feed
	// groups is what was served of our own groups and the built-in ones before anybody came.
	groups string
}

func newHunt(t testing.TB) *hunt {
	h := &hunt{host: serve(t), custom: map[string]game.Resource{}}
	h.sinks(t)
	h.catalog = h.discover()
	h.must("POST", "/api/v1/namespaces", object{"metadata": object{"name": yard}})
	h.write("clusterroles."+rbacGroup, "", "prober", object{"rules": []any{object{"verbs": []any{"create"}, "apiGroups": []any{""}, "resources": []any{"configmaps"}}}})
	h.write("clusterrolebindings."+rbacGroup, "", "prober", object{"roleRef": object{"apiGroup": rbacGroup, "kind": "ClusterRole", "name": "prober"}, "subjects": subjects([]string{"user:prober"})})
	h.await("the default roles", func() bool {
		return h.sudo("GET", h.place("roles.authorization.proviso.dev", "master", "edit"), nil).ok()
	})
	h.lane = "a"
	h.settle()
	h.groups = h.served()
	return h
}

// beside is another hunt on the same server.
func (h *hunt) beside(n int) *hunt {
	return &hunt{host: h.host, catalog: h.catalog, lane: string(rune('a' + n)), crowded: true, custom: map[string]game.Resource{}, feed: h.feed, groups: h.groups}
}

// finding is something that must not be.
type finding struct {
	// kind and key say what it is in a way that survives shrinking; text tells the story.
	kind, key, text string
}

func (f finding) String() string { return f.kind + " " + f.key + ": " + f.text }

// table is one case being run.
type table struct {
	*hunt
	c      *game.Case
	run    string
	oracle *game.Oracle
	party  *game.Party
	uids   map[string]string // of namespaces
	tokens map[string]string // of service accounts, by namespace/name
	// carried are the narrowed tokens of actors.
	carried map[string]string
	prey    []map[string]any // as it is now
	// glass is what was done by breaking it.
	glass []deed
	left  []string
	found []finding
	log   []string
	// policyWritten: somebody has changed policy, namespaces or definitions.
	policyWritten bool
	before        map[string]bool
	// earlier are the namespaces that were gone before requests that are made at the same time.
	earlier map[string]bool
}

// play runs a case and tells what it found, and what was done.
func (h *hunt) play(original *game.Case) (found []finding, log []string) {
	h.runs++
	run := fmt.Sprintf("x%s%d", h.lane, h.runs)
	c := original.In(run)
	oracle := &game.Oracle{Case: c, Catalog: h.catalog, Gone: map[string]bool{}, Custom: h.custom}
	g := &table{hunt: h, c: c, run: run, oracle: oracle, party: &game.Party{Oracle: oracle}, uids: map[string]string{}, tokens: map[string]string{}, carried: map[string]string{}}
	defer g.clean()
	defer func() {
		if p := recover(); p != nil {
			why, ok := p.(unsettled)
			if !ok {
				panic(p)
			}
			found, log = g.found, append(g.log, "given up: "+string(why))
		}
	}()
	g.install()
	g.prey = g.look()
	g.before = g.decisions(true)
	for i := 0; i < len(c.Steps); i++ {
		together := c.Steps[i : i+1]
		if c.Steps[i].With && i+1 < len(c.Steps) {
			together = c.Steps[i : i+2]
			i++
		}
		g.steps(together)
	}
	g.finish()
	h.last = g.look()
	return g.found, g.log
}

func (g *table) report(kind, key, format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), g.run, game.Run)
	g.found = append(g.found, finding{kind, strings.ReplaceAll(key, g.run, game.Run), text})
	g.log = append(g.log, "  !! "+kind+" "+key+": "+text)
}

// doing is a step on its way.
type doing struct {
	game.Step
	actor     game.Who
	who       game.Who // as whom it is done
	skipped   bool
	call      call
	caller    who
	old       map[string]any
	answer    answer
	new       map[string]any
	wall, cpu time.Duration
}

// steps makes one step, or two at the same time, and checks what came of them.
func (g *table) steps(steps []game.Step) {
	all := make([]*doing, 0, 2)
	for _, s := range steps {
		if d := g.prepare(s); !d.skipped {
			all = append(all, d)
		}
	}
	if len(all) == 0 {
		return
	}
	if len(all) > 1 {
		g.earlier = maps.Clone(g.oracle.Gone)
		defer func() { g.earlier = nil }()
	}
	var wg sync.WaitGroup
	for _, d := range all {
		wg.Add(1)
		go func() {
			defer wg.Done()
			begin, cpu := time.Now(), processTime()
			d.answer = g.by(d.caller, d.call)
			d.wall, d.cpu = time.Since(begin), processTime()-cpu
		}()
	}
	wg.Wait()
	for _, d := range all {
		g.log = append(g.log, fmt.Sprintf("%s%s %s %s %s/%s %s: %d %.160s", d.Actor, asText(d.As), d.Verb, d.Resource, d.NS, d.Name, edits(d.Edits), d.answer.code, firstLine(d.answer.body)))
		g.harvest(d)
		if d.answer.ok() {
			g.await(d)
		}
		if d.new = g.target(d); d.new == nil && d.answer.ok() {
			d.new = d.answered()
		}
	}
	g.check(all)
}

// answered is the object in the answer to a write, which tells what was stored even if it is gone by now.
func (d *doing) answered() map[string]any {
	o := d.answer.object()
	if !d.writes() || strings.HasPrefix(d.Verb, "delete") || game.Dig(o, "metadata", "name") != d.Name {
		return nil
	}
	return o
}

func asText(as string) string {
	if as == "" {
		return ""
	}
	return " as " + as
}

func edits(all []game.Edit) string {
	raw, _ := json.Marshal(all)
	return fmt.Sprintf("%.200s", raw)
}

func firstLine(body []byte) string {
	var status struct{ Message, Kind string }
	if json.Unmarshal(body, &status) == nil && status.Message != "" {
		return status.Message
	}
	return status.Kind
}

// processTime is the processor time of this process, of which the server is a part: unlike the clock it does not depend
// on who else is busy.
func processTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// prepare turns a step into a request.
func (g *table) prepare(s game.Step) *doing {
	d := &doing{Step: s, actor: game.Who{User: s.Actor}}
	for _, a := range g.c.Actors {
		if a.Name == s.Actor {
			d.actor.Groups, d.actor.Links = a.Groups, a.Links
		}
	}
	d.who, d.caller = d.actor, who{user: d.actor.User, groups: d.actor.Groups, token: g.carried[s.Actor]}
	if at, ok := strings.CutPrefix(s.As, "token:"); ok {
		ns, name, _ := strings.Cut(at, "/")
		d.who, d.caller = game.ServiceAccount(ns, name), who{token: g.tokens[at]}
		d.skipped = g.tokens[at] == ""
	}
	if user, ok := strings.CutPrefix(s.As, "user:"); ok {
		d.who, d.caller.as = game.Who{User: user, Links: d.actor.Links}, user
	}
	d.old = g.target(d)
	d.call = call{path: g.place(s.Resource, s.NS, s.Name), query: s.Query}
	values := make([]game.Edit, len(s.Edits))
	for i, e := range s.Edits {
		values[i] = game.Edit{Path: e.Path, Value: g.resolve(e.Value, d.old)}
	}
	fresh := func() object {
		body := g.stub(s.Resource, s.NS, s.Name, "mine")
		for _, e := range values {
			put(body, e.Path, e.Value)
		}
		return body
	}
	switch s.Verb {
	case "get", "list":
		d.call.method = "GET"
	case "delete", "deletecollection":
		d.call.method = "DELETE"
	case "connect":
		d.call.method = "GET"
	case "create":
		d.call.method, d.call.body = "POST", fresh()
		if _, _, sub := strings.Cut(s.Resource, "/"); !sub {
			d.call.path = g.place(s.Resource, s.NS, "")
		}
	case "update":
		body := clone(d.old)
		if body == nil {
			body = fresh()
		}
		for _, e := range values {
			put(body, e.Path, e.Value)
		}
		d.call.method, d.call.body = "PUT", body
	case "patch":
		d.call.method, d.call.body, d.call.contentType = "PATCH", patched(values), mergeType
	case "apply":
		body := g.stub(s.Resource, s.NS, s.Name, "mine")
		for _, field := range []string{"data", "stringData", "spec", "rules"} {
			delete(body, field)
		}
		for _, e := range values {
			put(body, e.Path, e.Value)
		}
		d.call.method, d.call.body, d.call.contentType = "PATCH", body, applyType
		if !strings.Contains(d.call.query, "fieldManager") {
			d.call.query = "force=true&fieldManager=" + s.Actor
		}
	default:
		d.skipped = true
	}
	return d
}

func clone(in map[string]any) map[string]any {
	if in == nil {
		return nil
	}
	raw, _ := json.Marshal(in)
	var out map[string]any
	_ = json.Unmarshal(raw, &out)
	return out
}

// target is the object that a step names, as it is stored.
func (g *table) target(d *doing) map[string]any {
	if d.Name == "" || d.Verb == "connect" {
		return nil
	}
	main, _, _ := strings.Cut(d.Resource, "/")
	if main == "bindings" {
		main = "pods"
	}
	if strings.HasSuffix(g.resource(main).Kind, "Review") {
		return nil
	}
	return g.get(game.Ref{Resource: main, NS: d.NS, Name: d.Name})
}

// resolve replaces what stands for something that only the server knows.
func (g *table) resolve(v any, old map[string]any) any {
	switch v := v.(type) {
	case string:
		if ref, ok := strings.CutPrefix(v, "$uid:"); ok {
			part := strings.Split(ref, "/")
			uid, _ := game.Dig(g.get(game.Ref{Resource: part[0], NS: part[1], Name: part[2]}), "metadata", "uid").(string)
			if uid == "" {
				uid = "00000000-0000-4000-8000-00000000000f"
			}
			return uid
		}
		if manager, ok := strings.CutPrefix(v, "$managed:"); ok {
			return usurped(old, manager)
		}
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			out[k] = g.resolve(e, old)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = g.resolve(e, old)
		}
		return out
	}
	return v
}

// usurped are managed fields in which one manager has what the others had.
func usurped(old map[string]any, manager string) []any {
	entries, _ := game.Dig(old, "metadata", "managedFields").([]any)
	fields := map[string]any{}
	var out []any
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		if entry["subresource"] != nil || entry["operation"] != "Apply" {
			out = append(out, e)
			continue
		}
		if f, ok := entry["fieldsV1"].(map[string]any); ok {
			merge(fields, f)
		}
	}
	for _, e := range entries {
		if entry, _ := e.(map[string]any); entry["manager"] == manager {
			mine := maps.Clone(entry)
			mine["fieldsV1"] = fields
			out = append(out, mine)
		}
	}
	return out
}

func merge(into, from map[string]any) {
	for k, v := range from {
		if a, ok := into[k].(map[string]any); ok {
			if b, ok := v.(map[string]any); ok {
				merge(a, b)
				continue
			}
		}
		into[k] = clone(map[string]any{"v": v})["v"]
	}
}

// harvest keeps tokens that somebody got.
func (g *table) harvest(d *doing) {
	o := d.answer.object()
	if token, ok := game.Dig(o, "status", "token").(string); ok && d.Resource == "serviceaccounts/token" && d.answer.ok() {
		g.tokens[d.NS+"/"+d.Name] = token
	}
	for _, item := range append(list(o["items"]), o) {
		s, _ := item.(map[string]any)
		account, _ := game.Dig(s, "metadata", "annotations", "kubernetes.io/service-account.name").(string)
		if token := decode(game.Dig(s, "data", "token")); account != "" && token != "" {
			g.tokens[d.NS+"/"+account] = token
		}
	}
}

func list(v any) []any {
	l, _ := v.([]any)
	return slices.Clone(l)
}
