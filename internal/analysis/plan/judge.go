package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/analysis/compare"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/engine/whocan"
)

// turn is what becomes of a question in one place; "" is every name but some.
type turn struct {
	name, except  string
	before, after Effect
	relation      compare.Relation
	rule, why     string
}

// shown is a turn with what shows it.
type shown struct {
	turn
	except  []string
	witness *compare.Witness
}

// spread is where a turn was found.
type spread struct {
	shown
	in map[string]bool
}

// answer judges a crowd by its first subject, in every place that can matter.
func (p *planner) answer(ctx context.Context, c *crowd, q *question) []Change {
	var places [][]string
	within := q.Namespaced && q.path == ""
	if within {
		places = c.places
	}
	if c.everywhere && within {
		places = append(slices.Clip(places), []string{Other})
	}
	if c.everywhere || q.isNamespace() { // roles in a namespace grant requests for the Namespace object
		places = append(slices.Clip(places), []string{""})
	}
	names := p.names(c, q)
	var order []*spread
	index := map[turn]*spread{}
	take := func(namespace string, all []shown) {
		for _, f := range all {
			at := index[f.turn]
			if at == nil {
				at = &spread{shown: f, in: map[string]bool{}}
				index[f.turn] = at
				order = append(order, at)
			}
			if at.in[namespace] = true; namespace == Other {
				at.witness = f.witness
			}
		}
	}
	for _, alike := range p.apart(places, q) {
		found, looks := p.judge(ctx, c, q, alike[0], names)
		if looks.atUser && len(c.subjects) > 1 {
			return p.oneByOne(ctx, c, q)
		}
		for i, namespace := range alike {
			if i > 0 && looks.atNamespace {
				found, _ = p.judge(ctx, c, q, namespace, names)
			}
			take(namespace, found)
		}
	}
	var changes []Change
	for _, f := range order {
		changes = append(changes, f.changes(c, q)...)
	}
	return changes
}

// apart takes the master namespace from the namespaces with the same roles if these do not count there.
func (p *planner) apart(places [][]string, q *question) [][]string {
	master := p.After.MasterNamespace()
	if !p.clusterWide(q.action(master, ""), q.Resource) {
		return places
	}
	for i, alike := range places {
		if at := slices.Index(alike, master); at >= 0 && len(alike) > 1 {
			return append(slices.Delete(slices.Clone(places), i, i+1), slices.Delete(slices.Clone(alike), at, at+1), alike[at:at+1])
		}
	}
	return places
}

// oneByOne judges each subject by itself.
func (p *planner) oneByOne(ctx context.Context, c *crowd, q *question) (changes []Change) {
	for i := range c.subjects {
		if ctx.Err() != nil {
			return nil // the caller looks
		}
		one := *c
		one.subjects = c.subjects[i : i+1 : i+1]
		changes = append(changes, p.answer(ctx, &one, q)...)
	}
	return changes
}

// changes says where a turn holds, in as few words as there are.
func (f *spread) changes(c *crowd, q *question) (changes []Change) {
	add := func(namespace string, except []string) {
		changes = append(changes, Change{Subjects: c.subjects, Action: q.action(namespace, f.name), ExceptNames: f.except, ExceptNamespaces: except,
			Before: f.before, After: f.after, Relation: f.relation, Witness: f.witness, Rule: f.rule, Why: f.why})
	}
	var except []string
	for _, alike := range c.places {
		for _, namespace := range alike {
			switch {
			case !f.in[namespace]:
				except = append(except, namespace)
			case !f.in[Other]:
				add(namespace, nil)
			}
		}
	}
	slices.Sort(except)
	switch {
	case f.in[Other] && f.in[""]:
		add(Everywhere, except)
	case f.in[Other]:
		add(Other, except)
	case f.in[""]:
		add("", nil)
	}
	return changes
}

// names are those of objects that rules about the question tell apart, for a member of the crowd.
func (p *planner) names(c *crowd, q *question) (names []string) {
	if q.path != "" || q.Subresource == "" && !verbs.MayName(q.verb) {
		return nil
	}
	is := append([]ruleset.Subject{c.subjects[0]}, c.judged...)
	attrs := q.action("", "").attributes(q.Resource)
	for _, attrs.Verb = range q.rights() {
		for _, ix := range []*ruleset.Index{p.Before, p.After} {
			names = ix.NamesFor(names, attrs, is...)
		}
	}
	if q.isNamespace() {
		for _, alike := range c.places {
			names = append(names, alike...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// judge finds what changes for the first of a crowd in one place: for every name but some, and for those.
func (p *planner) judge(ctx context.Context, c *crowd, q *question, namespace string, names []string) (out []shown, looks looks) {
	rest := p.one(ctx, c, q, q.action(namespace, ""), &looks)
	for _, name := range names {
		f := p.one(ctx, c, q, q.action(namespace, name), &looks)
		switch {
		case rest != nil && f != nil && f.turn == rest.turn:
		case rest != nil:
			rest.except = append(rest.except, name)
			fallthrough
		default:
			if f != nil {
				named := *f
				named.name = name
				out = append(out, named)
			}
		}
	}
	if rest != nil {
		rest.turn.except = strings.Join(rest.except, "\x00")
		out = append(out, *rest)
	}
	return out, looks
}

// one judges a single action. What others have by their groups alone is the groups'.
func (p *planner) one(ctx context.Context, c *crowd, q *question, a Action, looks *looks) *shown {
	attrs, subject := p.asked(a, q.Resource), c.subjects[0]
	concerned, same, unclear := false, true, false
	var before, after ruleset.Standing
	for i, verb := range q.rights() {
		attrs.Verb = verb
		concerned = concerned || p.Before.Concerns(attrs, subject) || p.After.Concerns(attrs, subject)
		was, is := standing(p.Before, attrs, subject), standing(p.After, attrs, subject)
		same = same && was.Certainty == is.Certainty && (was.Certainty != ruleset.Sometimes || access(was).Same(access(is), expr.NewRequest(attrs)))
		if i == 0 {
			before, after = was, is
			continue
		}
		var apart [2]bool
		before, apart[0] = lesser(before, was, expr.NewRequest(attrs))
		after, apart[1] = lesser(after, is, expr.NewRequest(attrs))
		unclear = apart[0] || apart[1]
	}
	if !concerned {
		return nil
	}
	f := &shown{turn: turn{before: effect(before), after: effect(after)}}
	if f.before != If && f.after != If {
		switch {
		case f.before == f.after:
			return nil
		case f.after == Yes:
			f.relation = compare.Wider
		case f.before == Yes:
			f.relation = compare.Narrower
		default:
			f.relation = compare.Equivalent // refused before and after, by another rule
		}
		f.rule = rule(before, after)
		return f
	}
	attrs.Verb = a.Verb
	x, y := access(before), access(after)
	if same || !unclear && x.Same(y, expr.NewRequest(attrs)) {
		return nil
	}
	looks.note(x, y)
	result := compare.Result{Relation: compare.Unclear, Why: "the connection takes two verbs, each under conditions of its own"}
	if !unclear {
		result = p.compare(ctx, q.Resource, a, subject, x, y)
	}
	if result.Relation == compare.Equivalent {
		return nil
	}
	f.relation, f.why, f.rule = result.Relation, result.Why, rule(before, after)
	if f.witness = result.Gained; f.witness == nil {
		f.witness = result.Lost
	}
	return f
}

// lesser is what a request gets that takes two rights. If both have conditions and these differ, it is not one of them.
func lesser(a, b ruleset.Standing, req *expr.Request) (both ruleset.Standing, apart bool) {
	if a.Certainty != b.Certainty {
		if b.Certainty < a.Certainty {
			return b, false
		}
		return a, false
	}
	if a.Certainty == ruleset.Never && b.Deny.Found() {
		return b, false
	}
	return a, a.Certainty == ruleset.Sometimes && !access(a).Same(access(b), req)
}

func standing(ix *ruleset.Index, attrs authorizer.AttributesRecord, subject ruleset.Subject) ruleset.Standing {
	var q ruleset.Query
	q.ResetFor(ix, attrs, whocan.Judged(subject)...)
	return q.Decide(nil)
}

func effect(s ruleset.Standing) Effect {
	switch {
	case s.Certainty == ruleset.Always:
		return Yes
	case s.Certainty == ruleset.Sometimes:
		return If
	case s.Deny.Found():
		return Denied
	}
	return No
}

// rule names the rule that makes the difference: one that is there after, or one that is gone.
func rule(before, after ruleset.Standing) string {
	seen := map[string]bool{}
	for _, h := range hits(before) {
		seen[named(h)] = true
	}
	for _, h := range hits(after) {
		if !seen[named(h)] {
			return named(h)
		}
		delete(seen, named(h))
	}
	for _, h := range hits(before) {
		if seen[named(h)] {
			return named(h)
		}
	}
	for _, h := range append(hits(after), hits(before)...) {
		return named(h)
	}
	return ""
}

func hits(s ruleset.Standing) (all []ruleset.Hit) {
	for _, h := range append([]ruleset.Hit{s.Deny, s.Allow}, s.Conditions...) {
		if h.Found() {
			all = append(all, h)
		}
	}
	return all
}

func named(h ruleset.Hit) string {
	ref := h.Role()
	return fmt.Sprintf("%s rule %d", strings.TrimPrefix(ref.Namespace+"/"+ref.Name, "/"), h.RuleIndex())
}
