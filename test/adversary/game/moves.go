package game

import (
	"slices"
)

// step draws the next step. Mostly it is one that the actor may make, or one about what they must not have.
func (d *draw) step() (Step, bool) {
	a := &d.Actors[d.IntN(len(d.Actors))]
	s, ok := pick(d, d.theme.moves)(d, a)
	if !ok {
		return s, false
	}
	if s.Actor = a.Name; s.As == "" {
		verb := map[string]string{"apply": "patch"}[s.Verb]
		if verb == "" {
			verb = s.Verb
		}
		answer := d.oracle.Decide(Who{User: a.Name, Groups: a.Groups}.Wants(verb, s.Resource, s.NS, s.Name))
		unlikely := 25
		if d.asks(a) { // it may have been granted by then
			unlikely = 60
		}
		if answer == None && !d.chance(unlikely) || answer == Deny && !d.chance(60) {
			return s, false
		}
	}
	s.With = d.chance(6)
	return s, true
}

// target is a prey, or something that a step before has made.
func (d *draw) target(resources ...string) (Ref, bool) {
	var from []Ref
	for _, p := range d.Prey {
		from = append(from, p.Ref(), p.Ref(), p.Ref())
	}
	for _, refs := range d.made {
		from = append(from, refs...)
	}
	if len(resources) > 0 {
		from = slices.DeleteFunc(from, func(r Ref) bool { return !slices.Contains(resources, r.Resource) })
	}
	if len(from) == 0 {
		return Ref{}, false
	}
	slices.SortFunc(from, func(a, b Ref) int { return compare(a.String(), b.String()) }) // maps have no order
	return pick(d, from), true
}

func compare(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

func (d *draw) add(s Step) Step {
	d.made[s.Resource] = append(d.made[s.Resource], Ref{s.Resource, s.NS, s.Name})
	return s
}

// touch does something plain to a prey.
func touch(d *draw, _ *Actor) (Step, bool) {
	ref, ok := d.target()
	if !ok {
		return Step{}, false
	}
	s := Step{Verb: pick(d, []string{"get", "get", "list", "update", "patch", "apply", "delete", "deletecollection", "create"}), Resource: ref.Resource, NS: ref.NS, Name: ref.Name}
	switch s.Verb {
	case "list", "deletecollection":
		s.Name = ""
		if d.chance(30) {
			s.Query = ByName + ref.Name
		}
	case "update", "patch", "apply":
		s.Edits = []Edit{d.edit()}
	case "delete":
		s.Query = pick(d, []string{"", "", "propagationPolicy=Foreground", "propagationPolicy=Background", "dryRun=All"})
	case "create":
		s.Name = d.fresh("m")
		d.add(s)
	}
	return s, true
}

// edit is a change of the metadata, mostly.
func (d *draw) edit() Edit {
	return pick(d, []Edit{
		{"metadata labels " + ownLabel, "yes"}, {"metadata annotations " + ownLabel, "yes"}, {"metadata labels " + markedLabel, nil}, {"metadata labels " + markedLabel, "yes"},
		{"metadata finalizers", nil}, {"metadata finalizers", []any{keeper}}, {"data", map[string]any{"x": "eA=="}}, d.guardedEdit(), d.guardedEdit(), d.guardedEdit(),
	})
}

// guardedEdit is a change of something that is guarded, if there is something.
func (d *draw) guardedEdit() Edit {
	var from []Edit
	for _, f := range d.Fields {
		if f.Path == ".status.phase" {
			from = append(from, Edit{"status phase", "Running"})
			continue
		}
		from = append(from, Edit{"metadata labels " + guardedLabel, "mine"}, Edit{"metadata labels " + guardedLabel, nil})
	}
	for _, p := range d.Protected {
		at := map[string]string{"Label": "metadata labels ", "Annotation": "metadata annotations "}[p.Kind] + p.Attribute
		from = append(from, Edit{at, "mine"}, Edit{at, "set"}, Edit{at, nil}, Edit{"spec template " + at, "set"})
	}
	if len(from) == 0 {
		return Edit{"metadata labels " + ownLabel, "yes"}
	}
	return pick(d, from)
}

// label goes for what is guarded.
func label(d *draw, a *Actor) (Step, bool) {
	s, ok := touch(d, a)
	if !ok || s.Verb != "update" && s.Verb != "patch" && s.Verb != "apply" && s.Verb != "create" {
		return s, false
	}
	s.Edits = []Edit{d.guardedEdit()}
	return s, true
}

// makeOne creates an object of a kind of prey.
func makeOne(d *draw, _ *Actor) (Step, bool) {
	s := Step{Verb: "create", Resource: pick(d, d.theme.prey), NS: Home, Name: d.fresh("m")}
	if d.chance(40) {
		s.Edits = []Edit{d.edit()}
	}
	return d.add(s), true
}

// remove deletes, mostly something that was made before.
func remove(d *draw, _ *Actor) (Step, bool) {
	ref, ok := d.target()
	return Step{Verb: "delete", Resource: ref.Resource, NS: ref.NS, Name: ref.Name, Query: pick(d, []string{"", "propagationPolicy=Foreground", "propagationPolicy=Background", "propagationPolicy=Orphan"})}, ok
}

// own gives an object an owner: one that is there, one that is not, or none.
func own(d *draw, _ *Actor) (Step, bool) {
	ref, ok := d.target()
	owner, other := d.target()
	if !ok || !other {
		return Step{}, false
	}
	r, _ := d.catalog.Find(owner.Resource)
	uid := pick(d, []string{"$uid:" + owner.String(), "00000000-0000-4000-8000-000000000000"})
	version := r.Version
	if r.Group != "" {
		version = r.Group + "/" + r.Version
	}
	reference := map[string]any{"apiVersion": version, "kind": r.Kind, "name": owner.Name, "uid": uid}
	if d.chance(20) {
		reference["blockOwnerDeletion"] = true
	}
	s := Step{Verb: pick(d, []string{"patch", "update", "apply"}), Resource: ref.Resource, NS: ref.NS, Name: ref.Name, Edits: []Edit{{"metadata ownerReferences", []any{reference}}}}
	if d.chance(10) {
		s.Edits = []Edit{{"metadata ownerReferences", nil}}
	}
	return s, true
}

// managers changes who manages which fields, or applies in another's name.
func managers(d *draw, _ *Actor) (Step, bool) {
	ref, ok := d.target()
	s := Step{Verb: pick(d, []string{"patch", "update"}), Resource: ref.Resource, NS: ref.NS, Name: ref.Name, Edits: []Edit{pick(d, []Edit{
		{"metadata managedFields", "$managed:" + gitops}, {"metadata managedFields", "$managed:" + second}, {"metadata managedFields", []any{map[string]any{}}}})}}
	if d.chance(25) {
		s.Verb, s.Query, s.Edits = "apply", "force=true&fieldManager="+pick(d, []string{gitops, second}), []Edit{{"metadata labels " + ownLabel, "yes"}}
	}
	return s, ok
}

// node registers a node, with more than a node may say about itself.
func node(d *draw, _ *Actor) (Step, bool) {
	s := Step{Verb: "create", Resource: "nodes", Name: d.fresh("node"), Edits: []Edit{d.guardedEdit()}}
	return d.add(s), true
}

// pods uses the subresources that change pods by the way.
func pods(d *draw, _ *Actor) (Step, bool) {
	ref, ok := d.target("pods")
	if !ok {
		return Step{}, false
	}
	s := Step{Verb: "create", NS: ref.NS, Name: ref.Name}
	switch d.IntN(5) {
	case 0:
		s.Resource = "pods/eviction"
	case 1:
		s.Resource, s.Verb, s.Edits = "pods/status", pick(d, []string{"update", "patch"}), []Edit{d.edit()}
	default:
		s.Resource = pick(d, []string{"pods/binding", "bindings"})
		s.Edits = []Edit{d.guardedEdit()}
	}
	return s, true
}

// connect opens a connection, by one of the names that a thing has in URLs.
func connect(d *draw, _ *Actor) (Step, bool) {
	ref, ok := d.target("services", "pods")
	if !ok {
		return Step{}, false
	}
	s := Step{Verb: "connect", NS: ref.NS, Name: ref.Name, Resource: ref.Resource + "/proxy"}
	if ref.Resource == "pods" && d.chance(50) {
		s.Resource = "pods/" + pick(d, []string{"exec", "attach", "portforward"})
		s.Query = "command=id&stdout=true"
		return s, true
	}
	s.Name = pick(d, []string{s.Name, s.Name + ":80", "http:" + s.Name + ":80", "https:" + s.Name + ":", ":" + s.Name + ":"})
	return s, true
}
