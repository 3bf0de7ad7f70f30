package policychange

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/hosts/offline/manifests"
)

func documents(t *testing.T, text string) (all []manifests.Document) {
	t.Helper()
	for _, part := range strings.Split(text, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(part), &object.Object); err != nil {
			t.Fatal(err)
		}
		all = append(all, manifests.Of(object))
	}
	return all
}

const (
	rbac    = "apiVersion: rbac.authorization.k8s.io/v1\n"
	binding = rbac + `kind: ClusterRoleBinding
metadata: {name: b}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}]`
)

func role(name, more, rules string) string {
	return fmt.Sprintf(rbac+"kind: ClusterRole\nmetadata: {name: %s%s}\nrules: [%s]", name, more, rules)
}

// NI-8, TR-18: plan asks what a server asks. What it cannot tell it says, and never that nobody gains.
func TestPlanAsksWhatTheServerAsks(t *testing.T) {
	const attribute = `apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterProtectedAttribute
metadata: {name: env}
attributeKind: Label
attributeName: env
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}`
	const fields = `apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermission
metadata: {name: data}
spec: {resources: [configmaps], field: .data, permission: example.com/data, exclusive: true}`
	for name, test := range map[string]struct{ before, after, want string }{
		"impersonation of users":             {role("r", "", ""), role("r", "", `{verbs: [impersonate], apiGroups: [""], resources: [users]}`), "bob impersonate users"},
		"impersonation of groups by *":       {role("r", "", ""), role("r", "", `{verbs: ["*"], apiGroups: [""], resources: [groups]}`), "bob impersonate groups"},
		"impersonation of extra":             {role("r", "", ""), role("r", "", `{verbs: [impersonate], apiGroups: [authentication.k8s.io], resources: [userextras/scope]}`), "bob impersonate userextras/scope"},
		"signers":                            {role("r", "", ""), role("r", "", `{verbs: [approve], apiGroups: [certificates.k8s.io], resources: [signers], resourceNames: [a/b]}`), "bob approve signers"},
		"finalizers":                         {role("r", "", ""), role("r", "", `{verbs: [update], apiGroups: [apps], resources: ["*/finalizers"]}`), "bob update deployments/finalizers"},
		"a subresource nobody serves":        {role("r", "", ""), role("r", "", `{verbs: [update], apiGroups: [""], resources: [pods/unheardof]}`), "bob update pods/unheardof"},
		"a resource nobody serves":           {role("r", "", ""), role("r", "", `{verbs: [use], apiGroups: [policy], resources: [podsecuritypolicies]}`), "bob use podsecuritypolicies"},
		"escalate and bind":                  {role("r", "", `{verbs: [get, list, watch, create, update, patch, delete, deletecollection], apiGroups: [rbac.authorization.k8s.io], resources: [roles]}`), role("r", "", `{verbs: ["*"], apiGroups: [rbac.authorization.k8s.io], resources: [roles]}`), "bob bind roles"},
		"verbs that nobody names":            {role("r", "", `{verbs: [get, list, watch, create, update, patch, delete, deletecollection], apiGroups: [""], resources: [pods]}`), role("r", "", `{verbs: ["*"], apiGroups: [""], resources: [pods]}`), "bob unsafe-delete-ignore-read-errors pods"},
		"a group of which nothing is served": {role("r", "", ""), role("r", "", `{verbs: [get], apiGroups: [example.com], resources: ["*"]}`), "bob get *"},
		"an aggregated role": {rbac + "kind: ClusterRole\nmetadata: {name: r}\naggregationRule: {clusterRoleSelectors: [{matchLabels: {part: \"yes\"}}]}",
			rbac + "kind: ClusterRole\nmetadata: {name: r}\naggregationRule: {clusterRoleSelectors: [{matchLabels: {part: \"yes\"}}]}\n---\n" + role("part", `, labels: {part: "yes"}`, `{verbs: [get], apiGroups: [""], resources: [secrets]}`), "bob get secrets"},
		"a protected attribute":  {role("r", "", ""), role("r", "", "") + "\n---\n" + attribute, "ClusterProtectedAttribute env is new"},
		"an exclusive field":     {role("r", "", ""), role("r", "", "") + "\n---\n" + fields, "guards .data of configmaps"},
		"nothing, if it is same": {role("r", "", ""), role("r", "", ""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, forth := range []bool{true, false} {
				before, after := documents(t, test.before+"\n---\n"+binding), documents(t, test.after+"\n---\n"+binding)
				want := test.want
				if !forth {
					before, after = after, before
					want = strings.NewReplacer("is new", "is gone", "guards .data", "no longer guards .data").Replace(want)
				}
				report, err := Compare(t.Context(), before, after, "master")
				if err != nil {
					t.Fatal(err)
				}
				said := slices.Clone(report.Unknown)
				for _, c := range report.Changes {
					who := fmt.Sprint(c.Subjects)
					if c.Subject != nil {
						who = c.Subject.String()
					}
					said = append(said, who+" "+c.Verb+" "+c.Resource)
				}
				if want == "" && len(said) > 0 || want != "" && !slices.ContainsFunc(said, func(line string) bool { return strings.Contains(line, want) }) {
					t.Errorf("forth %v: %q is not in %q", forth, want, said)
				}
			}
		})
	}
}

// TR-18, TM-9: what can be asked for is said, and by whom; so is a change of the role that can be asked for.
func TestPlanSaysWhatCanBeAskedFor(t *testing.T) {
	rule := func(more string) string {
		return `apiVersion: access.proviso.dev/v1alpha1
kind: AccessRule
metadata: {name: on-call}
spec:
  subjects: {userNames: [bob], groupNames: [ops]}
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}
  namespaces: [prod]
  maxDurationSeconds: 600
  approvals: {count: 1, subjects: {groupNames: [leads]}}` + more
	}
	none, some := role("r", "", ""), role("r", "", `{verbs: [get], apiGroups: [""], resources: [secrets]}`)
	for name, test := range map[string]struct{ before, after, want string }{
		"a new rule":     {none, none + "\n---\n" + rule(""), `AccessRule on-call is new: bob, group ops may ask for ClusterRole "r" in namespaces prod`},
		"a rule is gone": {none + "\n---\n" + rule(""), none, `AccessRule on-call is gone: bob, group ops may no longer ask for ClusterRole "r" by it, and what it granted ends`},
		"another rule":   {none + "\n---\n" + rule(""), none + "\n---\n" + rule("\n  specialVerbs: true"), `AccessRule on-call changes: who may ask for ClusterRole "r" by it may change, and so may where, for how long, and with whose approval`},
		"another role":   {none + "\n---\n" + rule(""), some + "\n---\n" + rule(""), `ClusterRole "r" changes: bob, group ops may ask for it by AccessRule on-call, and get other rights than before`},
		"the same":       {some + "\n---\n" + rule(""), some + "\n---\n" + rule(""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := Compare(t.Context(), documents(t, test.before), documents(t, test.after), "master")
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(report.Unknown, "\n"); got != test.want || len(report.WithoutEffect) > 0 {
				t.Errorf("%q and %v without effect, want %q", got, report.WithoutEffect, test.want)
			}
		})
	}
}

// TR-18: who becomes a member of the role that a protected attribute excepts, gains.
func TestPlanSaysWhoBecomesAMember(t *testing.T) {
	const attribute = `apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterProtectedAttribute
metadata: {name: env}
attributeKind: Label
attributeName: env
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}`
	before := documents(t, role("r", "", "")+"\n---\n"+attribute)
	report, err := Compare(t.Context(), before, append(slices.Clone(before), documents(t, binding)...), "master")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{`bob becomes a member of ClusterRole "r", and may set what is protected by ClusterProtectedAttribute env`}; !slices.Equal(report.Unknown, want) {
		t.Errorf("%q, want %q", report.Unknown, want)
	}
}

// TR-18, PA-15: so does a member of a role of Policy, where it is bound.
func TestPlanSaysWhoBecomesAMemberByPolicy(t *testing.T) {
	const attribute = `apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterProtectedAttribute
metadata: {name: env}
attributeKind: Label
attributeName: env
roleRef: {apiGroup: authorization.proviso.dev, kind: Role, namespace: master, name: keepers}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: keepers, namespace: master}
rules: [{verbs: [get], resourceKinds: [pods]}]`
	const bound = `apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: keepers, namespace: hammer}
roleRef: {namespace: master, name: keepers}
userNames: [bob]`
	before := documents(t, attribute)
	report, err := Compare(t.Context(), before, append(slices.Clone(before), documents(t, bound)...), "master")
	if err != nil {
		t.Fatal(err)
	}
	if want := `bob (in hammer) becomes a member of Role "master/keepers", and may set what is protected by ClusterProtectedAttribute env`; !slices.Contains(report.Unknown, want) {
		t.Errorf("%q, want %q", report.Unknown, want)
	}
}

// TM-6, NI-8: a change that matters only at another instant is said, with the instant, and never that nobody gains.
func TestPlanSaysWhatMattersLater(t *testing.T) {
	bound := func(user, more string) string {
		return `apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: ` + user + `, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}
userNames: [` + user + `]
` + more
	}
	const gets = `{verbs: [get], apiGroups: [""], resources: [pods]}`
	later, end := `notBefore: "2996-01-01T00:00:00Z"`, `notAfter: "2997-01-01T00:00:00Z"`
	for name, tc := range map[string]struct {
		before, after string
		want          string
		changes       int
	}{
		"begins later":          {bound("ann", ""), bound("ann", "") + "\n---\n" + bound("bob", later), "from 2996-01-01T00:00:00Z on", 0},
		"does not end any more": {bound("ann", "") + "\n---\n" + bound("bob", end), bound("ann", "") + "\n---\n" + bound("bob", ""), "from 2997-01-01T00:00:00Z on", 0},
		"is over":               {bound("ann", ""), bound("ann", "") + "\n---\n" + bound("bob", `notAfter: "1997-01-01T00:00:00Z"`), "", 0},
		"until then, from now":  {bound("ann", ""), bound("ann", "") + "\n---\n" + bound("bob", end), "", 1},
		"ends in both":          {bound("ann", end), bound("ann", end) + "\n---\n" + bound("bob", ""), "", 1},
	} {
		text := role("r", "", gets) + "\n---\n"
		report, err := Compare(t.Context(), documents(t, text+tc.before), documents(t, text+tc.after), "master")
		if err != nil {
			t.Fatal(err)
		}
		if said := strings.Join(report.Unknown, "\n"); len(report.Changes) != tc.changes || (said != "") != (tc.want != "") || !strings.Contains(said, tc.want) {
			t.Errorf("%s: %d changes, %q, want %d and %q", name, len(report.Changes), said, tc.changes, tc.want)
		}
	}
}

// HF-1: plan names those who will not see a field.
func TestPlanSaysWhoSeesLess(t *testing.T) {
	const hides = `apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermission
metadata: {name: data}
spec: {resources: [secrets], field: .data, permission: example.com/data, readExclusive: true}`
	reads, reveals := role("r", "", `{verbs: [get], apiGroups: [""], resources: [secrets]}`), role("r", "", `{verbs: [get, "reveal:example.com/data"], apiGroups: [""], resources: [secrets]}`)
	const from, shown = `FieldPermission "data" hides .data of secrets from bob`, `FieldPermission "data" no longer hides .data of secrets`
	for name, test := range map[string]struct{ before, after, want string }{
		"a reader":             {reads, reads + "\n---\n" + hides, from},
		"one who may see it":   {reveals, reveals + "\n---\n" + hides, ""},
		"shown again":          {reads + "\n---\n" + hides, reads, shown},
		"hidden as before":     {reads + "\n---\n" + hides, reads + "\n---\n" + hides, ""},
		"shadow hides nothing": {reads, reads + "\n---\n" + strings.Replace(hides, "readExclusive: true", "readExclusive: true, enforcement: Shadow", 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := Compare(t.Context(), documents(t, test.before+"\n---\n"+binding), documents(t, test.after+"\n---\n"+binding), "master")
			if err != nil {
				t.Fatal(err)
			}
			said := slices.DeleteFunc(report.Unknown, func(line string) bool { return !strings.Contains(line, "hides") })
			if test.want == "" && len(said) > 0 || test.want != "" && (len(said) != 1 || !strings.HasPrefix(said[0], test.want)) {
				t.Errorf("%q, want %q", said, test.want)
			}
		})
	}
}
