package policychange

import (
	"context"
	"fmt"
	"slices"
	"time"

	"proviso.dev/proviso/internal/analysis/compare"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
)

// Plan compares two hosts, and names at most limit subjects of each change; 0 names all.
func Plan(ctx context.Context, before, after *offline.Host, change []manifests.Document, limit int) (*Report, error) {
	stored := [2][]*expr.Deferred{before.Conditions().All(), after.Conditions().All()}
	u, err := offline.NewUniverse(before, after)
	if err != nil {
		return nil, err
	}
	in := plan.Input{
		Before: before.Snapshot().Rules, After: after.Snapshot().Rules, Server: after, Comparer: &compare.Comparer{Cache: after.Conditions()},
		Resources: u.Everything(), Verbs: u.Verbs, Paths: u.Paths,
	}
	changes, err := plan.Changes(ctx, in)
	if err != nil {
		return nil, err
	}
	written, err := bound(after, rolesOf(change))
	if err != nil {
		return nil, err
	}
	out := &Report{APIVersion: offline.ToolsVersion, Kind: "Plan", Tally: tally(changes), Changes: collapse(changes, roleHoldersOf(in.Before, changes), roleHoldersOf(in.After, changes), limit), Rejected: []Rejected{}, WithoutEffect: plan.WithoutEffect(in, written, unknownKinds(after))}
	if out.Unknown, err = mayChange(ctx, before, after, u.Verbs, changes); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, d := range stored[0] {
		known[d.Source()] = true
	}
	for _, d := range stored[1] { // conditions are compiled when they are needed; a server compiles them when they are written
		if known[d.Source()] {
			continue
		}
		if _, issues := d.Program(); len(issues) > 0 {
			out.Rejected = append(out.Rejected, Rejected{Message: fmt.Sprintf("%s: %v", d.Source(), issues)})
		}
	}
	for _, p := range in.Before.Problems() {
		known[p.Error()] = true
	}
	for _, p := range in.After.Problems() {
		if !known[p.Error()] {
			out.Rejected = append(out.Rejected, Rejected{Message: p.Error()})
		}
	}
	return out, nil
}

// Compare finds what differs between two policies.
func Compare(ctx context.Context, before, after []manifests.Document, master string) (*Report, error) {
	hosts := [2]*offline.Host{}
	for i, documents := range [][]manifests.Document{before, after} {
		var err error
		if hosts[i], err = offline.New(offline.Config{Texts: manifests.Texts(documents), MasterNamespace: master, Base: hosts[0]}); err != nil {
			return nil, err
		}
	}
	kept := changedBy(slices.DeleteFunc(Steps(before, after), func(s Step) bool { return s.verb == "delete" }))
	return Plan(ctx, hosts[0], hosts[1], kept, 0)
}

// changedBy are the objects that steps write and delete. A container changes nothing but what it holds.
func changedBy(all []Step) (change []manifests.Document) {
	for _, s := range all {
		if _, holds := containers[s.object.GroupVersionKind().GroupKind().String()]; holds {
			continue
		}
		change = append(change, manifests.Of(s.object))
	}
	return change
}

// mayChange is what a change does beside the rules, in lines. Whatever decides about access and is not compared is
// among it.
func mayChange(ctx context.Context, before, after *offline.Host, verbs []string, changes []plan.Change) ([]string, error) {
	guards, err := unknown(ctx, before, after)
	if err != nil {
		return nil, err
	}
	asking, err := askingLines(before, after)
	if err != nil {
		return nil, err
	}
	l, err := newLooking(before, after, verbs)
	if err != nil {
		return nil, err
	}
	served, err := l.servedLines(changes)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	more, err := besides(before, after, now)
	if err != nil {
		return nil, err
	}
	more = slices.Concat(l.namespaceLines(), served, more)
	slices.Sort(more)
	return slices.Concat(guards, asking, more, later(before.Snapshot().Rules, after.Snapshot().Rules, now)), nil
}
