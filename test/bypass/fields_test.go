package bypass

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fields: FP-5, FP-6, FP-7, FP-15. A general writer can do nothing to an exclusive field; a writer of single fields
// nothing to any other, and nothing at all where no field says what a request does.
func (w *world) fields(t *testing.T) {
	t.Run("exclusive", func(t *testing.T) {
		guarded{system: "exclusive field", user: "general", field: "labels", key: "example.com/guarded", full: true, elsewhere: notPods}.hunt(t, w)
	})
	t.Run("granular", w.granular)
}

// notPods are templates of other things than pods: a field permission reaches into pod templates only (FP-15).
var notPods = map[string]string{
	"batch/cronjobs":                         "the template of a job has metadata of its own",
	"resource.k8s.io/resourceclaimtemplates": "the template of a claim",
}

// empty are resources of which an object with no field set is a whole one: whoever may set a label may create it with
// that label.
var empty = map[string]string{
	"internal.apiserver.k8s.io/storageversions": "its specification has no fields",
	"resource.k8s.io/deviceclasses":             "its specification may be empty",
	"auditregistration.k8s.io/auditsinks":       "its specification equals the default",
}

func (w *world) granular(t *testing.T) {
	const system = "granular"
	c, namespace := w.caller("granular"), w.settle("granular")
	allowed := change{field: "labels", key: "ok.example.com/x", value: "yes"}
	var broken, twins atomic.Int64
	w.each(func(gr schema.GroupResource, endpoints []endpoint) {
		if everyones[gr.Group+"/"+gr.Resource] != "" {
			return
		}
		p := w.bait(endpoints, namespace)
		for _, e := range endpoints {
			g := p.target(e)
			p.refused = true
			for _, r := range slices.Concat(g.writes(touch), g.connects(), g.removals()) {
				o := w.try(system, c, r)
				if ownVerb(o) {
					continue
				}
				if o.succeeded() && o.verb != "create" && (e.sub != "" || p.missing == "") {
					continue // a subresource that leaves the label alone changes nothing: the object tells
				}
				w.refused(t, o, &broken)
			}
			p.refused = empty[gr.Group+"/"+gr.Resource] == ""
			for _, r := range slices.Concat(oneOfEachSort(g.writes(allowed)), g.appliesAlone(allowed)) {
				creates := r.verb == "create" || strings.Contains(r.way, "creates")
				o := w.try(system, c, r)
				switch {
				case creates && !p.refused:
				case creates || proxiedElsewhere[gr.Group+"/"+gr.Resource] != "":
					w.refused(t, o, &broken)
				case o.succeeded():
					twins.Add(1)
				case o.code == 403 && (r.way == "apply" || e.kind.Kind == "Scale"):
					// The admin's fields in another version, and a Scale, which holds no label, change who manages
					// others' fields.
				case o.code == 403 && strings.Contains(string(o.answer), "granular:"):
					t.Errorf("the caller has this permission: %s", o)
				}
			}
		}
		if p.missing != "" || proxiedElsewhere[gr.Group+"/"+gr.Resource] != "" {
			return
		}
		after := p.read(p.home)
		if after == nil {
			t.Errorf("%v is gone", gr)
			return
		}
		delete(child(after, "metadata", "labels"), allowed.key)
		if diff := diff(p.before, after); diff != "" {
			t.Errorf("%v was changed by who may only set a label of his own: %s", gr, diff)
		}
	})
	if n := w.backend.by("granular"); n > 0 {
		t.Errorf("%d requests of a caller with field permissions reached another API server, where nobody looks at fields", n)
	}
	w.covered(t, system, []string{"create", "update", "patch", "delete", "deletecollection"}, everyones)
	t.Logf("%d writes of the permitted field went through", twins.Load())
	if twins.Load() < 200 && !w.partial {
		t.Error("too few for the refusals to prove much")
	}
}
