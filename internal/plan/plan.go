package plan

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/compare"
	"proviso.dev/proviso/internal/restrict"
	"proviso.dev/proviso/internal/ruleset"
	"proviso.dev/proviso/internal/whocan"
)

// Effect is what a subject may do (TR-16).
type Effect string

// The effects.
const (
	Yes    Effect = "Yes"
	If     Effect = "If"
	No     Effect = "No"
	Denied Effect = "Denied"
)

// Resource is something that is served.
type Resource struct {
	Group, Version, Resource, Subresource string
	Namespaced                            bool
	// Shape is that of the body; nil if nothing is known of it. Own tells that the body is of the resource's own kind.
	Shape *compare.Shape
	Own   bool
}

// Input is what is compared, and the requests among which it is.
type Input struct {
	Before, After *ruleset.Index
	Comparer      *compare.Comparer
	Resources     []Resource
	// Verbs, Namespaces, Names and Paths are all that any rule tells apart. Another namespace and another name are
	// added.
	Verbs, Namespaces, Names, Paths []string
	// Touched are those whom the change concerns, if that is known; nil is everybody.
	Touched *Touched
}

// Touched are the subjects of the bindings that differ, and of those whose role differs. Nobody else can gain or lose
// anything.
type Touched struct {
	Subjects []ruleset.Subject
	// Namespaces are those of the bindings; nil if one of them holds everywhere.
	Namespaces []string
}

// in tells whether the change can matter in a namespace.
func (t *Touched) in(namespace string) bool {
	return t == nil || t.Namespaces == nil || slices.Contains(t.Namespaces, namespace)
}

// Action is what somebody does.
type Action struct {
	Verb, Group, Resource, Subresource, Namespace, Name, Path string
}

// HasName tells whether a request for an action names its object. (A create names it only in its body.)
func HasName(a Action) bool {
	return a.Subresource != "" || !slices.Contains([]string{"create", "list", "watch", "deletecollection"}, a.Verb)
}

// Other stands for every namespace and every name that no rule mentions.
const Other = "*"

// Change is an action that a subject may do before or after, and not under the same conditions.
type Change struct {
	Subject       ruleset.Subject
	Action        Action
	Before, After Effect
	Relation      compare.Relation
	// Witness is a request that one side allows and the other refuses, if it depends on the object.
	Witness *compare.Witness
	// Rule is the rule behind it, and Why says what makes a relation unknown.
	Rule, Why string
}

// Changes are all of them, in a stable order.
func Changes(ctx context.Context, in Input) (changes []Change, err error) {
	p := &planner{Input: in}
	for _, r := range in.Resources {
		for _, verb := range in.Verbs {
			namespaces := []string{""}
			if r.Namespaced {
				namespaces = append(slices.Clone(in.Namespaces), Other, "")
			}
			for _, namespace := range namespaces {
				if !in.Touched.in(namespace) {
					continue
				}
				for _, name := range append([]string{""}, in.Names...) {
					a := Action{Verb: verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: namespace, Name: name}
					if name != "" && !HasName(a) {
						continue
					}
					if err := ctx.Err(); err != nil {
						return nil, err
					}
					changes = append(changes, p.action(ctx, r, a)...)
				}
			}
		}
	}
	for _, path := range in.Paths {
		for _, verb := range in.Verbs {
			changes = append(changes, p.action(ctx, Resource{}, Action{Verb: verb, Path: path})...)
		}
	}
	return changes, nil
}

type planner struct {
	Input
	together []ruleset.Subject // that the change concerns, with their groups
}

// attributes are those of the action. The namespace that stands for every other one has a name that nobody gives.
func (a Action) attributes(r Resource) authorizer.AttributesRecord {
	if a.Path != "" {
		return authorizer.AttributesRecord{Verb: a.Verb, Path: a.Path}
	}
	namespace := a.Namespace
	if namespace == Other {
		namespace = "any-other-namespace"
	}
	return authorizer.AttributesRecord{Verb: a.Verb, APIGroup: a.Group, APIVersion: r.Version, Resource: a.Resource, Subresource: a.Subresource, Namespace: namespace, Name: a.Name, ResourceRequest: true}
}

// action judges everybody whom a rule about it concerns.
func (p *planner) action(ctx context.Context, r Resource, a Action) (changes []Change) {
	attrs := a.attributes(r)
	for _, subject := range p.concerned(attrs) {
		if c := p.judge(ctx, r, a, attrs, subject); c != nil {
			changes = append(changes, *c)
		}
	}
	slices.SortFunc(changes, func(x, y Change) int { return x.Subject.Compare(y.Subject) })
	return changes
}

// concerned are the subjects for whom a rule about the action matches, of those whom the change concerns.
func (p *planner) concerned(attrs authorizer.AttributesRecord) []ruleset.Subject {
	if p.Touched == nil {
		subjects := map[ruleset.Subject]bool{}
		for _, ix := range []*ruleset.Index{p.Before, p.After} {
			ix.Everyone(attrs, func(h ruleset.Hit) { subjects[h.Subject()] = true })
		}
		return slices.Collect(maps.Keys(subjects))
	}
	// If nothing allowed or denied anything to somebody who is all of them, with the groups that they are in, it does
	// not to one of them either.
	if p.together == nil {
		for _, s := range p.Touched.Subjects {
			p.together = append(p.together, whocan.Judged(s)...)
		}
		slices.SortFunc(p.together, ruleset.Subject.Compare)
		p.together = slices.Compact(p.together)
	}
	for _, ix := range []*ruleset.Index{p.Before, p.After} {
		var q ruleset.Query
		q.ResetFor(ix, attrs, p.together...)
		if together := q.Decide(nil); together.Certainty != ruleset.Never || together.Deny.Found() {
			return p.Touched.Subjects
		}
	}
	return nil
}

func (p *planner) judge(ctx context.Context, r Resource, a Action, attrs authorizer.AttributesRecord, subject ruleset.Subject) *Change {
	before, after := standing(p.Before, attrs, subject), standing(p.After, attrs, subject)
	c := &Change{Subject: subject, Action: a, Before: effect(before), After: effect(after)}
	if c.Before != If && c.After != If {
		switch {
		case c.Before == c.After:
			return nil
		case c.After == Yes:
			c.Relation = compare.Wider
		case c.Before == Yes:
			c.Relation = compare.Narrower
		default:
			c.Relation = compare.Equivalent // refused before and after, by another rule
		}
		c.Rule = rule(before, after)
		return c
	}
	result := p.compare(ctx, r, a, subject, before, after)
	if result.Relation == compare.Equivalent {
		return nil
	}
	c.Relation, c.Why, c.Rule = result.Relation, result.Why, rule(before, after)
	if c.Witness = result.Gained; c.Witness == nil {
		c.Witness = result.Lost
	}
	return c
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

// operations are what admission calls the verbs that have an object.
var operations = map[string]string{"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE", "deletecollection": "DELETE"}

// compare compares what is left to conditions.
func (p *planner) compare(ctx context.Context, r Resource, a Action, subject ruleset.Subject, before, after ruleset.Standing) compare.Result {
	x, y := access(before), access(after)
	operation := operations[a.Verb]
	if operation == "" || a.Path != "" {
		// Whoever reads sends no object: it depends on selectors, which are not among what is compared.
		if x.Same(y) {
			return compare.Result{Relation: compare.Equivalent}
		}
		return compare.Result{Relation: compare.Unclear, Why: "a request without an object is decided by its selectors or options"}
	}
	shape := r.Shape
	if shape == nil {
		shape = compare.Unknown()
	}
	u := compare.Of(operation, shape)
	u.OwnKind, u.Namespaced = r.Own, a.Namespace != ""
	u.Known = map[string]any{"request.verb": a.Verb, "request.apiGroup": a.Group, "request.apiVersion": r.Version, "request.resource": a.Resource, "request.subresource": a.Subresource}
	versions := map[string][]string{"CREATE": {"object"}, "UPDATE": {"object", "oldObject"}, "DELETE": {"oldObject"}}[operation]
	if a.Namespace != Other {
		u.Known["request.namespace"] = a.Namespace
	}
	for _, version := range versions { // a write changes neither the name nor the namespace
		if a.Namespace != Other && a.Namespace != "" && r.Own {
			u.Known[version+".metadata.namespace"] = a.Namespace
		}
		if a.Name != "" && r.Own {
			u.Known[version+".metadata.name"] = a.Name
		}
	}
	groups := []any{}
	for _, s := range whocan.Judged(subject) {
		if s.Group {
			groups = append(groups, s.Name)
		} else {
			u.Known["request.user"] = s.Name
		}
	}
	u.Known["request.groups"] = groups
	return p.Comparer.Compare(ctx, x, y, u)
}

// access is what a standing leaves to conditions, as a walk.
func access(s ruleset.Standing) compare.Access {
	walk := []compare.Step{}
	for _, h := range s.Conditions {
		condition := restrict.Of(h).Condition
		if names := h.Names(); names != nil {
			condition = restrict.Named(names, condition)
		}
		walk = append(walk, compare.Step{Condition: condition, Deny: h.Effect() == ruleset.Denies})
	}
	if s.Certainty == ruleset.Always || s.Certainty == ruleset.Sometimes && s.Allow.Found() && !s.Deny.Found() {
		walk = append(walk, compare.Step{})
	}
	return compare.Access{Walk: walk}
}

// Compare orders changes: by rule, then by what changes.
func (c Change) Compare(o Change) int {
	return cmp.Or(cmp.Compare(c.Rule, o.Rule), cmp.Compare(c.Action.Group, o.Action.Group), cmp.Compare(c.Action.Resource, o.Action.Resource), cmp.Compare(c.Action.Subresource, o.Action.Subresource),
		cmp.Compare(c.Action.Namespace, o.Action.Namespace), cmp.Compare(c.Action.Verb, o.Action.Verb), cmp.Compare(c.Action.Name, o.Action.Name), c.Subject.Compare(o.Subject))
}
