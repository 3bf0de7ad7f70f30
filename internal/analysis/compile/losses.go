package compile

import (
	"fmt"
	"slices"
	"strings"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/internal/engine/verbs"
)

// exempt are resources whose writes no admission policy is asked about.
var exempt = map[string][]string{
	"admissionregistration.k8s.io": {"validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies",
		"mutatingadmissionpolicybindings", "validatingwebhookconfigurations", "mutatingwebhookconfigurations"},
	"authentication.k8s.io": {"tokenreviews", "selfsubjectreviews"},
	"authorization.k8s.io":  {"subjectaccessreviews", "localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"},
}

// Exempt reports whether no admission policy is asked about writes of a resource.
func Exempt(group, resource string) bool { return slices.Contains(exempt[group], resource) }

// unadmitted reports whether writes of a resource pass by the admission policies.
func (c *compiler) unadmitted(r reach) bool {
	return Exempt(r.Group, r.Resource.Resource) || c.in.World.Elsewhere(r.Group, r.Resource.Resource)
}

// ofFields are verbs that only a server knows which has field permissions.
func ofFields(verb string) bool {
	return verb == "granular" || strings.HasPrefix(verb, "granular:") || strings.HasPrefix(verb, "reveal:")
}

// admit decides which part of a rule can be compiled, and records the rest.
func (c *compiler) admit(u *unit) {
	f := u.said
	if u.src.Enforcement != "" && u.src.Enforcement != policyv1alpha1.EnforcementEnforce {
		f.lose(fmt.Sprintf("the rule is not enforced (%s), and that cluster cannot shadow it", u.src.Enforcement))
		return
	}
	u.at = c.served(u)
	if u.src.Deny {
		c.admitDeny(u)
	} else {
		c.admitAllow(u)
	}
	u.at = slices.DeleteFunc(u.at, func(r reach) bool { return len(r.verbs) == 0 })
	if !hasCondition(u.src) || len(u.at) == 0 {
		return
	}
	text, err := condition(c.in.CEL, u.src, u.rule, u.at)
	if err == nil {
		err = c.checks(text)
	}
	if err != nil {
		f.lose(err.Error())
		u.at = nil
		return
	}
	u.condition = text
	f.harden("requests in another version of the API than the preferred one, or the rule's apiVersion, are refused")
	if !u.src.Deny {
		f.harden("subjects that have the right by other RBAC, too, are held to the condition unless RBAC gives them all verbs of the resource")
		c.hardenUpdates(u)
	}
}

func hasCondition(src *policyv1alpha1.PolicyRule) bool {
	return src.Where != "" || src.When != "" || src.AttributeRestrictions != nil
}

// served returns what the rule matches on a stock server.
func (c *compiler) served(u *unit) (at []reach) {
	ours, wide := false, false
	for _, r := range reaches(u.rule, c.in.Resources) {
		switch {
		case slices.Contains(c.in.Ours, r.Group):
			ours = true
		case u.scope != "" && !r.Namespaced && (r.Group != "" || r.Resource.Resource != "namespaces"):
			wide = true
		default:
			at = append(at, r)
		}
	}
	switch {
	case len(at) > 0 || len(u.rule.Patterns) == 0:
	case ours:
		u.said.note("it is about Proviso's own API, which is not served there")
	case wide:
		u.said.note("it is about what has no namespace, and a binding in a namespace does not reach that")
	case !u.src.Deny:
		u.said.harden("nothing that the rule names is known to be served: compile again with its definition")
	case hasCondition(u.src):
		u.said.lose("nothing that the rule names is known to be served: compile again with its definition")
	}
	return at
}

// admitAllow notes what cannot be had of a rule that allows.
func (c *compiler) admitAllow(u *unit) {
	f, conditional := u.said, hasCondition(u.src)
	for i, r := range u.at {
		u.at[i] = r.with(func(v string) bool { return c.admitGrant(u, r, v, conditional) })
	}
	for _, v := range u.src.Verbs {
		if v == "impersonate*" || v == "granular:*" || v == "reveal:*" {
			f.loseOf("patterns for verbs", v)
		}
	}
	if len(u.rule.URLs) > 0 && conditional {
		f.lose("a condition on paths outside of the resource API")
	}
	if open(u.rule) {
		f.harden("what is served later is not granted until it is compiled again, and of the verbs that are not of requests only those that are named")
	}
}

// without notes what a rule that allows does not grant. Of a rule for everything that is less than it says, and of a
// rule that names it, it is lost.
func (u *unit) without(what, of string) {
	if open(u.rule) {
		u.said.lessOf("not granted, since there is no "+what, of)
	} else {
		u.said.loseOf(what, of)
	}
}

// admitGrant reports whether a verb is granted.
func (c *compiler) admitGrant(u *unit, r reach, v string, conditional bool) bool {
	f := u.said
	switch {
	case !conditional && slices.ContainsFunc(c.fields, func(x *exclusive) bool { return x.verb == v }):
		f.harden("the right to an exclusive field counts only with the right to write the object")
		return true
	case ofFields(v):
		f.loseOf("rights to single fields", v)
	case len(u.rule.Names) > 0 && v == verbs.Create && r.Subresource == "", len(u.rule.Names) > 0 && v == verbs.DeleteCollection:
		// a rule with names does not allow it either
	case r.connects() && !conditional && r.Subresource == "proxy" && !slices.Contains(r.verbs, verbs.Create):
		f.lose("a proxy without create, which every connection takes")
	case !conditional:
		return true
	case ofOwnKind(u.src) && !r.Own && !r.connects() && verbs.IsWrite(v): // its body is of another kind: the condition never holds
	case verbs.IsRead(v) && !r.connects():
		f.lose("reads under a condition (get, list, watch)")
	case r.connects():
		u.without("condition on connections", r.name())
	case !verbs.IsWrite(v):
		u.without("condition on verbs that are not of requests", v)
	case c.unadmitted(r):
		u.without("condition on what admission policies do not see", r.name())
	default:
		return true
	}
	return false
}

const lostReads = "denies of reads (get, list, watch)"

// admitDeny notes what cannot be had of a rule that denies.
func (c *compiler) admitDeny(u *unit) {
	f := u.said
	for i, r := range u.at {
		if r.connects() {
			c.connectDeny(u, &u.at[i])
			continue
		}
		u.at[i] = r.with(func(v string) bool { return c.admitRefusal(u, r, v) })
		if verbs := &u.at[i].verbs; slices.Contains(*verbs, "delete") && !slices.Contains(*verbs, "deletecollection") {
			*verbs = append(*verbs, "deletecollection") // each object of a collection is deleted
		}
	}
	c.denyEvictions(u)
	for _, v := range verbs.Reads() {
		if len(u.rule.Patterns) > 0 && plainly(u.rule, v) {
			f.lose(lostReads)
		}
	}
	c.loseKinds(u)
	if len(u.rule.URLs) > 0 {
		f.lose("a deny of paths outside of the resource API")
	}
	if slices.ContainsFunc(u.at, func(r reach) bool { return slices.Contains(r.verbs, verbs.Delete) }) {
		f.note("not by effect: garbage collection and the deletion of the namespace are not denied")
	}
	if hasCondition(u.src) && open(u.rule) {
		f.lose("what is served later: name the kinds, or compile again whenever one is added")
	}
	if u.scope != "" && len(u.at) > 0 {
		f.harden("cluster-wide grants of nodes, and of subjects that are held to a condition, do not override it")
	}
	c.hardenUpdates(u)
}

// loseKinds records the subresources of what is named by its kind, or not known to be served: the body of a subresource
// can be of another kind, such as Scale, so what is served later cannot be told by its own.
func (c *compiler) loseKinds(u *unit) {
	for _, p := range u.kinds() {
		known := slices.ContainsFunc(c.in.Resources, func(r plan.Resource) bool { return r.Resource == p.Res })
		if p.Mode != matching.SubNone && !known && len(plainOperations(u.rule)) > 0 {
			u.said.loseOf("denies of subresources by a kind that is served later: name the plural, and compile with its definition", p.Res)
		}
	}
}

// denyEvictions adds the eviction of pods whose delete is denied. Under a condition it cannot be had: admission sees
// the eviction, and not the pod.
func (c *compiler) denyEvictions(u *unit) {
	deletes := slices.ContainsFunc(u.at, func(r reach) bool {
		return r.Group == "" && r.name() == "pods" && slices.Contains(r.verbs, verbs.Delete)
	})
	i := slices.IndexFunc(c.in.Resources, func(r plan.Resource) bool {
		return r.Group == "" && r.Resource == "pods" && r.Subresource == matching.SubEviction
	})
	switch {
	case !deletes || i < 0:
	case hasCondition(u.src):
		u.said.note("not by effect: evictions of these pods are not denied")
	default:
		u.evicts = true
		if !slices.ContainsFunc(u.at, func(r reach) bool { return r.Resource == &c.in.Resources[i] && slices.Contains(r.verbs, verbs.Create) }) {
			u.at = append(u.at, reach{Resource: &c.in.Resources[i], verbs: []string{verbs.Create}})
		}
	}
}

// admitRefusal reports whether a verb can be refused.
func (c *compiler) admitRefusal(u *unit, r reach, v string) bool {
	f := u.said
	switch {
	case verbs.IsRead(v):
		f.lose(lostReads)
	case !verbs.IsWrite(v):
		f.loseOf("denies of verbs that are not of requests", v)
	case r.Virtual:
		return false
	case c.unadmitted(r):
		f.loseOf("denies of what admission policies do not see", r.name())
	case hasCondition(u.src) && ofOwnKind(u.src) && !r.Own:
		f.loseOf("conditions on bodies of another kind", r.name())
	default:
		return true
	}
	return false
}

// connectDeny keeps the verbs that a connection can have. All of them are admitted alike.
func (c *compiler) connectDeny(u *unit, r *reach) {
	if hasCondition(u.src) {
		u.said.loseOf("conditions on connections", r.name())
		r.verbs = nil
		return
	}
	if len(u.rule.Names) > 0 && r.Subresource == "proxy" {
		u.said.lose("denies of proxies by name")
		r.verbs = nil
		return
	}
	if !slices.Contains(r.verbs, verbs.Create) {
		u.said.harden("admission does not tell the methods of a connection: all are denied")
	}
	if *r = r.with(connection); len(r.verbs) == 0 {
		r.verbs = []string{verbs.Create}
	}
}

// connection reports whether a connection can have a verb, which is that of its HTTP method.
func connection(verb string) bool {
	return slices.Contains([]string{verbs.Get, verbs.Create, verbs.Update, verbs.Patch, verbs.Delete}, verb)
}

// hardenUpdates notes that updates and patches are one.
func (c *compiler) hardenUpdates(u *unit) {
	for _, r := range u.at {
		if !r.connects() && slices.Contains(r.verbs, verbs.Update) != slices.Contains(r.verbs, verbs.Patch) {
			u.said.harden("update and patch are one in admission: the other of them is refused, too, where the rule refuses")
		}
	}
}
