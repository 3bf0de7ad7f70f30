package auditrule

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// ToPolicy compiles the policy of a sink to an audit.k8s.io/v1 policy that gives every request the same level. It is an
// error if a class is missing or invalid, or if a rule has no equivalent in such a policy; the error names the rule.
func ToPolicy(policy *v1alpha1.Policy, classes []*v1alpha1.AuditClass) (*auditv1.Policy, error) {
	out, _, err := ToPolicyFrom(policy, classes)
	return out, err
}

// ToPolicyFrom is ToPolicy, and also returns the origin of each rule of the result.
func ToPolicyFrom(policy *v1alpha1.Policy, classes []*v1alpha1.AuditClass) (*auditv1.Policy, [][]string, error) {
	set := newClassSet(classes)
	var sink Sink
	byDefault, _, err := compilePolicy(policy, set.lookup, &sink, maxClauses)
	if err != nil {
		return nil, nil, err
	}
	if len(sink.Missing) > 0 {
		return nil, nil, fmt.Errorf("spec.policy.rules: audit classes that do not exist: %s", sink.missing())
	}
	w := policyWriter{}
	for i, rule := range policy.Rules {
		level, _ := LevelOf(rule.Level)
		for j, alternatives := range set.lookup(rule.WithAuditClass).rules {
			for _, p := range alternatives {
				from := fmt.Sprintf("spec.policy.rules[%d]: audit class %q, spec.rules[%d]", i, rule.WithAuditClass, j)
				if err := w.add(p, level, from); err != nil {
					return nil, nil, fmt.Errorf("spec.policy.rules[%d]: audit class %q: spec.rules[%d]: %w", i, rule.WithAuditClass, j, err)
				}
			}
		}
	}
	out := &auditv1.Policy{TypeMeta: metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Policy"}}
	var from [][]string
	for _, r := range w.rules(byDefault) {
		out.Rules, from = append(out.Rules, r.PolicyRule), append(from, r.from)
	}
	for _, s := range sinkOmits {
		out.OmitStages = append(out.OmitStages, auditv1.Stage(s))
	}
	return out, from, nil
}

// tracedRule is a rule with its origin.
type tracedRule struct {
	auditv1.PolicyRule
	from []string
}

// policyWriter collects the rules of an audit policy. An audit policy can ask for "no namespace" but not for "any
// namespace". If a rule of a sink does, the policy is written in two parts: first all rules as they apply to requests
// without a namespace, closed by their default, then all rules for the other requests, where "any namespace" is not a
// condition.
type policyWriter struct {
	clauses []written
	split   bool
}

type written struct {
	rules     []auditv1.PolicyRule // without namespaces
	scope     scope
	target    target
	namespace []string
	from      string
}

func (w *policyWriter) add(p *predicate, level Level, from string) error {
	if p.asksDecision() {
		return errors.New("decisions and conditional have no equivalent in an audit policy, which is asked before a request is decided")
	}
	base := auditv1.PolicyRule{Level: auditv1.Level(level.Audit()), Verbs: slices.Clone(p.verbs), NonResourceURLs: slices.Clone(p.paths)}
	if p.target == targetResource {
		resources, err := policyResources(p)
		if err != nil {
			return err
		}
		base.Resources = resources
	}
	out := written{scope: p.scope, target: p.target, namespace: p.namespaces, from: from}
	switch {
	case len(p.users) == 0 && len(p.groups) == 0:
		out.rules = []auditv1.PolicyRule{base}
	case p.both:
		base.Users, base.UserGroups = slices.Clone(p.users), slices.Clone(p.groups)
		out.rules = []auditv1.PolicyRule{base}
	default: // in one rule of an audit policy users and groups would both have to match
		if len(p.users) > 0 {
			r := *base.DeepCopy()
			r.Users = slices.Clone(p.users)
			out.rules = append(out.rules, r)
		}
		if len(p.groups) > 0 {
			r := *base.DeepCopy()
			r.UserGroups = slices.Clone(p.groups)
			out.rules = append(out.rules, r)
		}
	}
	w.split = w.split || p.scope == scopeNamespaced
	w.clauses = append(w.clauses, out)
	return nil
}

func (w *policyWriter) rules(byDefault Level) []tracedRule {
	level, from := auditv1.Level(byDefault.Audit()), []string{"spec.policy.level"}
	rest := tracedRule{auditv1.PolicyRule{Level: level}, from}
	if !w.split {
		return append(w.part(func(c *written) ([]string, bool) {
			switch c.scope {
			case scopeCluster:
				return []string{""}, true
			default:
				return c.namespace, true
			}
		}), rest)
	}
	rules := w.part(func(c *written) ([]string, bool) {
		return []string{""}, c.target != targetPath && (c.scope == scopeAny || c.scope == scopeCluster)
	})
	rules = append(rules, tracedRule{auditv1.PolicyRule{Level: level, Namespaces: []string{""}}, from})
	rules = append(rules, w.part(func(c *written) ([]string, bool) { return c.namespace, c.scope != scopeCluster })...)
	return append(rules, rest)
}

// part writes the clauses that with selects, with the namespaces that it returns, and joins neighbours that differ only
// in their resources.
func (w *policyWriter) part(with func(*written) (namespaces []string, ok bool)) []tracedRule {
	var out []tracedRule
	for i := range w.clauses {
		namespaces, ok := with(&w.clauses[i])
		if !ok {
			continue
		}
		for _, r := range w.clauses[i].rules {
			r := *r.DeepCopy()
			r.Namespaces = slices.Clone(namespaces)
			from := w.clauses[i].from
			if n := len(out); n > 0 && joinable(&out[n-1].PolicyRule, &r) {
				out[n-1].Resources = append(out[n-1].Resources, r.Resources...)
				if !slices.Contains(out[n-1].from, from) {
					out[n-1].from = append(out[n-1].from, from)
				}
				continue
			}
			out = append(out, tracedRule{r, []string{from}})
		}
	}
	return out
}

func joinable(a, b *auditv1.PolicyRule) bool {
	return len(a.Resources) > 0 && len(b.Resources) > 0 && a.Level == b.Level && slices.Equal(a.Users, b.Users) &&
		slices.Equal(a.UserGroups, b.UserGroups) && slices.Equal(a.Verbs, b.Verbs) && slices.Equal(a.Namespaces, b.Namespaces)
}

// policyResources lists the pairs of a predicate, one entry per group.
func policyResources(p *predicate) ([]auditv1.GroupResources, error) {
	var out []auditv1.GroupResources
	for _, pair := range p.pairs {
		at := slices.IndexFunc(out, func(g auditv1.GroupResources) bool { return g.Group == pair.group })
		if at < 0 {
			at = len(out)
			out = append(out, auditv1.GroupResources{Group: pair.group, ResourceNames: slices.Clone(p.names)})
		}
		switch {
		case p.subresources == subAll && pair.resource == wildcard:
			out[at].Resources = append(out[at].Resources, wildcard)
		case p.subresources == subAll:
			out[at].Resources = append(out[at].Resources, pair.resource+"/*")
		case p.subresources == subListed:
			for _, s := range p.subNames {
				out[at].Resources = append(out[at].Resources, pair.resource+"/"+s)
			}
		case pair.resource == wildcard:
			return nil, fmt.Errorf("every resource of group %q without subresources has no equivalent in an audit policy, "+
				"where %q includes subresources; name the resources, or add subresources: [%q]", pair.group, wildcard, wildcard)
		default:
			out[at].Resources = append(out[at].Resources, pair.resource)
		}
	}
	return out, nil
}

// InternalPolicy returns the policy as upstream's evaluator takes it.
func InternalPolicy(p *auditv1.Policy) (*auditinternal.Policy, error) {
	out := &auditinternal.Policy{}
	if err := auditv1.Convert_v1_Policy_To_audit_Policy(p.DeepCopy(), out, nil); err != nil {
		return nil, fmt.Errorf("audit policy: %w", err)
	}
	return out, nil
}
