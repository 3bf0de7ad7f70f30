package game

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// The names that cases are made of.
const (
	Home, Other = "n0" + Run, "n1" + Run
	Bot         = "bot"
	// Bystander acts never, and is in a group of the others.
	Bystander = "by" + Run

	guardedLabel   = "excl" + Run + ".example.com/x"
	guardedVerb    = "excl" + Run + ".example.com/guard"
	protectedKey   = "prot" + Run + ".example.com/tier"
	markedLabel    = "marked.example.com"
	ownLabel       = "own.example.com/x"
	customGroup    = "hunt" + Run + ".example.com"
	customPrey     = "gems." + customGroup
	definitions    = "customresourcedefinitions.apiextensions.k8s.io"
	keeper         = "keep.example.com/it"
	gitops, second = "gitops", "second"
)

// ByName is the query of a collection that holds one object.
const ByName = "fieldSelector=metadata.name%3D"

// Gitops and Second are the appliers of shared prey.
const (
	Gitops, Second         = gitops, second
	GitopsLabel, SecondKey = "gitops.example.com/a", "second.example.com/b"
)

// draw is a case that is being drawn.
type draw struct {
	*rand.Rand
	Case
	theme   theme
	oracle  *Oracle
	catalog Catalog
	// made are the names of what steps have made, by resource.
	made   map[string][]Ref
	number int
}

// Draw makes a case from a seed; the same seed gives the same case.
func Draw(seed uint64, catalog Catalog, names ...string) *Case {
	r := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	pool := themes
	if len(names) > 0 {
		pool = slices.DeleteFunc(slices.Clone(pool), func(t theme) bool { return !slices.Contains(names, t.name) })
	}
	d := &draw{Rand: r, catalog: catalog, made: map[string][]Ref{}}
	d.theme = pick(d, pool)
	d.Theme = d.theme.name
	d.people()
	d.prey()
	d.attributes()
	d.rulesOfAccess()
	for i := range d.Actors {
		if d.chance(d.theme.tokens) {
			d.Actors[i].Links = d.links()
		}
	}
	for i := range d.Actors {
		d.powers(&d.Actors[i])
	}
	d.oracle = &Oracle{Case: &d.Case, Catalog: catalog}
	for want := 2 + d.IntN(11); len(d.Steps) < want; {
		if s, ok := d.step(); ok {
			d.Steps = append(d.Steps, s)
		}
	}
	return d.Case.Clone()
}

func pick[T any](d *draw, from []T) T { return from[d.IntN(len(from))] }

// some takes a random part, at least one.
func some[T any](d *draw, from []T) []T {
	out := slices.DeleteFunc(slices.Clone(from), func(T) bool { return d.IntN(3) == 0 })
	if len(out) == 0 {
		return []T{pick(d, from)}
	}
	return out
}

func (d *draw) chance(percent int) bool { return d.IntN(100) < percent }

func (d *draw) fresh(prefix string) string {
	d.number++
	return fmt.Sprintf("%s%d%s", prefix, d.number, Run)
}

func (d *draw) people() {
	fewest := 1
	if d.theme.access == 100 { // nobody approves their own
		fewest = 2
	}
	for i := range fewest + d.IntN(2) + d.IntN(2) {
		a := Actor{Name: fmt.Sprintf("a%d%s", i, Run)}
		if d.chance(40) {
			a.Groups = []string{"team" + Run}
		}
		d.Actors = append(d.Actors, a)
	}
}

func (d *draw) prey() {
	for i := range 1 + d.IntN(3) {
		resource := pick(d, d.theme.prey)
		r, _ := d.catalog.Find(resource)
		p := Prey{Resource: resource, NS: Home, Name: fmt.Sprintf("p%d%s", i, Run)}
		if !r.Namespaced {
			p.NS = ""
		}
		if d.chance(40) {
			p.Labels = map[string]string{markedLabel: "yes"}
		}
		if len(d.Prey) > 0 && d.chance(25) && p.NS != "" && d.Prey[0].NS != "" {
			p.Owner = d.Prey[0].Name
		}
		p.Kept = d.chance(d.theme.kept)
		p.Shared = d.chance(25) && p.Owner == ""
		d.Prey = append(d.Prey, p)
	}
	if d.theme.accounts {
		d.Prey = append(d.Prey, Prey{Resource: "serviceaccounts", NS: Home, Name: Bot})
	}
}

// attributes declares exclusive fields and protected attributes, and puts some of them on the prey.
func (d *draw) attributes() {
	if !d.chance(d.theme.attributes) {
		return
	}
	put := func(key string) {
		for i := range d.Prey {
			if d.chance(50) {
				if d.Prey[i].Labels == nil {
					d.Prey[i].Labels = map[string]string{}
				}
				d.Prey[i].Labels[key] = "set"
			}
		}
	}
	if d.chance(60) {
		f := Field{Name: "f0" + Run, Resources: []string{"*"}, Path: ".metadata.labels[" + guardedLabel + "]", Permission: guardedVerb}
		if d.chance(30) {
			f.Resources, f.Path = []string{"nodes"}, ".status.phase"
		}
		d.Fields = append(d.Fields, f)
		put(guardedLabel)
	}
	if len(d.Fields) == 0 || d.chance(40) {
		p := Protected{Name: "t0" + Run, Kind: pick(d, []string{"Label", "Label", "Annotation"}), Attribute: protectedKey}
		if d.chance(50) {
			p.Values = []string{"set"}
		}
		d.Protected = append(d.Protected, p)
		put(protectedKey)
	}
}

// powers gives an actor their rights, and takes some of them away.
func (d *draw) powers(a *Actor) {
	style := pick(d, d.theme.styles)
	to := []string{"user:" + a.Name}
	if len(a.Groups) > 0 && d.chance(50) {
		to = []string{"group:" + a.Groups[0]}
	}
	kinds := d.resources()
	switch style {
	case "view", "edit", "admin":
		d.Grants = append(d.Grants, Grant{Name: d.fresh("g"), How: ByNamespace, NS: Home, Role: style, To: to})
	case "star": // everything but some
		r := Rule{Verbs: pick(d, [][]string{{"*"}, {"*", "-deletecollection"}, {"*", "granular"}}), Kinds: []string{"*"}}
		if d.chance(60) {
			r.Kinds = append(r.Kinds, "-"+d.spelled(pick(d, d.Prey).Resource))
		}
		g := Grant{Name: d.fresh("g"), How: pick(d, []string{ByMaster, ByNamespace}), Rules: []Rule{r}, To: to}
		if g.How == ByNamespace {
			g.NS = Home
		}
		d.Grants = append(d.Grants, g)
	case "granular":
		verbs := append([]string{"get", "list", "granular"}, some(d, []string{"granular:label(own.example.com)", "granular:ownerReferences", "granular:finalizers", "granular:metadata"})...)
		d.Grants = append(d.Grants, d.grant(pick(d, []string{ByClusterRole, ByLocalRole, ByMaster, ByNamespace}), to, Rule{Verbs: verbs, Kinds: kinds}))
	case "nothing":
	default:
		r := Rule{Verbs: some(d, []string{"get", "list", "create", "update", "patch", "delete", "deletecollection"}), Kinds: kinds}
		if (style == ByMaster || style == ByNamespace) && d.chance(25) {
			r.If = pick(d, []string{"where:" + markedLabel, "has:" + markedLabel, "only:.metadata"})
			r.Verbs = slices.DeleteFunc(r.Verbs, func(v string) bool { return v == "get" || v == "list" })
			if len(r.Verbs) == 0 {
				r.Verbs = []string{"update", "delete"}
			}
		}
		g := d.grant(style, to, r)
		g.Kept = d.chance(d.theme.kept) && g.How == ByLocalRole
		d.Grants = append(d.Grants, g)
	}
	for _, p := range d.theme.powers {
		if !d.chance(65) {
			continue
		}
		how := style
		if p.cluster || !slices.Contains([]string{ByClusterRole, ByLocalRole, ByMaster, ByNamespace}, how) {
			how = pick(d, []string{ByClusterRole, ByClusterRole, ByMaster})
		}
		g := d.grant(how, to, Rule{Verbs: slices.Clone(p.verbs), Kinds: slices.Clone(p.kinds)})
		g.Kept = d.chance(d.theme.kept) && g.How == ByLocalRole
		d.Grants = append(d.Grants, g)
	}
	if d.chance(80) && style != "nothing" {
		d.Grants = append(d.Grants, d.deny(to))
	}
}

// resources are those of the prey, each once.
func (d *draw) resources() []string {
	var out []string
	for _, p := range d.Prey {
		if !slices.Contains(out, p.Resource) {
			out = append(out, p.Resource)
		}
	}
	return out
}

func (d *draw) grant(how string, to []string, rules ...Rule) Grant {
	g := Grant{Name: d.fresh("g"), How: how, Rules: rules, To: to}
	if how == ByLocalRole || how == ByNamespace {
		g.NS = Home
	}
	return g
}

// deny takes something about one prey away.
func (d *draw) deny(to []string) Grant {
	p := pick(d, d.Prey)
	r := Rule{Deny: true, Kinds: []string{d.spelled(p.Resource)}}
	r.Verbs = pick(d, [][]string{{"*"}, {"delete"}, {"delete"}, {"update"}, {"get", "list", "watch"}, {"create", "update", "delete"}})
	if len(d.theme.denied) > 0 && d.chance(70) {
		r.Kinds, r.Verbs = []string{pick(d, d.theme.denied)}, []string{pick(d, []string{"*", "create"})}
	}
	if d.chance(30) {
		r.Names = []string{p.Name}
	} else if d.chance(30) && !slices.Contains(r.Verbs, "get") && !slices.Contains(r.Verbs, "*") {
		r.If = pick(d, []string{"has:" + markedLabel, "where:" + markedLabel, "named:" + p.Name})
	}
	g := d.grant(pick(d, []string{ByMaster, ByMaster, ByNamespace}), to, r)
	if p.NS == "" {
		g.How, g.NS = ByMaster, ""
	}
	return g
}

// spelled is one of the ways to name a resource in a rule.
func (d *draw) spelled(resource string) string {
	r, _ := d.catalog.Find(resource)
	return pick(d, []string{r.Plural, r.Kind, r.Kind, r.String()})
}
