package twoworlds

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// perCluster is how many cases in a row share one cluster and one caller, because making these is what takes time.
const perCluster = 25

// draw is a case that is being drawn.
type draw struct {
	*rand.Rand
	Case
	// kinds are those of the cluster, verbs those that the caller should try.
	kinds, verbs []string
	// made says that an object has a generated name. Two would stand in any order.
	made bool
}

func random(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// drawCase makes a case from a seed; the same seed gives the same case.
func drawCase(seed uint64) *Case {
	var d *draw
	for cluster := uint64(0); d == nil; cluster++ {
		try := &draw{Rand: random(seed/perCluster, 0x9e3779b97f4a7c15+cluster)}
		if try.cluster() {
			d = try
		}
	}
	d.Rand = random(seed, 0x2545f4914f6cdd1d)
	for want := 1 + d.IntN(12); len(d.Steps) < want; {
		d.Steps = append(d.Steps, d.step()...)
	}
	d.Steps = d.Steps[:min(len(d.Steps), 12)]
	return d.clone()
}

func pick[T any](d *draw, from ...T) T { return from[d.IntN(len(from))] }

func (d *draw) chance(percent int) bool { return d.IntN(100) < percent }

// cluster draws everything but the steps; false if it holds nothing to hide.
func (d *draw) cluster() bool {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(templates)), func(name string) bool { return name == everything })
	for range 1 + d.IntN(3) {
		if name := pick(d, names...); !slices.Contains(d.Caller, name) {
			d.Caller = append(d.Caller, name)
		}
	}
	if d.chance(20) && !slices.ContainsFunc(d.Caller, isUnion) {
		d.Caller = append(d.Caller, pick(d, slices.DeleteFunc(names, func(name string) bool { return !isUnion(name) })...))
	}
	d.people()
	slices.Sort(d.Caller)
	all := slices.Sorted(maps.Keys(kinds))
	for _, name := range d.Caller {
		d.verbs = append(d.verbs, templates[name].verbs...)
		if only := templates[name].kinds; only != nil {
			d.kinds = append(d.kinds, pick(d, only...))
		}
	}
	for range 1 + d.IntN(2) {
		d.kinds = append(d.kinds, pick(d, all...))
	}
	slices.Sort(d.kinds)
	d.kinds = slices.Compact(d.kinds)
	for _, kind := range d.kinds {
		for i := range 1 + d.IntN(2) {
			d.add(kind, home, fmt.Sprintf("ours%d", i+1), "a")
		}
		for i := range 1 + d.IntN(2) {
			d.add(kind, home, fmt.Sprintf("theirs%d", i+1), pick(d, "b", "b", "b", "a"))
		}
		if kind != "namespaces" && d.chance(50) {
			d.add(kind, other, "theirs1", pick(d, "b", "b", "a"))
		}
	}
	if d.chance(15) {
		d.Quota = 3 + d.IntN(6)
	}
	return d.change()
}

func (d *draw) add(kind, ns, name, team string) {
	o := Object{Ref: Ref{kind, ns, name}, Team: team, Value: "value-of-" + name, Ending: d.chance(25)}
	if kind == "namespaces" {
		o.NS = ""
	}
	if kind == "widgets" {
		o.Level = "low"
		if name[0] == 't' {
			o.Level = pick(d, "high", "high", "low")
		}
	}
	if d.chance(30) {
		o.Tier = "gold"
	}
	if d.chance(15) {
		o.Hid = "hid-of-" + name
	}
	if rotates := kind == "configmaps" || kind == "secrets" || kind == "widgets"; rotates && d.chance(35) {
		o.Was = "old-value-of-" + name
		if team == "a" && d.chance(40) {
			o.WasTeam = "b"
		}
		if o.Gone = d.chance(35); o.Gone {
			o.Ending = false
		}
	}
	if before := d.object(Ref{kind, ns, "ours1"}); before != nil && !before.Gone && !o.Gone && d.chance(10) {
		o.Owner = "ours1"
	}
	d.Objects = append(d.Objects, o)
}

// change picks what the second world has differently.
func (d *draw) change() bool {
	if d.chance(6) {
		d.Change = Change{What: changePolicy}
		return true
	}
	if slices.Contains(d.Caller, binder) && d.chance(70) {
		d.Change = Change{What: changePolicy}
		return true
	}
	if slices.Contains(d.Caller, reviewer) && d.chance(80) {
		d.Change = Change{What: changeRules}
		return true
	}
	if slices.Contains(d.Caller, asker) && d.chance(70) {
		d.Change = Change{What: pick(d, changeRequest, changeRequestState, changeRequestReason)}
		return true
	}
	for range 20 {
		o := pick(d, d.Objects...)
		d.Change = Change{Ref: o.Ref, What: pick(d, changeValue, changeValue, changeTier, changeAbsent, changeAbsent, changeWas, changeWas)}
		if o.Ending && d.chance(15) {
			d.Change.What = changeEnding
		}
		if o.Hid != "" && d.chance(50) {
			d.Change.What = changeHid
		}
		if d.hidden() {
			return true
		}
	}
	return false
}

// target is an object that a step is about: mostly one of the cluster, and mostly the one that differs.
func (d *draw) target() Object {
	if d.Change.Kind != "" && d.chance(45) {
		return *d.object(d.Change.Ref)
	}
	if d.chance(85) {
		return pick(d, d.Objects...)
	}
	kind := pick(d, slices.Sorted(maps.Keys(kinds))...)
	if d.chance(80) {
		kind = pick(d, d.kinds...)
	}
	o := Object{Ref: Ref{kind, home, pick(d, "ours9", "nosuch", "theirs1")}, Team: pick(d, "a", "b"), Value: "mine"}
	if kind == "namespaces" {
		o.NS = ""
	}
	return o
}
