package access

import (
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	access "proviso.dev/proviso/api/access/v1alpha1"
)

// accountPrefix is the prefix of the user name of a service account.
const accountPrefix = "system:serviceaccount:"

// IsAccount reports whether a user is a service account.
func IsAccount(name string) bool { return strings.HasPrefix(name, accountPrefix) }

// Includes reports whether a user is one of the subjects, by name or by a group.
func Includes(s access.Subjects, u user.Info) bool {
	return u != nil && (slices.Contains(s.UserNames, u.GetName()) || slices.ContainsFunc(u.GetGroups(), func(g string) bool { return slices.Contains(s.GroupNames, g) }))
}

// MayApprove reports whether the approval of a user can count: a service account has to be listed by its name.
func MayApprove(rule *access.AccessRule, u user.Info) bool {
	a := rule.Spec.Approvals
	switch {
	case a == nil || u == nil:
		return false
	case IsAccount(u.GetName()):
		return slices.Contains(a.Subjects.UserNames, u.GetName())
	}
	return Includes(a.Subjects, u)
}

// Identity returns the values that identify a person for a rule, in addition to the name.
func Identity(rule *access.AccessRule, extra map[string][]string) []string {
	if rule.Spec.Approvals == nil || rule.Spec.Approvals.IdentityExtra == "" {
		return nil
	}
	return extra[rule.Spec.Approvals.IdentityExtra]
}

// IsKnown reports whether a user has the values by which a rule identifies people. A user without them could be anyone.
func IsKnown(rule *access.AccessRule, extra map[string][]string) bool {
	return rule.Spec.Approvals == nil || rule.Spec.Approvals.IdentityExtra == "" || len(Identity(rule, extra)) > 0
}

// person is a human with all their user names.
type person struct {
	user     string
	identity []string
}

func (p person) is(o person) bool {
	return p.user == o.user || slices.ContainsFunc(p.identity, func(v string) bool { return slices.Contains(o.identity, v) })
}

// IsRequester reports whether a user is the person who asked.
func IsRequester(rule *access.AccessRule, r *access.AccessRequest, name string, extra map[string][]string) bool {
	return person{name, Identity(rule, extra)}.is(requester(rule, r))
}

func requester(rule *access.AccessRule, r *access.AccessRequest) person {
	return person{r.Spec.Requester.Username, Identity(rule, r.Spec.Requester.Extra)}
}

// Approved counts the people who have approved a request, under the current rule. The requester's own approval does not
// count, nor does one for an earlier generation of the rule; two approvals by one person count once. Approvals of users
// who cannot be identified do not count.
func Approved(rule *access.AccessRule, r *access.AccessRequest) int {
	if !IsKnown(rule, r.Spec.Requester.Extra) {
		return 0
	}
	apart := rule.Spec.Approvals != nil && rule.Spec.Approvals.IdentityExtra != ""
	var people []person
	for _, a := range r.Status.Approvals {
		p := person{a.By, a.Identity}
		if apart && len(p.identity) == 0 || a.RuleGeneration != rule.Generation || p.is(requester(rule, r)) || slices.ContainsFunc(people, p.is) {
			continue
		}
		people = append(people, p)
	}
	return len(people)
}
