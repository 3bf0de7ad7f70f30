package policychange

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/hosts/offline"
)

// mostBlinded is how many readers a line names.
const mostBlinded = 20

// sightLines say which fields of which resources become hidden, and from whom, and which are shown again (HF-1). Who
// gains or loses the verb that reveals one is among the rights.
func sightLines(ctx context.Context, before, after *offline.Host) (lines []string) {
	for i, h := range []*offline.Host{before, after} {
		other := []*offline.Host{after, before}[i].Snapshot().Fields
		for _, r := range h.Snapshot().Fields.HidingResources() {
			for _, f := range h.Snapshot().Fields.Hidden(r) {
				same := func(o fieldperm.Hidden) bool {
					return o.Permission == f.Permission && o.Field.String() == f.Field.String()
				}
				switch {
				case slices.ContainsFunc(other.Hidden(r), same):
				case i == 0:
					lines = append(lines, fmt.Sprintf("%s no longer hides %s of %s: everybody who may get them sees it, unless another permission hides it", f.Source, f.Field, r))
				default:
					if who := blinded(ctx, h, r, f.Verb()); who != "" {
						lines = append(lines, fmt.Sprintf("%s hides %s of %s from %s", f.Source, f.Field, r, who))
					}
				}
			}
		}
	}
	return lines
}

// blinded names the subjects that may get the objects but do not hold the verb; empty if there are none.
func blinded(ctx context.Context, h *offline.Host, r fieldperm.Resource, verb string) string {
	subjects, all := h.Blinded(ctx, r, verb)
	var names []string
	for _, s := range subjects[:min(len(subjects), mostBlinded)] {
		names = append(names, offline.SubjectOf(s).String())
	}
	switch {
	case !all:
		names = append(names, "and others, who were not counted")
	case len(subjects) > mostBlinded:
		names = append(names, fmt.Sprintf("and %d others", len(subjects)-mostBlinded))
	}
	return strings.Join(names, ", ")
}
