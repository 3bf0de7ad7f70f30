package compile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// exclusive is a permission whose fields are out of the general right to write.
type exclusive struct {
	verb string
	said []*Assessment
}

// entryName returns the name of the declaration of a field permission, for people and for --accept.
func entryName(e *fieldperm.Entry) string {
	if quoted, ok := strings.CutPrefix(e.Source, "FieldPermission "); ok && e.Stored {
		if name, err := strconv.Unquote(quoted); err == nil {
			return "FieldPermission/" + name
		}
	}
	return "Field/" + e.Resource + "/" + e.Field
}

// exclusives lists the exclusive permissions that can be had, by their verbs.
func (c *compiler) exclusives() (all []*exclusive) {
	if c.in.Fields == nil {
		return nil
	}
	for _, e := range c.in.Fields.Permissions() {
		if !e.Exclusive && e.ExclusiveWhen == "" {
			continue
		}
		said := c.assess(entryName(&e))
		switch {
		case e.Broken:
			said.lose("it does not compile")
		case strings.Contains(e.Verb, "<"):
			said.lose("its permission has a parameter that depends on the object: " + e.Verb)
		case e.Resource == "*" && !strings.HasPrefix(e.Field, ".metadata."):
			said.lose("a field of all resources that is not in their metadata")
		default:
			i := slices.IndexFunc(all, func(x *exclusive) bool { return x.verb == e.Verb })
			if i < 0 {
				i = len(all)
				all = append(all, &exclusive{verb: e.Verb})
			}
			if !slices.Contains(all[i].said, said) {
				all[i].said = append(all[i].said, said)
			}
		}
	}
	return all
}

// guardFields writes the policies of exclusive fields. The permission is a verb that RBAC can grant.
func (c *compiler) guardFields(out *Result) {
	for _, x := range c.fields {
		var policies []*admissionv1.ValidatingAdmissionPolicy
		var failed error
		for _, at := range c.alike(func(r *plan.Resource) string { return textOf(c.changes(x, r)) }) {
			p := c.withheld(x, at)
			if err := c.checkPolicy(p); err != nil {
				failed = err
			}
			policies = append(policies, p)
		}
		for _, said := range x.said {
			if failed != nil {
				said.lose(failed.Error())
				continue
			}
			said.harden("in a new object, a value counts also if it is the default")
			said.harden("requests in another version of the API than the preferred one are refused without the permission")
			for _, p := range policies {
				said.Policies = append(said.Policies, p.Name)
			}
		}
		for _, p := range policies {
			if failed == nil {
				out.Policies = append(out.Policies, p, c.enact(p))
			}
		}
	}
}

func textOf(conditions []protectedattr.Condition) string {
	var texts []string
	for _, one := range conditions {
		texts = append(texts, one.Expression)
	}
	return strings.Join(texts, "\x00")
}

// changes asks the table which changes of a resource take a permission. They hold at least for every write that a
// server of ours refuses.
func (c *compiler) changes(x *exclusive, r *plan.Resource) []protectedattr.Condition {
	target := fieldperm.Target{Resource: fieldperm.Resource{Group: r.Group, Resource: r.Resource}, Subresource: r.Subresource, Version: r.Version}
	holdsOthers := func(verb string) (bool, error) { return verb != x.verb, nil }
	asked := false
	c.in.Fields.Conditions(target, func(verb string) (bool, error) { asked = asked || verb == x.verb; return true, nil })
	if !asked {
		return nil // what is left has a parameter, and is lost
	}
	return c.in.Fields.Conditions(target, holdsOthers)
}

// withheld is one policy.
func (c *compiler) withheld(x *exclusive, at alike) *admissionv1.ValidatingAdmissionPolicy {
	match := []string{fmt.Sprintf("!(%q in %s)", masters, celGroups), at.where}
	users, _ := protectedattr.Exempt(&c.in.Protected)
	for _, r := range at.known {
		// Who makes these from what has been checked.
		copying := slices.DeleteFunc(slices.Clone(users), func(u string) bool { return !protectedattr.Copies(u, r.Group, r.Resource.Resource, r.Subresource) })
		if len(copying) > 0 {
			match = append(match, fmt.Sprintf("!(%s == %q && %s in %s)", celAt, r.Group+"/"+r.name(), celUser, celList(copying)))
		}
	}
	var variables ways
	variables.add("permitted", may(x.verb, celPlace))
	var none, said []string
	if at.listed {
		var versions []string
		for _, r := range at.known {
			versions = append(versions, r.Group+"/"+r.name()+" "+r.Version)
		}
		none = append(none, celAt+` + " " + request.requestResource.version in `+celList(versions))
	}
	for i, condition := range c.changes(x, at.example) {
		name := fmt.Sprintf("changed%d", i)
		variables.add(name, condition.Expression)
		none, said = append(none, "!variables."+name), append(said, condition.Description)
	}
	from := origin{rule: x.said[0].Rule, role: ruleset.RoleRef{Name: "field-" + x.verb}, index: -1}
	holds := "variables.permitted"
	if slices.ContainsFunc(at.known, func(r reach) bool { return r.Group == "" && r.Resource.Resource == "pods" }) {
		variables.add("node", celWritesItself)
		holds += " || " + celPlural + ` == "pods" && ` + celSub + ` == "" && variables.node`
	}
	return c.policyOf(from, at.rules, match, variables, holds+" || "+strings.Join(none, " && "), oneLine(strings.Join(said, "; ")))
}
