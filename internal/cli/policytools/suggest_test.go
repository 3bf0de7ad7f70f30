package policytools

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/analysis/auditlog"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/observed"
)

const (
	trafficLog    = "testdata/suggest/audit.log.gz"
	trafficPolicy = "testdata/suggest/policy.yaml"
)

// TR-10: on recorded traffic of a server, with its policy, no request breaks when the suggestion replaces the rights
// that it was made for. That is decided here by a host that reads both from files, not by the command.
func TestSuggestReplacesRights(t *testing.T) {
	policy, err := os.ReadFile(trafficPolicy)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ subject, user, remove, less string }{
		{"dora", "dora", "- apiGroup: rbac.authorization.k8s.io\n  kind: User\n  name: dora\n", "99."},
		{"serviceaccount:shop/deployer", "system:serviceaccount:shop:deployer", "- kind: ServiceAccount\n  name: deployer\n  namespace: shop\n", "98."},
		{"paul", "paul", "    userNames:\n    - paul\n", "26."},
	} {
		for _, as := range []string{"rbac", "policy"} {
			t.Run(test.subject+" "+as, func(t *testing.T) {
				out, code, err := execute(t, NewSuggestCommand, "", "--replay", trafficLog, "--from", trafficPolicy, "--for", test.subject, "--format", as)
				if code != 0 || err != nil || !strings.Contains(out, "decided as before; the suggestion grants nothing new") || !strings.Contains(out, "which is "+test.less) {
					t.Fatalf("%d %v\n%s", code, err, out)
				}
				again, _, _ := execute(t, NewSuggestCommand, "", "--replay", trafficLog, "--from", trafficPolicy, "--for", test.subject, "--format", as)
				if again != out {
					t.Error("another time it is another suggestion")
				}
				taken := strings.Replace(string(policy), test.remove, "", 1)
				if taken == string(policy) {
					t.Fatalf("%q is not in the policy", test.remove)
				}
				without := write(t, map[string]string{"policy.yaml": taken})
				with := write(t, map[string]string{"policy.yaml": taken, "suggested.yaml": out})
				if more, code, err := execute(t, NewSuggestCommand, "", "--replay", trafficLog, "--from", with, "--for", test.subject, "--format", as); code != 0 || err != nil || strings.Contains(more, "suggestion replaces") {
					t.Errorf("applied, it says to remove what it writes: %d %v\n%s", code, err, more)
				}
				before, broken := decided(t, trafficPolicy, test.user), 0
				after, lost := decided(t, with, test.user), decided(t, without, test.user)
				for request, certainty := range before {
					if certainty != after[request] {
						t.Errorf("%s: %v before, %v after", request, certainty, after[request])
					}
					if certainty != lost[request] {
						broken++
					}
				}
				if len(before) == 0 || broken == 0 {
					t.Errorf("%d requests, of which %d break without the suggestion: nothing is proven", len(before), broken)
				}
			})
		}
	}
}

// decided is what the policy in files makes of the recorded requests of a user that succeeded.
func decided(t *testing.T, from, user string) map[string]ruleset.Certainty {
	t.Helper()
	host, err := offline.New(offline.Config{Paths: []string{from}, MasterNamespace: "master"})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(trafficLog)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]ruleset.Certainty{}
	if _, err := auditlog.Read(t.Context(), bytes.NewReader(data), auditlog.Config{Workers: 1, Each: func(_ int, r *auditlog.Request) {
		if r.User.Name != user || !observed.Succeeded(r) {
			return
		}
		attrs := r.Attributes()
		certainty := host.Snapshot().Rules.Decide(attrs).Certainty
		if decision, _, _ := host.Authorize(t.Context(), attrs); (decision == authorizer.DecisionAllow) != (certainty == ruleset.Always) {
			t.Errorf("%s: the chain says %v, the rules %v", r.URI, decision, certainty)
		}
		out[r.Verb+" "+r.URI] = certainty
	}}); err != nil {
		t.Fatal(err)
	}
	return out
}

// Names only where a verb has one, not too many of them; conditions stay; what cannot be answered is code 3.
func TestSuggestCommand(t *testing.T) {
	dora, _, _ := execute(t, NewSuggestCommand, "", "--replay", trafficLog, "--from", trafficPolicy, "--user", "dora")
	if strings.Contains(dora, "resourceNames") || !regexp.MustCompile(`verbs:\n  - create\n  - delete\n  - get\n  - list\n`).MatchString(dora) {
		t.Errorf("25 names are too many, and create has none:\n%s", dora)
	}
	deployer, _, _ := execute(t, NewSuggestCommand, "", "--replay", trafficLog, "--from", trafficPolicy, "--serviceaccount", "shop:deployer")
	if !strings.Contains(deployer, "resourceNames:\n  - settings\n  resources:\n  - configmaps\n  verbs:\n  - delete\n  - get\n  - patch\n") || strings.Contains(deployer, "clusterroles") {
		t.Errorf("%s", deployer)
	}
	if diff, _, _ := execute(t, NewSuggestCommand, "", "--replay", trafficLog, "--from", trafficPolicy, "--serviceaccount", "shop:deployer", "--diff"); strings.Contains(deployer, "It removes") ||
		!strings.Contains(diff, "# It removes, in shop: watch, update, deletecollection of configmaps.\n") || !strings.Contains(diff, "in every other namespace: ") {
		t.Errorf("%s", diff)
	}
	paul, _, _ := execute(t, NewSuggestCommand, "", "--replay", trafficLog, "--from", trafficPolicy, "--user", "paul")
	if !strings.Contains(paul, `where: resource.spec.storageClassName == "dev"`) || !strings.Contains(paul, "- -deletecollection") || strings.Contains(paul, "- create") {
		t.Errorf("%s", paul)
	}
	// Somebody of system:masters holds everything, and gets what was seen.
	if admin, _, _ := execute(t, NewSuggestCommand, "", "--replay", trafficLog, "--from", trafficPolicy, "--user", "kubernetes-admin"); !strings.Contains(admin, "in the group system:masters") || !strings.Contains(admin, "impersonate") {
		t.Errorf("%s", admin)
	}
	// Everybody of the log, in order.
	all, code, err := execute(t, NewSuggestCommand, "", "--replay", trafficLog, "--from", trafficPolicy)
	if order := regexp.MustCompile(`requests of (.*): `).FindAllStringSubmatch(all, -1); code != 0 || err != nil || len(order) != 4 || !slices.IsSortedFunc(order, func(a, b []string) int { return strings.Compare(a[1], b[1]) }) {
		t.Errorf("%d %v %v", code, err, order)
	}
	// What the policy does not allow is not suggested.
	empty := write(t, map[string]string{"policy.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"})
	if out, code, _ := execute(t, NewSuggestCommand, "", "--replay", trafficLog, "--from", empty, "--user", "dora"); code != codeNo || strings.Contains(out, "kind: Role") || !strings.Contains(out, "The policy does not allow 54 of them for good: ") {
		t.Errorf("%d\n%s", code, out)
	}
	for _, args := range [][]string{{}, {"--replay", trafficLog}, {"--from", empty}, {"--replay", filepath.Join(empty, "none"), "--from", empty}, {"--replay", trafficLog, "--from", trafficPolicy, "--user", "nobody"},
		{"--replay", trafficLog, "--from", empty, "--format", "abac"}, {"--replay", trafficLog, "--from", empty, "--as", "policy"}, {"--replay", trafficLog, "--from", empty, "--max-names", "0"}, {"--replay", trafficLog, "--from", empty, "--group", ""}, {"--replay", "-", "--from", empty}} {
		if _, code, err := execute(t, NewSuggestCommand, "", args...); code != codeUnanswered || err == nil {
			t.Errorf("%v: %d %v", args, code, err)
		}
	}
}

// Whoever chooses the name of a user or the path of a request, which are in comments, adds nothing to what is applied.
func TestSuggestedCommentsEnd(t *testing.T) {
	const event = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":"ResponseComplete","auditID":"%s","verb":"get","user":{"username":"eve\n---\nkind: Mischief\r\u2028kind: Mischief","groups":["team\nkind: Mischief"]},"requestURI":"/x%%0A---%%0Akind:%%20Mischief","responseStatus":{"code":404}}` + "\n"
	from := write(t, map[string]string{"policy.yaml": volumes})
	out, _, err := execute(t, NewSuggestCommand, fmt.Sprintf(event, "1"), "--replay", "-", "--from", from)
	if err != nil || !strings.Contains(out, "Mischief") {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, line := range strings.FieldsFunc(out, func(r rune) bool { return strings.ContainsRune("\n\r\u2028\u2029\u0085", r) }) {
		if !strings.HasPrefix(line, "#") && line != "---" {
			t.Errorf("%q is outside of the comments", line)
		}
	}
}

// TR-10: --live asks a server, for the policy as well.
func TestLiveFlags(t *testing.T) {
	for _, args := range [][]string{{"--live", "10m", "--replay", "x"}, {"--live", "10m", "--from", "x"}, {"--live", "-1s"}, {}} {
		if _, code, err := execute(t, NewSuggestCommand, "", args...); err == nil || code == 0 {
			t.Errorf("%v: %d, %v", args, code, err)
		}
	}
}

// PO-6: a right to write the policy of the master namespace counts only if it is held everywhere, so it is suggested
// everywhere. Reads there, and writes elsewhere, are suggested where they were seen.
func TestSuggestForTheMasterNamespace(t *testing.T) {
	from := write(t, map[string]string{"a.yaml": delegates})
	for _, test := range []struct{ verb, namespace, want string }{
		{"create", "master", "kind: ClusterRoleBinding"},
		{"get", "master", "namespace: master"},
		{"create", "shop", "namespace: shop"},
	} {
		log := `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":"ResponseComplete","auditID":"1","verb":"` + test.verb + `","user":{"username":"clark"},` +
			`"objectRef":{"resource":"roles","namespace":"` + test.namespace + `","apiGroup":"authorization.proviso.dev","name":"r"},"responseStatus":{"code":200}}` + "\n"
		out, code, err := execute(t, NewSuggestCommand, log, "--replay", "-", "--from", from)
		if code != 0 || err != nil || !strings.Contains(out, test.want) || strings.Contains(out, "kind: ClusterRole\n") != (test.want == "kind: ClusterRoleBinding") {
			t.Errorf("%+v: %d %v\n%s", test, code, err, out)
		}
	}
}

// TR-10: what was seen in the master namespace is granted there and not everywhere, however the right is held.
func TestSuggestNoMoreThanTheMasterNamespace(t *testing.T) {
	const role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r}\nrules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]\n---\n"
	const bound = "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}\nsubjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: dora}]\n"
	for name, binding := range map[string]string{
		"held there":      "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: b, namespace: master}\n" + bound,
		"held everywhere": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: b}\n" + bound,
	} {
		from := write(t, map[string]string{"a.yaml": role + binding})
		for _, format := range []string{"rbac", "policy"} {
			var log strings.Builder
			for i := range 25 {
				fmt.Fprintf(&log, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":"ResponseComplete","auditID":"%d","verb":"get","user":{"username":"dora"},`+
					`"objectRef":{"resource":"secrets","namespace":"master","name":"s%d"},"responseStatus":{"code":200}}`+"\n", i, i)
			}
			out, code, err := execute(t, NewSuggestCommand, log.String(), "--replay", "-", "--from", from, "--format", format)
			if code != 0 || err != nil || !strings.Contains(out, "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata:\n  name: suggested-dora\n  namespace: master\n") || strings.Contains(out, "proviso.dev") {
				t.Errorf("%s, as %s: %d %v\n%s", name, format, code, err, out)
			}
		}
	}
}

// TR-10: a subject whose requests are allowed by what stays has a right to something (exit code 0).
func TestSuggestNothingIsAnAnswer(t *testing.T) {
	const log = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":"ResponseComplete","auditID":"1","verb":"get","user":{"username":"dora","groups":["system:authenticated"]},` +
		`"objectRef":{"resource":"configmaps","namespace":"shop","name":"c"},"responseStatus":{"code":200}}` + "\n"
	role := func(kind string) string {
		return "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r}\nrules: [{apiGroups: [''], resources: [" + kind + "], verbs: [get]}]\n---\n" +
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: b}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}\n" +
			"subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: 'system:authenticated'}]\n"
	}
	for kind, want := range map[string]int{"configmaps": 0, "secrets": codeNo} {
		from := write(t, map[string]string{"a.yaml": role(kind)})
		if out, code, err := execute(t, NewSuggestCommand, log, "--replay", "-", "--from", from, "--user", "dora"); code != want || err != nil || strings.Contains(out, "kind:") {
			t.Errorf("%s: %d %v\n%s", kind, code, err, out)
		}
	}
}
