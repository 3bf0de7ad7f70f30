package policychange

import (
	"proviso.dev/proviso/internal/analysis/compare"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/replay"
)

// Report is the effect of a change, in the stable format for scripts.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Tally counts the subjects that gain or lose something.
	Tally   Tally    `json:"tally"`
	Changes []Change `json:"changes"`
	// Unknown is what a change does beside, of which it is not known whom it concerns.
	Unknown       []string           `json:"unknown,omitempty"`
	Rejected      []Rejected         `json:"rejected"`
	WithoutEffect []plan.Ineffective `json:"withoutEffect"`
	AppliedBy     []Applier          `json:"appliedBy,omitempty"`
	Replay        *replay.Report     `json:"replay,omitempty"`
}

// Differs reports whether something changes, may change, or would not be taken by a server. Otherwise nobody gains or
// loses anything.
func (r *Report) Differs() bool {
	return len(r.Changes)+len(r.Unknown)+len(r.Rejected) > 0 || r.Replay != nil && len(r.Replay.Flips) > 0
}

// Tally counts subjects by what a change does to them.
type Tally struct {
	Gain   int `json:"gain"`
	Lose   int `json:"lose"`
	Change int `json:"change"`
}

// Rejected is why a server would not take an object of the change.
type Rejected struct {
	Message string `json:"message"`
}

// Change is one thing that subjects may do otherwise than before.
type Change struct {
	Subject  *offline.Subject  `json:"subject,omitempty"`
	Subjects []offline.Subject `json:"subjects,omitempty"`
	// MoreSubjects is how many others there are beside those that are named.
	MoreSubjects int    `json:"moreSubjects,omitempty"`
	Verb         string `json:"verb"`
	APIGroup     string `json:"apiGroup"`
	Resource     string `json:"resource,omitempty"`
	Path         string `json:"path,omitempty"`
	Namespace    string `json:"namespace"`
	// ExceptNamespaces are those in which it is not so, if it is in all others.
	ExceptNamespaces []string `json:"exceptNamespaces,omitempty"`
	Name             string   `json:"name,omitempty"`
	// ExceptNames are those for which it is not so, if it is for all others.
	ExceptNames []string `json:"exceptNames,omitempty"`

	Before   plan.Effect      `json:"before"`
	After    plan.Effect      `json:"after"`
	Relation compare.Relation `json:"relation"`
	Why      string           `json:"why,omitempty"`
	Witness  *Witness         `json:"witness,omitempty"`
	Rule     string           `json:"rule"`

	// Whole is true if the subjects got or lost the role itself, and not only some of its rules.
	Whole bool `json:"-"`
}

// Witness is a request that one side allows and the other refuses.
type Witness struct {
	User      string         `json:"user,omitempty"`
	Groups    []string       `json:"groups,omitempty"`
	Object    map[string]any `json:"object,omitempty"`
	OldObject map[string]any `json:"oldObject,omitempty"`
	// Target is the target of a connection.
	Target map[string]any `json:"target,omitempty"`
}
