package bypass

import (
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// alwaysOpen are the paths that are served to everybody before anybody is asked, as upstream's default flags have it.
var alwaysOpen = []string{"/healthz", "/livez", "/readyz"}

// policy: PO-7, PO-9, PO-11. A rule of the master namespace that denies everything holds against a cluster admin, on
// every endpoint and for every verb, before a body is read; a rule that denies under a condition, on everything that
// writes or connects.
func (w *world) policy(t *testing.T) {
	const system, conditional = "policy", "conditional policy"
	denied, mayNotWrite, boss := w.caller("denied"), w.caller("cond-denied"), w.caller("boss")
	namespace := w.settle("denied")
	var broken atomic.Int64
	w.each(func(gr schema.GroupResource, endpoints []endpoint) {
		p := w.bait(endpoints, namespace)
		p.refused = true
		for _, e := range endpoints {
			g := p.target(e)
			writes := slices.Concat(g.writes(touch), g.connects(), g.removals())
			for _, r := range slices.Concat(writes, g.reads()) {
				if o := w.try(system, denied, r); o.code != 403 {
					t.Errorf("a rule denies everything: %s", o)
				}
			}
			for _, r := range slices.Concat(oneOfEachSort(g.writes(touch)), g.connects(), g.removals()) {
				if r.verb != "" { // a condition cannot deny what has no verb
					w.refused(t, w.try(conditional, mayNotWrite, r), &broken)
				}
			}
			for _, r := range oneOfEach(slices.Concat(g.writes(touch), g.reads())) {
				if r.verb == "watch" || !strings.Contains(r.query, "dryRun") && r.method != "GET" {
					continue
				}
				if o := w.try(system, boss, r); o.code == 403 {
					t.Errorf("nothing denies this: %s", o)
				}
			}
		}
		if diff := p.touched(); diff != "" {
			t.Errorf("%v was changed by somebody who is denied everything: %s", gr, diff)
		}
	})
	if n := w.backend.by("denied") + w.backend.by("cond-denied"); n > 0 {
		t.Errorf("%d requests that a rule denies reached another API server", n)
	}
	w.covered(t, system, nil, nil)
	w.covered(t, conditional, []string{"create", "update", "patch", "delete", "deletecollection"}, nil)

	var index struct{ Paths []string }
	if err := json.Unmarshal(w.admins("GET", "/", nil).answer, &index); err != nil || len(index.Paths) < 20 {
		t.Fatalf("the index of paths: %v, %v", index, err)
	}
	for _, path := range append(index.Paths, "/", "/debug/pprof/heap", "/debug/flags/v", "/configz", "/apis/agg.example.com") {
		for _, method := range []string{"GET", "POST", "HEAD", "OPTIONS"} {
			o := w.try(system, denied, request{way: method, verb: strings.ToLower(method), method: method, path: path})
			if o.code != 403 && !slices.Contains(alwaysOpen, path) {
				t.Errorf("a rule denies every path: %s", o)
			}
		}
	}
}
