package lint

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/verbs"
)

// written remarks on how the rules of a role are written.
func (c *checker) written(r role) {
	for i := range r.policy {
		rule := &r.policy[i]
		c.kinds(r, i, rule)
		c.guarded(r, i, rule)
		c.verbs(r, i, rule.Verbs, len(rule.ResourceKinds) > 0)
		c.patched(r, i, rule)
		if !rule.Deny {
			c.nameless(r, i, rule.Verbs, rule.ResourceKinds, rule.ResourceNames)
		}
		if len(rule.NonResourceURLs) > 0 && r.ref.Namespace != c.Index.MasterNamespace() {
			c.say(Remark{Code: codePaths, Severity: Warning, Object: r.object, Path: []any{"rules", i, "nonResourceURLs"},
				Message: fmt.Sprintf("the rule about %s takes no effect in namespace %s", few(rule.NonResourceURLs), r.ref.Namespace)})
		}
	}
	for i := range r.rbac {
		rule := &r.rbac[i]
		c.resources(r, i, rule)
		c.verbs(r, i, rule.Verbs, len(rule.Resources) > 0)
		c.nameless(r, i, rule.Verbs, rule.Resources, rule.ResourceNames)
		if len(rule.NonResourceURLs) > 0 && r.ref.Namespace != "" {
			c.say(Remark{Code: codePaths, Severity: Warning, Object: r.object, Path: []any{"rules", i, "nonResourceURLs"},
				Message: fmt.Sprintf("the rule about %s takes no effect in namespace %s", few(rule.NonResourceURLs), r.ref.Namespace)})
		}
	}
	c.patchedRBAC(r)
}

// kinds remarks on names of kinds that nothing served has.
func (c *checker) kinds(r role, i int, rule *policyv1alpha1.PolicyRule) {
	coverage := ruleset.Coverage(rule, c.Index.Kinds())
	for n, entry := range rule.ResourceKinds {
		name := strings.TrimPrefix(entry, "-")
		at := []any{"rules", i, "resourceKinds", n}
		switch {
		case name == ruleset.ClusterScoped:
		case slices.Contains(coverage.Guarded, name):
			c.say(Remark{Code: codeKind, Severity: Error, Object: r.object, Path: at,
				Message: fmt.Sprintf("%s is in a guarded API group only, which a name without a group does not reach", name),
				Do:      "Write it with its group, as " + name + "." + c.groupOf(name) + "."})
		case slices.Contains(coverage.Unserved, name):
			bare, _, _ := strings.Cut(strings.ToLower(name), "/")
			resource, group, hasGroup := strings.Cut(bare, ".")
			c.unknown(r, at, name, resource, group, hasGroup, !r.policy[i].Deny && !strings.HasPrefix(entry, "-"))
		default:
			c.subresource(r, at, name)
		}
	}
}

// unknown is the remark on a name that nothing has. Where it is meant to protect, it protects nothing.
func (c *checker) unknown(r role, at []any, wrote, resource, group string, hasGroup, grants bool) {
	var meant string
	if elsewhere := c.groupsOf(resource); len(elsewhere) > 0 {
		meant = resource + "." + elsewhere[0]
		if elsewhere[0] == "" {
			meant = resource + ". (the core group)"
		}
	} else if meant = near(resource, c.plurals()); meant != "" && hasGroup {
		meant += "." + group
	}
	severity, message, do := Warning, fmt.Sprintf("no kind of the name %s is known", wrote), ""
	if hasGroup && !c.knowsGroup(group) {
		severity, message = Note, fmt.Sprintf("the API group of %s is not known", wrote)
		if !grants {
			severity = Warning
		}
	} else if hasGroup {
		severity = Error
	}
	if meant != "" {
		severity, do = Error, "Write "+meant+", if that is meant."
	}
	c.say(Remark{Code: codeKind, Severity: severity, Object: r.object, Path: at, Message: message, Do: do})
}

// subresource reports an unknown subresource whose name resembles a known one.
func (c *checker) subresource(r role, at []any, name string) {
	left, sub, has := strings.Cut(strings.ToLower(name), "/")
	resource, _, _ := strings.Cut(left, ".")
	if !has || sub == "*" || resource == "*" {
		return
	}
	var known []string
	for _, served := range c.Resources {
		if served.Resource == resource && served.Subresource != "" {
			known = append(known, served.Subresource)
		}
	}
	slices.Sort(known)
	if slices.Contains(known, sub) {
		return
	}
	if meant := near(sub, known); meant != "" {
		c.say(Remark{Code: codeKind, Severity: Error, Object: r.object, Path: at, Message: fmt.Sprintf("%s has no subresource %s", left, sub), Do: "Write " + left + "/" + meant + "."})
	}
}

// more are resources that every server has and whose kinds the files do not tell.
var more = map[string][]string{"apiregistration.k8s.io": {"apiservices"}, "apiextensions.k8s.io": {"customresourcedefinitions"},
	"": {"users", "groups"}, "authentication.k8s.io": {"users", "groups", "uids", "userextras", "nodes", "serviceaccounts"}, "certificates.k8s.io": {"signers"}}

// groupsOf are the API groups that have a resource of the name.
func (c *checker) groupsOf(resource string) (groups []string) {
	for _, served := range c.Resources {
		if served.Resource == resource && served.Subresource == "" && !slices.Contains(groups, served.Group) {
			groups = append(groups, served.Group)
		}
	}
	for group, resources := range more {
		if slices.Contains(resources, resource) && !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
	}
	slices.Sort(groups)
	return groups
}

func (c *checker) groupOf(name string) string {
	for _, gr := range c.Index.Kinds().Resolve(name) {
		return gr.Group
	}
	return ""
}

func (c *checker) knowsGroup(group string) bool {
	_, known := more[group]
	for _, served := range c.Resources {
		known = known || served.Group == group
	}
	return known
}

func (c *checker) plurals() (names []string) {
	for _, served := range c.Resources {
		if served.Subresource == "" {
			names = append(names, served.Resource)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// resources does the same for RBAC, in which a resource belongs to one of the groups of its rule.
func (c *checker) resources(r role, i int, rule *rbacv1.PolicyRule) {
	for n, entry := range rule.Resources {
		resource, sub, _ := strings.Cut(entry, "/")
		if resource == "*" {
			continue
		}
		at := []any{"rules", i, "resources", n}
		groups := c.groupsOf(resource)
		if slices.Contains(rule.APIGroups, "*") && len(groups) > 0 || slices.ContainsFunc(groups, func(g string) bool { return slices.Contains(rule.APIGroups, g) }) {
			if sub != "" {
				c.subresource(r, at, entry)
			}
			continue
		}
		if slices.ContainsFunc(rule.APIGroups, func(g string) bool { return g != "*" && !c.knowsGroup(g) }) {
			c.say(Remark{Code: codeKind, Severity: Note, Object: r.object, Path: at, Message: fmt.Sprintf("no API group of the rule is known to have %s", resource)})
			continue
		}
		if len(groups) > 0 {
			c.say(Remark{Code: codeKind, Severity: Error, Object: r.object, Path: at,
				Message: fmt.Sprintf("%s is not in API group %s, but in %s", resource, quoted(rule.APIGroups), quoted(groups)), Do: "Write apiGroups: [" + quoted(groups) + "] for it."})
			continue
		}
		group := ""
		if len(rule.APIGroups) > 0 {
			group = rule.APIGroups[0]
		}
		c.unknown(r, at, resource, resource, group, len(rule.APIGroups) == 1 && group != "*", true)
	}
}

func quoted(groups []string) string {
	var out []string
	for _, g := range groups {
		out = append(out, fmt.Sprintf("%q", g))
	}
	return strings.Join(out, ", ")
}

// guarded remarks on an allow that reaches guarded groups without saying so.
func (c *checker) guarded(r role, i int, rule *policyv1alpha1.PolicyRule) {
	at := slices.IndexFunc(rule.ResourceKinds, func(k string) bool { return strings.HasPrefix(k, "-") })
	if rule.Deny || at < 0 {
		return
	}
	var reached []string
	for _, gr := range ruleset.Coverage(rule, c.Index.Kinds()).Resources {
		if slices.Contains(ruleset.Guarded, gr.Group) && !slices.Contains(reached, gr.Group) {
			reached = append(reached, gr.Group)
		}
	}
	if len(reached) > 0 {
		c.say(Remark{Code: codeGuarded, Severity: Warning, Object: r.object, Path: []any{"rules", i, "resourceKinds", at}, Message: "all but these kinds is also " + strings.Join(reached, ", ")})
	}
}

// standardVerbs are those of requests; knownVerbs those that other components ask about.
var (
	standardVerbs = verbs.Served()
	knownVerbs    = slices.Concat([]string{"*"}, verbs.Special(), standardVerbs)
	// spoken are words that people use for verbs.
	spoken = map[string]string{"read": "get", "view": "get", "write": "update", "edit": "update", "remove": "delete", "add": "create", "post": "create", "put": "update", "modify": "update", "apply": "patch"}
)

// verbs reports unknown verbs. Custom verbs are allowed, so only those that resemble a known verb are certain mistakes.
func (c *checker) verbs(r role, i int, verbs []string, resources bool) {
	if !resources {
		return
	}
	for n, entry := range verbs {
		verb := strings.TrimPrefix(entry, "-")
		prefix, _, long := strings.Cut(verb, ":")
		if slices.Contains(knownVerbs, verb) || long && (prefix == "granular" || prefix == "reveal" || strings.HasPrefix(prefix, "impersonate")) || verb == "impersonate*" || strings.HasPrefix(verb, "impersonate-") {
			continue
		}
		meant := spoken[strings.ToLower(verb)]
		if meant == "" && slices.Contains(knownVerbs, strings.ToLower(verb)) {
			meant = strings.ToLower(verb)
		}
		if meant == "" {
			meant = near(strings.ToLower(verb), standardVerbs)
		}
		remark := Remark{Code: codeVerb, Severity: Note, Object: r.object, Path: []any{"rules", i, "verbs", n}, Message: fmt.Sprintf("%s is not a verb of Kubernetes", verb)}
		if meant != "" {
			remark.Severity, remark.Do = Error, "Write "+meant+", if that is meant."
		}
		c.say(remark)
	}
}

// patched remarks on rules of Policy that tell update and patch apart. An update covers both.
func (c *checker) patched(r role, i int, rule *policyv1alpha1.PolicyRule) {
	at := func(verb string) int { return slices.Index(rule.Verbs, verb) }
	switch {
	case at("*") >= 0 && at("-patch") < 0:
	case at("-patch") >= 0 && at("-update") < 0:
		severity, message := Warning, "patch is taken out of the rule and update is not"
		if rule.Deny {
			severity, message = Error, "update is denied and patch is not, which makes the same changes"
		}
		c.say(Remark{Code: codePatch, Severity: severity, Object: r.object, Path: []any{"rules", i, "verbs", at("-patch")}, Message: message})
	case at("patch") >= 0 && at("update") < 0 && !slices.ContainsFunc(rule.Verbs, func(v string) bool { return strings.HasPrefix(v, "-") }):
		if rule.Deny {
			c.say(Remark{Code: codePatch, Severity: Error, Object: r.object, Path: []any{"rules", i, "verbs", at("patch")}, Message: "patch is denied and update is not, which makes the same changes",
				Do: "Write update, which covers patch."})
			return
		}
		c.say(Remark{Code: codePatch, Severity: Note, Object: r.object, Path: []any{"rules", i, "verbs", at("patch")}, Message: "patch is allowed and update is not"})
	}
}

// patchedRBAC remarks on resources of which a role of RBAC allows only one of update and patch.
func (c *checker) patchedRBAC(r role) {
	type place struct{ group, resource, name string }
	both := map[place][2]bool{}
	each := func(rule *rbacv1.PolicyRule, visit func(place)) {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, g := range rule.APIGroups {
			for _, res := range rule.Resources {
				for _, n := range names {
					visit(place{g, res, n})
				}
			}
		}
	}
	for i := range r.rbac {
		rule := &r.rbac[i]
		any := slices.Contains(rule.Verbs, "*")
		update, patch := any || slices.Contains(rule.Verbs, "update"), any || slices.Contains(rule.Verbs, "patch")
		each(rule, func(p place) { both[p] = [2]bool{both[p][0] || update, both[p][1] || patch} })
	}
	for i := range r.rbac {
		rule := &r.rbac[i]
		said := false
		each(rule, func(p place) {
			at, has := max(slices.Index(rule.Verbs, "update"), slices.Index(rule.Verbs, "patch")), both[p]
			if has[0] == has[1] || at < 0 || said {
				return
			}
			said = true
			one, other := "update", "patch"
			if has[1] {
				one, other = other, one
			}
			c.say(Remark{Code: codePatch, Severity: Note, Object: r.object, Path: []any{"rules", i, "verbs", at}, Message: fmt.Sprintf("%s of %s is allowed and %s is not", one, p.resource, other)})
		})
	}
}

// nameless remarks on names beside verbs that have none. A request for a subresource always says the name.
func (c *checker) nameless(r role, i int, verbs, kinds, names []string) {
	if len(names) == 0 || slices.ContainsFunc(kinds, func(k string) bool { return strings.Contains(k, "/") || k == "*" }) {
		return
	}
	for n, verb := range verbs {
		if verb == "create" || verb == "deletecollection" {
			c.say(Remark{Code: codeNamed, Severity: Warning, Object: r.object, Path: []any{"rules", i, "verbs", n}, Message: fmt.Sprintf("a request to %s has no name: the rule never allows it", verb)})
		}
	}
}
