package policytools

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/policychange"
)

// plans runs `proviso plan`.
func plans(t *testing.T, stdin string, args ...string) (out string, code int, said error) {
	t.Helper()
	return execute(t, NewPlanCommand, stdin, args...)
}

// TR-2, TR-3, TR-16: what changes, with a witness where it depends on the object.
func TestPlan(t *testing.T) {
	role, binding, _ := strings.Cut(volumes, "---\n")
	from := write(t, map[string]string{"policy.yaml": volumes})
	wider := strings.ReplaceAll(role, `== "dev"`, `in ["dev", "test"]`)
	for _, test := range []struct {
		name, change string
		args         []string
		code         int
		want         []string
	}{
		{"nothing", role, nil, 0, []string{"Nobody gains or loses anything."}},
		{"said in another way", strings.ReplaceAll(role, `resource.spec.storageClassName == "dev"`, `resource.spec.storageClassName in ["dev"]`), nil, 0, []string{"Nobody gains"}},
		{"one more class", wider, nil, 2, []string{"group team-a", "create persistentvolumeclaims", "hammer", "If → If, wider", "hammer/dev-volumes rule 0", `"storageClassName":"test"`}},
		{"without the condition", strings.ReplaceAll(role, "  where: resource.spec.storageClassName == \"dev\"\n", ""), nil, 2, []string{"If → Yes, wider"}},
		{"gone", role, []string{"--delete"}, 2, []string{"If → No, narrower", "Yes → No"}},
		{"the binding is gone", binding, []string{"--delete"}, 2, []string{"Yes → No"}},
		{"everything else is gone", role, []string{"--prune"}, 2, []string{"Yes → No", `without effect: Role "hammer/dev-volumes": nobody is bound to it`}},
		{"a condition that does not compile", strings.ReplaceAll(role, `== "dev"`, `== `), nil, 2, []string{"narrower", "rejected: "}},
		{"markdown", wider, []string{"-o", "markdown"}, 2, []string{"| group team-a | create persistentvolumeclaims | hammer | If → If, wider | hammer/dev-volumes rule 0 |"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, code, err := plans(t, test.change, append([]string{"--from", from, "-f", "-"}, test.args...)...)
			if code != test.code {
				t.Errorf("exit code %d, want %d: %v", code, test.code, err)
			}
			for _, want := range test.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
		})
	}
	out, _, _ := plans(t, wider, "--from", from, "-f", "-", "-o", "json")
	var p policychange.Report
	if err := json.Unmarshal([]byte(out), &p); err != nil || p.Kind != "Plan" || p.APIVersion != offline.ToolsVersion || len(p.Changes) != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	c := p.Changes[0]
	if c.Subject == nil || c.Subject.Group != "team-a" || c.Verb != "create" || c.Namespace != "hammer" || c.Before != "If" || c.After != "If" || c.Relation != "wider" || c.Witness == nil || c.Witness.Object == nil {
		t.Errorf("%+v", c)
	}
	// Somebody of all namespaces is one entry.
	everywhere := "apiVersion: authorization.proviso.dev/v1alpha1\nkind: RoleBinding\nmetadata: {name: m, namespace: master}\nroleRef: {namespace: master, name: view}\nuserNames: [ann, bob]\n"
	out, code, err := plans(t, everywhere, "--from", from, "-f", "-", "-o", "json")
	if err := json.Unmarshal([]byte(out), &p); err != nil || code != 2 {
		t.Fatalf("%v %d\n%s", err, code, out)
	}
	if c := p.Changes[0]; c.Namespace != "*" || len(c.Subjects) != 2 {
		t.Errorf("%+v %v", c, err)
	}
}

// TR-2: a right to all objects of a kind is not said again for every name that some rule mentions, and the names for
// which nothing changes are said; what does not change for single names is not listed either.
func TestPlanOfNames(t *testing.T) {
	rbac := func(name, names, users string) string {
		return fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: %[1]s}\nrules: [{verbs: [get, list], apiGroups: [''], resources: [secrets]%[2]s}]\n---\n"+
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: %[1]s}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}\n"+
			"subjects: [%[3]s]\n", name, names, users)
	}
	vera, edgar := "{apiGroup: rbac.authorization.k8s.io, kind: User, name: vera}", "{apiGroup: rbac.authorization.k8s.io, kind: User, name: edgar}"
	policy := func(kinds string) string {
		return "apiVersion: authorization.proviso.dev/v1alpha1\nkind: Role\nmetadata: {name: named, namespace: hammer}\nrules:\n- {verbs: [get, list, update], resourceKinds: [configmaps], resourceNames: [first]}\n" + kinds +
			"---\napiVersion: authorization.proviso.dev/v1alpha1\nkind: RoleBinding\nmetadata: {name: named, namespace: hammer}\nroleRef: {name: named}\nuserNames: [vera]\n"
	}
	from := write(t, map[string]string{"a.yaml": rbac("one", ", resourceNames: [first]", vera), "b.yaml": rbac("two", ", resourceNames: [second, third]", edgar), "c.yaml": policy("")})
	for _, test := range []struct {
		name, change string
		want         []string
	}{
		{"all names", rbac("all", "", vera), []string{"get,list secrets except first"}},
		{"all names, of two", rbac("all", "", vera+", "+edgar), []string{"get,list secrets except first", "get,list secrets except second and third"}},
		{"one name", rbac("third", ", resourceNames: [first]", edgar), []string{"get,list secrets first"}},
		{"a rule beside one of names", policy("- {verbs: [get], resourceKinds: [pods]}\n"), []string{"get pods"}},
	} {
		out, code, err := plans(t, test.change, "--from", from, "-f", "-")
		if code != 2 {
			t.Errorf("%s: %d %v", test.name, code, err)
		}
		var got []string
		for _, l := range strings.Split(out, "\n") {
			if columns := regexp.MustCompile(" {3,}").Split(l, -1); len(columns) == 5 && columns[0] != "WHO" {
				got = append(got, columns[1])
			}
		}
		slices.Sort(got)
		if strings.Join(got, "; ") != strings.Join(test.want, "; ") {
			t.Errorf("%s: %q\n%s", test.name, got, out)
		}
	}
}

// TR-3: a write changes neither the name nor the namespace of an object, so that a condition on that says nothing.
func TestPlanKnowsThatNothingIsRenamed(t *testing.T) {
	role := func(when string) string {
		return "apiVersion: authorization.proviso.dev/v1alpha1\nkind: Role\nmetadata: {name: r, namespace: hammer}\nrules:\n- verbs: [update]\n  resourceKinds: [configmaps]\n" + when +
			"---\napiVersion: authorization.proviso.dev/v1alpha1\nkind: RoleBinding\nmetadata: {name: r, namespace: hammer}\nroleRef: {name: r}\nuserNames: [vera]\n"
	}
	names, only := "  resourceNames: [first]\n", func(condition string) string { return "  when: " + condition + "\n" }
	for _, test := range []struct {
		before, after string
		code          int
	}{
		{"", only("object.metadata.namespace == oldObject.metadata.namespace"), 0},
		{names, names + only("object.metadata.name == oldObject.metadata.name"), 0},
		{names, names + only("object.metadata.name != oldObject.metadata.name"), 2},
		{names, names + only("oldObject.metadata.name == 'second'"), 2},
	} {
		from := write(t, map[string]string{"a.yaml": role(test.before)})
		if out, code, err := plans(t, role(test.after), "--from", from, "-f", "-"); code != test.code {
			t.Errorf("%q: %d %v\n%s", test.after, code, err, out)
		}
	}
}

// TR-2: what a server would not take is listed as rejected, with the reason that the server gives; what it takes is
// not.
func TestPlanOfWhatIsRejected(t *testing.T) {
	const (
		rbac  = "apiVersion: rbac.authorization.k8s.io/v1\n"
		own   = "apiVersion: authorization.proviso.dev/v1alpha1\n"
		other = "apiVersion: policy.proviso.dev/v1alpha1\n"
		bound = rbac + "kind: ClusterRoleBinding\nmetadata: {name: b}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}\n"
	)
	from := write(t, map[string]string{"policy.yaml": volumes, "rbac.yaml": bound})
	for _, test := range []struct{ change, want string }{
		{rbac + "kind: ClusterRole\nmetadata: {name: r}\nrules: [{apiGroups: [''], resources: [pods]}]\n", "ClusterRole.rbac.authorization.k8s.io r: rules[0].verbs: Required value"},
		{rbac + "kind: Role\nmetadata: {name: r, namespace: a}\nrules: [{verbs: [get], nonResourceURLs: [/x]}]\n", "namespaced rules cannot apply to non-resource URLs"},
		{rbac + "kind: ClusterRole\nmetadata: {name: a/b}\n", "metadata.name"},
		{strings.Replace(bound, "name: view", "name: edit", 1), "field is immutable"},
		{strings.Replace(bound, "{name: b}", "{name: c}", 1) + "subjects: [{kind: Robot, name: r2}]\n", `subjects[0].kind: Unsupported value: "Robot"`},
		{bound, ""},
		{rbac + "kind: ClusterRole\nmetadata: {name: r}\nrules: [{verbs: [get], nonResourceURLs: [/x]}, {verbs: [get], apiGroups: [''], resources: [pods]}]\n", ""},
		{own + "kind: Role\nmetadata: {name: r, namespace: hammer}\nrules: [{resourceKinds: [pods]}]\n", "Role.authorization.proviso.dev hammer/r: rules[0].verbs"},
		{strings.ReplaceAll(volumes, "name: dev-volumes}", "name: others}"), "cannot be changed"},
		{volumes, ""},
		{other + "kind: ProtectedAttribute\nmetadata: {name: p, namespace: hammer}\nattributeKind: Colour\nattributeName: x\nroleRef: {kind: Role, name: r}\n", "ProtectedAttribute.policy.proviso.dev hammer/p: attributeKind"},
	} {
		out, code, err := plans(t, test.change, "--from", from, "-f", "-")
		if test.want == "" && strings.Contains(out, "rejected: ") || test.want != "" && (code != 2 || !strings.Contains(out, "rejected: ") || !strings.Contains(out, test.want)) {
			t.Errorf("want %q: %d %v\n%s\n%s", test.want, code, err, out, test.change)
		}
	}
}

// What cannot be answered is code 3, with its place.
func TestPlanOfBadInput(t *testing.T) {
	from := write(t, map[string]string{"policy.yaml": volumes})
	for want, change := range map[string]string{
		"document 1":         "kind: [",
		"no kind":            "a: b",
		"not known":          "apiVersion: policy.proviso.dev/v9\nkind: Policy\nmetadata: {name: default, namespace: x}\n",
		"is there twice":     volumes + "---\n" + volumes,
		"no objects found":   "# nothing",
		"unknown field":      strings.ReplaceAll(volumes, "groupNames", "groupName"),
		"standard input, do": "apiVersion: v1\nkind: Role\nrules: {",
	} {
		if out, code, err := plans(t, change, "--from", from, "-f", "-"); code != codeUnanswered || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %d %v %s", want, code, err, out)
		}
	}
	for _, args := range [][]string{{}, {"--from", from}, {"--from", filepath.Join(from, "none"), "-f", "-"}, {"--from", from, "-f", "-", "--delete", "--prune"}, {"--from", from, "-f", "-", "-o", "csv"}} {
		if _, code, err := plans(t, volumes, args...); code != codeUnanswered || err == nil {
			t.Errorf("%v: %d %v", args, code, err)
		}
	}
	if _, code, err := plans(t, strings.ReplaceAll(volumes, "dev-volumes", "others"), "--from", from, "-f", "-", "--delete"); code != codeUnanswered || !strings.Contains(err.Error(), "is not in the current policy") {
		t.Errorf("%d %v", code, err)
	}
}

// CA-26: a where that comes to name a connection, or no longer does, changes that connection and nothing else.
func TestPlanOfNamedConnections(t *testing.T) {
	const role = `
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: debug, namespace: hammer}
rules:
- {verbs: ['*'], resourceKinds: [KINDS], where: 'resource.metadata.?labels.debug.orValue("") == "yes"'}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: debug, namespace: hammer}
roleRef: {namespace: hammer, name: debug}
userNames: [ann]
`
	for _, test := range []struct {
		name, before, after string
		code                int
		want                []string
		no                  string
	}{
		{"named", "'pods/*', pods", "'pods/*', pods, pods/exec", 2, []string{"pods/exec", "If → If, wider", `"debug":"yes"`}, "pods/attach"},
		{"not named any more", "'pods/*', pods/exec", "'pods/*'", 2, []string{"pods/exec", "If → If, narrower"}, "pods/log"},
		{"in another way", "'pods/*', pods/exec", "'pods/*', Pod/exec", 0, []string{"Nobody gains"}, "pods/exec"},
	} {
		t.Run(test.name, func(t *testing.T) {
			from := write(t, map[string]string{"policy.yaml": strings.Replace(role, "KINDS", test.before, 1)})
			out, code, err := plans(t, strings.Replace(role, "KINDS", test.after, 1), "--from", from, "-f", "-")
			if code != test.code {
				t.Errorf("exit code %d, want %d: %v", code, test.code, err)
			}
			for _, want := range test.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			if strings.Contains(out, test.no) {
				t.Errorf("%q in\n%s", test.no, out)
			}
		})
	}
}

// CA-26: a plan compares conditions on what connections go to, with a target as the witness.
func TestPlanOfTargets(t *testing.T) {
	const role = `
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: debug, namespace: hammer}
rules:
- {verbs: [exec], resourceKinds: [pods], when: 'target.metadata.?labels.debug.orValue("") == "yes"'}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: debug, namespace: hammer}
roleRef: {namespace: hammer, name: debug}
userNames: [ann]
`
	from := write(t, map[string]string{"policy.yaml": role})
	for _, test := range []struct {
		name, when string
		code       int
		want       []string
	}{
		{"said in another way", `target.metadata.?labels.debug.orValue("no") in ["yes"]`, 0, []string{"Nobody gains"}},
		{"another label value", `target.metadata.?labels.debug.orValue("") in ["yes", "maybe"]`, 2, []string{"pods/exec", "If → If, wider", `"debug":"maybe"`}},
		{"and a command", `target.metadata.?labels.debug.orValue("") == "yes" && options.command == ["ps"]`, 2, []string{"If → If, narrower"}},
		{"no pod", `target == null`, 2, []string{"narrower"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, code, err := plans(t, strings.Replace(role, `target.metadata.?labels.debug.orValue("") == "yes"`, test.when, 1), "--from", from, "-f", "-")
			if code != test.code {
				t.Errorf("exit code %d, want %d: %v", code, test.code, err)
			}
			for _, want := range test.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
		})
	}
}

// PO-6: a right to write the policy of the master namespace counts only if it is held everywhere.
func TestPlanOfTheMasterNamespace(t *testing.T) {
	role, bindings, _ := strings.Cut(strings.TrimPrefix(delegates, "---\n"), "---\n")
	from := write(t, map[string]string{"a.yaml": role})
	for who, binding := range map[string]string{"dora": "", "hubert": "", "clark": ""} {
		for _, b := range strings.Split(bindings, "---\n") {
			if strings.Contains(b, "name: "+who) {
				binding = b
			}
		}
		// A role beside it, in namespaces in which it is the same, does not change what counts in the master namespace.
		for _, more := range []string{"", strings.NewReplacer("namespace: master", "namespace: anvil", "namespace: hammer", "namespace: anvil").Replace("---\n" + binding)} {
			if who == "clark" && more != "" {
				continue
			}
			out, code, err := plans(t, binding+more, "--from", from, "-f", "-", "-o", "json")
			var p policychange.Report
			if err := json.Unmarshal([]byte(out), &p); err != nil {
				t.Fatalf("%s: %v\n%s", who, err, out)
			}
			got := map[string]bool{}
			for _, c := range p.Changes {
				got[c.Verb+" in "+c.Namespace] = true
			}
			where := map[string]string{"dora": "master", "hubert": "hammer", "clark": "*"}[who]
			if code != 2 || err != nil || !got["get in "+where] || got["create in "+where] == (who == "dora") || more != "" && !got["create in anvil"] {
				t.Errorf("%s: %d %v %v\n%s", who, code, err, got, out)
			}
		}
	}
	// A rule that grants nothing else has no effect.
	only := strings.ReplaceAll(delegates, "[get, create]", "[create]")
	out, _, err := plans(t, only, "--from", from, "-f", "-")
	if err != nil || strings.Contains(out, "without effect") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, b := range strings.Split(only, "---\n") {
		if strings.Contains(b, "kind: ClusterRole\n") || strings.Contains(b, "name: dora") {
			role += "---\n" + b
		}
	}
	out, _, err = plans(t, strings.SplitN(role, "---\n", 2)[1], "--from", from, "-f", "-")
	if err != nil || !strings.Contains(out, `without effect: ClusterRole "delegate" rule 0: such writes in the master namespace take a right`) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TR-22: only a role that is got or lost is everything of it.
func TestPlanFoldsRoles(t *testing.T) {
	role := func(verbs ...string) string {
		text := "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: ops, namespace: ns}\nrules:\n"
		for i, kind := range []string{"pods", "secrets", "services", "configmaps", "endpoints", "events"} {
			if i < len(verbs) {
				text += "- {verbs: [" + verbs[i] + "], apiGroups: [''], resources: [" + kind + "]}\n"
			}
		}
		return text
	}
	all := []string{"get", "list", "watch", "create", "update", "delete"}
	const binding = "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: ops, namespace: ns}\n" +
		"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: ops}\nsubjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: dora}]\n"
	for _, test := range []struct {
		name, before, change string
		args                 []string
		want                 string
	}{
		{"a role and its binding", volumes, role(all...) + binding, nil, "everything of role ns/ops (-o wide lists it)"},
		{"a binding", role(all...), binding, nil, "everything of role ns/ops"},
		{"the binding is gone", role(all...) + binding, binding, []string{"--delete"}, "everything of role ns/ops"},
		{"the role is gone", role(all...) + binding, role(), []string{"--delete"}, "everything of role ns/ops"},
		{"four rules of six are gone", role(all...) + binding, role(all[:2]...), nil, "4 changes by role ns/ops (-o wide lists them)"},
		{"four more rules", role(all[:2]...) + binding, role(all...), nil, "4 changes by role ns/ops"},
	} {
		out, code, err := plans(t, test.change, append([]string{"--from", write(t, map[string]string{"a.yaml": test.before}), "-f", "-"}, test.args...)...)
		if code != 2 || err != nil || !strings.Contains(out, test.want) {
			t.Errorf("%s: %d %v\n%s", test.name, code, err, out)
		}
	}
}
