package lint

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/compare"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/verbs"
)

// maxWorlds is up to how many kinds of requests a condition is looked at one by one. Beyond that only what holds for
// any object at all is said.
const maxWorlds = 40

// worlds are the requests that a rule is about.
type worlds struct {
	all []compare.Universe
	// rest is true if there are more, about which nothing can be said: connections, and reads under a when.
	rest bool
	// bodiless is true if there are requests in which a where never holds: their body is not the object, and the rule
	// does not name them as connections.
	bodiless bool
}

// conditions remarks on conditions that always or never hold, or that fail.
func (c *checker) conditions(r role) {
	if !slices.ContainsFunc(r.policy, func(rule policyv1alpha1.PolicyRule) bool { return rule.Where != "" || rule.When != "" }) {
		return
	}
	about := c.worldsOf(r)
	for i := range r.policy {
		rule := &r.policy[i]
		for _, e := range []struct {
			field, source string
			kind          expr.Kind
		}{{"where", rule.Where, expr.Where}, {"when", rule.When, expr.When}} {
			if e.source == "" {
				continue
			}
			at := []any{"rules", i, e.field}
			program, issues := c.Comparer.Cache.Stored(e.source, e.kind, rule.APIVersion).Program()
			if len(issues) > 0 {
				if c.broken(r, i) {
					continue
				}
				c.say(Remark{Code: codeBroken, Severity: Error, Object: r.object, Path: at, Message: fmt.Sprintf("%s does not compile: %v", e.field, issues)})
				continue
			}
			program = program.Aimed(ruleset.NamedConnections(rule))
			w := about[i]
			always, never := c.constant(w, rule.Deny, program)
			if e.field == "where" && w.bodiless && !w.rest && len(w.all) == 0 {
				never = true
			}
			if always {
				c.say(Remark{Code: codeAlways, Severity: Warning, Object: r.object, Path: at, Message: e.field + " holds for every object"})
			} else if never {
				severity, message := Warning, e.field+" holds for no object: the rule allows nothing"
				if rule.Deny {
					severity, message = Error, e.field+" holds for no object: the rule denies nothing"
				}
				c.say(Remark{Code: codeNever, Severity: severity, Object: r.object, Path: at, Message: message})
			}
			c.failing(r, at, w, rule, e.source, e.kind)
		}
	}
}

// broken reports whether the engine has reported the rule as broken.
func (c *checker) broken(r role, i int) bool {
	return slices.ContainsFunc(c.remarks, func(m Remark) bool { return m.Code == codeBroken && m.Object == r.object && m.Path[1] == i })
}

// constant reports whether a condition of a rule holds in all of its worlds, or in none.
func (c *checker) constant(w worlds, deny bool, condition expr.Condition) (always, never bool) {
	if w.rest || len(w.all) == 0 {
		return false, false
	}
	always, never = true, true
	for _, u := range w.all {
		if !always && !never || c.ctx.Err() != nil {
			return false, false
		}
		if deny {
			denied := compare.Access{Walk: []compare.Step{{Condition: condition, Deny: true}, {}}}
			if always {
				_, possible, unclear := c.Comparer.Possible(c.ctx, denied, u)
				always = !possible && !unclear
			}
			if never {
				never = c.Comparer.Compare(c.ctx, compare.Access{Walk: []compare.Step{{}}}, denied, u).Relation == compare.Equivalent
			}
			continue
		}
		if always {
			_, always, _ = c.Comparer.Always(c.ctx, condition, u)
		}
		if never {
			_, possible, unclear := c.Comparer.Possible(c.ctx, compare.Access{Allow: []expr.Condition{condition}}, u)
			never = !possible && !unclear
		}
	}
	return always, never
}

// failing remarks on a condition that fails for an object, which it shows: whether it holds or not, it must be one of
// the two.
func (c *checker) failing(r role, at []any, w worlds, rule *policyv1alpha1.PolicyRule, source string, kind expr.Kind) {
	either, issues := c.Comparer.Cache.Stored("(\n"+source+"\n) || !(\n"+source+"\n)", kind, rule.APIVersion).Program()
	if len(issues) > 0 {
		return
	}
	either = either.Aimed(ruleset.NamedConnections(rule))
	for _, u := range w.all[:min(len(w.all), maxWorlds)] {
		witness, _, _ := c.Comparer.Always(c.ctx, either, u)
		if witness == nil {
			continue
		}
		severity, follows := Note, "the rule does not allow it"
		if rule.Deny {
			severity, follows = Warning, "the rule denies it"
		}
		c.say(Remark{Code: codeFails, Severity: severity, Object: r.object, Path: at, Message: fmt.Sprintf("%s fails for %s; %s", at[2], shown(witness), follows)})
		return
	}
}

// shown is a witness in one line.
func shown(w *compare.Witness) string {
	object, called := w.Object, "the object"
	if object == nil {
		object, called = w.OldObject, "the stored object"
	}
	if object == nil {
		object, called = w.Target, "connections to the object"
	}
	if object == nil {
		return "some requests"
	}
	text, err := json.Marshal(object)
	if err != nil || len(text) > 200 {
		return "some objects"
	}
	return called + " " + string(text)
}

// operations are what admission calls the verbs that have an object. A read under a where is about the stored object,
// as a deletion is.
var operations = map[string]string{"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE", "deletecollection": "DELETE"}

// worldsOf finds what each rule of a role is about, by asking an index that has nothing else.
func (c *checker) worldsOf(r role) []worlds {
	const probe = "probe"
	meta := metav1.ObjectMeta{Namespace: probe, Name: policyv1alpha1.PolicyName}
	ix := ruleset.Build(ruleset.Input{
		MasterNamespace: probe, Kinds: c.Index.Kinds(), CompileRule: noted, Part: ruleset.Written, // also what is not enforced yet
		Policies: []*policyv1alpha1.Policy{{ObjectMeta: meta, Roles: map[string]policyv1alpha1.PolicyRole{probe: {Rules: r.policy}}}},
		PolicyBindings: []*policyv1alpha1.PolicyBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: probe, Name: probe},
			RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{probe: {RoleName: probe, UserNames: []string{probe}}}}},
	})
	names := []string{""}
	for _, rule := range r.policy {
		if len(rule.ResourceNames) > 0 && !slices.Contains(names, rule.ResourceNames[0]) {
			names = append(names, rule.ResourceNames[0])
		}
	}
	out := make([]worlds, len(r.policy))
	seen := map[string]bool{}
	for _, res := range c.Resources {
		for _, verb := range c.Verbs {
			if connect.StandsIn(verb) {
				continue
			}
			for _, name := range names {
				attrs := authorizer.AttributesRecord{Verb: verb, APIGroup: res.Group, APIVersion: res.Version, Resource: res.Resource, Subresource: res.Subresource, Name: name, ResourceRequest: true}
				if res.Namespaced {
					attrs.Namespace = probe
				}
				ix.Everyone(attrs, func(h ruleset.Hit) {
					if key := fmt.Sprint(h.RuleIndex(), verb, res.Group, res.Resource, res.Subresource); !seen[key] {
						seen[key] = true
						out[h.RuleIndex()].add(res, plan.Target(c.Resources, res.Group, res.Resource), verb, &r.policy[h.RuleIndex()])
					}
				})
			}
		}
	}
	for i := range out {
		if wide := ruleset.Coverage(&r.policy[i], c.Index.Kinds()).Wildcard; wide || len(out[i].all) > maxWorlds {
			out[i].all = widest(out[i].all, ruleset.NamedConnections(&r.policy[i]))
		}
	}
	return out
}

// noted is the condition of a rule of which only the place counts.
func noted(ruleset.RoleRef, int, *policyv1alpha1.PolicyRule) (ruleset.Condition, error) {
	return mark{}, nil
}

type mark struct{}

// RuleCondition implements ruleset.Condition.
func (mark) RuleCondition() {}

func (w *worlds) add(res plan.Resource, target *compare.Shape, verb string, rule *policyv1alpha1.PolicyRule) {
	operation := operations[verb]
	connects := connect.Of(res.Group, res.Resource, res.Subresource) != connect.None
	if connects {
		operation = "CONNECT" // there is no object, which a condition may overlook
	}
	aimed := ruleset.NamedConnections(rule).Has(res.Group, res.Resource, res.Subresource)
	if rule.Where != "" && !aimed && (connects || !res.Own && operation != "") {
		w.bodiless = true // a where is about the object, which such a request does not have
		return
	}
	if operation == "" && verbs.IsRead(verb) && rule.When == "" && res.Subresource == "" {
		operation = "DELETE"
	}
	if operation == "" {
		w.rest = true
		return
	}
	shape := res.Shape
	if shape == nil {
		shape = compare.Unknown()
	}
	if res.Namespaced && res.Own {
		shape = shape.Placed()
	}
	if res.Own && operation != "CREATE" {
		shape = shape.Stored()
	}
	u := compare.Of(operation, shape)
	u.OwnKind, u.Namespaced, u.Connects, u.Target = res.Own, res.Namespaced, connects, target
	u.Known = map[string]any{"request.verb": verb, "request.apiGroup": res.Group, "request.apiVersion": res.Version, "request.resource": res.Resource, "request.subresource": res.Subresource}
	w.all = append(w.all, u)
}

// widest are worlds in which nothing is known of the kind, one for each operation: what holds in them holds in all.
// Of a connection it is known which one it is, and what it goes to, if a where is about that.
func widest(all []compare.Universe, aims connect.Set) (out []compare.Universe) {
	for _, u := range all {
		known, target := map[string]any{}, (*compare.Shape)(nil)
		resource, _ := u.Known["request.resource"].(string)
		if subresource, _ := u.Known["request.subresource"].(string); u.Connects && aims.Has("", resource, subresource) {
			known = map[string]any{"request.apiGroup": "", "request.resource": resource, "request.subresource": subresource}
			target = u.Target
		}
		if slices.ContainsFunc(out, func(o compare.Universe) bool {
			return o.Operation == u.Operation && o.OwnKind == u.OwnKind && maps.Equal(o.Known, known)
		}) {
			continue
		}
		wide := compare.Of(u.Operation, compare.Unknown())
		wide.OwnKind, wide.Namespaced, wide.Connects, wide.Known, wide.Target = u.OwnKind, true, u.Connects, known, target
		out = append(out, wide)
	}
	slices.SortStableFunc(out, func(a, b compare.Universe) int { return strings.Compare(a.Operation, b.Operation) })
	return out
}
