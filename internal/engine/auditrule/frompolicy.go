package auditrule

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/apis/audit/validation"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// Converted is an audit policy as a sink with its classes.
type Converted struct {
	Sink    *v1alpha1.AuditSink
	Classes []*v1alpha1.AuditClass
	// Lost lists what the sink cannot express and therefore was left out. It never affects the level of a request.
	Lost []string
}

// FromPolicy turns an audit.k8s.io/v1 policy into a sink of that name and the classes that its policy refers to. The
// sink gives every request the level that the policy gives. Rules that no class can express are refused, by name. The
// sink has no webhook yet.
func FromPolicy(name string, policy *auditv1.Policy) (*Converted, error) {
	internal, err := InternalPolicy(policy)
	if err != nil {
		return nil, err
	}
	if errs := validation.ValidatePolicy(internal); len(errs) > 0 {
		return nil, fmt.Errorf("audit policy: %w", errs.ToAggregate())
	}
	out := &Converted{Sink: &v1alpha1.AuditSink{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "AuditSink"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.AuditSinkSpec{Policy: v1alpha1.Policy{Level: v1alpha1.LevelNone}},
	}}
	out.noteOmissions("", policy.OmitStages)
	counts := len(policy.Rules) // those that can match
	for i := range policy.Rules {
		r := &policy.Rules[i]
		path := fmt.Sprintf("rules[%d]", i)
		out.noteOmissions(path+".", r.OmitStages)
		rule, err := classRule(r)
		if err != nil {
			return nil, fmt.Errorf("%s.%w", path, err)
		}
		level := v1alpha1.Level(r.Level)
		if rule.matchesEverything() {
			out.Sink.Spec.Policy.Level = level
			counts = i + 1
			if rest := len(policy.Rules) - i - 1; rest > 0 {
				out.Lost = append(out.Lost, fmt.Sprintf("rules[%d]: matches every request; the %d rules after it never apply and are left out", i, rest))
			}
			break
		}
		out.append(level, rule.Rule)
	}
	out.omitManagedFields(policy, policy.Rules[:counts])
	out.noteRequestReceived(policy)
	return out, nil
}

// append puts the rule into the class of the run of rules with the same level.
func (c *Converted) append(level v1alpha1.Level, rule v1alpha1.Rule) {
	rules := &c.Sink.Spec.Policy.Rules
	if n := len(*rules); n > 0 && (*rules)[n-1].Level == level {
		last := c.Classes[len(c.Classes)-1]
		last.Spec.Rules = append(last.Spec.Rules, rule)
		return
	}
	class := fmt.Sprintf("%s-%02d-%s", c.Sink.Name, len(*rules)+1, strings.ToLower(string(level)))
	*rules = append(*rules, v1alpha1.PolicyRule{Level: level, WithAuditClass: class})
	c.Classes = append(c.Classes, &v1alpha1.AuditClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "AuditClass"},
		ObjectMeta: metav1.ObjectMeta{Name: class},
		Spec:       v1alpha1.AuditClassSpec{Rules: []v1alpha1.Rule{rule}},
	})
}

type convertedRule struct{ v1alpha1.Rule }

func (r *convertedRule) matchesEverything() bool {
	return len(r.Subjects) == 0 && len(r.Verbs) == 0 && len(r.GroupResourceSelectors) == 0 && len(r.NonResourceSelectors) == 0
}

// classRule converts one rule; the error continues a path to it.
func classRule(r *auditv1.PolicyRule) (*convertedRule, error) {
	out := &convertedRule{}
	if len(r.Users) > 0 {
		out.Subjects = append(out.Subjects, v1alpha1.SubjectSelector{Type: v1alpha1.SubjectUser, Names: slices.Clone(r.Users)})
	}
	if len(r.UserGroups) > 0 {
		out.Subjects = append(out.Subjects, v1alpha1.SubjectSelector{Type: v1alpha1.SubjectUserGroup, Names: slices.Clone(r.UserGroups)})
	}
	out.AllSubjects = len(out.Subjects) > 1
	if slices.Contains(r.Verbs, wildcard) {
		return nil, fmt.Errorf("verbs: %q is not a verb in an audit policy and matches no request; leave verbs out to match all", wildcard)
	}
	out.Verbs = slices.Clone(r.Verbs)
	if len(r.NonResourceURLs) > 0 {
		out.NonResourceSelectors = v1alpha1.NonResourceSelectors{{URLs: slices.Clone(r.NonResourceURLs)}}
		return out, nil
	}
	groups, err := groupSelectors(r.Resources)
	if err != nil {
		return nil, err
	}
	if len(groups) == 0 && len(r.Namespaces) > 0 {
		groups = []v1alpha1.GroupResourceSelector{{Group: wildcard, Resources: everyResource()}}
	}
	out.GroupResourceSelectors = scopedSelectors(groups, r.Namespaces)
	return out, nil
}

// scopedSelectors applies the namespaces of a policy rule, where "" stands for requests without one.
func scopedSelectors(groups []v1alpha1.GroupResourceSelector, namespaces []string) []v1alpha1.GroupResourceSelector {
	var named []v1alpha1.NamespaceSelector
	for _, ns := range namespaces {
		if ns != "" {
			named = append(named, v1alpha1.NamespaceSelector{Name: ns})
		}
	}
	var out []v1alpha1.GroupResourceSelector
	for _, g := range groups {
		if len(namespaces) == 0 {
			g.Scope = v1alpha1.ScopeAny
			out = append(out, g)
		}
		if slices.Contains(namespaces, "") {
			cluster := *g.DeepCopy()
			cluster.Scope = v1alpha1.ScopeCluster
			out = append(out, cluster)
		}
		if len(named) > 0 {
			g.Scope, g.Namespaces = v1alpha1.ScopeNamespaced, slices.Clone(named)
			out = append(out, g)
		}
	}
	return out
}

func everyResource() []v1alpha1.ResourceSelector {
	return []v1alpha1.ResourceSelector{{Kind: wildcard, Subresources: []string{wildcard}}}
}

func groupSelectors(resources []auditv1.GroupResources) ([]v1alpha1.GroupResourceSelector, error) {
	var out []v1alpha1.GroupResourceSelector
	for i, gr := range resources {
		sel := v1alpha1.GroupResourceSelector{Group: gr.Group}
		if len(gr.Resources) == 0 {
			sel.Resources = everyResource()
		}
		for j, res := range gr.Resources {
			r, err := resourceSelector(res)
			if err != nil {
				return nil, fmt.Errorf("resources[%d].resources[%d]: %w", i, j, err)
			}
			r.ObjectNames = slices.Clone(gr.ResourceNames)
			sel.Resources = append(sel.Resources, r)
		}
		out = append(out, sel)
	}
	return out, nil
}

// resourceSelector converts a resource of an audit policy: pods, pods/log, pods/*, */scale or *.
func resourceSelector(res string) (v1alpha1.ResourceSelector, error) {
	if res == wildcard {
		return everyResource()[0], nil
	}
	kind, sub, isSub := strings.Cut(res, "/")
	switch {
	case kind == "", isSub && sub == "", strings.Contains(sub, "/"):
		return v1alpha1.ResourceSelector{}, fmt.Errorf("%q names no resource and matches no request", res)
	case kind == wildcard && sub == wildcard:
		return v1alpha1.ResourceSelector{}, fmt.Errorf("%q does not mean every subresource in an audit policy, but one that is called %q; "+
			"write %q for every resource with its subresources", res, wildcard, wildcard)
	case !isSub:
		return v1alpha1.ResourceSelector{Kind: kind}, nil
	default:
		return v1alpha1.ResourceSelector{Kind: kind, Subresources: []string{sub}}, nil
	}
}

// omitManagedFields omits managed fields if all rules that record an object do. A sink has one setting for all.
func (c *Converted) omitManagedFields(policy *auditv1.Policy, rules []auditv1.PolicyRule) {
	var omit, keep []int
	for i := range rules {
		if level, _ := LevelOf(rules[i].Level); level < Request {
			continue
		}
		omits := policy.OmitManagedFields
		if own := rules[i].OmitManagedFields; own != nil {
			omits = *own
		}
		if omits {
			omit = append(omit, i)
		} else {
			keep = append(keep, i)
		}
	}
	c.Sink.Spec.OmitManagedFields = len(keep) == 0 && (len(omit) > 0 || policy.OmitManagedFields)
	if len(keep) > 0 {
		for _, i := range omit {
			c.Lost = append(c.Lost, fmt.Sprintf("rules[%d].omitManagedFields: is lost; rules[%d] keeps managed fields, and a sink leaves them out of all events or of none", i, keep[0]))
		}
	}
}

func (c *Converted) noteOmissions(path string, stages []auditv1.Stage) {
	for _, s := range stages {
		if s != auditv1.StageRequestReceived {
			c.Lost = append(c.Lost, fmt.Sprintf("%somitStages: %s is lost; a sink gets ResponseStarted, ResponseComplete and Panic", path, s))
		}
	}
}

// noteRequestReceived adds a note if the policy records a stage that sinks do not get.
func (c *Converted) noteRequestReceived(policy *auditv1.Policy) {
	if slices.Contains(policy.OmitStages, auditv1.StageRequestReceived) {
		return
	}
	for i := range policy.Rules {
		r := &policy.Rules[i]
		if r.Level != auditv1.LevelNone && !slices.Contains(r.OmitStages, auditv1.StageRequestReceived) {
			c.Lost = append(c.Lost, fmt.Sprintf("rules[%d]: events of the stage RequestReceived are lost; a sink does not get them", i))
			return
		}
	}
}
