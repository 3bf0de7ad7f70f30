package access

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	access "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/internal/engine/verbs"
)

// The verbs of rules.
const (
	// VerbRequest is held only by users who may ask by a rule (PO-22).
	VerbRequest = "permission-request"
	// VerbApprove is needed to approve requests by a rule.
	VerbApprove = "approve"
)

// Roles returns the index in which the subjects from Stands have roles.
func (ix *Index) Roles() *ruleset.Index { return ix.roles }

// Stands returns the subjects in Roles that a request counts as: for grants to its caller that count at an instant, and
// for what callers who may ask may do. Grants that end with the first write come last.
func (ix *Index) Stands(attrs authorizer.Attributes, at time.Time) (standing []ruleset.Subject) {
	if ix == nil || attrs.GetUser() == nil {
		return nil
	}
	if isRequests(attrs) && ix.asks(attrs.GetUser()) {
		standing = append(standing, ruleset.Subject{Name: ofRequester})
	}
	grants := ix.of(attrs.GetUser())
	if len(grants) == 0 || at.IsZero() {
		return standing
	}
	for _, once := range []bool{false, true} {
		for _, g := range grants {
			if g.Request.Spec.Once == once && ix.counts(g, attrs, at) {
				standing = append(standing, ruleset.Subject{Name: ofGrant + g.Key()})
			}
		}
	}
	return standing
}

// Has reports whether a user holds a grant at an instant.
func (ix *Index) Has(u user.Info, at time.Time) bool {
	return u != nil && slices.ContainsFunc(ix.of(u), func(g *Grant) bool { return !at.Before(g.From) && at.Before(g.Until) })
}

// Places returns the namespaces for which a user holds grants at an instant, in order. Grants for the whole cluster do
// not count.
func (ix *Index) Places(u user.Info, at time.Time) (names []string) {
	for _, g := range ix.of(u) {
		if g.Namespace != ix.master && g.isFor(u, at) && !slices.Contains(names, g.Namespace) {
			names = append(names, g.Namespace)
		}
	}
	slices.Sort(names)
	return names
}

// isFor reports whether a grant is for a user at an instant. Nothing is granted if the time is not known.
func (g *Grant) isFor(u user.Info, at time.Time) bool {
	switch {
	case at.IsZero() || at.Before(g.From) || !at.Before(g.Until):
		return false
	case IsAccount(u.GetName()) && u.GetUID() != g.Request.Spec.Requester.UID:
		return false // another service account of the same name
	}
	return Includes(g.rule.Spec.Subjects, u)
}

// counts reports whether a grant counts for a request at an instant, apart from its role. A grant that ends with the
// first write is only for requests: other questions, such as for rights to single fields, would not use it up.
func (ix *Index) counts(g *Grant, attrs authorizer.Attributes, at time.Time) bool {
	switch {
	case !g.isFor(attrs.GetUser(), at):
		return false
	case g.Namespace != ix.master && (!attrs.IsResourceRequest() || attrs.GetNamespace() != g.Namespace):
		return false
	case !g.special && HandsOut(attrs.GetVerb()):
		return false
	case g.Request.Spec.Once && (!verbs.IsRequest(attrs.GetVerb()) || attrs.GetVerb() == verbs.DeleteCollection || isConnect(attrs)):
		return false
	}
	return !g.narrowed || ix.narrows(g, attrs)
}

func (ix *Index) narrows(g *Grant, attrs authorizer.Attributes) bool {
	var q ruleset.Query
	q.ResetFor(ix.roles, attrs, ruleset.Subject{Name: ofNarrowing + g.Key()})
	m := q.PolicyMaster()
	return m.Allow.Found()
}

func isConnect(attrs authorizer.Attributes) bool {
	return connect.Of(attrs.GetAPIGroup(), attrs.GetResource(), attrs.GetSubresource()) != connect.None
}

// HandsOut reports whether a verb grants rights, or lifts a deny: a grant includes it only if its rule says so (TM-8).
func HandsOut(verb string) bool {
	return slices.Contains(matching.NamedSpecials, verb) || strings.HasPrefix(verb, matching.VerbImpersonate)
}

func isRequests(attrs authorizer.Attributes) bool {
	return attrs.IsResourceRequest() && attrs.GetAPIGroup() == access.GroupName && attrs.GetResource() == "accessrequests" && (attrs.GetSubresource() == "" || attrs.GetSubresource() == "revocation")
}

// MayAsk reports whether the request asks if its caller may ask by a rule. If so, it returns that rule; nil if the
// caller may not.
func (ix *Index) MayAsk(attrs authorizer.Attributes) (asked bool, rule *access.AccessRule) {
	if !attrs.IsResourceRequest() || attrs.GetVerb() != VerbRequest || attrs.GetAPIGroup() != access.GroupName || attrs.GetResource() != "accessrules" {
		return false, nil
	}
	if ix == nil || attrs.GetUser() == nil {
		return true, nil
	}
	if r := ix.rule(attrs.GetName()); r != nil && Includes(r.Spec.Subjects, attrs.GetUser()) {
		return true, r
	}
	return true, nil
}

// ByWhat returns the grant that a subject of Roles stands for; nil if there is none.
func (ix *Index) ByWhat(subject ruleset.Subject) *Grant {
	key, ok := strings.CutPrefix(subject.Name, ofGrant)
	if !ok || ix == nil {
		return nil
	}
	return ix.keys[key]
}

// Reason says what was granted.
func (g *Grant) Reason() string {
	return fmt.Sprintf("AccessRequest %q grants %s until %s", g.Key(), RoleName(g.rule.Spec.RoleRef), g.Until.UTC().Format(time.RFC3339))
}

// ByBreakGlass reports whether a grant counts only for requests of which audit sinks are told.
func (g *Grant) ByBreakGlass() bool { return g.rule.Spec.BreakGlass }

// Sinks returns the audit sinks that get the requests that a break-glass grant makes possible.
func (g *Grant) Sinks() []string { return g.rule.Spec.AuditSinks }

// Watched reports whether a request needs an audit event, whatever sinks and policies want: it asks for access, or a
// break-glass grant may make it possible (TM-13). That is so for every user while there is such a grant: the event is
// created before impersonation, which can turn any user into the one who holds the grant.
func (ix *Index) Watched(attrs authorizer.Attributes) bool {
	if ix == nil || attrs.GetUser() == nil {
		return false
	}
	if isRequests(attrs) && attrs.GetVerb() == verbs.Create {
		return slices.ContainsFunc(ix.rules, func(r *access.AccessRule) bool { return r.Spec.BreakGlass })
	}
	return ix.broken
}

// RoleName returns the name of a role for people.
func RoleName(r access.AccessRoleRef) string {
	if r.ClusterRole() {
		return fmt.Sprintf("ClusterRole %q", r.Name)
	}
	return fmt.Sprintf("Role %q", r.Namespace+"/"+r.Name)
}

// Helps returns the names of the rules by which the caller of a request may ask for access that would allow it, in
// order.
func (ix *Index) Helps(attrs authorizer.Attributes) (names []string) {
	if ix == nil || attrs.GetUser() == nil {
		return nil
	}
	for _, r := range ix.rules {
		if !Includes(r.Spec.Subjects, attrs.GetUser()) || HandsOut(attrs.GetVerb()) && !r.Spec.SpecialVerbs || !ix.reaches(r, attrs) {
			continue
		}
		var q ruleset.Query
		q.ResetFor(ix.roles, attrs, ruleset.Subject{Name: ofRule + r.Name})
		if m := q.PolicyMaster(); !m.Deny.Found() && (m.Allow.Found() || m.ConditionalAllow) {
			names = append(names, r.Name)
		}
	}
	return names
}

// Advice returns the command with which the caller of a request that is not allowed can ask for access; empty if there
// is none.
func (ix *Index) Advice(attrs authorizer.Attributes) string {
	rules := ix.Helps(attrs)
	if len(rules) == 0 {
		return ""
	}
	place, r, term, why := attrs.GetNamespace(), ix.rule(rules[0]), "1h", ""
	if place == "" || slices.Contains(r.Spec.Namespaces, ix.master) {
		place = ix.master
	}
	if r.Spec.MaxDurationSeconds < 3600 {
		term = fmt.Sprintf("%ds", r.Spec.MaxDurationSeconds)
	}
	if r.Spec.Reason != nil && r.Spec.Reason.Required {
		why = " --reason WHY"
	}
	return fmt.Sprintf("you may ask for it: `proviso access request %s -n %s --for %s%s`", rules[0], place, term, why)
}

// reaches reports whether a rule covers the namespace of a request.
func (ix *Index) reaches(r *access.AccessRule, attrs authorizer.Attributes) bool {
	if slices.Contains(r.Spec.Namespaces, ix.master) {
		return true
	}
	return attrs.IsResourceRequest() && attrs.GetNamespace() != "" && ix.covers(r, attrs.GetNamespace(), nil)
}
