package lint

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"proviso.dev/proviso/internal/engine/ruleset"
)

// farAway is from when on an end is as good as none.
const farAway = 366 * 24 * time.Hour

// times remarks on bindings that begin and end, or should. Where no binding has a time, nothing is said.
func (c *checker) times() {
	if c.Now.IsZero() || !c.Index.IsTimed() {
		return
	}
	type bound struct {
		ref  ruleset.BindingRef
		span ruleset.Span
	}
	var all []bound
	c.Index.Timed(func(ref ruleset.BindingRef, _ ruleset.RoleRef, span ruleset.Span) {
		all = append(all, bound{ref, span})
	})
	for _, b := range all {
		end := time.Unix(b.span.Until, 0).UTC()
		switch text := end.Format(time.RFC3339); {
		case b.span.Until == math.MaxInt64:
		case !end.After(c.Now):
			c.say(Remark{Code: codeEnded, Severity: Warning, Object: bindingOf(b.ref), Path: []any{"notAfter"}, Message: "it ended at " + text + " and never counts again"})
		case end.Sub(c.Now) > farAway:
			c.say(Remark{Code: codeFarEnd, Severity: Note, Object: bindingOf(b.ref), Path: []any{"notAfter"}, Message: "it ends at " + text + ", more than a year from now"})
		}
	}
	c.endless()
}

// endless remarks on bindings of powerful roles without an end. The server's own users and service accounts have to be
// able to at all times.
func (c *checker) endless() {
	type given struct{ why, who []string }
	found := map[ruleset.BindingRef]*given{}
	var order []ruleset.BindingRef
	for _, m := range mights {
		attrs := m.attributes()
		c.Index.Everyone(attrs, func(h ruleset.Hit) {
			ref := h.Binding()
			if h.Effect() != ruleset.Allows || strings.HasPrefix(h.Subject().Name, "system:") || c.Index.SpanOf(ref).Until != math.MaxInt64 {
				return
			}
			if standing(c.Index, attrs, h.Subject()).Certainty != ruleset.Always {
				return
			}
			g := found[ref]
			if g == nil {
				g = &given{}
				found[ref], order = g, append(order, ref)
			}
			if who := named(h.Subject()); !slices.Contains(g.who, who) {
				g.who = append(g.who, who)
			}
			if !slices.Contains(g.why, m.why) {
				g.why = append(g.why, m.why)
			}
		})
	}
	for _, ref := range order {
		g := found[ref]
		slices.Sort(g.who)
		c.say(Remark{Code: codeEndless, Severity: Note, Object: bindingOf(ref), Path: []any{"roleRef"}, Message: fmt.Sprintf("%s can at all times: %s", few(g.who), few(g.why))})
	}
}
