package compile

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/internal/engine/verbs"
)

// Unheld is the verb of subjects to whom no compiled condition applies. RBAC gives it to subjects with all verbs of a
// resource, and compiled grants never do.
const Unheld = "unheld.compile.proviso.dev"

// ways are the ways in which a request passes a policy. Each is a variable of its own, so that a message about one
// that fails says nothing about the others and about whom they are for.
type ways []admissionv1.Variable

func (w *ways) add(name, text string) {
	*w = append(*w, admissionv1.Variable{Name: name, Expression: text})
}

// text is true in CEL if any of them holds.
func (w ways) text(first ...string) string {
	for _, v := range w {
		first = append(first, "variables."+v.Name)
	}
	return strings.Join(first, " || ")
}

// others are the units that allow, in pieces that fit into an expression.
func (c *compiler) others() (all []*unit) {
	for _, u := range c.allows {
		all = append(all, u.pieces()...)
	}
	return all
}

// hold is the policy that holds the subjects of a conditional allow to its condition.
func (c *compiler) hold(u *unit) *admissionv1.ValidatingAdmissionPolicy {
	var pass ways
	pass.add("condition", u.holds())
	for _, other := range c.others() {
		if way := other.allows(u); way != "" {
			pass.add(fmt.Sprintf("other%d", len(pass)), way)
		}
	}
	pass.add("unheld", may(Unheld, celPlace))
	match := u.matches()
	if len(u.rule.Names) > 0 {
		match = append(match, named(u.rule.Names))
	}
	return c.policy(u, constraints(u), match, pass, pass.text(), c.unmet(u))
}

// deny returns the policy that refuses what a rule denies.
func (c *compiler) deny(u *unit) *admissionv1.ValidatingAdmissionPolicy {
	match, rules := u.matches(), constraints(u)
	if !u.conditional() {
		rules = append(c.patterns(u), rules...)
		match = append(match, c.denied(u))
	}
	if len(u.rule.Names) > 0 {
		match = append(match, deniedNames(u.rule.Names))
	}
	var pass, all ways
	var either []string
	if u.scope != "" {
		pass = c.yields(u)
		connections := c.connections(u)
		all, either = append(all, connections...), connections.together()
	}
	all = append(all, pass...)
	if !u.conditional() {
		return c.policy(u, rules, match, all, pass.text(append(either, "false")...), c.because(u))
	}
	all.add("condition", "!("+u.versioned()+") || ("+u.condition+")")
	return c.policy(u, rules, match, all, pass.text(append(either, "!variables.condition")...), c.because(u))
}

// matches are the parts of the match that every policy has.
func (u *unit) matches() []string {
	match := []string{fmt.Sprintf("!(%q in %s)", masters, celGroups), u.subjects()}
	if u.scope != "" {
		match = append(match, u.place())
	}
	deletes, collects := plainly(u.rule, verbs.Delete), plainly(u.rule, verbs.DeleteCollection) && len(u.rule.Names) == 0
	if u.src.Deny { // a deny of deletes reaches each object of a collection
		collects = deletes || plainly(u.rule, verbs.DeleteCollection)
	}
	if deletes != collects {
		match = append(match, fmt.Sprintf(`(request.operation != "DELETE" || (%s != "") == %t)`, celName, deletes))
	}
	return match
}

// deniedNames is true in CEL for requests about objects of these names, and for objects whose name is not known.
func deniedNames(names []string) string {
	versions := make([]string, 0, 2)
	for _, v := range []string{"object", "oldObject"} {
		versions = append(versions, fmt.Sprintf(`%s != null && %s.?metadata.?name.orValue("") in %s`, v, v, celList(append(slices.Clone(names), ""))))
	}
	return fmt.Sprintf(`(%s != "" ? %s in %s : (%s))`, celName, celName, celList(names), strings.Join(versions, " || "))
}

// constraints are those for what the rule reaches.
func constraints(u *unit) (rules []admissionv1.NamedRuleWithOperations) {
	type group struct{ group, operations string }
	var order []group
	resources := map[group][]string{}
	for _, r := range u.at {
		g := group{r.Group, strings.Join(operationsOf(r), ",")}
		if resources[g] == nil {
			order = append(order, g)
		}
		resources[g] = append(resources[g], r.name())
	}
	for _, g := range order {
		rules = append(rules, constraint(g.group, "*", strings.Split(g.operations, ","), resources[g]))
	}
	return rules
}

func constraint(group, version string, operations, resources []string) admissionv1.NamedRuleWithOperations {
	out := admissionv1.NamedRuleWithOperations{}
	for _, op := range operations {
		out.Operations = append(out.Operations, admissionv1.OperationType(op))
	}
	out.APIGroups, out.APIVersions, out.Resources, out.Scope = []string{group}, []string{version}, resources, ptr.To(admissionv1.AllScopes)
	return out
}

// operationsOf are those of admission.
func operationsOf(r reach) (all []string) {
	for _, v := range r.verbs {
		op := operation(r, v)
		if op == "DELETECOLLECTION" {
			op = "DELETE"
		}
		all = append(all, op)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// patterns are the constraints for what the rule names, whether it is served or not. They are wider than the rule, and
// its match is not.
func (c *compiler) patterns(u *unit) (rules []admissionv1.NamedRuleWithOperations) {
	operations := plainOperations(u.rule)
	if len(operations) == 0 {
		return nil
	}
	for _, p := range u.rule.Patterns {
		group, res := p.Group, p.Res
		if p.AnyGroup {
			group = "*"
		}
		if p.AnyRes {
			res = "*"
		}
		switch p.Mode {
		case matching.SubAll, matching.SubAny:
			res += "/*"
		case matching.SubExact:
			res += "/" + p.Sub
		}
		rules = append(rules, constraint(group, "*", operations, []string{res}))
	}
	for _, p := range u.kinds() {
		group, all := p.Group, "*"
		if p.AnyGroup {
			group = "*"
		}
		if p.Mode != matching.SubNone {
			all = "*/" + p.Sub
			if p.Mode == matching.SubAny {
				all = "*/*"
			}
		}
		if rule := constraint(group, "*", operations, []string{all}); !slices.ContainsFunc(rules, func(r admissionv1.NamedRuleWithOperations) bool { return reflect.DeepEqual(r, rule) }) {
			rules = append(rules, rule)
		}
	}
	return rules
}

// kinds are the names of a rule that denies as kinds: a name means everything that has this kind, also what is served
// only later.
func (u *unit) kinds() (all []matching.Pattern) {
	for _, entry := range u.src.ResourceKinds {
		p, err := matching.ParseKind(entry)
		if err == nil && !p.AnyRes && !strings.HasPrefix(entry, "-") && !(p.Res == matching.ClusterScoped && p.AnyGroup) {
			all = append(all, p)
		}
	}
	return all
}

// plainOperations are those of a rule on what is not connected to.
func plainOperations(r *matching.Rule) (all []string) {
	for _, v := range verbs.Writes() {
		if plainly(r, v) {
			all = append(all, strings.TrimSuffix(operation(reach{Resource: &plan.Resource{}}, v), "COLLECTION"))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// plainly reports whether a rule has a verb on what is not connected to.
func plainly(r *matching.Rule, verb string) bool {
	return r.Verbs.Matches(&matching.Request{Verb: verb, Bit: matching.BitOf(verb), ResourceRequest: true})
}

// denied is true in CEL for what a rule without a condition denies: by what it names, and by what the index finds of
// it.
func (c *compiler) denied(u *unit) string {
	var ways, but []string
	for i := range u.rule.Patterns {
		ways = append(ways, patternText(&u.rule.Patterns[i], false))
	}
	for _, p := range u.kinds() {
		ways = append(ways, partsText(&p, celKind, false))
	}
	for i := range u.rule.Negs {
		but = append(but, patternText(&u.rule.Negs[i], true))
	}
	by := `request.operation != "CONNECT" && (` + strings.Join(ways, " || ") + ")"
	if len(but) > 0 {
		by += " && !(" + strings.Join(but, " || ") + ")"
	}
	if u.rule.Groups != nil {
		by += " && " + celGroup + " in " + celList(u.rule.Groups)
	}
	return "(" + by + " || " + celKey + " in " + celList(slices.Collect(maps.Keys(u.keys()))) + ")"
}

// patternText is true in CEL for requests that a pattern names. A negated resource takes its subresources with it.
func patternText(p *matching.Pattern, negated bool) string { return partsText(p, celPlural, negated) }

// partsText is patternText for what the name of the pattern is compared with.
func partsText(p *matching.Pattern, name string, negated bool) string {
	var parts []string
	if !p.AnyRes {
		parts = append(parts, fmt.Sprintf("%s == %q", name, p.Res))
	}
	switch {
	case !p.AnyGroup:
		parts = append(parts, fmt.Sprintf("%s == %q", celGroup, p.Group))
	case len(p.NotIn) > 0:
		parts = append(parts, fmt.Sprintf("!(%s in %s)", celGroup, celList(slices.Collect(maps.Keys(p.NotIn)))))
	}
	switch {
	case p.Mode == matching.SubExact:
		parts = append(parts, fmt.Sprintf("%s == %q", celSub, p.Sub))
	case p.Mode == matching.SubAny:
		parts = append(parts, celSub+` != ""`)
	case p.Mode == matching.SubNone && !negated:
		parts = append(parts, celSub+` == ""`)
	}
	if len(parts) == 0 {
		return "true"
	}
	return "(" + strings.Join(parts, " && ") + ")"
}

// unmet is the message for a refused caller, in the words of a Proviso server.
func (c *compiler) unmet(u *unit) string {
	text := fmt.Sprintf("condition %q was not met", identity(u))
	if u.src.Description != "" {
		text += ": " + u.src.Description
	}
	return oneLine(text)
}

// because is the message for a denied caller.
func (c *compiler) because(u *unit) string {
	if u.conditional() {
		text := fmt.Sprintf("condition %q denied the request", identity(u))
		if u.src.Description != "" {
			text += fmt.Sprintf(" with description %q", u.src.Description)
		}
		return oneLine(text)
	}
	text := fmt.Sprintf("denied by rule %d of %s", u.index, u.role)
	if u.src.Description != "" {
		text += ": " + u.src.Description
	}
	return oneLine(text)
}

func identity(u *unit) string {
	if compiled, ok := u.rule.Cond.(*rulecondition.Compiled); ok {
		return compiled.Ready().ID()
	}
	return ruleName(u.role, u.index)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// origin is where a policy comes from.
type origin struct {
	// rule is what it is named after in the report, and the rest what it is named after in the cluster.
	rule  string
	role  ruleset.RoleRef
	index int
	scope string
}

// policy makes the object of a rule.
func (c *compiler) policy(u *unit, rules []admissionv1.NamedRuleWithOperations, match []string, variables ways, holds, message string) *admissionv1.ValidatingAdmissionPolicy {
	return c.policyOf(origin{u.said.Rule, u.role, u.index, u.scope}, rules, match, variables, holds, message)
}

// policyOf builds the object. Each policy also refuses its own canary, which shows that it is enforced.
func (c *compiler) policyOf(from origin, rules []admissionv1.NamedRuleWithOperations, match []string, variables ways, holds, message string) *admissionv1.ValidatingAdmissionPolicy {
	p := &admissionv1.ValidatingAdmissionPolicy{TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"}}
	spec := &p.Spec
	spec.FailurePolicy = ptr.To(admissionv1.Fail)
	// Set the server's defaults: drift compares what the server has with what was sent.
	spec.MatchConstraints = &admissionv1.MatchResources{ResourceRules: rules, MatchPolicy: ptr.To(admissionv1.Exact),
		NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{}}
	spec.Variables = variables
	spec.MatchConditions = []admissionv1.MatchCondition{{Name: "rule", Expression: strings.Join(match, " && ")}}
	spec.Validations = []admissionv1.Validation{{Expression: holds, Message: message, Reason: ptr.To(metav1.StatusReasonForbidden)}}
	c.label(&p.ObjectMeta, from.rule, wavePolicies)
	p.Name = nameOf(from.role, from.index, from.scope, p.Spec)
	canary := fmt.Sprintf(`(%s == "configmaps" && %s == %q)`, celPlural, celName, p.Name)
	spec.MatchConditions[0].Expression = canary + " || " + spec.MatchConditions[0].Expression
	spec.Validations = append([]admissionv1.Validation{{Expression: "!" + canary, Message: CanaryMessage, Reason: ptr.To(metav1.StatusReasonForbidden)}}, spec.Validations...)
	own := constraint("", "v1", []string{"CREATE"}, []string{"configmaps"})
	own.ResourceNames = []string{p.Name}
	spec.MatchConstraints.ResourceRules = append(spec.MatchConstraints.ResourceRules, own)
	return p
}

// CanaryMessage is how a policy refuses its canary.
const CanaryMessage = "this policy is enforced"

// enact is the binding of a policy, for the whole cluster.
func (c *compiler) enact(p *admissionv1.ValidatingAdmissionPolicy) *admissionv1.ValidatingAdmissionPolicyBinding {
	b := &admissionv1.ValidatingAdmissionPolicyBinding{TypeMeta: metav1.TypeMeta{APIVersion: p.APIVersion, Kind: "ValidatingAdmissionPolicyBinding"}, ObjectMeta: *p.ObjectMeta.DeepCopy()}
	b.Spec = admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: p.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}
	return b
}
