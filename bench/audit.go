package main

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/audit"
	upstream "k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/engine/auditrule"
)

// rulesPerSink is about what the policies of managed clusters have.
const rulesPerSink = 10

// audits is the level of a mix of requests for all sinks. The peers are upstream's evaluator on the policy of one of
// them, which is all that a stock API server has, and on the policies of all of them one after the other.
func audits(b *bench) error {
	if !b.wanted("audit-level") && !b.wanted("audit-level-all") {
		return nil
	}
	for _, n := range []int{1, 2, 4, 8, 16, 32} {
		sources, classes := auditSinks(n)
		evaluators, err := upstreamEvaluators(sources, classes)
		if err != nil {
			return err
		}
		ix, requests := auditrule.Compile(sources, classes), auditedRequests()
		if err := sameLevels(ix, evaluators, requests); err != nil {
			return err
		}
		levels := make([]auditrule.Level, 0, n)
		ours := side{"proviso", inTurn(requests, func(r authorizer.Attributes) { levels = ix.Levels(r, levels) })}
		one := side{"upstream-one-policy", inTurn(requests, func(r authorizer.Attributes) { evaluators[0].EvaluatePolicyRule(r) })}
		if err := b.compare("audit-level", n, ours, one); err != nil {
			return err
		}
		if n == 1 {
			continue // one is all
		}
		all := side{"upstream-all-policies", inTurn(requests, func(r authorizer.Attributes) {
			for _, e := range evaluators {
				e.EvaluatePolicyRule(r)
			}
		})}
		if err := b.compare("audit-level-all", n, ours, all); err != nil {
			return err
		}
	}
	return nil
}

// inTurn works on one request after the other.
func inTurn(requests []authorizer.Attributes, work func(authorizer.Attributes)) func() error {
	i := 0
	return func() error {
		work(requests[i%len(requests)])
		i++
		return nil
	}
}

func upstreamEvaluators(sources []auditrule.Source, classes []*v1alpha1.AuditClass) ([]audit.PolicyRuleEvaluator, error) {
	var all []audit.PolicyRuleEvaluator
	for i := range sources {
		policy, err := auditrule.ToPolicy(&sources[i].Policy, classes)
		if err != nil {
			return nil, err
		}
		internal, err := auditrule.InternalPolicy(policy)
		if err != nil {
			return nil, err
		}
		all = append(all, upstream.NewPolicyRuleEvaluator(internal))
	}
	return all, nil
}

// sameLevels holds every sink against upstream: sides that answer differently are not comparable.
func sameLevels(ix *auditrule.Index, evaluators []audit.PolicyRuleEvaluator, requests []authorizer.Attributes) error {
	for _, r := range requests {
		for i, got := range ix.Levels(r, nil) {
			if want, ok := auditrule.LevelOf(evaluators[i].EvaluatePolicyRule(r).Level); !ok || got != want {
				return fmt.Errorf("audit-level: %s of %s: sink %d has level %v, upstream %v", r.GetVerb(), r.GetResource()+r.GetPath(), i, got, want)
			}
		}
	}
	return nil
}

// auditSinks are sinks with a class of their own for each rule.
func auditSinks(n int) ([]auditrule.Source, []*v1alpha1.AuditClass) {
	var sources []auditrule.Source
	var classes []*v1alpha1.AuditClass
	levels := []v1alpha1.Level{v1alpha1.LevelNone, v1alpha1.LevelMetadata, v1alpha1.LevelRequest, v1alpha1.LevelRequestResponse}
	for s := range n {
		source := auditrule.Source{Name: fmt.Sprint("sink-", s), Receives: true, Policy: v1alpha1.Policy{Level: v1alpha1.LevelNone}}
		for r := range rulesPerSink {
			class := &v1alpha1.AuditClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("class-%d-%d", s, r)}}
			class.Spec.Rules = []v1alpha1.Rule{auditRule(s, r)}
			classes = append(classes, class)
			source.Policy.Rules = append(source.Policy.Rules, v1alpha1.PolicyRule{Level: levels[(s+r)%len(levels)], WithAuditClass: class.Name})
		}
		sources = append(sources, source)
	}
	return sources, classes
}

// auditRule is in turn about quiet controllers, sensitive resources, health checks and the objects of some namespaces.
func auditRule(s, r int) v1alpha1.Rule {
	selector := v1alpha1.GroupResourceSelector{Group: []string{"", "apps", "batch"}[r%3]}
	kinds := func(names ...string) []v1alpha1.GroupResourceSelector {
		for _, name := range names {
			selector.Resources = append(selector.Resources, v1alpha1.ResourceSelector{Kind: name})
		}
		return []v1alpha1.GroupResourceSelector{selector}
	}
	switch r % 4 {
	case 0:
		return v1alpha1.Rule{Subjects: []v1alpha1.SubjectSelector{{Type: v1alpha1.SubjectUser, Names: []string{fmt.Sprintf("system:controller-%d-%d", s, r), "system:kube-proxy"}}},
			Verbs: []string{"watch", "get"}, GroupResourceSelectors: kinds("endpoints", "services")}
	case 1:
		return v1alpha1.Rule{Verbs: []string{"create", "update", "patch", "delete"}, GroupResourceSelectors: kinds("secrets", "configmaps", fmt.Sprint("kind-", s))}
	case 2:
		return v1alpha1.Rule{Subjects: []v1alpha1.SubjectSelector{{Type: v1alpha1.SubjectUserGroup, Names: []string{"system:nodes", fmt.Sprint("team-", s)}}},
			NonResourceSelectors: v1alpha1.NonResourceSelectors{{URLs: []string{"/healthz*", "/version"}}}}
	default:
		selector.Scope, selector.Namespaces = v1alpha1.ScopeNamespaced, []v1alpha1.NamespaceSelector{{Name: "kube-system"}, {Name: fmt.Sprint("team-", s)}}
		return v1alpha1.Rule{Verbs: []string{"create", "delete"}, GroupResourceSelectors: kinds("roles", "rolebindings", fmt.Sprint("kind-", r))}
	}
}

// auditedRequests is a mix of which sinks want about half.
func auditedRequests() []authorizer.Attributes {
	alice := &user.DefaultInfo{Name: "alice", Groups: []string{"devs", "team-x", "system:authenticated"}}
	node := &user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes", "system:authenticated"}}
	resource := func(u user.Info, verb, group, name, namespace string) authorizer.Attributes {
		return &authorizer.AttributesRecord{User: u, Verb: verb, APIGroup: group, Resource: name, Namespace: namespace, Name: "one", ResourceRequest: true}
	}
	return []authorizer.Attributes{
		resource(alice, "list", "", "pods", "default"),
		resource(alice, "get", "apps", "deployments", "web"),
		resource(node, "get", "", "nodes", ""),
		&authorizer.AttributesRecord{User: alice, Verb: "get", Path: "/openapi/v3"},
		resource(alice, "create", "apps", "secrets", "default"),
		resource(alice, "patch", "apps", "configmaps", "web"),
		resource(alice, "create", "", "rolebindings", "kube-system"),
		&authorizer.AttributesRecord{User: node, Verb: "get", Path: "/healthz/ping"},
	}
}
