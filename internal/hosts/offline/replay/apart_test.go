package replay

import (
	"fmt"
	"strings"
	"testing"
)

const guarded = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: edit}
rules: [{verbs: [create, update], apiGroups: [""], resources: [configmaps]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: edit}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: ann}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: keepers}
rules: []
`

const tier = `---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterProtectedAttribute
metadata: {name: tier}
attributeKind: Label
attributeName: tier
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: keepers}
`

const exclusive = `---
apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermission
metadata: {name: data}
spec: {resources: [configmaps], field: .data, permission: example.com/data, exclusive: true}
`

// binds binds a cluster role in hammer.
func binds(name, role, user string) string {
	return fmt.Sprintf("---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: %s, namespace: hammer}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %s}\nsubjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: %s}]\n", name, role, user)
}

// grants is a cluster role with verbs on config maps, bound in hammer.
func grants(name, verbs, user string) string {
	return fmt.Sprintf("---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: %s}\nrules: [{verbs: [%s], apiGroups: [\"\"], resources: [configmaps]}]\n", name, verbs) + binds(name, name, user)
}

// writes is an event about a config map with a label and data; without them at a level that records no objects.
func writes(user, verb string, recorded bool) string {
	more := ""
	if recorded {
		more = `,"level":"Request","requestObject":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"p","namespace":"hammer","labels":{"tier":"x"}},"data":{"a":"b"}}`
	}
	return strings.ReplaceAll(event(user, "devs", verb, more), `"pods"`, `"configmaps"`)
}

// TR-4, NI-8: a guard flips a request if what is guarded changes, and as well if only those change who may pass. Both
// are found in the policies, since any object of a change may do that.
func TestReplayKnowsGuards(t *testing.T) {
	plain := guarded + binds("other", "keepers", "bob")
	for _, test := range []struct {
		name, before, after string
		flips               string
		atMetadata          bool // the object decides, so a level without it does not
	}{
		{"the attribute goes", plain + tier, plain, "No → Yes", true},
		{"the attribute comes", plain, plain + tier, "Yes → No", true},
		{"the attribute stays", plain + tier, plain + tier + binds("more", "edit", "bob"), "", false},
		{"another value", plain + tier, plain + strings.Replace(tier, "attributeName: tier", "attributeName: tier\nprotectedValues: [z]", 1), "No → Yes", true},
		{"she becomes a member", plain + tier, plain + tier + binds("keep", "keepers", "ann"), "No → Yes", true},
		{"her group becomes a member", plain + tier, plain + tier + strings.Replace(binds("keep", "keepers", "devs"), "kind: User", "kind: Group", 1), "No → Yes", true},
		{"she is no longer a member", plain + tier + binds("keep", "keepers", "ann"), plain + tier, "Yes → No", true},
		{"she is a member elsewhere", plain + tier, plain + tier + strings.Replace(binds("keep", "keepers", "ann"), "namespace: hammer", "namespace: anvil", 1), "", false},
		{"somebody else becomes a member", plain + tier, plain + tier + binds("keep", "keepers", "eve"), "", false},
		{"the role of the members goes", plain + tier + binds("keep", "keepers", "ann"), strings.Replace(plain, "name: keepers}\nrules", "name: others}\nrules", 1) + tier + binds("keep", "keepers", "ann"), "Yes → No", true},
		{"the field comes", plain, plain + exclusive, "Yes → No", true},
		{"she gets the verb of the field", plain + exclusive, plain + exclusive + grants("data", "'granular:example.com/data'", "ann"), "No → Yes", true},
		{"she gets it by a new rule", plain + exclusive, strings.Replace(plain, "verbs: [create, update]", "verbs: [create, update, 'granular:example.com/data']", 1) + exclusive, "No → Yes", true},
		{"she gets every verb", plain + exclusive, plain + exclusive + grants("data", "'*'", "ann"), "No → Yes", true},
		{"she gets the verb of another field", plain + exclusive, plain + exclusive + grants("data", "'granular:example.com/else'", "ann"), "", true},
		{"somebody else gets it", plain + exclusive, plain + exclusive + grants("data", "'granular:example.com/data'", "eve"), "", false},
		{"a right that has nothing to do with it", plain + tier + exclusive, plain + tier + exclusive + grants("reads", "get", "ann"), "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := run(t, test.before, test.after, writes("ann", "create", true)+writes("eve", "get", false))
			if flips := flipsOf(got); flips != test.flips || got.Undecided > 0 {
				t.Errorf("flips %q, %d undecided, want %q", flips, got.Undecided, test.flips)
			}
			for _, verb := range []string{"create", "update"} {
				got := run(t, test.before, test.after, writes("ann", verb, false))
				if len(got.Flips) > 0 || (got.Undecided == 1) != test.atMetadata {
					t.Errorf("%s without its object: flips %q, %d undecided", verb, flipsOf(got), got.Undecided)
				}
			}
		})
	}
}

// TR-4, NI-8: which elements of a field a write sets is not decided here, so it is not said that nothing flips.
func TestReplayKnowsRightsToElements(t *testing.T) {
	const perKey = `---
apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermission
metadata: {name: data}
spec: {resources: [configmaps], field: '.data[]', permission: example.com/data, exclusive: true, parameter: {from: key}}
`
	for user, undecided := range map[string]string{"ann": perElement.Reason, "eve": ""} {
		got := run(t, guarded+perKey, guarded+perKey+grants("data", "'granular:example.com/data(a)'", user), writes("ann", "create", true))
		reason := ""
		for _, u := range got.Because {
			reason += u.Reason
		}
		if len(got.Flips) > 0 || reason != undecided {
			t.Errorf("%s gets the right: flips %q, undecided %q, want %q", user, flipsOf(got), reason, undecided)
		}
	}
}

func flipsOf(r *Report) (flips string) {
	for _, f := range r.Flips {
		flips += fmt.Sprintf("%s → %s", f.Before, f.After)
	}
	return flips
}

// TR-4, NI-8: with rights to single fields only, the rights decide, and no rule about the request itself.
func TestReplayKnowsRightsToFields(t *testing.T) {
	named := guarded + "---\napiVersion: policy.proviso.dev/v1alpha1\nkind: FieldPermission\nmetadata: {name: data}\nspec: {resources: [configmaps], field: .data, permission: example.com/data}\n" +
		"---\napiVersion: policy.proviso.dev/v1alpha1\nkind: FieldPermission\nmetadata: {name: meta}\nspec: {resources: [configmaps], field: .metadata, permission: example.com/metadata}\n" +
		grants("some", "granular, 'granular:example.com/metadata'", "eve")
	with := named + grants("more", "'granular:example.com/data'", "eve")
	for _, test := range []struct{ name, before, after, flips string }{
		{"a right to a field", named, with, "No → Yes"},
		{"and without it again", with, named, "Yes → No"},
		{"the same rights", with, with + grants("reads", "get", "eve"), ""},
	} {
		if got := run(t, test.before, test.after, writes("eve", "create", true)); flipsOf(got) != test.flips || got.Undecided > 0 {
			t.Errorf("%s: flips %q, %d undecided, want %q", test.name, flipsOf(got), got.Undecided, test.flips)
		}
	}
}

// TR-4, NI-8: what conditions look at beside the object flips requests, too: the Namespace, and what was asked for.
func TestReplayKnowsWhatConditionsLookAt(t *testing.T) {
	namespace := func(env string) string {
		return "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: hammer, labels: {env: " + env + "}}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: anvil}\n"
	}
	onNamespace := strings.Replace(roles, `where: resource.spec.nodeName == "a"`, `when: namespaceObject.metadata.labels.env == "dev"`, 1)
	pod := `,"level":"Request","requestObject":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"hammer"},"spec":{"nodeName":"a"}}`
	for _, test := range []struct {
		name, before, after, log, flips string
		undecided                       int64
	}{
		{"a label of the namespace", onNamespace + namespace("prod"), onNamespace + namespace("dev"), event("ann", "devs", "create", pod), "No → Yes", 0},
		{"the label goes", onNamespace + namespace("dev"), onNamespace + namespace("prod"), event("ann", "devs", "create", pod), "Yes → No", 0},
		{"no object", onNamespace + namespace("dev"), onNamespace + namespace("prod"), event("ann", "devs", "create", ""), "", 1},
		{"a watch", onNamespace + namespace("dev"), onNamespace + namespace("prod"), event("ann", "devs", "watch", ""), "", 1},
		{"the same namespace", onNamespace + namespace("dev"), onNamespace + namespace("dev"), event("ann", "devs", "create", ""), "", 0},
		{"another namespace", onNamespace + namespace("dev"), strings.Replace(onNamespace+namespace("dev"), "{name: anvil}", "{name: anvil, labels: {env: dev}}", 1), event("ann", "devs", "create", ""), "", 0},
		{"a condition on the object", roles + namespace("dev"), roles + namespace("prod"), event("ann", "devs", "create", ""), "", 0},
	} {
		if got := run(t, test.before, test.after, test.log); flipsOf(got) != test.flips || got.Undecided != test.undecided {
			t.Errorf("%s: flips %q, %d undecided, want %q and %d", test.name, flipsOf(got), got.Undecided, test.flips, test.undecided)
		}
	}
}
