package ruleset

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// sharedDenies are roles of the master namespace whose deny rules reach the writer of a grant and, certainly, whoever
// the grant is for as well. Such a rule does not keep the writer from granting what it denies: the grant gives nothing
// that the rule does not take away again (PO-12). Without that, one deny for everybody would end all delegation.
type sharedDenies map[*role]bool

// has tells whether a rule of the role is such a deny. One that asks who the caller is can mean the writer alone.
func (s sharedDenies) has(r *role, i int) bool {
	return s[r] && r.policy[i].Deny && impersonal(&r.policy[i])
}

// maxShares limits for how many sets of shared denies a grant is checked; beyond that, what all grantees share counts.
const maxShares = 16

// sharesOf lists the sets of deny rules that the writer shares with the grantees, each set once: a grant has to be held
// under every one of them.
func (ix *Index) sharesOf(g Grant, w *writer) []sharedDenies {
	denying := slices.DeleteFunc(slices.Clone(w.roles[scopeMaster]), func(r writerRole) bool { return r.deny.Empty() })
	switch {
	case len(denying) == 0, len(g.RBAC) > 0 && !masterBeforeRBAC(g.Tiers):
		return []sharedDenies{nil} // what RBAC grants ahead of Policy, Policy does not deny
	case len(g.Grantees) == 0 && ix.boundToStrangers(g.Role):
		return []sharedDenies{nil}
	case len(g.Grantees) == 0:
		return []sharedDenies{ix.shared(denying, Subject{Group: true, Name: user.AllAuthenticated})}
	}
	var sets []sharedDenies
	seen := map[string]bool{}
	for _, grantee := range g.Grantees {
		set := ix.shared(denying, certainly(grantee)...)
		key := set.key(denying)
		if seen[key] {
			continue
		}
		seen[key] = true
		if len(sets) == maxShares {
			sets = []sharedDenies{sets[0].both(sets...)}
		}
		sets = append(sets, set)
	}
	return sets
}

// shared are the roles that one of the subjects has in the master namespace.
func (ix *Index) shared(roles []writerRole, subjects ...Subject) sharedDenies {
	out := sharedDenies{}
	for _, s := range subjects {
		if has, ok := ix.subjects.Get(ix.hashSubject(s), s); ok {
			for _, r := range roles {
				if has.master.find(r.id) != nil {
					out[r.role] = true
				}
			}
		}
	}
	return out
}

func (s sharedDenies) key(roles []writerRole) string {
	var b strings.Builder
	for _, r := range roles {
		if s[r.role] {
			fmt.Fprintln(&b, r.id)
		}
	}
	return b.String()
}

// both is what is in all sets.
func (s sharedDenies) both(sets ...sharedDenies) sharedDenies {
	out := sharedDenies{}
	for r := range s {
		out[r] = !slices.ContainsFunc(sets, func(o sharedDenies) bool { return !o[r] })
	}
	return out
}

// certainly lists the subjects that a grantee is, whenever it makes a request: itself, one who has logged in, and as a
// service account a member of the groups of service accounts.
func certainly(s Subject) []Subject {
	group := func(name string) Subject { return Subject{Group: true, Name: name} }
	switch {
	case s == strangers[0]:
		return strangers
	case s == strangers[1]:
		return []Subject{s}
	}
	all := []Subject{s, group(user.AllAuthenticated)}
	if !s.Group {
		if namespace, _, err := serviceaccount.SplitUsername(s.Name); err == nil {
			for _, name := range serviceaccount.MakeGroupNames(namespace) {
				all = append(all, group(name))
			}
		}
	}
	return all
}

// strangers are those who have not logged in.
var strangers = []Subject{{Name: user.Anonymous}, {Group: true, Name: user.AllUnauthenticated}}

// boundToStrangers tells whether a role is bound to somebody who has not logged in, anywhere.
func (ix *Index) boundToStrangers(ref RoleRef) bool {
	id, ok := ix.ids.Get(ix.hashRole(ref), ref)
	if !ok {
		return false
	}
	for _, s := range strangers {
		has, ok := ix.subjects.Get(ix.hashSubject(s), s)
		if !ok {
			continue
		}
		bound := has.master.find(id) != nil || has.cluster.find(id) != nil
		has.local.Each(func(_ string, l *local) bool {
			bound = bound || l.policy.find(id) != nil || l.rbac.find(id) != nil
			return !bound
		})
		if bound {
			return true
		}
	}
	return false
}

func masterBeforeRBAC(tiers []Tier) bool {
	rbac := slices.Index(tiers, TierRBAC)
	return rbac < 0 || slices.Contains(tiers[:rbac], TierMaster)
}

// impersonal tells whether a rule says the same whoever the caller is.
func impersonal(r *policyv1alpha1.PolicyRule) bool {
	a := r.AttributeRestrictions
	return len(r.Unrecognized) == 0 && !personal(r.Where) && !personal(r.When) && (a == nil || !a.SameNodeRestriction && len(a.Unrecognized) == 0)
}

// aboutTheRequest are the fields of request that do not depend on who makes it.
var aboutTheRequest = []string{"verb", "apiGroup", "apiVersion", "resource", "subresource", "namespace", "name", "fieldSelector", "labelSelector"}

// personal tells whether an expression may ask who the caller is: it mentions the request other than by a field that
// says nothing about that, or the authorizer. It compares words, so that saying yes is the safe side.
func personal(expression string) bool {
	if mentions(expression, "authorizer") {
		return true
	}
	for rest := expression; ; {
		i := wordAt(rest, "request")
		if i < 0 {
			return false
		}
		rest = rest[i+len("request"):]
		field, ok := strings.CutPrefix(rest, ".")
		if !ok || !slices.ContainsFunc(aboutTheRequest, func(name string) bool { return wordAt(field, name) == 0 }) {
			return true
		}
	}
}

// Names tells whether a rule that allows the request, without a condition, names its verb. RBAC's * allows every verb
// and names none: whoever has it by that was not given this one on purpose.
func (ix *Index) Names(a authorizer.Attributes, tiers ...Tier) bool {
	var q Query
	q.Reset(ix, a)
	for _, tier := range tiers {
		for _, h := range q.AppendAll(nil, tier, Allows) {
			if h.rule.Cond == nil && h.rule.Verbs.Name(&q.req) {
				return true
			}
		}
	}
	return false
}
