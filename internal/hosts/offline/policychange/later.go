package policychange

import (
	"fmt"
	"slices"
	"time"

	"proviso.dev/proviso/internal/engine/ruleset"
)

// maxInstants is how many instants are compared.
const maxInstants = 64

// later says, in lines, that a change matters at instants at which other bindings count than now: a plan is about now.
func later(before, after *ruleset.Index, now time.Time) (lines []string) {
	edges := append(before.Edges(nil), after.Edges(nil)...)
	edges = slices.DeleteFunc(edges, func(t time.Time) bool { return !t.After(now) })
	slices.SortFunc(edges, time.Time.Compare)
	edges = slices.CompactFunc(edges, time.Time.Equal)
	if len(edges) > maxInstants {
		lines = append(lines, fmt.Sprintf("role bindings begin or end at %d instants; of these, only the first %d were compared", len(edges), maxInstants))
		edges = edges[:maxInstants]
	}
	today := ruleset.Diff(before, after)
	for _, at := range edges {
		before, after = before.At(at), after.At(at)
		if !ruleset.Diff(before, after).Within(today) {
			return append(lines, fmt.Sprintf("from %s on, the change gives or takes more than is listed here, by role bindings that begin or end", at.UTC().Format(time.RFC3339)))
		}
	}
	return lines
}
