package plan

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/analysis/compare"
	"proviso.dev/proviso/internal/engine/questions"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/verbs"
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
	// Shape is the shape of the body; nil if it is not known. Own is true if the body is of the resource's own kind.
	Shape *compare.Shape
	Own   bool
	// Verbs are those that a server asks about beside the verbs of requests. Of a virtual resource, which no request is
	// for, they are all.
	Verbs   []string
	Virtual bool
}

// Server knows which right a request takes.
type Server interface {
	// Scoped returns the request as the rules see it: without its namespace if the right must be held cluster-wide.
	Scoped(authorizer.Attributes) authorizer.Attributes
	// AlsoNeeds returns the verb that a request needs in addition to its own, as connections do; empty if none.
	AlsoNeeds(authorizer.Attributes) string
}

// Input is what is compared, and the requests among which it is.
type Input struct {
	Before, After *ruleset.Index
	Server        Server
	Comparer      *compare.Comparer
	Resources     []Resource
	// Verbs and Paths are all that any rule tells apart. The namespaces and names that a subject's own rules tell apart
	// are found; another namespace and another name are added.
	Verbs, Paths []string
}

// Action is what a subject does.
type Action struct {
	Verb, Group, Resource, Subresource, Namespace, Name, Path string
}

func (a Action) target() questions.Target {
	return questions.Target{Verb: a.Verb, Resource: a.Resource, Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name}
}

// OtherVerbs stands for every verb that no rule names: only rules for all verbs grant it.
const OtherVerbs = "(other verbs)"

const (
	// Everywhere is in every namespace and outside of them.
	Everywhere = "*"
	// Other is in every namespace; a change says in which it is not.
	Other = "(others)"
)

// Change is an action that some subjects may do before or after, and not under the same conditions.
type Change struct {
	// Subjects all have the same roles. They are in order, and shared by the changes of the same subjects.
	Subjects []ruleset.Subject
	// Action has no name if it is so for every name. Its namespace is one, Everywhere, Other, or none.
	Action Action
	// ExceptNames and ExceptNamespaces are those for which it is not so, if it is for all others.
	ExceptNames, ExceptNamespaces []string
	Before, After                 Effect
	Relation                      compare.Relation
	// Witness is a request that one side allows and the other refuses, if it depends on the object. With several
	// subjects it is one of the first.
	Witness *compare.Witness
	// Rule is the rule behind it, and Why says what makes a relation unknown.
	Rule, Why string
}

// Changes are all of them, in a stable order. Only what differs between the two indexes is looked at: whom it is about,
// and the actions that it reaches. Subjects with the same roles are judged once, and so are namespaces in which they
// have the same.
func Changes(ctx context.Context, in Input) (changes []Change, err error) {
	p := newPlanner(in)
	for _, c := range p.crowds() {
		for _, q := range c.questions {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			changes = append(changes, p.answer(ctx, c, &p.questions[q])...)
		}
	}
	changes = withoutOthers(changes)
	slices.SortStableFunc(changes, Change.Compare)
	return changes, nil
}

// question is a verb of a resource or a path, wherever, and whatever the object is called.
type question struct {
	Resource
	verb, path string
	// also is the verb that such requests need in addition to their own; empty if there is none.
	also string
}

func (q *question) action(namespace, name string) Action {
	return Action{Verb: q.verb, Group: q.Group, Resource: q.Resource.Resource, Subresource: q.Subresource, Namespace: namespace, Name: name, Path: q.path}
}

// rights are the verbs that such a request takes: its own and, of a connection, another one.
func (q *question) rights() []string {
	if q.also == "" {
		return []string{q.verb}
	}
	return []string{q.verb, q.also}
}

// isNamespace reports whether the question is about one Namespace object, which the request is made in.
func (q *question) isNamespace() bool {
	return q.path == "" && questions.Target{Verb: q.verb, Resource: q.Resource.Resource, Subresource: q.Subresource}.IsNamespace()
}

type planner struct {
	Input
	questions []question
	diff      *ruleset.Difference
	strands   []*strand
	of        map[ruleset.Subject][]int // strands by subject
}

func newPlanner(in Input) *planner {
	p := &planner{Input: in, diff: ruleset.Diff(in.Before, in.After), questions: questionsOf(in), of: map[ruleset.Subject][]int{}}
	for i, s := range p.diff.Strands() {
		p.strands = append(p.strands, &strand{Strand: s})
		s.Subjects(func(who ruleset.Subject) { p.of[who] = append(p.of[who], i) })
	}
	return p
}

func questionsOf(in Input) (all []question) {
	for _, r := range in.Resources {
		for _, verb := range r.asked(in.Verbs) {
			q := question{Resource: r, verb: verb}
			attrs := q.action("", "").attributes(r)
			q.also = in.Server.AlsoNeeds(&attrs)
			all = append(all, q)
		}
	}
	for _, path := range in.Paths {
		for _, verb := range in.Verbs {
			all = append(all, question{verb: verb, path: path})
		}
	}
	return all
}

// asked are the verbs that a server can ask about a resource, of those that rules tell apart, and one for all others.
func (r Resource) asked(all []string) (asked []string) {
	for _, verb := range all {
		if !r.Virtual || !verbs.IsRequest(verb) {
			asked = append(asked, verb)
		}
	}
	for _, verb := range r.Verbs {
		if !slices.Contains(asked, verb) {
			asked = append(asked, verb)
		}
	}
	return append(asked, OtherVerbs)
}

// withoutOthers leaves out what is said of all other verbs where something is said of one of them: it is the same
// grant.
func withoutOthers(changes []Change) []Change {
	type place struct {
		who                        ruleset.Subject
		group, resource, sub, path string
	}
	at := func(c Change) place {
		return place{c.Subjects[0], c.Action.Group, c.Action.Resource, c.Action.Subresource, c.Action.Path}
	}
	said := map[place]bool{}
	for _, c := range changes {
		said[at(c)] = said[at(c)] || c.Action.Verb != OtherVerbs
	}
	return slices.DeleteFunc(changes, func(c Change) bool { return c.Action.Verb == OtherVerbs && said[at(c)] })
}

// attributes are those of the action. The namespace that stands for every other one has a name that nobody gives.
func (a Action) attributes(r Resource) authorizer.AttributesRecord {
	if a.Path != "" {
		return authorizer.AttributesRecord{Verb: a.Verb, Path: a.Path}
	}
	namespace := a.target().InNamespace()
	if namespace == Other || a.Name == "" && a.target().IsNamespace() {
		namespace = "any-other-namespace"
	}
	return authorizer.AttributesRecord{Verb: a.Verb, APIGroup: a.Group, APIVersion: r.Version, Resource: a.Resource, Subresource: a.Subresource, Namespace: namespace, Name: a.Name, ResourceRequest: true}
}

// asked are the attributes of an action as the rules see them.
func (in Input) asked(a Action, r Resource) authorizer.AttributesRecord {
	attrs := a.attributes(r)
	attrs.Namespace = in.Server.Scoped(&attrs).GetNamespace()
	return attrs
}

// clusterWide reports whether the right to an action in a namespace must be held cluster-wide.
func (in Input) clusterWide(a Action, r Resource) bool {
	return in.asked(a, r).Namespace != a.attributes(r).Namespace
}

// Compare orders changes: by rule, then by what changes.
func (c Change) Compare(o Change) int {
	return cmp.Or(cmp.Compare(c.Rule, o.Rule), cmp.Compare(c.Action.Group, o.Action.Group), cmp.Compare(c.Action.Resource, o.Action.Resource), cmp.Compare(c.Action.Subresource, o.Action.Subresource),
		cmp.Compare(c.Action.Path, o.Action.Path), cmp.Compare(c.Action.Namespace, o.Action.Namespace), cmp.Compare(c.Action.Verb, o.Action.Verb), cmp.Compare(c.Action.Name, o.Action.Name),
		slices.Compare(c.ExceptNames, o.ExceptNames), slices.Compare(c.ExceptNamespaces, o.ExceptNamespaces), c.Subjects[0].Compare(o.Subjects[0]), strings.Compare(string(c.Before), string(o.Before)))
}
