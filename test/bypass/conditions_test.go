package bypass

import (
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// everyones are the resources that RBAC gives to every authenticated user (system:basic-user): asking about oneself,
// and which labels and annotations are protected everywhere (PA-16).
var everyones = map[string]string{
	"policy.proviso.dev/clusterprotectedattributes": "system:basic-user",
	"authentication.k8s.io/selfsubjectreviews":      "system:basic-user",
	"authorization.k8s.io/selfsubjectaccessreviews": "system:basic-user",
	"authorization.k8s.io/selfsubjectrulesreviews":  "system:basic-user",
}

var touch = change{name: "touch", field: "labels", key: "touched", value: "yes"}

// conditions: CA-4, CA-6, CA-7, CA-8, CA-9. A right under a condition that is false is no right, to read or to write,
// wherever and however; nor is it one in somebody else's name. With the condition true, nothing of ours stands in the
// way of the same request.
func (w *world) conditions(t *testing.T) {
	const system = "conditions"
	never, namespace := w.caller("cond-false"), w.settle("cond-false")
	boss := w.caller("boss")
	var broken atomic.Int64
	w.each(func(gr schema.GroupResource, endpoints []endpoint) {
		if everyones[gr.Group+"/"+gr.Resource] != "" {
			return
		}
		p := w.bait(endpoints, namespace)
		p.refused = true
		for i, e := range endpoints {
			g := p.target(e)
			all := slices.Concat(g.writes(touch), g.connects(), g.reads(), g.removals())
			if i == 0 && e.has("create") {
				all = append(all, huge(g))
			}
			for _, r := range all {
				o := w.try(system, never, r)
				w.refused(t, o, &broken)
				if found := leaked(o, g.stored); found != "" && !tells(o) {
					t.Errorf("the refusal shows %q, which is in the object: %s", found, o)
				}
			}
			for _, r := range oneOfEach(all) {
				w.refused(t, w.try(system, boss.impersonating("cond-false"), r), &broken)
				if o := w.try(system, never.impersonating("boss"), r); o.code != 403 {
					t.Errorf("impersonation on a condition that is false: %s", o)
				}
			}
		}
		if diff := p.touched(); diff != "" {
			t.Errorf("%v was changed on a condition that is false: %s", gr, diff)
		}
	})
	if n := w.backend.by("cond-false"); n > 0 {
		t.Errorf("%d requests on a condition that is false reached another API server, where nobody evaluates it", n)
	}
	w.covered(t, system, nil, everyones)
	t.Logf("%d well-formed requests were refused for a reason of their own, as an admin's are", broken.Load())
	t.Run("adoption", w.adoption)
	t.Run("twin", w.conditionsTwin)
}

// adoption: nobody can make an object match by changing it into one that does, and a body of another kind never matches
// (CA-6).
func (w *world) adoption(t *testing.T) {
	const system = "adoption"
	c, namespace := w.caller("where-false"), w.settle("where-false")
	var broken atomic.Int64
	w.each(func(gr schema.GroupResource, endpoints []endpoint) {
		if everyones[gr.Group+"/"+gr.Resource] != "" {
			return
		}
		p := w.bait(endpoints, namespace)
		for _, e := range endpoints {
			g := p.target(e)
			var all []request
			for _, r := range slices.Concat(oneOfEachSort(g.writes(mine)), g.connects(), oneOfEach(g.reads()), g.removals()) {
				// What is created with the label is the caller's own. Lists show that, and are a hunt of their own.
				if !strings.Contains(r.way, "create") && !(r.verb == "create" && e.sub == "") && r.verb != "list" && r.verb != "watch" {
					all = append(all, r)
				}
			}
			for _, r := range all {
				w.refused(t, w.try(system, c, r), &broken)
			}
		}
		if diff := p.touched(); diff != "" {
			t.Errorf("%v was adopted: %s", gr, diff)
		}
	})
	t.Logf("%d attempts", w.attempts[system])
}

// conditionsTwin makes the same requests with the condition true.
func (w *world) conditionsTwin(t *testing.T) {
	const system = "conditions twin"
	c, namespace := w.caller("cond-true"), w.settle("cond-true")
	var succeeded, failed atomic.Int64
	w.each(func(gr schema.GroupResource, endpoints []endpoint) {
		p := w.bait(endpoints, namespace)
		for _, e := range endpoints {
			g := p.target(e)
			for _, r := range slices.Concat(g.writes(touch), g.connects(), g.removals()) {
				if r.sloppy || r.method == "DELETE" && strings.HasPrefix(e.Resource, "polic") {
					continue // without its containers, no role could be made
				}
				o := w.try(system, c, r)
				switch text := string(o.answer); {
				case o.succeeded():
					succeeded.Add(1)
				case withoutConditions(o):
				case gr.Group == "agg.example.com":
					if o.code != 403 {
						t.Errorf("a conditional right must not reach another API server: %s", o)
					}
				case o.code == 403 && (strings.Contains(text, "was not met") || strings.Contains(text, "conditional permission") || strings.Contains(text, "no authorization decision")):
					t.Errorf("the condition is true: %s", o)
				default:
					failed.Add(1)
				}
			}
		}
	})
	t.Logf("%d succeeded, %d failed for a reason of their own", succeeded.Load(), failed.Load())
	if succeeded.Load() < failed.Load() && !w.partial {
		t.Error("most requests fail whoever makes them: what the hunt tries proves little")
	}
}

// huge is a create that no server should read to its end.
func huge(g target) request {
	r := sloppy(g.post("a huge body", jsonType, "", nil))
	object := change{field: "annotations", key: "huge", value: strings.Repeat("x", 4<<20)}.done(g.create())
	r.body = encodeJSON(object)
	return r
}

// oneOfEach keeps one well-formed request for each verb.
func oneOfEach(all []request) []request {
	seen := map[string]bool{}
	var out []request
	for _, r := range all {
		if !r.sloppy && !seen[r.verb] {
			seen[r.verb] = true
			out = append(out, r)
		}
	}
	return out
}

// refused fails unless a request was refused because of who made it. One that even an admin cannot make counts as
// refused, and is counted.
func (w *world) refused(t *testing.T, o outcome, broken *atomic.Int64) {
	t.Helper()
	switch {
	case o.code == 403 || o.sloppy && o.code >= 400 && o.code < 500:
		return
	case o.code < 400 && o.verb == "deletecollection" && strings.Contains(string(o.answer), `"items":[]`):
		return // it selects nothing: objects are checked one by one
	case o.code < 400 && (o.verb == "list" || o.verb == "watch") && !shows.Match(o.answer):
		return // RD-10: any condition narrows it, this one to nothing
	case o.code < 400:
		t.Errorf("it went through: %s", o)
		return
	case o.verb == "get" && o.code == 404 && !o.endpoint.isConnect():
		w.answeredAsAbsent(t, o.by, o) // what may not be seen is not there
		return
	}
	again := o.request
	if again.query != "" {
		again.query += "&"
	}
	again.query += "dryRun=All"
	if admin := w.root.do(w.ctx, again); admin.code == o.code || tells(o) {
		broken.Add(1)
		return
	}
	t.Errorf("not refused because of who made it: %s", o)
}

// supported are values that validation itself lists.
const supported = "LoadBalancer"

// leaked finds something of the stored object in an answer that the caller had not sent himself.
func leaked(o outcome, stored map[string]any) string {
	if o.code < 400 || stored == nil {
		return ""
	}
	known, answer := string(o.body)+o.path+o.query+o.endpoint.own.String()+supported, string(o.answer)
	var walk func(v any) string
	walk = func(v any) string {
		switch v := v.(type) {
		case map[string]any:
			for _, inner := range v {
				if found := walk(inner); found != "" {
					return found
				}
			}
		case []any:
			for _, inner := range v {
				if found := walk(inner); found != "" {
					return found
				}
			}
		case string:
			if len(v) >= 10 && strings.Contains(answer, v) && !strings.Contains(known, v) {
				return v
			}
		}
		return ""
	}
	return walk(stored)
}

// shows matches lists and watches that have an object in them. What else could be in one is looked for by its content.
var shows = regexp.MustCompile(`"(items|rows)":\s*\[\s*\{|items:\s*\n\s*- |"type":\s*"(ADDED|MODIFIED|DELETED)"`)
