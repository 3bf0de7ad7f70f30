package bypass

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestBypassHunt tries every way to every endpoint, for each of the five systems.
func TestBypassHunt(t *testing.T) {
	w := newWorld(t)
	t.Logf("%d endpoints", len(w.endpoints))
	t.Run("conditions", w.conditions)
	t.Run("reads", w.readsUnderCondition)
	t.Run("policy", w.policy)
	t.Run("paths", w.paths)
	t.Run("fields", w.fields)
	t.Run("protected", w.protected)
	t.Run("nothing was created", w.nothingCreated)
	t.Run("audit", w.audit)
	total := 0
	for _, n := range w.attempts {
		total += n
	}
	t.Logf("%d combinations of endpoint, way and caller", total)
}

// nothingCreated looks for objects that callers who may create nothing tried to create.
func (w *world) nothingCreated(t *testing.T) {
	n := 0
	for _, e := range w.endpoints {
		if e.sub != "" || !e.has("list") {
			continue
		}
		var list struct{ Items []map[string]any }
		if err := json.Unmarshal(w.admins("GET", e.collection("", ""), nil).answer, &list); err != nil {
			t.Errorf("%s: %v", e, err)
		}
		for _, object := range list.Items {
			meta := child(object, "metadata")
			namespace, _ := meta["namespace"].(string)
			name := nameOf(object)
			for _, caller := range []string{"cond-false", "denied", "granular"} {
				if strings.HasPrefix(name, "hunt-"+caller+"-generated-") {
					t.Errorf("%s %s was created", e, name)
				}
			}
			for _, id := range w.never[e.GroupResource()] {
				if of, id, _ := strings.Cut(id, "/"); id == name && (namespace == "" || namespace == of) {
					t.Errorf("%s %s was created", e, name)
				}
			}
			n++
		}
	}
	tried := 0
	for _, names := range w.never {
		slices.Sort(names)
		tried += len(slices.Compact(names))
	}
	t.Logf("none of %d objects is one of %d that must not be", n, tried)
}
