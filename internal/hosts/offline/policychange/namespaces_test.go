package policychange

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
)

// planOf plans that files are applied to others, or deleted.
func planOf(t *testing.T, before, change string, remove bool) *Report {
	t.Helper()
	there, changes := documents(t, before), documents(t, change)
	then, err := Applied(there, changes, remove, false)
	if err != nil {
		t.Fatal(err)
	}
	hosts := [2]*offline.Host{}
	for i, all := range [][]manifests.Document{there, then} {
		if hosts[i], err = offline.New(offline.Config{Texts: manifests.Texts(all), MasterNamespace: "master", Base: hosts[0]}); err != nil {
			t.Fatal(err)
		}
	}
	if remove {
		changes = nil
	}
	report, err := Plan(t.Context(), hosts[0], hosts[1], changes, 0)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// all puts documents together.
func all(documents ...string) string { return strings.Join(documents, "\n---\n") }

// namespace is a manifest of one, or with a uid what a dump has.
func namespace(name, labels, uid string) string {
	text := fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: {%s}", name, labels)
	if uid != "" {
		text += fmt.Sprintf(", uid: %s, creationTimestamp: \"2026-01-01T00:00:00Z\"", uid)
	}
	return text + "}"
}

// policyRole is a role of Policy with one rule, bound in a namespace.
func policyRole(in, rule, bound string) string {
	return fmt.Sprintf(`apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: dev, namespace: %s}
rules: [%s]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: dev, namespace: %s}
roleRef: {namespace: %s, name: dev}
userNames: [vera]`, in, rule, bound, in)
}

const (
	looksAtNamespace = `{verbs: [create], resourceKinds: [pods], when: 'namespaceObject.metadata.labels.env == "dev"'}`
	deniesByIt       = `{deny: true, verbs: [create], resourceKinds: [pods], when: 'namespaceObject.metadata.labels.env == "dev"'}`
	looksAtObject    = `{verbs: [create], resourceKinds: [pods], when: 'object.metadata.labels.env == "dev"'}`
	aboutNamespaces  = `{verbs: [delete], resourceKinds: [namespaces], where: 'resource.metadata.labels.env == "dev"'}`
	accessRule       = `apiVersion: access.proviso.dev/v1alpha1
kind: AccessRule
metadata: {name: on-call}
spec:
  subjects: {userNames: [bob]}
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}
  %s
  maxDurationSeconds: 600
  approvals: {count: 1, subjects: {groupNames: [leads]}}`
)

// NI-8, TR-18: conditions look at Namespaces, and access rules select them. Who may gain or lose by that is named.
func TestPlanSaysWhatNamespacesChange(t *testing.T) {
	const role0 = `Role "master/dev" rule 0 has a condition on the Namespace: what vera may do in prod may change`
	everywhere := func(rule string) string { return policyRole("master", rule, "master") }
	asks := func(where string) string {
		return all(fmt.Sprintf(accessRule, where), role("r", "", ""))
	}
	selects := asks("namespaceSelector: {matchLabels: {env: dev}}")
	plain, dev := namespace("prod", "", ""), namespace("prod", "env: dev", "")
	stored, storedDev := namespace("prod", "", "one"), namespace("prod", "env: dev", "one")
	for name, test := range map[string]struct {
		before, change string
		remove         bool
		want           string
	}{
		"a label":                               {all(everywhere(looksAtNamespace), plain), dev, false, role0},
		"a label, of a deny":                    {all(everywhere(deniesByIt), plain), dev, false, role0},
		"a label that goes":                     {all(everywhere(looksAtNamespace), storedDev), plain, false, role0},
		"a new namespace":                       {everywhere(looksAtNamespace), dev, false, role0},
		"a namespace that goes":                 {all(everywhere(looksAtNamespace), dev), plain, true, role0},
		"the same namespace":                    {all(everywhere(looksAtNamespace), dev), dev, false, ""},
		"the same, as people write it":          {all(everywhere(looksAtNamespace), storedDev), dev, false, ""},
		"the object is looked at":               {all(everywhere(looksAtObject), plain), dev, false, ""},
		"bound there":                           {all(policyRole("master", looksAtNamespace, "prod"), plain), dev, false, role0},
		"bound elsewhere":                       {all(policyRole("master", looksAtNamespace, "test"), plain), dev, false, ""},
		"a rule about namespaces":               {all(everywhere(aboutNamespaces), plain), dev, false, role0},
		"a rule about namespaces, a new one":    {everywhere(aboutNamespaces), dev, false, ""},
		"a rule about one namespace":            {all(everywhere(strings.Replace(aboutNamespaces, "where", "resourceNames: [prod], where", 1)), plain), dev, false, role0},
		"a rule about another one":              {all(everywhere(strings.Replace(aboutNamespaces, "where", "resourceNames: [test], where", 1)), plain), dev, false, ""},
		"several":                               {everywhere(looksAtNamespace), all(namespace("a", "", ""), namespace("b", "", "")), false, strings.Replace(role0, "prod", "a, b", 1)},
		"selected":                              {all(selects, stored), dev, false, `AccessRule on-call covers prod from now on: bob may ask for ClusterRole "r" there`},
		"selected no longer":                    {all(selects, storedDev), plain, false, `AccessRule on-call no longer covers prod: bob may no longer ask for ClusterRole "r" there, and what it granted there ends`},
		"selected as before":                    {all(selects, storedDev), namespace("prod", "env: dev, tier: x", ""), false, ""},
		"selected by its name":                  {asks("namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: prod}}"), plain, false, `AccessRule on-call covers prod from now on: bob may ask for ClusterRole "r" there`},
		"every namespace":                       {asks(`namespaces: ["*"]`), plain, false, `AccessRule on-call covers prod from now on: bob may ask for ClusterRole "r" there`},
		"another namespace":                     {asks(`namespaces: [test]`), plain, false, ""},
		"another of the same name":              {all(selects, storedDev), namespace("prod", "env: dev", "two"), false, "what AccessRule on-call granted in prod ends: that is another namespace of the same name"},
		"a condition of what can be asked for":  {all(strings.Replace(asks("namespaces: [prod]"), "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}", "roleRef: {namespace: master, name: dev}", 1), strings.Split(everywhere(looksAtNamespace), "\n---\n")[0], plain), dev, false, `Role "master/dev" rule 0 has a condition on the Namespace: what bob by AccessRule on-call may do in prod may change`},
		"no namespaces, and the role is not on": {all(strings.Split(everywhere(looksAtNamespace), "\n---\n")[0], plain), dev, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			report := planOf(t, test.before, test.change, test.remove)
			if got := strings.Join(report.Unknown, "\n"); got != test.want || report.Differs() != (test.want != "") {
				t.Errorf("%q, %+v, want %q", got, report.Changes, test.want)
			}
		})
	}
}

// NI-8, TR-18: a namespace that is deleted takes the policy in it with it, and nothing else.
func TestPlanOfADeletedNamespace(t *testing.T) {
	const rbacBinding = rbac + `kind: RoleBinding
metadata: {name: b, namespace: prod}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}]`
	const rules = `{verbs: [get], apiGroups: [""], resources: [pods]}`
	const container = `apiVersion: policy.proviso.dev/v1alpha1
kind: PolicyBinding
metadata: {name: prod, namespace: prod}
policyRef: {namespace: prod}
roleBindings: {dev: {roleName: dev, userNames: [vera]}}`
	const attribute = `apiVersion: policy.proviso.dev/v1alpha1
kind: ProtectedAttribute
metadata: {name: env, namespace: prod}
attributeKind: Label
attributeName: env
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}`
	localRole := strings.Split(policyRole("prod", `{verbs: [get], resourceKinds: [pods]}`, "prod"), "\n---\n")[0]
	for name, test := range map[string]struct{ before, want string }{
		"a binding of RBAC":             {all(role("r", "", rules), rbacBinding), "bob get pods prod Yes → No"},
		"a binding of Policy":           {policyRole("master", `{verbs: [get], resourceKinds: [pods]}`, "prod"), "vera get pods prod Yes → No"},
		"a role of Policy":              {policyRole("prod", `{verbs: [get], resourceKinds: [pods]}`, "prod"), "vera get pods prod Yes → No"},
		"a container":                   {all(localRole, container), "vera get pods prod Yes → No"},
		"a protected attribute":         {attribute, "ProtectedAttribute prod/env is gone: every writer may set what it protected"},
		"nothing":                       {all(role("r", "", rules), binding), ""},
		"a binding somewhere else":      {all(role("r", "", rules), strings.Replace(rbacBinding, "namespace: prod", "namespace: test", 1)), ""},
		"a binding that is deleted too": {all(role("r", "", rules), rbacBinding), "bob get pods prod Yes → No"},
	} {
		t.Run(name, func(t *testing.T) {
			deleted := namespace("prod", "", "")
			if strings.HasSuffix(name, "too") {
				deleted = all(deleted, rbacBinding)
			}
			report := planOf(t, all(test.before, namespace("prod", "", ""), namespace("test", "", "")), deleted, true)
			said := slices.Clone(report.Unknown)
			for _, c := range report.Changes {
				said = append(said, fmt.Sprintf("%s %s %s %s %s → %s", c.Subject, c.Verb, c.Resource, c.Namespace, c.Before, c.After))
			}
			if got := strings.Join(said, "\n"); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// NI-8, PO-20: policy belongs to a namespace by its identity. A Namespace as people write it, which has none, changes
// nothing about that, whether it exists or not.
func TestNamespacesKeepTheirIdentity(t *testing.T) {
	of := func(uid, kind string) string {
		return strings.NewReplacer("{name: default, ", "{name: default, "+uid, "{name: prod, namespace", "{name: prod, "+uid+"namespace").Replace(kind)
	}
	const policy = `apiVersion: policy.proviso.dev/v1alpha1
kind: Policy
metadata: {name: default, namespace: prod}
roles: {dev: {rules: [{verbs: [get], resourceKinds: [pods]}]}}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: PolicyBinding
metadata: {name: prod, namespace: prod}
policyRef: {namespace: prod}
roleBindings: {dev: {roleName: dev, userNames: [vera]}}`
	belongs := of(`uid: "a", annotations: {policy.proviso.dev/namespace-uid: one}, `, policy)
	for name, test := range map[string]struct{ before, change string }{
		"its own namespace":             {all(belongs, namespace("prod", "", "one")), namespace("prod", "env: dev", "")},
		"beside a new namespace":        {all(belongs, namespace("prod", "", "one")), namespace("test", "", "")},
		"left over, and a new one":      {all(belongs, namespace("test", "", "two")), namespace("prod", "", "")},
		"left over, and another change": {all(belongs, namespace("prod", "", "three")), namespace("prod", "env: dev", "")},
	} {
		if report := planOf(t, test.before, test.change, false); report.Differs() {
			t.Errorf("%s: %+v", name, report)
		}
	}
	// What is applied with a new namespace is in it.
	if report := planOf(t, namespace("test", "", "two"), all(namespace("prod", "", ""), policy), false); len(report.Changes) != 1 {
		t.Errorf("%+v", report)
	}
}

// TR-2: a server does not delete the namespaces that it needs.
func TestPlanOfNamespacesThatStay(t *testing.T) {
	for name, want := range map[string]string{"master": "its policy holds for the whole cluster", "kube-system": "Kubernetes needs it", "default": "Kubernetes needs it", "prod": ""} {
		got := Undeletable(documents(t, namespace(name, "", "")), "master")
		if (want != "") != (len(got) == 1) || want != "" && !strings.Contains(got[0].Message, want) {
			t.Errorf("%s: %v, want %q", name, got, want)
		}
	}
}
