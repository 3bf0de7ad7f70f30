package evasion

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

func deny(verbs, kind, where string) policyv1alpha1.PolicyRule {
	return policyv1alpha1.PolicyRule{Deny: true, Verbs: strings.Fields(verbs), ResourceKinds: []string{kind}, Where: where}
}

// PO-23: a deny rule depends on what it looks at, unless it only stops writing such objects.
func TestMarks(t *testing.T) {
	const labelled = `"protected" in resource.metadata.?labels.orValue({})`
	contain := policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"configmaps"},
		AttributeRestrictions: &policyv1alpha1.AttributeRestrictions{LabelsContain: []string{"a=b", "c"}}}
	shadowed := deny("delete", "configmaps", labelled)
	shadowed.Enforcement = policyv1alpha1.EnforcementShadow
	for _, tc := range []struct {
		name string
		rule policyv1alpha1.PolicyRule
		want string
	}{
		{"a label", deny("delete", "configmaps", labelled), "[label protected]"},
		{"labelsContain", contain, "[label a label c]"},
		{"an annotation", deny("exec", "pods", `resource.metadata.annotations["a/b"] == "x"`), "[annotation a/b]"},
		{"a field", deny("delete", "configmaps", `has(resource.data.keep)`), "[field .data.keep]"},
		{"the name", deny("delete", "configmaps", `resource.metadata.name == "x"`), "[]"},
		{"the caller", deny("delete", "configmaps", `request.user == "x"`), "[]"},
		{"no condition", deny("delete", "configmaps", ""), "[]"},
		{"an allow", policyv1alpha1.PolicyRule{Verbs: []string{"delete"}, ResourceKinds: []string{"configmaps"}, Where: labelled}, "[]"},
		{"not enforced", shadowed, "[]"},
		{"only to write them", deny("create update", "configmaps", labelled), "[]"},
		{"update is denied with it", deny("update delete", "configmaps", labelled), "[label protected]"},
		{"all but update", deny("* -update", "configmaps", labelled), "[label protected]"},
		{"a subresource", deny("create *", "pods/exec", labelled), "[label protected]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := fmt.Sprint(Marks(&tc.rule)); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

type mark struct{}

// RuleCondition implements ruleset.Condition.
func (mark) RuleCondition() {}

const labelled = `"a.b/protected" in resource.metadata.?labels.orValue({})`

// allow is a rule without conditions.
func allow(verbs string, kinds ...string) policyv1alpha1.PolicyRule {
	return policyv1alpha1.PolicyRule{Verbs: strings.Fields(verbs), ResourceKinds: kinds}
}

// find looks at a role that is bound to a user in the namespace hammer, beside the rules that the user has by others.
func find(in Input, own []policyv1alpha1.PolicyRule, others ...policyv1alpha1.PolicyRule) string {
	kinds := matching.NewKinds([]matching.Served{
		{Resource: "configmaps", Kind: "ConfigMap", Builtin: true}, {Resource: "persistentvolumeclaims", Kind: "PersistentVolumeClaim", Builtin: true},
		{Resource: "pods", Kind: "Pod", Builtin: true}, {Resource: "bindings", Kind: "Binding", Builtin: true}, {Resource: "secrets", Kind: "Secret", Builtin: true},
		{Group: "example.com", Resource: "secrets", Kind: "Secret"}, {Group: "apps", Resource: "deployments", Kind: "Deployment", Builtin: true}})
	edgar := policyv1alpha1.PolicyRoleBinding{UserNames: []string{"edgar"}}
	in.Index = ruleset.Build(ruleset.Input{MasterNamespace: "master", Kinds: kinds,
		CompileRule: func(ruleset.RoleRef, int, *policyv1alpha1.PolicyRule) (ruleset.Condition, error) { return mark{}, nil }})
	for name, rules := range map[string][]policyv1alpha1.PolicyRule{"own": own, "others": others} {
		ref := ruleset.RoleRef{Kind: ruleset.PolicyRole, Namespace: "hammer", Name: name}
		in.Index = in.Index.WithRole(ref, rules)
		if name == "own" {
			in.Index = in.Index.WithBinding("hammer", ref, edgar)
			continue
		}
		in.Index = in.Index.Apply(ruleset.Put(&policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "hammer"}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{
			"others": {RoleName: "others", UserNames: []string{"edgar"}}, "own": {RoleName: "own", UserNames: []string{"edgar"}}}}))
	}
	in.Namespace, in.Rules, in.Subjects = cmp.Or(in.Namespace, "hammer"), own, []ruleset.Subject{{Name: "edgar"}}
	var got []string
	for _, f := range Find(in) {
		got = append(got, f.String()+"; "+f.Remedy())
	}
	return strings.Join(got, "\n")
}

// PO-23: only what a subject can change, and what nothing protects, is found.
func TestFind(t *testing.T) {
	label := func(key, namespace string, resources ...string) []protectedattr.Protection {
		return []protectedattr.Protection{{Key: key, Namespace: namespace, Resources: resources}}
	}
	table := func(field string) *fieldperm.Table {
		path, err := fieldperm.ParsePath(field)
		if err != nil {
			t.Fatal(err)
		}
		fields, issues := fieldperm.New(fieldperm.Config{Declared: []fieldperm.Declaration{{Source: "test", Resources: []fieldperm.Resource{{Resource: "configmaps"}}, Field: path, Permission: "example.com/x", Exclusive: true}}})
		if len(issues) > 0 {
			t.Fatal(issues)
		}
		return fields
	}
	rule, keep := deny("delete", "configmaps", labelled), deny("delete", "configmaps", `has(resource.data.keep)`)
	for _, tc := range []struct {
		name      string
		rule      policyv1alpha1.PolicyRule
		may       string
		namespace string
		guards    []protectedattr.Protection
		fields    *fieldperm.Table
		want      string
	}{
		{"who may update", rule, "update delete", "", nil, nil, `label a.b/protected, which User "edgar" can change first, by updating configmaps; a ProtectedAttribute in namespace hammer for the label a.b/protected would close it, and so would denying update`},
		{"who may not", rule, "delete", "", nil, nil, ""},
		{"elsewhere", rule, "update delete", "anvil", nil, nil, ""},
		{"everywhere", rule, "update delete", "master", nil, nil, "ClusterProtectedAttribute"},
		{"protected", rule, "update delete", "", label("a.b/protected", ""), nil, ""},
		{"protected here", rule, "update delete", "", label("a.b/*", "hammer"), nil, ""},
		{"protected on this kind", rule, "update delete", "", label("a.b/protected", "", "ConfigMap"), nil, ""},
		{"protected on another kind", rule, "update delete", "", label("a.b/protected", "", "secrets"), nil, "ProtectedAttribute in namespace hammer"},
		{"protected elsewhere", rule, "update delete", "", label("a.b/protected", "anvil"), nil, "label a.b/protected"},
		{"another key", rule, "update delete", "", label("a.b/other", ""), nil, "label a.b/protected"},
		{"a field", keep, "update delete", "", nil, nil, "FieldPermission with exclusive: true for .data.keep"},
		{"an exclusive field", keep, "update delete", "", nil, table(".data"), ""},
		{"an exclusive field that the subject may write", keep, "update delete granular:example.com/x", "", nil, table(".data"), "FieldPermission"},
		{"another exclusive field", keep, "update delete", "", nil, table(".immutable"), "FieldPermission"},
		{"a field that stays", deny("delete", "persistentvolumeclaims", `resource.spec.storageClassName == "x"`), "update delete", "", nil, nil, ""},
		{"a field that stays in another group", deny("delete", "secrets.example.com", `resource.type == "x"`), "update delete", "", nil, nil, "field .type"},
		{"single fields", rule, "delete granular granular:label(a.b)", "", nil, table(".data"), "by updating configmaps"},
		{"other single fields", rule, "delete granular granular:label(c.d)", "", nil, table(".data"), ""},
		{"single fields, and the system is off", rule, "delete granular granular:label(a.b)", "", nil, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := find(Input{Namespace: tc.namespace, Protections: tc.guards, Fields: tc.fields}, []policyv1alpha1.PolicyRule{tc.rule}, allow(tc.may, "configmaps", "persistentvolumeclaims", "secrets.example.com"))
			if !strings.Contains(text, tc.want) || tc.want == "" && text != "" {
				t.Errorf("%q, want %q", text, tc.want)
			}
		})
	}
}

// PO-23: a deny of the update closes it, in whichever role it is, if it is enforced, about these objects, and about the
// mark.
func TestDeniesThatKeepAMark(t *testing.T) {
	rule, everything := deny("delete", "configmaps", labelled), allow("*", "*")
	unlabelling := deny("update", "configmaps", "")
	unlabelling.When = `"a.b/protected" in oldObject.metadata.?labels.orValue({}) && !("a.b/protected" in object.metadata.?labels.orValue({}))`
	shadow, grouped, other, named := deny("update", "configmaps", ""), deny("update", "configmaps", ""), deny("update", "*", ""), deny("update", "configmaps", "")
	shadow.Enforcement = policyv1alpha1.EnforcementShadow
	grouped.APIGroups = []string{"apps"}
	other.ResourceKinds = []string{"*", "-configmaps"}
	named.ResourceNames = []string{"ledger"}
	ledger := rule
	ledger.ResourceNames = []string{"ledger"}
	conditional := allow("update", "configmaps")
	conditional.Where = `resource.data.x == "1"`
	for _, tc := range []struct {
		name  string
		rule  policyv1alpha1.PolicyRule
		keeps policyv1alpha1.PolicyRule
		may   policyv1alpha1.PolicyRule
		found bool
	}{
		{"nothing", rule, deny("delete", "secrets", ""), everything, true},
		{"every update", rule, deny("update", "configmaps", ""), everything, false},
		{"of what has the label", rule, deny("update", "configmaps", labelled), everything, false},
		{"to take the label off", rule, unlabelling, everything, false},
		{"under the same condition, of a conditional right", rule, unlabelling, conditional, false},
		{"of another mark", rule, deny("update", "configmaps", `has(resource.data.x)`), everything, true},
		{"of another kind", rule, deny("update", "secrets", labelled), everything, true},
		{"that is not enforced", rule, shadow, everything, true},
		{"in another group", rule, grouped, everything, true},
		{"of everything else", rule, other, everything, true},
		{"of one name", rule, named, everything, true},
		{"of the one name that the rule is about", ledger, named, everything, false},
		{"everything but update", rule, deny("* -update", "configmaps", ""), everything, true},
		{"and the right to single fields is there", rule, deny("update", "configmaps", labelled), allow("delete granular granular:label(a.b)", "configmaps"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fields, _ := fieldperm.New(fieldperm.Config{})
			for _, own := range [][]policyv1alpha1.PolicyRule{{tc.rule, tc.keeps, tc.may}, {tc.rule, tc.may}, {tc.rule}} {
				others := slices.DeleteFunc([]policyv1alpha1.PolicyRule{tc.keeps, tc.may}, func(o policyv1alpha1.PolicyRule) bool {
					return slices.ContainsFunc(own, func(r policyv1alpha1.PolicyRule) bool { return reflect.DeepEqual(r, o) })
				})
				if text := find(Input{Fields: fields}, own, others...); (text != "") != tc.found {
					t.Errorf("with %d rules in the role: %q", len(own), text)
				}
			}
		})
	}
	// A right to update one object is one, too.
	one := allow("update", "configmaps")
	one.ResourceNames = []string{"ledger"}
	if text := find(Input{}, []policyv1alpha1.PolicyRule{rule}, one); !strings.Contains(text, "by updating configmaps") {
		t.Errorf("%q", text)
	}
	other = rule
	other.ResourceNames = []string{"journal"}
	if text := find(Input{}, []policyv1alpha1.PolicyRule{other}, one); text != "" {
		t.Errorf("%q", text)
	}
}

// PO-23: labels and annotations also change through subresources.
func TestWritesThroughSubresources(t *testing.T) {
	contains := func(kind, label string) policyv1alpha1.PolicyRule {
		return policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{kind}, AttributeRestrictions: &policyv1alpha1.AttributeRestrictions{LabelsContain: []string{label}}}
	}
	for _, tc := range []struct {
		name       string
		rule       policyv1alpha1.PolicyRule
		keeps      []string
		want, then string
	}{
		{"pods", contains("pods", "a=b"), []string{"pods"}, "by updating pods/status", "update of pods and pods/status, and create of pods/binding and bindings"},
		{"pods without the status", contains("pods", "a=b"), []string{"pods", "pods/status"}, "by creating pods/binding", ""},
		{"pods without binding", contains("pods", "a=b"), []string{"pods", "pods/status", "pods/binding"}, "by creating bindings", ""},
		{"pods without all", contains("pods", "a=b"), []string{"pods", "pods/*", "bindings"}, "", ""},
		{"a binding takes no label off", contains("pods", "a"), []string{"pods", "pods/status"}, "", ""},
		{"claims", contains("persistentvolumeclaims", "a"), []string{"persistentvolumeclaims"}, "by updating persistentvolumeclaims/status", "update of persistentvolumeclaims and persistentvolumeclaims/status"},
		{"deployments", contains("deployments", "a"), []string{"deployments"}, "", ""},
		{"deployments by an annotation", deny("delete", "deployments", `"a" in resource.metadata.annotations`), []string{"deployments"}, "by updating deployments.apps/status", "update of deployments.apps and deployments.apps/status"},
		{"a field of the status", deny("delete", "pods", `resource.status.phase == "Running"`), []string{"pods"}, "by updating pods/status", "update of pods and pods/status"},
		{"a field", deny("delete", "pods", `resource.spec.priority == 1`), []string{"pods"}, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			keeps := deny("create update", "", "")
			keeps.ResourceKinds = tc.keeps
			text := find(Input{}, []policyv1alpha1.PolicyRule{tc.rule, keeps}, allow("*", "*"))
			if !strings.Contains(text, tc.want) || tc.want == "" && text != "" || !strings.HasSuffix(text, tc.then) {
				t.Errorf("%q, want %q and %q", text, tc.want, tc.then)
			}
		})
	}
}

// PA-14, PO-23: a protection of some values keeps those only.
func TestProtectedValues(t *testing.T) {
	contains := deny("delete", "configmaps", "")
	contains.AttributeRestrictions = &policyv1alpha1.AttributeRestrictions{LabelsContain: []string{"tier=platinum"}}
	present := deny("delete", "configmaps", "")
	present.AttributeRestrictions = &policyv1alpha1.AttributeRestrictions{LabelsContain: []string{"tier"}}
	for _, tc := range []struct {
		rule   policyv1alpha1.PolicyRule
		closed bool
		found  bool
	}{
		{deny("delete", "configmaps", `resource.metadata.labels.tier == "gold"`), false, true},
		{deny("delete", "configmaps", `resource.metadata.labels.tier == "gold"`), true, false},
		{deny("delete", "configmaps", `resource.metadata.labels.tier == "platinum" && request.user != "x"`), false, false},
		{deny("delete", "configmaps", `resource.metadata.labels.tier in ["platinum", "gold"]`), false, true},
		{deny("delete", "configmaps", `"tier" in resource.metadata.labels`), false, true},
		{contains, false, false}, {present, false, true},
	} {
		guard := []protectedattr.Protection{{Key: "tier", Values: []string{"platinum"}, Closed: tc.closed}}
		if text := find(Input{Protections: guard}, []policyv1alpha1.PolicyRule{tc.rule}, allow("update delete", "configmaps")); (text != "") != tc.found {
			t.Errorf("%s %v: %q", tc.rule.Where, tc.rule.AttributeRestrictions, text)
		}
	}
}
