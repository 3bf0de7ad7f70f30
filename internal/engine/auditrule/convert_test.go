package auditrule

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

func policyOf(t testing.TB, text string) *auditv1.Policy {
	t.Helper()
	var p auditv1.Policy
	if err := yaml.UnmarshalStrict([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	return &p
}

// DA-5: what a sink's policy looks like as an audit policy. Example 1 stays readable.
func TestToPolicyText(t *testing.T) {
	sinks, classes := load(t, example1)
	p, err := ToPolicy(&sinks[0].Spec.Policy, classes)
	if err != nil {
		t.Fatal(err)
	}
	want := policyOf(t, `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, userGroups: ["system:masters"], verbs: [create, patch, update, delete]}
- {level: Metadata, resources: [{group: "", resources: [secrets, configmaps]}], namespaces: [kube-system]}
- {level: None, resources: [{group: "", resources: [configmaps], resourceNames: [controller-leader]}]}
- {level: None, users: ["system:kube-proxy"], verbs: [watch], resources: [{group: "", resources: [endpoints, services]}]}
- {level: None, userGroups: ["system:authenticated"], nonResourceURLs: ["/api*", "/version"]}
- {level: Request}
`)
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
}

// DA-5: "any namespace", which an audit policy cannot ask for, is written as two parts.
func TestToPolicySplitsByNamespace(t *testing.T) {
	sinks, classes := load(t, `kind: AuditSink
metadata: {name: s}
spec: {policy: {level: Metadata, rules: [{level: None, withAuditClass: inside}, {level: Request, withAuditClass: secrets}]}}
---
kind: AuditClass
metadata: {name: inside}
spec: {rules: [{groupResourceSelectors: [{group: "", resources: [{kind: pods}], scope: Namespaced}]}]}
---
kind: AuditClass
metadata: {name: secrets}
spec: {rules: [{groupResourceSelectors: [{group: "", resources: [{kind: secrets}]}]}]}
`)
	p, err := ToPolicy(&sinks[0].Spec.Policy, classes)
	if err != nil {
		t.Fatal(err)
	}
	want := policyOf(t, `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Request, resources: [{group: "", resources: [secrets]}], namespaces: [""]}
- {level: Metadata, namespaces: [""]}
- {level: None, resources: [{group: "", resources: [pods]}]}
- {level: Request, resources: [{group: "", resources: [secrets]}]}
- {level: Metadata}
`)
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
}

// DA-5: what has no equivalent is refused, naming the rule; the twin that differs in that one thing is not.
func TestRefusedConversions(t *testing.T) {
	for _, tc := range []struct{ name, refused, want, twin string }{
		{"verb *", `{level: Metadata, verbs: ["*"]}`, "rules[1].verbs", `{level: Metadata, verbs: [get]}`},
		{"*/*", `{level: Metadata, resources: [{group: "", resources: ["*/*"]}]}`, "rules[1].resources[0].resources[0]", `{level: Metadata, resources: [{group: "", resources: ["*"]}]}`},
		{"no resource", `{level: Metadata, resources: [{group: "", resources: ["pods/"]}]}`, "rules[1].resources[0].resources[0]", `{level: Metadata, resources: [{group: "", resources: ["pods/*"]}]}`},
		{"an invalid policy", `{level: Loud}`, "rules[1].level", `{level: Metadata}`},
	} {
		const head = "rules:\n- {level: None, verbs: [watch]}\n- "
		if _, err := FromPolicy("s", policyOf(t, head+tc.refused)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one that names %q", tc.name, err, tc.want)
		}
		if _, err := FromPolicy("s", policyOf(t, head+tc.twin)); err != nil {
			t.Errorf("%s: the twin is refused: %v", tc.name, err)
		}
	}
	for _, tc := range []struct{ refused, want, twin string }{
		{`{groupResourceSelectors: [{group: "", resources: [{kind: "*"}]}]}`, `audit class "c": spec.rules[0]`, `{groupResourceSelectors: [{group: "", resources: [{kind: "*", subresources: ["*"]}]}]}`},
		{`{groupResourceSelectors: [{group: apps, resources: [{kind: "*"}]}]}`, `group "apps"`, `{groupResourceSelectors: [{group: apps}]}`},
	} {
		for _, rule := range []string{tc.refused, tc.twin} {
			_, classes := load(t, "kind: AuditClass\nmetadata: {name: c}\nspec: {rules: ["+rule+"]}")
			_, err := ToPolicy(&v1alpha1.Policy{Rules: []v1alpha1.PolicyRule{{Level: "Metadata", WithAuditClass: "c"}}}, classes)
			switch {
			case rule == tc.twin && err != nil:
				t.Errorf("%s: %v", rule, err)
			case rule == tc.refused && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%s: error %v, want %q", rule, err, tc.want)
			}
		}
	}
	if _, err := ToPolicy(&v1alpha1.Policy{Rules: []v1alpha1.PolicyRule{{Level: "Metadata", WithAuditClass: "gone"}}}, nil); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("a missing class: %v", err)
	}
}

// DA-18: managed fields are left out if all rules that record objects say so, and it is reported if some do.
func TestFromPolicyKeepsOmitManagedFields(t *testing.T) {
	for text, want := range map[string]struct {
		omit bool
		lost string
	}{
		"{omitManagedFields: true, rules: [{level: Metadata}]}":                                                                  {true, ""},
		"{rules: [{level: Request, verbs: [get], omitManagedFields: true}, {level: Metadata}]}":                                  {true, ""},
		"{omitManagedFields: true, rules: [{level: Request, omitManagedFields: false}]}":                                         {false, ""},
		"{omitManagedFields: true, rules: [{level: Request, verbs: [get], omitManagedFields: false}, {level: RequestResponse}]}": {false, "rules[1].omitManagedFields: is lost; rules[0] keeps"},
		"{omitManagedFields: true, rules: [{level: Request}, {level: Request, verbs: [get], omitManagedFields: false}]}":         {true, ""},
		"{rules: [{level: Request}]}": {false, ""},
	} {
		got, err := FromPolicy("x", policyOf(t, text))
		if err != nil {
			t.Fatal(err)
		}
		if lost := strings.Join(got.Lost, "\n"); got.Sink.Spec.OmitManagedFields != want.omit || !strings.Contains(lost, want.lost) || want.lost == "" && strings.Contains(lost, "omitManagedFields") {
			t.Errorf("%s: %v %s", text, got.Sink.Spec.OmitManagedFields, lost)
		}
	}
}

// DA-18: a rule of an audit policy that names users and groups wants both, there and back.
func TestUsersAndGroups(t *testing.T) {
	const text = "omitStages: [RequestReceived]\nrules: [{level: Metadata, users: [a], userGroups: [b]}, {level: None}]"
	got, err := FromPolicy("x", policyOf(t, text))
	if err != nil || !got.Classes[0].Spec.Rules[0].AllSubjects {
		t.Fatalf("%+v %v", got, err)
	}
	back, from, err := ToPolicyFrom(&got.Sink.Spec.Policy, got.Classes)
	if err != nil {
		t.Fatal(err)
	}
	back.TypeMeta = policyOf(t, text).TypeMeta
	if diff := cmp.Diff(policyOf(t, text), back); diff != "" {
		t.Error(diff)
	}
	if want := [][]string{{`spec.policy.rules[0]: audit class "x-01-metadata", spec.rules[0]`}, {"spec.policy.level"}}; !cmp.Equal(from, want) {
		t.Errorf("from %q", from)
	}
}

// DA-5: omitStages are reported as lost; consecutive rules of a level share a class; what follows
// a catch-all is left out.
func TestFromPolicyText(t *testing.T) {
	got, err := FromPolicy("mine", policyOf(t, `
omitManagedFields: true
rules:
- {level: Metadata, users: [alice], omitStages: [RequestReceived, ResponseStarted]}
- {level: Metadata, userGroups: [devs], namespaces: ["", kube-system]}
- {level: None, nonResourceURLs: ["/healthz*"]}
- {level: Request}
- {level: None, users: [bob]}
`))
	if err != nil {
		t.Fatal(err)
	}
	_, want := load(t, `apiVersion: auditregistration.k8s.io/v1alpha1
kind: AuditClass
metadata: {name: mine-01-metadata}
spec:
  rules:
  - subjects: [{type: User, names: [alice]}]
  - subjects: [{type: UserGroup, names: [devs]}]
    groupResourceSelectors:
    - {group: "*", resources: [{kind: "*", subresources: ["*"]}], scope: Cluster}
    - {group: "*", resources: [{kind: "*", subresources: ["*"]}], scope: Namespaced, namespaces: [{name: kube-system}]}
---
apiVersion: auditregistration.k8s.io/v1alpha1
kind: AuditClass
metadata: {name: mine-02-none}
spec: {rules: [{nonResourceSelectors: [{urls: ["/healthz*"]}]}]}
`)
	if diff := cmp.Diff(want, got.Classes); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(v1alpha1.Policy{Level: "Request", Rules: []v1alpha1.PolicyRule{
		{Level: "Metadata", WithAuditClass: "mine-01-metadata"}, {Level: "None", WithAuditClass: "mine-02-none"}}}, got.Sink.Spec.Policy); diff != "" {
		t.Error(diff)
	}
	lost := strings.Join(got.Lost, "\n")
	if !got.Sink.Spec.OmitManagedFields || strings.Contains(lost, "omitManagedFields") {
		t.Errorf("omitManagedFields is not kept: %s", lost)
	}
	for _, want := range []string{"rules[0].omitStages: ResponseStarted is lost", "rules[3]: matches every request; the 1 rules after it", "rules[1]: events of the stage RequestReceived"} {
		if !strings.Contains(lost, want) {
			t.Errorf("not reported: %q in\n%s", want, lost)
		}
	}
	if got, _ := FromPolicy("x", policyOf(t, "omitStages: [RequestReceived]\nrules: [{level: Metadata}]")); len(got.Lost) != 0 {
		t.Errorf("nothing is lost, but reported: %v", got.Lost)
	}
}
