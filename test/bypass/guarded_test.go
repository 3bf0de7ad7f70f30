package bypass

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// guarded is a label or an annotation that a caller may neither set, nor change, nor remove, although he may write
// everything else.
type guarded struct {
	system, user string
	field, key   string
	// full tries every way, otherwise one of each sort.
	full bool
	// elsewhere are resources whose templates are not what it is about.
	elsewhere map[string]string
}

// opaque resources carry data that looks like a template.
var opaque = map[string]string{"apps/controllerrevisions": "raw data that only its controller reads"}

// proxiedElsewhere is out of reach, as the documentation says: no admission runs here for what another API server
// serves.
var proxiedElsewhere = map[string]string{"agg.example.com/things": "served by another process"}

const kept = "kept"

// hunt tries to set, change and remove it on every endpoint; in templates; and by having a webhook do it after the
// request was sent.
func (g guarded) hunt(t *testing.T, w *world) {
	c, namespace := w.caller(g.user), w.settle(g.user+"-"+g.field)
	inHisName := w.caller("boss").impersonating(g.user)
	var mu sync.Mutex
	var refused, unaffected, beside int
	w.each(func(gr schema.GroupResource, endpoints []endpoint) {
		if proxiedElsewhere[gr.Group+"/"+gr.Resource] != "" {
			return
		}
		p := w.bait(endpoints, namespace, change{field: g.field, key: g.key, value: kept})
		for _, e := range endpoints {
			x := p.target(e)
			for _, c1 := range g.changes(x) {
				ways := x.writes(c1)
				if !g.full || c1.name != "set" {
					ways = oneOfEachSort(ways)
				}
				for _, r := range ways {
					o := w.try(g.system, c, r)
					if c1.name == "set" && r.way == "JSON" {
						// In his name it is not allowed either, whoever asks; the answer is what counts.
						if other := w.try(g.system, inHisName, r); other.code != o.code && other.code != 409 {
							t.Errorf("in the name of %s it is another answer than to himself, %d: %s", g.user, o.code, other)
						}
					}
					mu.Lock()
					switch {
					case o.code == 403:
						refused++
					case !o.succeeded():
						beside++
					default:
						unaffected++
					}
					mu.Unlock()
					if o.succeeded() && e.main().has("get") && g.got(o, e) {
						t.Errorf("%s: it was stored: %s", c1.name, o)
					}
					if o.code >= 500 {
						w.refused(t, o, &w.brokenOnes)
					}
				}
			}
		}
		if p.missing != "" {
			return
		}
		after := p.read(p.home)
		if after == nil {
			t.Errorf("%v is gone", gr)
		} else if got := child(after, "metadata", g.field)[g.key]; got != kept {
			t.Errorf("%v: it was %q and is %v", gr, kept, got)
		}
	})
	w.covered(t, g.system, []string{"create", "update", "patch"}, proxiedElsewhere)
	t.Logf("%d refused, %d went through without it, %d failed for a reason of their own", refused, unaffected, beside)
	if refused < unaffected+beside && !w.partial {
		t.Error("most requests do not get as far as being refused: what the hunt tries proves little")
	}
	g.sweep(t, w, namespace)
}

// changes are what is tried with an object.
func (g guarded) changes(x target) []change {
	all := []change{
		{name: "set", field: g.field, key: g.key, value: "other"},
		{name: "remove", field: g.field, key: g.key},
		{name: "mutated", field: "labels", key: mutate, value: g.field + "." + strings.TrimPrefix(g.key, "example.com/")},
	}
	if x.sub == "" && x.applied != nil {
		for _, at := range templates(x.applied) {
			if opaque[x.Group+"/"+x.Resource] != "" || g.elsewhere[x.Group+"/"+x.Resource] != "" {
				continue
			}
			all = append(all, change{name: "template " + strings.Join(at, "."), at: at, field: g.field, key: g.key, value: "other"})
		}
	}
	return all
}

// got reports whether an answer shows the object with something done to it.
func (g guarded) got(o outcome, e endpoint) bool {
	var object map[string]any
	if json.Unmarshal(o.answer, &object) != nil || object["kind"] != e.own.Kind {
		return false // what it did is looked for in the object
	}
	value, there := child(object, "metadata", g.field)[g.key]
	for _, at := range templates(object) {
		if g.elsewhere[e.Group+"/"+e.Resource] == "" && child(object, slices.Concat(at, []string{"metadata", g.field})...)[g.key] != nil {
			return true
		}
	}
	if o.verb == "create" || strings.Contains(o.way, "creates") {
		return there
	}
	return value != kept
}

// sweep looks at everything that is stored.
func (g guarded) sweep(t *testing.T, w *world, namespace string) {
	seen := map[schema.GroupResource]bool{}
	n := 0
	for _, e := range w.endpoints {
		if e.sub != "" || !e.has("list") || seen[e.GroupResource()] {
			continue
		}
		seen[e.GroupResource()] = true
		var list struct{ Items []map[string]any }
		if err := json.Unmarshal(w.admins("GET", e.collection("", ""), nil).answer, &list); err != nil {
			t.Errorf("%s: %v", e, err)
		}
		for _, object := range list.Items {
			n++
			if value, there := child(object, "metadata", g.field)[g.key]; there && value != kept {
				t.Errorf("%s %s has it: %v", e, nameOf(object), value)
			}
		}
	}
	t.Logf("%d objects of %d resources looked at", n, len(seen))
}

// oneOfEachSort keeps the ways that differ in how the server comes to the final object.
func oneOfEachSort(all []request) []request {
	sorts := []string{"JSON", "protobuf", "merge patch", "strategic merge patch", "JSON patch", "apply", "apply that creates", "JSON that creates"}
	return slices.DeleteFunc(slices.Clone(all), func(r request) bool { return !slices.Contains(sorts, r.way) })
}

// protected: PA-4, PA-5. Whoever is not a member can do nothing to a protected label or annotation.
func (w *world) protected(t *testing.T) {
	t.Run("label", func(t *testing.T) {
		guarded{system: "protected label", user: "outsider", field: "labels", key: "example.com/protected", full: true}.hunt(t, w)
	})
	t.Run("annotation", func(t *testing.T) {
		guarded{system: "protected annotation", user: "outsider", field: "annotations", key: "example.com/protected"}.hunt(t, w)
	})
}
