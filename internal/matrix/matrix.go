package matrix

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/plan"
	"proviso.dev/proviso/internal/ruleset"
	"proviso.dev/proviso/internal/whocan"
)

// Input is what is asked about.
type Input struct {
	Index     *ruleset.Index
	Resources []plan.Resource
	Verbs     []string
	// Namespaces are those that are looked at; Elsewhere is one that no object is in, and "" is none at all.
	Namespaces []string
	// Names are all that any rule tells apart. Another one is added.
	Names []string
	// Subjects are who is asked about; nil is everybody who is bound to anything.
	Subjects []ruleset.Subject
}

// Elsewhere stands for every namespace that no object of the policy is in.
const Elsewhere = "*"

// Cell is what a subject may do. There are none for what is neither allowed nor denied.
type Cell struct {
	Subject                                       ruleset.Subject
	Namespace, Group, Resource, Subresource, Verb string
	Access                                        plan.Effect
	// By are the rules that make it so, in order.
	By []string
}

// Everybody tells the groups that everybody is in, or may be.
func Everybody(s ruleset.Subject) bool {
	return s.Group && (s.Name == "system:authenticated" || s.Name == "system:unauthenticated")
}

// Cells are all that are not No, in a stable order.
func Cells(ctx context.Context, in Input) (cells []Cell, err error) {
	subjects := in.Subjects
	if subjects == nil {
		if subjects, err = in.bound(ctx); err != nil {
			return nil, err
		}
	}
	for _, r := range in.Resources {
		for _, namespace := range in.Namespaces {
			if (namespace != "") != r.Namespaced {
				continue
			}
			for _, verb := range in.Verbs {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				cells = append(cells, in.cells(subjects, r, namespace, verb)...)
			}
		}
	}
	slices.SortStableFunc(cells, Cell.Compare)
	return cells, nil
}

// Compare orders cells by subject, place and resource. Verbs stay in their order.
func (c Cell) Compare(o Cell) int {
	return cmp.Or(c.Subject.Compare(o.Subject), cmp.Compare(c.Namespace, o.Namespace), cmp.Compare(c.Group, o.Group), cmp.Compare(c.Resource, o.Resource), cmp.Compare(c.Subresource, o.Subresource))
}

// requests are the one action for every name that rules tell apart.
func (in Input) requests(r plan.Resource, namespace, verb string) (all []authorizer.AttributesRecord) {
	names := []string{""}
	if r.Subresource != "" || !slices.Contains([]string{"create", "list", "watch", "deletecollection"}, verb) {
		names = append(slices.Clone(in.Names), "any-other-name")
	}
	if namespace == Elsewhere {
		namespace = "any-other-namespace"
	}
	for _, name := range names {
		all = append(all, authorizer.AttributesRecord{Verb: verb, APIGroup: r.Group, APIVersion: r.Version, Resource: r.Resource, Subresource: r.Subresource, Namespace: namespace, Name: name, ResourceRequest: true})
	}
	return all
}

// bound are all subjects that a rule about any of it reaches.
func (in Input) bound(ctx context.Context) (subjects []ruleset.Subject, err error) {
	seen := map[ruleset.Subject]bool{}
	for _, r := range in.Resources {
		for _, namespace := range in.Namespaces {
			if (namespace != "") != r.Namespaced {
				continue
			}
			for _, verb := range in.Verbs {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				for _, attrs := range in.requests(r, namespace, verb) {
					in.Index.Everyone(attrs, func(h ruleset.Hit) {
						if s := h.Subject(); !seen[s] {
							seen[s] = true
							subjects = append(subjects, s)
						}
					})
				}
			}
		}
	}
	slices.SortFunc(subjects, ruleset.Subject.Compare)
	return subjects, nil
}

// cells decides one action for everybody whom a rule about it can concern.
func (in Input) cells(subjects []ruleset.Subject, r plan.Resource, namespace, verb string) (cells []Cell) {
	requests := in.requests(r, namespace, verb)
	concerned, all := map[ruleset.Subject]bool{}, false
	for _, attrs := range requests {
		in.Index.Everyone(attrs, func(h ruleset.Hit) {
			concerned[h.Subject()] = true
			all = all || Everybody(h.Subject())
		})
	}
	if len(concerned) == 0 {
		return nil
	}
	for _, s := range subjects {
		if !all && !concerned[s] {
			continue
		}
		if access, by := in.access(s, requests); access != plan.No {
			cells = append(cells, Cell{Subject: s, Namespace: namespace, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Verb: verb, Access: access, By: by})
		}
	}
	return cells
}

// access puts the decisions for all names together: yes or denied if all of them are so.
func (in Input) access(s ruleset.Subject, requests []authorizer.AttributesRecord) (access plan.Effect, by []string) {
	judged := whocan.Judged(s)
	always, never, denied := true, true, false
	for _, attrs := range requests {
		var q ruleset.Query
		q.ResetFor(in.Index, attrs, judged...)
		v := q.Decide(nil)
		always, never = always && v.Certainty == ruleset.Always, never && v.Certainty == ruleset.Never
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
