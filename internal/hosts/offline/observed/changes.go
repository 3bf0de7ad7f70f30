package observed

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"proviso.dev/proviso/internal/analysis/auditlog"
	"proviso.dev/proviso/internal/analysis/suggest"
	"proviso.dev/proviso/internal/engine/verbs"
)

// change is what one request did to an object.
type change struct {
	// writes tells that the request changes an object that is there, known that its change is known.
	writes, known bool
	write         suggest.Write
	// objects are the states that were recorded, if they are all that conditions would see.
	objects []map[string]any
	checked []string
}

// change finds out what a request did, and remembers what it was answered with.
func (b *bodies) change(r *auditlog.Request) *change {
	c := &change{writes: verbs.Updates(r.Verb), checked: granted(r.Checks)}
	one, list := b.answer(r)
	switch {
	case c.writes && (r.Code == http.StatusConflict || r.Code == http.StatusNotFound):
		c.writes = false // nothing was written
	case c.writes && one != nil:
		old := b.before(r, one)
		if c.write, c.known = b.write(r, old, one); old != nil && r.Subresource == "" {
			c.objects = []map[string]any{old, one}
		}
	case r.Verb == "delete" && one != nil && r.Subresource == "":
		c.objects = []map[string]any{one}
	}
	if one != nil {
		list = append(list, one)
	}
	b.remember(r, list...)
	if slices.ContainsFunc(c.objects, func(o map[string]any) bool { return !b.preferred(o) }) {
		c.objects = nil
	}
	return c
}

// preferred reports whether an object is in the version that conditions see.
func (b *bodies) preferred(object map[string]any) bool {
	kind := (&unstructured.Unstructured{Object: object}).GroupVersionKind()
	return b.host.Snapshot().Served.PreferredVersion(kind.GroupKind()) == kind.Version
}

// granted are the permissions for fields that the server asked for and found.
func granted(checks string) (verbs []string) {
	for _, check := range strings.Split(checks, ",") {
		if verb, ok := strings.CutSuffix(check, "=allow"); ok {
			verbs = append(verbs, verb)
		}
	}
	return verbs
}

// changes is what one subject did to objects, by use.
type changes struct {
	known   map[suggest.Use][]suggest.Write
	unknown map[suggest.Use]bool
	touched map[suggest.Use][]map[string]any
	untold  map[suggest.Use]bool
	states  int
	checked map[suggest.Use][]string
}

// maxTouched is how many states of objects are kept for one subject.
const maxTouched = 5_000

func newChanges() changes {
	return changes{known: map[suggest.Use][]suggest.Write{}, unknown: map[suggest.Use]bool{}, touched: map[suggest.Use][]map[string]any{}, untold: map[suggest.Use]bool{}, checked: map[suggest.Use][]string{}}
}

// take adds what a request did. If that is unknown for one request, it is unknown for the use.
func (c *changes) take(u suggest.Use, what *change) {
	if what == nil {
		return
	}
	for _, verb := range what.checked {
		if !slices.Contains(c.checked[u], verb) {
			c.checked[u] = append(c.checked[u], verb)
		}
	}
	if !what.writes && u.Verb != "delete" {
		return
	}
	if c.states += len(what.objects); len(what.objects) == 0 || c.states > maxTouched {
		c.untold[u] = true
	} else {
		c.touched[u] = append(c.touched[u], what.objects...)
	}
	switch {
	case !what.writes:
	case !what.known:
		c.unknown[u] = true
	case !slices.ContainsFunc(c.known[u], func(w suggest.Write) bool { return slices.Equal(w.Verbs, what.write.Verbs) }):
		c.known[u] = append(c.known[u], what.write)
	}
}

// writes are the changes of the uses of which all are known.
func (c *changes) writes() map[suggest.Use][]suggest.Write {
	out := map[suggest.Use][]suggest.Write{}
	for u, all := range c.known {
		if !c.unknown[u] {
			out[u] = all
		}
	}
	return out
}

// objects are the states of the uses of which all are known.
func (c *changes) objects() map[suggest.Use][]map[string]any {
	out := map[suggest.Use][]map[string]any{}
	for u, all := range c.touched {
		if !c.untold[u] {
			out[u] = all
		}
	}
	return out
}
