package matrix

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/questions"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/engine/whocan"
)

// Input is the question.
type Input struct {
	Index     *ruleset.Index
	Server    plan.Server
	Resources []plan.Resource
	Verbs     []string
	// Namespaces are those that are looked at; Elsewhere is one that no object is in, and "" is none at all.
	Namespaces []string
	// Names are all that any rule tells apart. Another one is added.
	Names []string
	// Subjects are the subjects in question; nil means all subjects with a role in one of the namespaces or everywhere.
	Subjects []ruleset.Subject
}

// Elsewhere stands for every namespace that no object of the policy is in.
const Elsewhere = "*"

// Cell is what subjects with the same roles may do. There are none for what is neither allowed nor denied.
type Cell struct {
	// Subjects are in order. The subjects of two cells are the same or disjoint, and Set identifies them.
	Subjects                                      []ruleset.Subject
	Set                                           int
	Namespace, Group, Resource, Subresource, Verb string
	Access                                        plan.Effect
	// By are the rules that make it so, in order.
	By []string
}

// Everybody tells the groups that everybody is in, or may be.
func Everybody(s ruleset.Subject) bool {
	return s.Group && (s.Name == "system:authenticated" || s.Name == "system:unauthenticated")
}

// Cells are all that are not No, in a stable order. One of many with the same roles is asked for all of them.
func Cells(ctx context.Context, in Input) (cells []Cell, err error) {
	sets := in.sets()
	for _, r := range in.Resources {
		for _, namespace := range in.Namespaces {
			for _, verb := range in.Verbs {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				one := questions.Target{Verb: verb, Resource: r.Resource, Subresource: r.Subresource}.IsNamespace() && namespace != "" && namespace != Elsewhere
				if (namespace != "") != r.Namespaced && !one {
					continue
				}
				requests := in.requests(r, namespace, verb)
				fields := verbs.Stores(verb) && (r.Own || r.Subresource == "scale")
				var all []authorizer.AttributesRecord
				if one && slices.Contains(in.Namespaces, "") {
					all = in.requests(r, "", verb)
				}
				for i, set := range sets {
					if all != nil {
						if every, _ := in.anyAccess(set[0], all, fields); every != plan.If {
							continue // it is the same for all namespaces, and said of them
						}
					}
					if access, by := in.anyAccess(set[0], requests, fields); access != plan.No {
						cells = append(cells, Cell{Subjects: set, Set: i, Namespace: namespace, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Verb: verb, Access: access, By: by})
					}
				}
			}
		}
	}
	slices.SortStableFunc(cells, Cell.Compare)
	return cells, nil
}

// Compare orders cells by subject, place and resource. Verbs stay in their order.
func (c Cell) Compare(o Cell) int {
	return cmp.Or(cmp.Compare(c.Set, o.Set), cmp.Compare(c.Namespace, o.Namespace), cmp.Compare(c.Group, o.Group), cmp.Compare(c.Resource, o.Resource), cmp.Compare(c.Subresource, o.Subresource))
}

// sets are the subjects, with those together who are answered alike.
func (in Input) sets() (sets [][]ruleset.Subject) {
	wanted := map[ruleset.Subject]bool{}
	for _, s := range in.Subjects {
		wanted[s] = true
	}
	for _, alike := range in.Index.Alike(in.Namespaces) {
		var same []ruleset.Subject
		for _, s := range alike {
			switch {
			case in.Subjects != nil && !wanted[s]:
			case Everybody(s) || s.Name == anonymous || s == masters:
				sets = append(sets, []ruleset.Subject{s}) // they are judged in other company
			default:
				same = append(same, s)
			}
			delete(wanted, s)
		}
		if same != nil {
			sets = append(sets, same)
		}
	}
	// A subject without a role may do what all users may.
	for _, s := range in.Subjects {
		if wanted[s] {
			sets = append(sets, []ruleset.Subject{s})
			delete(wanted, s)
		}
	}
	slices.SortFunc(sets, func(a, b []ruleset.Subject) int { return a[0].Compare(b[0]) })
	return sets
}

const anonymous = "system:anonymous"

// masters may do everything, whatever is granted and denied.
var masters = ruleset.Subject{Group: true, Name: "system:masters"}

// requests are the one action for every name that rules tell apart, and for no name where a request may lack one.
func (in Input) requests(r plan.Resource, namespace, verb string) (all []authorizer.AttributesRecord) {
	asked := questions.Target{Verb: verb, Resource: r.Resource, Subresource: r.Subresource}
	names := []string{""}
	switch {
	case asked.IsNamespace() && namespace != "":
		names = []string{namespace}
	case asked.IsNamespace():
		names = slices.DeleteFunc(slices.Concat(in.Names, in.Namespaces), func(name string) bool { return name == "" || name == Elsewhere })
		names = append(names, "any-other-name")
	case r.Subresource != "" || verbs.HasName(verb):
		names = append(slices.Clone(in.Names), "any-other-name")
	case verbs.MayName(verb):
		names = append(slices.Clone(in.Names), "")
	}
	if namespace == Elsewhere {
		namespace = "any-other-namespace"
	}
	for _, name := range names {
		asked.Namespace, asked.Name = namespace, name
		attrs := authorizer.AttributesRecord{Verb: verb, APIGroup: r.Group, APIVersion: r.Version, Resource: r.Resource, Subresource: r.Subresource, Namespace: asked.InNamespace(), Name: name, ResourceRequest: true}
		attrs.Namespace = in.Server.Scoped(&attrs).GetNamespace()
		all = append(all, attrs)
	}
	return all
}

// anyAccess is access, or else a right to single fields, which is one under a condition (FP-21).
func (in Input) anyAccess(s ruleset.Subject, requests []authorizer.AttributesRecord, fields bool) (access plan.Effect, by []string) {
	access, by = in.access(s, requests)
	if access != plan.No || !fields {
		return access, by
	}
	granular := slices.Clone(requests)
	for i := range granular {
		granular[i].Verb = fieldperm.Verb
	}
	if single, rules := in.access(s, granular); single == plan.Yes || single == plan.If {
		return plan.If, rules
	}
	return access, by
}

// access puts the decisions for all names together, and for both verbs that a connection takes: yes if all of them are
// so.
func (in Input) access(s ruleset.Subject, requests []authorizer.AttributesRecord) (access plan.Effect, by []string) {
	if s == masters {
		return plan.Yes, nil
	}
	judged := whocan.Judged(s)
	always, never, denied := true, true, false
	for _, attrs := range requests {
		rights := []string{attrs.Verb}
		if also := in.Server.AlsoNeeds(&attrs); also != "" {
			rights = append(rights, also)
		}
		least := ruleset.Always
		for _, attrs.Verb = range rights {
			var q ruleset.Query
			q.ResetFor(in.Index, attrs, judged...)
			v := q.Decide(nil)
			least = min(least, v.Certainty)
			hits := append(slices.Clone(v.Conditions), v.Deny)
			if v.Certainty != ruleset.Never {
				hits = append(hits, v.Allow)
			}
			for _, h := range hits {
				if !h.Found() {
					continue
				}
				denied = denied || h.Effect() == ruleset.Denies
				if rule := named(h); !slices.Contains(by, rule) {
					by = append(by, rule)
				}
			}
		}
		always, never = always && least == ruleset.Always, never && least == ruleset.Never
	}
	switch {
	case always:
		return plan.Yes, by
	case !never:
		return plan.If, by
	case denied:
		return plan.Denied, by
	}
	return plan.No, nil
}

func named(h ruleset.Hit) string {
	ref := h.Role()
	return fmt.Sprintf("%s rule %d", strings.TrimPrefix(ref.Namespace+"/"+ref.Name, "/"), h.RuleIndex())
}
