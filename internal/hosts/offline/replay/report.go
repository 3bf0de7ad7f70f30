package replay

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/analysis/auditlog"
	"proviso.dev/proviso/internal/analysis/plan"
)

// Report is what came of it (TR-16).
type Report struct {
	Requests  int64 `json:"requests"`
	Undecided int64 `json:"undecided"`
	// Because are the undecided, by reason.
	Because []Undecided `json:"undecidedBecause,omitempty"`
	Flips   []*Flip     `json:"flips"`
	// MoreFlips are requests that flip and are not in Flips, of which there are too many kinds.
	MoreFlips int64 `json:"moreFlips,omitempty"`
	// Otherwise are the requests that were decided otherwise when they were recorded than the policy before the change
	// decides them, and Impersonated those of which the right to impersonate was not decided again.
	Otherwise    int64 `json:"decidedOtherwise,omitempty"`
	Impersonated int64 `json:"impersonated,omitempty"`
	// The rest of the log: events of other stages, events without a user, lines that could not be read, and others.
	Stages    int64              `json:"otherStages,omitempty"`
	Anonymous int64              `json:"withoutUser,omitempty"`
	Broken    int64              `json:"brokenLines,omitempty"`
	Foreign   int64              `json:"otherLines,omitempty"`
	Problems  []auditlog.Problem `json:"problems,omitempty"`
}

// Undecided is a reason, the audit level that would do if there is one, and how many.
type Undecided struct {
	Reason string `json:"reason"`
	Level  string `json:"level,omitempty"`
	Count  int64  `json:"count"`
}

// Flip are requests of one user, of one kind and place, that flip in the same way.
type Flip struct {
	User      string `json:"user"`
	Verb      string `json:"verb"`
	APIGroup  string `json:"apiGroup"`
	Resource  string `json:"resource,omitempty"`
	Path      string `json:"path,omitempty"`
	Namespace string `json:"namespace"`
	// Name is one of the names, and Names a few of them if there are several.
	Name   string      `json:"name"`
	Names  []string    `json:"names,omitempty"`
	Before plan.Effect `json:"before"`
	After  plan.Effect `json:"after"`
	Rule   string      `json:"rule"`
	Count  int64       `json:"count"`
	First  time.Time   `json:"first"`
	Last   time.Time   `json:"last"`
}

// flipKey identifies a flip.
type flipKey struct {
	user, verb, group, resource, path, namespace, rule string
	before, after                                      plan.Effect
}

const (
	// maxFlips bounds the kinds of flips, and maxNames the names that are shown of each.
	maxFlips = 20_000
	maxNames = 5
)

func (w *worker) flip(r *auditlog.Request, attrs authorizer.AttributesRecord, before, after plan.Effect) {
	key := flipKey{user: r.User.Name, verb: r.Verb, group: r.Group, resource: r.Resource, namespace: r.Namespace, before: before, after: after,
		rule: plan.RuleFor(w.before.Snapshot().Rules, w.after.Snapshot().Rules, w.before.Scoped(attrs))}
	if r.Subresource != "" {
		key.resource += "/" + r.Subresource
	}
	if !r.IsResource() {
		key.path = attrs.Path
	}
	f := w.flips[key]
	if f == nil {
		if len(w.flips) >= maxFlips {
			w.more++
			return
		}
		f = &Flip{User: key.user, Verb: key.verb, APIGroup: key.group, Resource: key.resource, Path: key.path, Namespace: key.namespace, Before: before, After: after, Rule: key.rule}
		w.flips[key] = f
	}
	f.add(&Flip{Names: []string{r.Name}, Count: 1, First: r.Received, Last: r.Received})
}

// add takes in more of the same.
func (f *Flip) add(more *Flip) {
	if f.Count == 0 || more.First.Before(f.First) {
		f.First = more.First
	}
	if more.Last.After(f.Last) {
		f.Last = more.Last
	}
	f.Count += more.Count
	for _, name := range more.Names {
		// The smallest names, in whichever order they came, so the report is always the same.
		if at, found := slices.BinarySearch(f.Names, name); name != "" && !found && at < maxNames {
			f.Names = slices.Insert(f.Names, at, name)
			f.Names = f.Names[:min(len(f.Names), maxNames)]
		}
	}
}

// Report gathers what all workers have seen. It is called when they have ended.
func (r *Replay) Report(tally auditlog.Tally) *Report {
	out := &Report{Flips: []*Flip{}, Stages: tally.Stages, Anonymous: tally.Anonymous, Broken: tally.Broken, Foreign: tally.Foreign, Problems: tally.Problems}
	flips, undecided := map[flipKey]*Flip{}, map[Undecided]int64{}
	for _, w := range r.workers {
		out.Requests, out.MoreFlips = out.Requests+w.requests, out.MoreFlips+w.more
		out.Otherwise, out.Impersonated = out.Otherwise+w.otherwise, out.Impersonated+w.impersonated
		for key, f := range w.flips {
			if flips[key] == nil {
				flips[key] = f
				out.Flips = append(out.Flips, f)
			} else {
				flips[key].add(f)
			}
		}
		for why, n := range w.undecided {
			undecided[why] += n
		}
	}
	for why, n := range undecided {
		why.Count = n
		out.Undecided += n
		out.Because = append(out.Because, why)
	}
	slices.SortFunc(out.Because, func(a, b Undecided) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Level, b.Level))
	})
	slices.SortFunc(out.Flips, func(a, b *Flip) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.User, b.User), cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.APIGroup, b.APIGroup), cmp.Compare(a.Resource, b.Resource),
			cmp.Compare(a.Path, b.Path), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Before, b.Before))
	})
	for _, f := range out.Flips {
		if len(f.Names) > 0 {
			f.Name = f.Names[0]
		}
		if len(f.Names) == 1 {
			f.Names = nil
		}
	}
	return out
}
