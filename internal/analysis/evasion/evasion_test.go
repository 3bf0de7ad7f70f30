package evasion

import (
	"fmt"
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

// PO-23: a deny rule depends on what it looks at, unless it only stops writing such objects, or the same role keeps
// that as it is.
func TestMarks(t *testing.T) {
	const labelled = `"protected" in resource.metadata.?labels.orValue({})`
	contain := policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"configmaps"},
		AttributeRestrictions: &policyv1alpha1.AttributeRestrictions{LabelsContain: []string{"a=b", "c"}}}
	shadowed := deny("delete", "configmaps", labelled)
	shadowed.Enforcement = policyv1alpha1.EnforcementShadow
	unlabelling := deny("update", "configmaps", "")
	unlabelling.When = `"protected" in oldObject.metadata.?labels.orValue({}) && !("protected" in object.metadata.?labels.orValue({}))`
	for _, tc := range []struct {
		name  string
		rules []policyv1alpha1.PolicyRule
		want  string
	}{
		{"a label", []policyv1alpha1.PolicyRule{deny("delete", "configmaps", labelled)}, "[label protected]"},
		{"labelsContain", []policyv1alpha1.PolicyRule{contain}, "[label a label c]"},
		{"an annotation", []policyv1alpha1.PolicyRule{deny("exec", "pods", `resource.metadata.annotations["a/b"] == "x"`)}, "[annotation a/b]"},
		{"a field", []policyv1alpha1.PolicyRule{deny("delete", "configmaps", `has(resource.data.keep)`)}, "[field .data.keep]"},
		{"the name", []policyv1alpha1.PolicyRule{deny("delete", "configmaps", `resource.metadata.name == "x"`)}, "[]"},
		{"the caller", []policyv1alpha1.PolicyRule{deny("delete", "configmaps", `request.user == "x"`)}, "[]"},
		{"no condition", []policyv1alpha1.PolicyRule{deny("delete", "configmaps", "")}, "[]"},
		{"an allow", []policyv1alpha1.PolicyRule{{Verbs: []string{"delete"}, ResourceKinds: []string{"configmaps"}, Where: labelled}}, "[]"},
		{"not enforced", []policyv1alpha1.PolicyRule{shadowed}, "[]"},
		{"only to write them", []policyv1alpha1.PolicyRule{deny("create update", "configmaps", labelled)}, "[]"},
		{"update is denied with it", []policyv1alpha1.PolicyRule{deny("update delete", "configmaps", labelled)}, "[]"},
		{"everything is", []policyv1alpha1.PolicyRule{deny("*", "configmaps", labelled)}, "[]"},
		{"all but update", []policyv1alpha1.PolicyRule{deny("* -update", "configmaps", labelled)}, "[label protected]"},
		{"another rule keeps it", []policyv1alpha1.PolicyRule{deny("delete", "configmaps", labelled), unlabelling}, "[]"},
		{"another rule keeps another", []policyv1alpha1.PolicyRule{deny("delete", "configmaps", labelled), deny("update", "configmaps", `has(resource.data.x)`)}, "[label protected]"},
		{"another rule for another kind", []policyv1alpha1.PolicyRule{deny("delete", "configmaps", labelled), deny("update", "secrets", labelled)}, "[label protected]"},
		{"a subresource", []policyv1alpha1.PolicyRule{deny("create *", "pods/exec", labelled)}, "[label protected]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := fmt.Sprint(Marks(tc.rules, 0)); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// PO-23: only what a subject can change, and what nothing protects, is found.
func TestFind(t *testing.T) {
	kinds := matching.NewKinds([]matching.Served{
		{Resource: "configmaps", Kind: "ConfigMap", Builtin: true}, {Resource: "persistentvolumeclaims", Kind: "PersistentVolumeClaim", Builtin: true}})
	role := func(verbs ...string) policyv1alpha1.PolicyRole {
		return policyv1alpha1.PolicyRole{Rules: []policyv1alpha1.PolicyRule{{Verbs: verbs, ResourceKinds: []string{"configmaps", "persistentvolumeclaims"}}}}
	}
	ix := ruleset.Build(ruleset.Input{
		MasterNamespace: "master", Kinds: kinds,
		Policies: []*policyv1alpha1.Policy{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "default"},
			Roles: map[string]policyv1alpha1.PolicyRole{"edit": role("update", "delete"), "delete": role("delete")}}},
		PolicyBindings: []*policyv1alpha1.PolicyBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "hammer"},
			RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"edit": {RoleName: "edit", UserNames: []string{"edgar"}}, "delete": {RoleName: "delete", UserNames: []string{"dora"}}}}},
	})
	edgar, dora := ruleset.Subject{Name: "edgar"}, ruleset.Subject{Name: "dora"}
	label := func(key, namespace string, resources ...string) []protectedattr.Protection {
		return []protectedattr.Protection{{Key: key, Namespace: namespace, Resources: resources}}
	}
	labelled := deny("delete", "configmaps", `"a.b/protected" in resource.metadata.?labels.orValue({})`)
	for _, tc := range []struct {
		name      string
		rule      policyv1alpha1.PolicyRule
		who       ruleset.Subject
		namespace string
		guards    []protectedattr.Protection
		fields    []fieldperm.Entry
		want      string
	}{
		{"who may update", labelled, edgar, "hammer", nil, nil, `label a.b/protected, which User "edgar" can change first, by updating configmaps`},
		{"who may not", labelled, dora, "hammer", nil, nil, ""},
		{"elsewhere", labelled, edgar, "anvil", nil, nil, ""},
		{"everywhere", labelled, edgar, "master", nil, nil, "ClusterProtectedAttribute"},
		{"protected", labelled, edgar, "hammer", label("a.b/protected", ""), nil, ""},
		{"protected here", labelled, edgar, "hammer", label("a.b/*", "hammer"), nil, ""},
		{"protected on this kind", labelled, edgar, "hammer", label("a.b/protected", "", "ConfigMap"), nil, ""},
		{"protected on another kind", labelled, edgar, "hammer", label("a.b/protected", "", "secrets"), nil, "ProtectedAttribute in namespace hammer"},
		{"protected elsewhere", labelled, edgar, "hammer", label("a.b/protected", "anvil"), nil, "label a.b/protected"},
		{"another key", labelled, edgar, "hammer", label("a.b/other", ""), nil, "label a.b/protected"},
		{"a field", deny("delete", "configmaps", `has(resource.data.keep)`), edgar, "hammer", nil, nil, "FieldPermission with exclusive: true for .data.keep"},
		{"an exclusive field", deny("delete", "configmaps", `has(resource.data.keep)`), edgar, "hammer", nil, []fieldperm.Entry{{Resource: "configmaps", Field: ".data", Exclusive: true}}, ""},
		{"a field that stays", deny("delete", "persistentvolumeclaims", `resource.spec.storageClassName == "x"`), edgar, "hammer", nil, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, f := range Find(Input{Index: ix, Namespace: tc.namespace, Rules: []policyv1alpha1.PolicyRule{tc.rule}, Subjects: []ruleset.Subject{tc.who}, Protections: tc.guards, Fields: tc.fields}) {
				got = append(got, f.String()+"; "+f.Remedy())
			}
			if text := strings.Join(got, "\n"); !strings.Contains(text, tc.want) || tc.want == "" && text != "" {
				t.Errorf("%q, want %q", text, tc.want)
			}
		})
	}
}
