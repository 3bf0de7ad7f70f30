package auditrule

import (
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// chooser makes the choices of a random case, from a seed or from the bytes of a fuzzer.
type chooser struct {
	rng  *rand.Rand
	data []byte
}

func seeded(seed int64) *chooser { return &chooser{rng: rand.New(rand.NewSource(seed))} }

func (c *chooser) n(k int) int {
	if c.rng != nil {
		return c.rng.Intn(k)
	}
	if len(c.data) == 0 {
		return 0
	}
	b := c.data[0]
	c.data = c.data[1:]
	return int(b) % k
}

func (c *chooser) maybe(oneIn int) bool { return c.n(oneIn) == 0 }

func pick[T any](c *chooser, from []T) T { return from[c.n(len(from))] }

// some returns up to limit values, possibly none, possibly repeated.
func some[T any](c *chooser, limit int, from []T) []T {
	var out []T
	for range c.n(limit + 1) {
		out = append(out, pick(c, from))
	}
	return out
}

func atLeastOne[T any](c *chooser, limit int, from []T) []T {
	return append(some(c, limit-1, from), pick(c, from))
}

// Few values, so that rules and requests meet; several are prefixes or wildcards of others.
var (
	someUsers      = []string{"alice", "bob", "system:kube-proxy", "*", "carol"}
	someGroups     = []string{"system:authenticated", "system:masters", "devs", "alice"}
	someVerbs      = []string{"get", "list", "create", "watch", "post", "delete"}
	someAPIGroups  = []string{"", "apps", "batch", "*"}
	someResources  = []string{"pods", "secrets", "deployments", "namespaces", "nodes"}
	someSubs       = []string{"log", "status", "scale"}
	someNames      = []string{"one", "two", "controller-leader", "*"}
	someNamespaces = []string{"kube-system", "vault", "default"}
	somePaths      = []string{"/api", "/api*", "/version", "/healthz/*", "*", "/", "/api/v1*", "/healthz"}
	someLevels     = []v1alpha1.Level{v1alpha1.LevelNone, v1alpha1.LevelMetadata, v1alpha1.LevelRequest, v1alpha1.LevelRequestResponse}
)

func randomClassRule(c *chooser) v1alpha1.Rule {
	var r v1alpha1.Rule
	for range c.n(3) {
		s := v1alpha1.SubjectSelector{Type: v1alpha1.SubjectUser, Names: atLeastOne(c, 2, someUsers)}
		if c.maybe(2) {
			s = v1alpha1.SubjectSelector{Type: v1alpha1.SubjectUserGroup, Names: atLeastOne(c, 2, someGroups)}
		}
		r.Subjects = append(r.Subjects, s)
	}
	if len(r.Subjects) > 1 && r.Subjects[0].Type != r.Subjects[1].Type {
		r.AllSubjects = c.maybe(2)
	}
	r.Verbs = some(c, 3, someVerbs)
	if c.maybe(12) {
		r.Verbs = append(r.Verbs, "*")
	}
	switch c.n(5) {
	case 0:
	case 1:
		for range 1 + c.n(2) {
			r.NonResourceSelectors = append(r.NonResourceSelectors, v1alpha1.NonResourceSelector{URLs: atLeastOne(c, 3, somePaths)})
		}
	default:
		for range 1 + c.n(3) {
			r.GroupResourceSelectors = append(r.GroupResourceSelectors, randomSelector(c))
		}
	}
	return r
}

func randomSelector(c *chooser) v1alpha1.GroupResourceSelector {
	s := v1alpha1.GroupResourceSelector{Group: pick(c, someAPIGroups)}
	switch c.n(5) {
	case 0:
	case 1:
		s.Scope = v1alpha1.ScopeAny
	case 2:
		s.Scope = v1alpha1.ScopeCluster
	default:
		s.Scope = v1alpha1.ScopeNamespaced
		for _, ns := range some(c, 2, someNamespaces) {
			s.Namespaces = append(s.Namespaces, v1alpha1.NamespaceSelector{Name: ns})
		}
	}
	for range c.n(4) {
		r := v1alpha1.ResourceSelector{Kind: pick(c, someResources), ObjectNames: some(c, 2, someNames)}
		if c.maybe(4) {
			r.Kind = "*"
		}
		if c.maybe(2) {
			r.Subresources = atLeastOne(c, 2, append([]string{"*"}, someSubs...))
		}
		s.Resources = append(s.Resources, r)
	}
	return s
}

// randomSinks returns sources and classes; every class that is referred to exists.
func randomSinks(c *chooser, sinks int) ([]Source, []*v1alpha1.AuditClass) {
	var classes []*v1alpha1.AuditClass
	var names []string
	for i := range 1 + c.n(6) {
		class := &v1alpha1.AuditClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("class-%d", i)}}
		for range 1 + c.n(4) {
			class.Spec.Rules = append(class.Spec.Rules, randomClassRule(c))
		}
		classes = append(classes, class)
		names = append(names, class.Name)
	}
	sources := make([]Source, sinks)
	for i := range sources {
		sources[i] = Source{Name: fmt.Sprintf("sink-%d", i), Receives: true}
		if c.maybe(2) {
			sources[i].Policy.Level = pick(c, someLevels)
		}
		for _, class := range some(c, 4, names) {
			sources[i].Policy.Rules = append(sources[i].Policy.Rules, v1alpha1.PolicyRule{Level: pick(c, someLevels), WithAuditClass: class})
		}
	}
	return sources, classes
}

// randomPolicy returns a policy that upstream's validation accepts and that has an equivalent.
func randomPolicy(c *chooser) *auditv1.Policy {
	p := &auditv1.Policy{}
	for range 1 + c.n(8) {
		r := auditv1.PolicyRule{Level: auditv1.Level(pick(c, someLevels)), Verbs: some(c, 3, someVerbs)}
		if c.maybe(2) {
			r.Users = some(c, 2, someUsers)
		}
		if c.maybe(2) {
			r.UserGroups = some(c, 2, someGroups)
		}
		switch c.n(4) {
		case 0:
			r.NonResourceURLs = some(c, 3, somePaths)
		default:
			r.Namespaces = some(c, 2, append([]string{""}, someNamespaces...))
			for range c.n(3) {
				gr := auditv1.GroupResources{Group: pick(c, someAPIGroups)}
				for range c.n(3) {
					res := pick(c, append([]string{"*"}, someResources...))
					if res != "*" && c.maybe(2) {
						res += "/" + pick(c, append([]string{"*"}, someSubs...))
					} else if res == "*" && c.maybe(2) {
						res += "/" + pick(c, someSubs)
					}
					gr.Resources = append(gr.Resources, res)
				}
				if len(gr.Resources) > 0 {
					gr.ResourceNames = some(c, 2, someNames)
				}
				r.Resources = append(r.Resources, gr)
			}
		}
		if c.maybe(6) {
			r.OmitStages = []auditv1.Stage{auditv1.StagePanic}
		}
		p.Rules = append(p.Rules, r)
	}
	return p
}

func randomAttributes(c *chooser) *authorizer.AttributesRecord {
	a := &authorizer.AttributesRecord{Verb: pick(c, append([]string{"", "*"}, someVerbs...))}
	if !c.maybe(8) {
		a.User = &user.DefaultInfo{Name: pick(c, append([]string{"", "nobody"}, someUsers...)), Groups: some(c, 3, append([]string{"others"}, someGroups...))}
	}
	if c.maybe(4) {
		a.Path = pick(c, []string{"/", "/api", "/api/v1", "/apis", "/version", "/version/x", "/healthz", "/healthz/etcd", "", "*"})
		return a
	}
	a.ResourceRequest = true
	a.APIGroup = pick(c, append([]string{"example.com"}, someAPIGroups...))
	a.Resource = pick(c, append([]string{"widgets", "*"}, someResources...))
	if c.maybe(2) {
		a.Subresource = pick(c, append([]string{"exec", "*"}, someSubs...))
	}
	if !c.maybe(3) {
		a.Namespace = pick(c, append([]string{"other"}, someNamespaces...))
	}
	if c.maybe(2) {
		a.Name = pick(c, append([]string{"three"}, someNames...))
	}
	return a
}

// runs is how often a random test runs: PROVISO_LAW_RUNS if set.
func runs(n int) int {
	if runs, err := strconv.Atoi(os.Getenv("PROVISO_LAW_RUNS")); err == nil && runs > 0 {
		return runs
	}
	if testing.Short() {
		return n / 10
	}
	return n
}
