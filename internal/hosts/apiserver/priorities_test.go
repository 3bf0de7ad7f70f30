package apiserver

import "testing"

// SV-13: our groups stand behind all of Kubernetes' own and before those of CRDs, and none has the priority of another:
// upstream's two discovery documents order equal ones differently.
func TestOurGroupsHaveTheirOwnPriorities(t *testing.T) {
	const ofCRDs = 1000 // upstream's crdregistration
	own := map[string]int32{}
	for _, g := range ownPriorities {
		if g.group != "authorization.k8s.io" {
			own[g.group] = g.priority
		}
	}
	seen := map[int32]string{ofCRDs: "those of CRDs"}
	for group, priority := range own {
		if other := seen[priority]; other != "" || priority < ofCRDs {
			t.Errorf("%s has %d, as %q, or is behind CRDs", group, priority, other)
		}
		seen[priority] = group
		for gv, p := range APIVersionPriorities() {
			if _, ours := own[gv.Group]; !ours && p.Group <= priority {
				t.Errorf("%s with %d is not behind %s with %d", group, priority, gv, p.Group)
			}
		}
	}
}
