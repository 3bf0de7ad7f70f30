package escalation

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// sharedDenies are roles of the master namespace whose deny rules apply to the writer of a grant and certainly also to
// its subjects. Such a rule does not stop the writer from granting what it denies: the rule takes away again what the
// grant gives (PO-12). Otherwise one deny for all users would end all delegation.
type sharedDenies map[*ruleset.Definition]bool

// has reports whether a rule of the role is such a deny. A rule that asks who the caller is may apply only to the
// writer.
func (s sharedDenies) has(d *ruleset.Definition, i int) bool {
	return s[d] && i < len(d.Policy) && d.Policy[i].Deny && impersonal(&d.Policy[i])
}

// maxShares limits for how many sets of shared denies a grant is checked; beyond that, only what all grantees share
// counts.
const maxShares = 16

// sharesOf lists the sets of deny rules that the writer shares with the grantees, each set once: a grant has to be held
// under every one of them.
func sharesOf(ix *ruleset.Index, g Grant, w *writer) []sharedDenies {
	denying := slices.DeleteFunc(slices.Clone(w.roles[ruleset.ScopeMaster]), func(d *ruleset.Definition) bool { return !d.Denies() })
	switch {
	case len(denying) == 0, len(g.RBAC) > 0 && !masterBeforeRBAC(g.Tiers):
		return []sharedDenies{nil} // Policy does not deny what RBAC grants ahead of it
	case len(g.Grantees) == 0 && boundToStrangers(ix, g.Role):
		return []sharedDenies{nil}
	case len(g.Grantees) == 0:
		return []sharedDenies{shared(ix, denying, ruleset.Subject{Group: true, Name: user.AllAuthenticated})}
	}
	var sets []sharedDenies
	seen := map[string]bool{}
	for _, grantee := range g.Grantees {
		set := shared(ix, denying, certainly(grantee)...)
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

// shared returns the roles that one of the subjects has in the master namespace.
func shared(ix *ruleset.Index, roles []*ruleset.Definition, subjects ...ruleset.Subject) sharedDenies {
	out := sharedDenies{}
	for _, s := range subjects {
		ix.MasterRolesOf(s, func(d *ruleset.Definition) {
			if slices.Contains(roles, d) {
				out[d] = true
			}
		})
	}
	return out
}

func (s sharedDenies) key(roles []*ruleset.Definition) string {
	var b strings.Builder
	for i, d := range roles {
		if s[d] {
			fmt.Fprintln(&b, i)
		}
	}
	return b.String()
}

// both returns the intersection of the sets.
func (s sharedDenies) both(sets ...sharedDenies) sharedDenies {
	out := sharedDenies{}
	for r := range s {
		out[r] = !slices.ContainsFunc(sets, func(o sharedDenies) bool { return !o[r] })
	}
	return out
}

// certainly lists the subjects that a grantee always is when it makes a request: itself, an authenticated user, and,
// for a service account, a member of the groups of service accounts.
func certainly(s ruleset.Subject) []ruleset.Subject {
	group := func(name string) ruleset.Subject { return ruleset.Subject{Group: true, Name: name} }
	switch {
	case s == strangers[0]:
		return strangers
	case s == strangers[1]:
		return []ruleset.Subject{s}
	}
	all := []ruleset.Subject{s, group(user.AllAuthenticated)}
	if !s.Group {
		if namespace, _, err := serviceaccount.SplitUsername(s.Name); err == nil {
			for _, name := range serviceaccount.MakeGroupNames(namespace) {
				all = append(all, group(name))
			}
		}
	}
	return all
}

// strangers are the unauthenticated subjects.
var strangers = []ruleset.Subject{{Name: user.Anonymous}, {Group: true, Name: user.AllUnauthenticated}}

// boundToStrangers reports whether a role is bound to unauthenticated users anywhere.
func boundToStrangers(ix *ruleset.Index, ref ruleset.RoleRef) bool {
	return slices.ContainsFunc(strangers, func(s ruleset.Subject) bool { return ix.BoundAnywhere(ref, s) })
}

func masterBeforeRBAC(tiers []ruleset.Tier) bool {
	rbac := slices.Index(tiers, ruleset.TierRBAC)
	return rbac < 0 || slices.Contains(tiers[:rbac], ruleset.TierMaster)
}

// Personal reports whether a rule may ask who the caller is: then its holder cannot grant it unchanged.
func Personal(r *policyv1alpha1.PolicyRule) bool { return !impersonal(r) }

// impersonal reports whether a rule means the same for every caller.
func impersonal(r *policyv1alpha1.PolicyRule) bool {
	a := r.AttributeRestrictions
	return len(r.Unrecognized) == 0 && !personal(r.Where) && !personal(r.When) && (a == nil || !a.SameNodeRestriction && len(a.Unrecognized) == 0)
}

// aboutTheRequest are the fields of request that do not depend on the caller.
var aboutTheRequest = []string{"verb", "apiGroup", "apiVersion", "resource", "subresource", "namespace", "name", "fieldSelector", "labelSelector"}

// personal reports whether an expression may ask who the caller is: it mentions the request other than through a field
// that does not depend on the caller, or the authorizer. It compares words, and errs towards yes.
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
