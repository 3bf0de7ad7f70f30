package auditrule

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// load reads the sinks and classes of a YAML stream the way a client's manifest reaches the server.
func load(t testing.TB, text string) (sinks []*v1alpha1.AuditSink, classes []*v1alpha1.AuditClass) {
	t.Helper()
	for _, doc := range strings.Split(text, "\n---\n") {
		var sink v1alpha1.AuditSink
		var class v1alpha1.AuditClass
		switch {
		case strings.Contains(doc, "kind: AuditSink"):
			if err := yaml.UnmarshalStrict([]byte(doc), &sink); err != nil {
				t.Fatal(err)
			}
			v1alpha1.SetAuditSinkDefaults(&sink)
			sinks = append(sinks, &sink)
		case strings.Contains(doc, "kind: AuditClass"):
			if err := yaml.UnmarshalStrict([]byte(doc), &class); err != nil {
				t.Fatal(err)
			}
			classes = append(classes, &class)
		}
	}
	return sinks, classes
}

// example1 is the seed's Example 1 as written.
const example1 = `apiVersion: auditregistration.k8s.io/v1alpha1
kind: AuditSink
metadata:
  name: mysink
spec:
  policy:
    level: Request # applies to all requests unmatched by rules
    rules:
    - withAuditClass: sensitive-things
      level: Metadata      
    - withAuditClass: noisy-lowrisk-things
      level: None
---
apiVersion: auditregistration.k8s.io/v1alpha1
metadata:
  name: sensitive-things 
kind: AuditClass
spec:
  rules:
  - subjects:
    - type: UserGroup
      names: ["system:masters"]
    verbs: ["create","patch","update","delete"]
  - groupResourceSelectors:
    - group: ""
      resources:
      - kind: secrets
      - kind: configmaps
      scope: Namespaced
      namespaces:
      - name: kube-system
---
apiVersion: auditregistration.k8s.io/v1alpha1
kind: AuditClass
metadata:
  name: noisy-lowrisk-things
spec:
  rules:
  - groupResourceSelectors:
    - group: ""
      resources: 
      - kind: configmaps
        objectNames: ["controller-leader"]
  - subjects:
    - type: Users
      names: ["system:kube-proxy"]
    verbs: ["watch"]
    groupResourceSelectors:
    - group: ""
      resources: 
      - kind: endpoints
      - kind: services
  - subjects:
    - type: UserGroup
      names: ["system:authenticated"]
    nonResourceSelectors:
      urls:
      - "/api*"
      - "/version"
`

func resourceRequest(userName string, groups []string, verb, group, resource, namespace, name string) *authorizer.AttributesRecord {
	resource, sub, _ := strings.Cut(resource, "/")
	return &authorizer.AttributesRecord{User: &user.DefaultInfo{Name: userName, Groups: groups}, ResourceRequest: true,
		Verb: verb, APIGroup: group, Resource: resource, Subresource: sub, Namespace: namespace, Name: name}
}

func pathRequest(userName string, groups []string, verb, path string) *authorizer.AttributesRecord {
	return &authorizer.AttributesRecord{User: &user.DefaultInfo{Name: userName, Groups: groups}, Verb: verb, Path: path}
}

// DA-14, DA-2, DA-3: Example 1 of the seed compiles as written and means what it says.
func TestExample1(t *testing.T) {
	sinks, classes := load(t, example1)
	source := SourceOf(sinks[0])
	source.Receives = true
	ix := Compile([]Source{source}, classes)
	if got := ix.Sinks()[0]; !got.Active || got.Rules != 5 {
		t.Fatalf("Example 1 is not active with 5 rules: %+v", got)
	}
	auth := []string{"system:authenticated"}
	for _, tc := range []struct {
		name string
		a    authorizer.Attributes
		want Level
	}{
		{"a master's write", resourceRequest("root", []string{"system:masters"}, "create", "", "pods", "default", ""), Metadata},
		{"a master's read", resourceRequest("root", []string{"system:masters"}, "get", "", "pods", "default", "x"), Request},
		{"a master's write of a path", pathRequest("root", []string{"system:masters"}, "create", "/api"), Metadata},
		{"a secret in kube-system", resourceRequest("eve", auth, "get", "", "secrets", "kube-system", "x"), Metadata},
		{"a secret elsewhere", resourceRequest("eve", auth, "get", "", "secrets", "default", "x"), Request},
		{"secrets of another group", resourceRequest("eve", auth, "get", "vault.io", "secrets", "kube-system", "x"), Request},
		{"a subresource of a secret", resourceRequest("eve", auth, "get", "", "secrets/status", "kube-system", "x"), Request},
		{"the leader election in kube-system: the first match wins", resourceRequest("eve", auth, "get", "", "configmaps", "kube-system", "controller-leader"), Metadata},
		{"the leader election elsewhere", resourceRequest("eve", auth, "get", "", "configmaps", "default", "controller-leader"), None},
		{"another config map", resourceRequest("eve", auth, "get", "", "configmaps", "default", "settings"), Request},
		{"kube-proxy watches", resourceRequest("system:kube-proxy", auth, "watch", "", "endpoints", "", ""), None},
		{"kube-proxy lists", resourceRequest("system:kube-proxy", auth, "list", "", "endpoints", "", ""), Request},
		{"another watches", resourceRequest("eve", auth, "watch", "", "endpoints", "", ""), Request},
		{"discovery", pathRequest("eve", auth, "get", "/apis/apps"), None},
		{"discovery of nobody", pathRequest("system:anonymous", []string{"system:unauthenticated"}, "get", "/apis/apps"), Request},
		{"version", pathRequest("eve", auth, "get", "/version"), None},
		{"below version", pathRequest("eve", auth, "get", "/version/x"), Request},
	} {
		if got := ix.Levels(tc.a, nil)[0]; got != tc.want {
			t.Errorf("%s: level %s, want %s", tc.name, got, tc.want)
		}
	}
}

// DA-2: what each selector means, with a request that differs in that one thing only.
func TestSelectors(t *testing.T) {
	for _, tc := range []struct {
		name, rule string
		match      []authorizer.Attributes
		miss       []authorizer.Attributes
	}{{
		name: "no subresources means the resource alone",
		rule: `groupResourceSelectors: [{group: "", resources: [{kind: pods}]}]`,
		match: []authorizer.Attributes{
			resourceRequest("u", nil, "get", "", "pods", "ns", "x"), resourceRequest("u", nil, "list", "", "pods", "", "")},
		miss: []authorizer.Attributes{
			resourceRequest("u", nil, "get", "", "pods/log", "ns", "x"), resourceRequest("u", nil, "get", "apps", "pods", "ns", "x"),
			resourceRequest("u", nil, "get", "", "secrets", "ns", "x"), pathRequest("u", nil, "get", "/api/v1/pods")},
	}, {
		name:  "named subresources do not include the resource",
		rule:  `groupResourceSelectors: [{group: "", resources: [{kind: pods, subresources: [log, exec]}]}]`,
		match: []authorizer.Attributes{resourceRequest("u", nil, "get", "", "pods/log", "ns", "x"), resourceRequest("u", nil, "get", "", "pods/exec", "ns", "x")},
		miss:  []authorizer.Attributes{resourceRequest("u", nil, "get", "", "pods", "ns", "x"), resourceRequest("u", nil, "get", "", "pods/status", "ns", "x")},
	}, {
		name:  "* in subresources means all of them",
		rule:  `groupResourceSelectors: [{group: "", resources: [{kind: pods, subresources: ["*"]}]}]`,
		match: []authorizer.Attributes{resourceRequest("u", nil, "get", "", "pods/log", "ns", "x"), resourceRequest("u", nil, "get", "", "pods", "ns", "x")},
		miss:  []authorizer.Attributes{resourceRequest("u", nil, "get", "", "nodes/log", "ns", "x")},
	}, {
		name:  "group and kind *",
		rule:  `groupResourceSelectors: [{group: "*", resources: [{kind: "*"}]}]`,
		match: []authorizer.Attributes{resourceRequest("u", nil, "get", "apps", "deployments", "ns", "x"), resourceRequest("u", nil, "get", "", "nodes", "", "x")},
		miss:  []authorizer.Attributes{resourceRequest("u", nil, "get", "apps", "deployments/scale", "ns", "x"), pathRequest("u", nil, "get", "/x")},
	}, {
		name:  "kind * of one group",
		rule:  `groupResourceSelectors: [{group: apps, resources: [{kind: "*", subresources: [scale]}]}]`,
		match: []authorizer.Attributes{resourceRequest("u", nil, "get", "apps", "deployments/scale", "ns", "x")},
		miss:  []authorizer.Attributes{resourceRequest("u", nil, "get", "batch", "deployments/scale", "ns", "x")},
	}, {
		name:  "scope Cluster",
		rule:  `groupResourceSelectors: [{group: "", resources: [{kind: pods}], scope: Cluster}]`,
		match: []authorizer.Attributes{resourceRequest("u", nil, "list", "", "pods", "", "")},
		miss:  []authorizer.Attributes{resourceRequest("u", nil, "list", "", "pods", "ns", "")},
	}, {
		name:  "scope Namespaced",
		rule:  `groupResourceSelectors: [{group: "", resources: [{kind: pods}], scope: Namespaced}]`,
		match: []authorizer.Attributes{resourceRequest("u", nil, "list", "", "pods", "ns", "")},
		miss:  []authorizer.Attributes{resourceRequest("u", nil, "list", "", "pods", "", "")},
	}, {
		name:  "namespaces, in both spellings",
		rule:  `groupResourceSelectors: [{group: "", resources: [{kind: pods}], scope: Namespaced, namespaces: [a, {name: b}]}]`,
		match: []authorizer.Attributes{resourceRequest("u", nil, "list", "", "pods", "a", ""), resourceRequest("u", nil, "list", "", "pods", "b", "")},
		miss:  []authorizer.Attributes{resourceRequest("u", nil, "list", "", "pods", "c", ""), resourceRequest("u", nil, "list", "", "pods", "", "")},
	}, {
		name:  "objectNames",
		rule:  `groupResourceSelectors: [{group: "", resources: [{kind: pods, objectNames: [one, two]}, {kind: secrets}]}]`,
		match: []authorizer.Attributes{resourceRequest("u", nil, "get", "", "pods", "a", "two"), resourceRequest("u", nil, "get", "", "secrets", "a", "z")},
		miss:  []authorizer.Attributes{resourceRequest("u", nil, "get", "", "pods", "a", "z"), resourceRequest("u", nil, "list", "", "pods", "a", "")},
	}, {
		name: "subjects are alternatives",
		rule: `subjects: [{type: User, names: [alice]}, {type: UserGroup, names: [devs]}]`,
		match: []authorizer.Attributes{resourceRequest("alice", []string{"ops"}, "get", "", "pods", "a", "y"), resourceRequest("bob", []string{"ops", "devs"}, "get", "", "pods", "a", "y"),
			pathRequest("alice", nil, "get", "/x")},
		miss: []authorizer.Attributes{resourceRequest("bob", []string{"ops", "alice"}, "get", "", "pods", "a", "y"), resourceRequest("devs", nil, "get", "", "pods", "a", "y"),
			&authorizer.AttributesRecord{Verb: "get", Path: "/x"}},
	}, {
		name: "allSubjects",
		rule: `{subjects: [{type: User, names: [alice]}, {type: UserGroup, names: [devs, ops]}, {type: User, names: [bob]}], allSubjects: true}`,
		match: []authorizer.Attributes{resourceRequest("alice", []string{"x", "ops"}, "get", "", "pods", "a", "y"), resourceRequest("bob", []string{"devs"}, "get", "", "pods", "a", "y"),
			pathRequest("alice", []string{"devs"}, "get", "/x")},
		miss: []authorizer.Attributes{resourceRequest("alice", nil, "get", "", "pods", "a", "y"), resourceRequest("carol", []string{"devs"}, "get", "", "pods", "a", "y"),
			&authorizer.AttributesRecord{Verb: "get", Path: "/x"}},
	}, {
		name:  "nonResourceSelectors as an object, a list, with *",
		rule:  `nonResourceSelectors: [{urls: ["/api*", "/version"]}, {urls: ["/metrics"]}]`,
		match: []authorizer.Attributes{pathRequest("u", nil, "get", "/api"), pathRequest("u", nil, "get", "/apis/x"), pathRequest("u", nil, "get", "/metrics")},
		miss:  []authorizer.Attributes{pathRequest("u", nil, "get", "/ap"), pathRequest("u", nil, "get", "/metrics/x"), resourceRequest("u", nil, "get", "", "pods", "a", "y")},
	}, {
		name:  "verbs and nothing else",
		rule:  `verbs: [get, watch]`,
		match: []authorizer.Attributes{pathRequest("u", nil, "get", "/api"), resourceRequest("u", nil, "watch", "", "pods", "", "")},
		miss:  []authorizer.Attributes{pathRequest("u", nil, "post", "/api"), resourceRequest("u", nil, "list", "", "pods", "", "")},
	}} {
		t.Run(tc.name, func(t *testing.T) {
			_, classes := load(t, "kind: AuditClass\nmetadata: {name: c}\nspec:\n  rules:\n  - "+tc.rule)
			ix := Compile([]Source{{Receives: true, Policy: v1alpha1.Policy{Rules: []v1alpha1.PolicyRule{{Level: "Metadata", WithAuditClass: "c"}}}}}, classes)
			if s := ix.Sinks()[0]; !s.Active {
				t.Fatal(s.Message)
			}
			for _, a := range tc.match {
				if got := ix.Max(a); got != Metadata {
					t.Errorf("does not match %+v", a)
				}
			}
			for _, a := range tc.miss {
				if got := ix.Max(a); got != None {
					t.Errorf("matches %+v", a)
				}
			}
		})
	}
}

// DA-4: a sink whose classes do not all exist is inactive alone, names what is missing, and is active once they exist.
// DA-1: so is a sink without a webhook.
func TestInactiveSinks(t *testing.T) {
	rule := func(class string) v1alpha1.PolicyRule {
		return v1alpha1.PolicyRule{Level: "Metadata", WithAuditClass: class}
	}
	class := func(name string) *v1alpha1.AuditClass {
		c := &v1alpha1.AuditClass{Spec: v1alpha1.AuditClassSpec{Rules: []v1alpha1.Rule{{}}}}
		c.Name = name
		return c
	}
	broken := class("broken")
	broken.Spec.Rules[0] = v1alpha1.Rule{GroupResourceSelectors: []v1alpha1.GroupResourceSelector{{Scope: "Galaxy"}}}
	sources := []Source{
		{Name: "complete", Receives: true, Policy: v1alpha1.Policy{Rules: []v1alpha1.PolicyRule{rule("a")}}},
		{Name: "incomplete", Receives: true, Policy: v1alpha1.Policy{Level: "Request", Rules: []v1alpha1.PolicyRule{rule("z"), rule("a"), rule("b"), rule("z")}}},
		{Name: "mute", Policy: v1alpha1.Policy{Level: "Request"}},
		{Name: "broken", Receives: true, Policy: v1alpha1.Policy{Level: "Request", Rules: []v1alpha1.PolicyRule{rule("broken")}}},
		{Name: "unknown", Receives: true, Policy: v1alpha1.Policy{Level: "Loud"}},
		{Name: "vetoed", Receives: true, Policy: v1alpha1.Policy{Level: "Request"}, Invalid: "the receiver cannot be used"},
	}
	any := pathRequest("u", nil, "get", "/")
	ix := Compile(sources, []*v1alpha1.AuditClass{class("a"), broken})
	if diff := cmp.Diff([]Level{Metadata, None, None, None, None, None}, ix.Levels(any, nil)); diff != "" {
		t.Error("levels:", diff)
	}
	want := []struct{ reason, message string }{
		{v1alpha1.ReasonActive, ""},
		{v1alpha1.ReasonClassesMissing, "z, b"},
		{v1alpha1.ReasonNoWebhook, "spec.webhook"},
		{v1alpha1.ReasonInvalid, `audit class "broken": spec.rules[0].groupResourceSelectors[0].scope: "Galaxy"`},
		{v1alpha1.ReasonInvalid, `spec.policy.level: "Loud"`},
		{v1alpha1.ReasonInvalid, "the receiver cannot be used"},
	}
	for i, s := range ix.Sinks() {
		if s.Reason != want[i].reason || !strings.Contains(s.Message, want[i].message) || s.Active != (i == 0) {
			t.Errorf("%s: %+v, want reason %s and message %q", s.Name, s, want[i].reason, want[i].message)
		}
	}
	if diff := cmp.Diff([]string{"z", "b"}, ix.Sinks()[1].Missing); diff != "" {
		t.Error("missing:", diff)
	}
	ix = Compile(sources, []*v1alpha1.AuditClass{class("a"), class("b"), class("z"), class("broken")})
	if got := ix.Sinks()[1]; !got.Active || got.Rules != 4 {
		t.Errorf("with its classes the sink is still inactive: %+v", got)
	}
}

// DA-13: a source can bring classes of its own, which nobody else sees.
func TestOwnClasses(t *testing.T) {
	verb := func(name, verb string) *v1alpha1.AuditClass {
		c := &v1alpha1.AuditClass{Spec: v1alpha1.AuditClassSpec{Rules: []v1alpha1.Rule{{Verbs: []string{verb}}}}}
		c.Name = name
		return c
	}
	policy := v1alpha1.Policy{Rules: []v1alpha1.PolicyRule{{Level: "Request", WithAuditClass: "c"}, {Level: "Metadata", WithAuditClass: "d"}}}
	ix := Compile([]Source{
		{Receives: true, Policy: policy},
		{Receives: true, Policy: policy, Own: []*v1alpha1.AuditClass{verb("c", "post")}},
	}, []*v1alpha1.AuditClass{verb("c", "get"), verb("d", "get")})
	if diff := cmp.Diff([]Level{Request, Metadata}, ix.Levels(pathRequest("u", nil, "get", "/"), nil)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Level{None, Request}, ix.Levels(pathRequest("u", nil, "post", "/"), nil)); diff != "" {
		t.Error(diff)
	}
}

// DA-12: no allocation, for requests that sinks want and for those that nobody wants; nor without sinks.
func TestNoAllocation(t *testing.T) {
	sources, classes := benchSinks(32, 20)
	ix := Compile(sources, classes)
	empty := Compile(nil, nil)
	e := &Evaluator{Index: func() *Index { return ix }}
	none, some := benchRequests()
	levels := make([]Level, 0, 32)
	for i, a := range append(none, some...) {
		if n := testing.AllocsPerRun(20, func() {
			levels = ix.Levels(a, levels)
			ix.Max(a)
			empty.Max(a)
			e.EvaluatePolicyRule(a)
		}); n != 0 {
			t.Errorf("request %d: %v allocations", i, n)
		}
		if want := i >= len(none); (ix.Max(a) != None) != want {
			t.Errorf("request %d: wanted is %v, the benchmark says %v", i, !want, want)
		}
	}
}

// bad input is refused with the path to it.
func TestInvalidClasses(t *testing.T) {
	for rule, want := range map[string]string{
		`subjects: [{type: Robot, names: [a]}]`:                                              `spec.rules[0].subjects[0].type: "Robot"`,
		`{subjects: [{type: User, names: [a]}], allSubjects: true}`:                          `spec.rules[0].allSubjects`,
		`subjects: [{type: User, names: []}]`:                                                `spec.rules[0].subjects[0].names`,
		`groupResourceSelectors: [{resources: [{kind: ""}]}]`:                                `resources[0].kind: is empty`,
		`groupResourceSelectors: [{resources: [{kind: pods/log}]}]`:                          `resources[0].kind: "pods/log"`,
		`groupResourceSelectors: [{resources: [{kind: pods, subresources: [a/b]}]}]`:         `resources[0].subresources[0]`,
		`groupResourceSelectors: [{scope: Cluster, namespaces: [a]}]`:                        `groupResourceSelectors[0].namespaces: need scope Namespaced`,
		`groupResourceSelectors: [{scope: Namespaced, namespaces: [""]}]`:                    `groupResourceSelectors[0].namespaces[0].name`,
		`nonResourceSelectors: {urls: []}`:                                                   `nonResourceSelectors[0].urls`,
		"nonResourceSelectors: {urls: [\"/\"]}\n    groupResourceSelectors: [{group: \"\"}]": `nonResourceSelectors: cannot be used together`,
	} {
		_, classes := load(t, "kind: AuditClass\nmetadata: {name: c}\nspec:\n  rules:\n  - "+rule)
		_, err := flattenClass(classes[0])
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", rule, err, want)
		}
	}
	if _, err := flattenClass(&v1alpha1.AuditClass{}); err == nil || !strings.Contains(err.Error(), "at least one") {
		t.Errorf("a class without rules: %v", err)
	}
}
