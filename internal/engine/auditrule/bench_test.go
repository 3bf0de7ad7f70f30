package auditrule

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// benchSinks returns sinks that each have rules rules of their own, of the kinds that the policies of managed clusters
// have: quiet controllers by user and verb, sensitive resources, leader election objects by name, health checks by
// path.
func benchSinks(sinks, rules int) ([]Source, []*v1alpha1.AuditClass) {
	var sources []Source
	var classes []*v1alpha1.AuditClass
	for s := range sinks {
		src := Source{Name: fmt.Sprintf("sink-%d", s), Receives: true, Policy: v1alpha1.Policy{Level: v1alpha1.LevelNone}}
		for r := range rules {
			class := &v1alpha1.AuditClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("class-%d-%d", s, r)}}
			class.Spec.Rules = []v1alpha1.Rule{benchRule(s, r)}
			classes = append(classes, class)
			level := []v1alpha1.Level{v1alpha1.LevelNone, v1alpha1.LevelMetadata, v1alpha1.LevelRequest, v1alpha1.LevelRequestResponse}[(s+r)%4]
			src.Policy.Rules = append(src.Policy.Rules, v1alpha1.PolicyRule{Level: level, WithAuditClass: class.Name})
		}
		sources = append(sources, src)
	}
	return sources, classes
}

func benchRule(s, r int) v1alpha1.Rule {
	resource := func(kinds ...string) []v1alpha1.GroupResourceSelector {
		sel := v1alpha1.GroupResourceSelector{Group: []string{"", "apps", "batch"}[r%3]}
		for _, k := range kinds {
			sel.Resources = append(sel.Resources, v1alpha1.ResourceSelector{Kind: k})
		}
		return []v1alpha1.GroupResourceSelector{sel}
	}
	user := func(names ...string) []v1alpha1.SubjectSelector {
		return []v1alpha1.SubjectSelector{{Type: v1alpha1.SubjectUser, Names: names}}
	}
	switch r % 5 {
	case 0:
		return v1alpha1.Rule{Subjects: user(fmt.Sprintf("system:controller-%d-%d", s, r), "system:kube-proxy"), Verbs: []string{"watch", "get"},
			GroupResourceSelectors: resource("endpoints", "services", fmt.Sprintf("kind-%d", s))}
	case 1:
		return v1alpha1.Rule{Verbs: []string{"create", "update", "patch", "delete"}, GroupResourceSelectors: resource("secrets", "configmaps", fmt.Sprintf("kind-%d", r))}
	case 2:
		sel := resource("leases", "configmaps")
		sel[0].Resources[1].ObjectNames = []string{fmt.Sprintf("leader-%d", s), "controller-leader"}
		return v1alpha1.Rule{Subjects: user("system:kube-scheduler", "system:kube-controller-manager"), GroupResourceSelectors: sel}
	case 3:
		return v1alpha1.Rule{Subjects: []v1alpha1.SubjectSelector{{Type: v1alpha1.SubjectUserGroup, Names: []string{"system:nodes", fmt.Sprintf("team-%d", s)}}},
			NonResourceSelectors: v1alpha1.NonResourceSelectors{{URLs: []string{"/healthz*", "/version", "/swagger*"}}}}
	default:
		sel := resource("roles", "rolebindings", fmt.Sprintf("kind-%d", r))
		sel[0].Scope, sel[0].Namespaces = v1alpha1.ScopeNamespaced, []v1alpha1.NamespaceSelector{{Name: "kube-system"}, {Name: fmt.Sprintf("team-%d", s)}}
		return v1alpha1.Rule{Verbs: []string{"create", "delete"}, GroupResourceSelectors: sel}
	}
}

// benchRequests is a mix as an API server sees it; none and some tell requests that no sink wants from the others.
func benchRequests() (none, some []authorizer.Attributes) {
	alice := &user.DefaultInfo{Name: "alice", Groups: []string{"devs", "team-x", "system:authenticated"}}
	node := &user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes", "system:authenticated"}}
	resource := func(u user.Info, verb, group, res, ns, name string) authorizer.Attributes {
		return &authorizer.AttributesRecord{User: u, Verb: verb, APIGroup: group, Resource: res, Namespace: ns, Name: name, ResourceRequest: true}
	}
	none = []authorizer.Attributes{
		resource(alice, "list", "", "pods", "default", ""),
		resource(alice, "get", "apps", "deployments", "web", "front"),
		resource(node, "get", "", "nodes", "", "n1"),
		&authorizer.AttributesRecord{User: alice, Verb: "get", Path: "/openapi/v3"},
		resource(node, "update", "coordination.k8s.io", "leases", "kube-node-lease", "n1"),
	}
	some = []authorizer.Attributes{
		resource(alice, "create", "", "secrets", "default", ""),
		resource(alice, "patch", "apps", "configmaps", "web", "settings"),
		resource(alice, "create", "batch", "rolebindings", "kube-system", ""),
		&authorizer.AttributesRecord{User: node, Verb: "get", Path: "/healthz/ping"},
	}
	return none, some
}

// BenchmarkLevels compares the level of a request for 32 sinks with stock's evaluator on the policy of one of them and
// on all of them one after the other.
func BenchmarkLevels(b *testing.B) {
	none, some := benchRequests()
	for _, rules := range []int{5, 10, 20, 100} {
		sources, classes := benchSinks(32, rules)
		ix := Compile(sources, classes)
		var stock []audit.PolicyRuleEvaluator
		for i := range sources {
			p, err := ToPolicy(&sources[i].Policy, classes)
			if err != nil {
				b.Fatal(err)
			}
			stock = append(stock, upstreamEvaluator(b, p))
		}
		for _, mix := range []struct {
			name     string
			requests []authorizer.Attributes
		}{{"unwanted", none}, {"wanted", some}, {"mixed", append(append([]authorizer.Attributes{}, none...), some...)}} {
			name := fmt.Sprintf("rules=%d/%s", rules, mix.name)
			b.Run(name+"/index-32-sinks", func(b *testing.B) {
				b.ReportAllocs()
				levels := make([]Level, 0, 32)
				for i := 0; b.Loop(); i++ {
					levels = ix.Levels(mix.requests[i%len(mix.requests)], levels)
				}
			})
			b.Run(name+"/index-max", func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					ix.Max(mix.requests[i%len(mix.requests)])
				}
			})
			b.Run(name+"/stock-1-policy", func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					stock[0].EvaluatePolicyRule(mix.requests[i%len(mix.requests)])
				}
			})
			b.Run(name+"/stock-32-policies", func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					for _, e := range stock {
						e.EvaluatePolicyRule(mix.requests[i%len(mix.requests)])
					}
				}
			})
		}
	}
}

// BenchmarkRatio measures both sides in turns and reports the quickest turn of each, so that a busy machine disturbs
// the ratio little: what 32 sinks cost in relation to stock's evaluator on the policy of one of them (DA-12: less than
// 2).
func BenchmarkRatio(b *testing.B) {
	none, some := benchRequests()
	mixed := append(append([]authorizer.Attributes{}, none...), some...)
	for _, rules := range []int{5, 10, 20, 100} {
		sources, classes := benchSinks(32, rules)
		ix := Compile(sources, classes)
		p, err := ToPolicy(&sources[0].Policy, classes)
		if err != nil {
			b.Fatal(err)
		}
		stock := upstreamEvaluator(b, p)
		b.Run(fmt.Sprintf("rules=%d", rules), func(b *testing.B) {
			const turn = 900
			levels := make([]Level, 0, 32)
			ours, theirs := time.Hour, time.Hour
			for b.Loop() {
				start := time.Now()
				for i := range turn {
					levels = ix.Levels(mixed[i%len(mixed)], levels)
				}
				middle := time.Now()
				for i := range turn {
					stock.EvaluatePolicyRule(mixed[i%len(mixed)])
				}
				ours, theirs = min(ours, middle.Sub(start)), min(theirs, time.Since(middle))
			}
			b.ReportMetric(float64(ours.Nanoseconds())/turn, "index-ns")
			b.ReportMetric(float64(theirs.Nanoseconds())/turn, "stock-ns")
			b.ReportMetric(float64(ours)/float64(theirs), "ratio")
		})
	}
}
