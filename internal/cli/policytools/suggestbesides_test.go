package policytools

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
)

// boss is dora's role of today, in the namespace shop.
const boss = `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: boss, namespace: shop}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: boss, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: boss}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: dora}]
`

// binder may bind one role, and holds nothing else.
const binder = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: binder}
rules:
- {apiGroups: [rbac.authorization.k8s.io], resources: [rolebindings], verbs: [create]}
- {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], resourceNames: [reader], verbs: [bind]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: binder, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: binder}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: dora}]
`

const protectedLabel = `---
apiVersion: policy.proviso.dev/v1alpha1
kind: ProtectedAttribute
metadata: {name: tier, namespace: shop}
attributeKind: Label
attributeName: example.com/tier
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: boss}
`

// TR-10: what a request needs beside its verb is among what is suggested, and proven by replay: with the suggestion in
// place of what it replaces, every question that the server asks has the answer that it had.
func TestSuggestKeepsWhatRequestsNeedBesides(t *testing.T) {
	event := func(level, verb, group, resource, sub, name string, code int, object string) string {
		return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":%q,"stage":"ResponseComplete","auditID":"1","verb":%q,"requestURI":"/x",
			"user":{"username":"dora","groups":["system:authenticated"]},"objectRef":{"resource":%q,"subresource":%q,"namespace":"shop","apiGroup":%q,"apiVersion":"v1","name":%q},
			"responseStatus":{"code":%d},"requestObject":%s}`, level, verb, resource, sub, group, name, code, object)
	}
	for _, test := range []struct {
		name, policy, event string
		// asked are the questions of the server, as verb group resource name.
		asked []string
		says  string
	}{
		{"an apply that creates", boss, event("Metadata", "patch", "", "configmaps", "", "a", 201, "null"), []string{"patch  configmaps a", "create  configmaps a"}, "decided as before"},
		{"an apply that changes", boss, event("Metadata", "patch", "", "configmaps", "", "a", 200, "null"), []string{"patch  configmaps a"}, "decided as before"},
		{"exec by GET", boss, event("Metadata", "get", "", "pods", "exec", "a", 101, "null"), []string{"get  pods/exec a", "create  pods/exec a"}, "decided as before"},
		{"a binding by bind", binder, event("Request", "create", "rbac.authorization.k8s.io", "rolebindings", "", "b", 201,
			`{"kind":"RoleBinding","roleRef":{"kind":"ClusterRole","name":"reader"}}`),
			[]string{"create rbac.authorization.k8s.io rolebindings b", "bind rbac.authorization.k8s.io clusterroles reader"}, "decided as before"},
		{"a binding of an unknown role by bind", binder, event("Metadata", "create", "rbac.authorization.k8s.io", "rolebindings", "", "b", 201, "null"),
			[]string{"create rbac.authorization.k8s.io rolebindings b", "bind rbac.authorization.k8s.io clusterroles reader"}, "Not proven: 1 different requests grant rights to others"},
		{"a role by escalate", boss, event("Metadata", "create", "rbac.authorization.k8s.io", "roles", "", "b", 201, "null"),
			[]string{"create rbac.authorization.k8s.io roles b", "escalate rbac.authorization.k8s.io roles "}, "decided as before"},
		{"a protected label", boss + protectedLabel, event("Metadata", "create", "", "configmaps", "", "a", 201, "null"), nil, `Keep RoleBinding "shop/boss": members of its role`},
	} {
		t.Run(test.name, func(t *testing.T) {
			log := strings.ReplaceAll(test.event, "\n", "") + "\n"
			out, code, err := execute(t, NewSuggestCommand, log, "--replay", "-", "--from", write(t, map[string]string{"policy.yaml": test.policy}), "--user", "dora")
			if code > 1 || err != nil || !strings.Contains(out, test.says) {
				t.Fatalf("%d %v\n%s", code, err, out)
			}
			// What is replaced is gone: dora is in no other binding.
			left := strings.ReplaceAll(test.policy, "name: dora", "name: nobody")
			host := hostOf(t, left+"---\n"+out)
			for _, question := range test.asked {
				part := strings.SplitN(question, " ", 4)
				resource, sub, _ := strings.Cut(part[2], "/")
				attrs := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "dora", Groups: []string{user.AllAuthenticated}}, Verb: part[0], APIGroup: part[1], APIVersion: "v1",
					Resource: resource, Subresource: sub, Namespace: "shop", Name: part[3], ResourceRequest: true}
				if answer := host.Decide(context.Background(), attrs); answer != offline.Allowed {
					t.Errorf("%s: %v with\n%s", question, answer, out)
				}
			}
		})
	}
}

// TR-10: to act as another user takes a right to each group, to the UID and to each extra value.
func TestSuggestKeepsImpersonation(t *testing.T) {
	const mimic = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: mimic}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: [impersonate]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: mimic}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: mimic}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: dora}]
`
	const log = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":"ResponseComplete","auditID":"1","verb":"get","requestURI":"/x","user":{"username":"dora","groups":["system:authenticated"]},` +
		`"impersonatedUser":{"username":"victim","uid":"uid-7","groups":["vips","system:authenticated"],"extra":{"scope":["all","some"]}},"objectRef":{"resource":"pods","namespace":"shop","apiVersion":"v1","name":"a"},"responseStatus":{"code":200}}` + "\n"
	out, code, err := execute(t, NewSuggestCommand, log, "--replay", "-", "--from", write(t, map[string]string{"policy.yaml": mimic}), "--user", "dora")
	if code > 0 || err != nil || !strings.Contains(out, "decided as before") {
		t.Fatalf("%d %v\n%s", code, err, out)
	}
	host := hostOf(t, strings.ReplaceAll(mimic, "name: dora", "name: nobody")+"---\n"+out)
	for question, want := range map[string]offline.Answer{
		" users victim": offline.Allowed, " groups vips": offline.Allowed, "authentication.k8s.io uids uid-7": offline.Allowed,
		"authentication.k8s.io userextras/scope all": offline.Allowed, "authentication.k8s.io userextras/scope some": offline.Allowed,
		"authentication.k8s.io userextras/scope other": offline.Refused, " users other": offline.Refused,
	} {
		part := strings.SplitN(question, " ", 3)
		resource, sub, _ := strings.Cut(part[1], "/")
		attrs := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "dora", Groups: []string{user.AllAuthenticated}}, Verb: "impersonate", APIGroup: part[0], APIVersion: "v1",
			Resource: resource, Subresource: sub, Name: part[2], ResourceRequest: true}
		if got := host.Decide(context.Background(), attrs); got != want {
			t.Errorf("%s: %v, want %v with\n%s", question, got, want, out)
		}
	}
}

// TR-10: where impersonation is constrained, the rights to it name the mode, and the request takes one, too. The node
// that a service account runs on is asked about as every node.
func TestSuggestKeepsConstrainedImpersonation(t *testing.T) {
	const mimic = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: mimic}
rules:
- {apiGroups: [authentication.k8s.io], resources: ["*"], verbs: ["impersonate:MODE"]}
- {apiGroups: ["*"], resources: ["*"], verbs: ["impersonate-on:MODE:get", "impersonate-on:MODE:delete"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: mimic}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: mimic}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: dora}]
`
	const log = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":"ResponseComplete","auditID":"1","verb":"get","requestURI":"/x","user":{"username":"dora","groups":["system:authenticated"]},` +
		`"authenticationMetadata":{"impersonationConstraint":"impersonate:MODE"},"impersonatedUser":{"username":"VICTIM","groups":[GROUPS"system:authenticated"]},"objectRef":{"resource":"pods","namespace":"shop","apiVersion":"v1","name":"a"},"responseStatus":{"code":200}}` + "\n"
	for _, tc := range []struct {
		mode, victim, groups string
		allowed, refused     []string
	}{
		{"user-info", "victim", `"vips",`, []string{"impersonate:user-info users victim", "impersonate:user-info groups vips"}, []string{"impersonate:user-info users other", "impersonate users victim"}},
		{"user-info", "victim", `"a","b","c","d",`, []string{"impersonate:user-info groups *"}, []string{"impersonate:user-info groups other"}},
		{"serviceaccount", "system:serviceaccount:shop:till", `"system:serviceaccounts",`, []string{"impersonate:serviceaccount serviceaccounts till"}, []string{"impersonate:serviceaccount serviceaccounts other"}},
		{"arbitrary-node", "system:node:n1", `"system:nodes",`, []string{"impersonate:arbitrary-node nodes n1"}, []string{"impersonate:arbitrary-node nodes n2", "impersonate:arbitrary-node groups system:nodes"}},
		{"associated-node", "system:node:n1", `"system:nodes",`, []string{"impersonate:associated-node nodes *"}, nil},
	} {
		policy := strings.ReplaceAll(mimic, "MODE", tc.mode)
		event := strings.NewReplacer("MODE", tc.mode, "VICTIM", tc.victim, "GROUPS", tc.groups).Replace(log)
		out, code, err := execute(t, NewSuggestCommand, event, "--replay", "-", "--from", write(t, map[string]string{"policy.yaml": policy}), "--user", "dora")
		if code > 0 || err != nil {
			t.Fatalf("%s: %d %v\n%s", tc.mode, code, err, out)
		}
		host := hostOf(t, strings.ReplaceAll(policy, "name: dora", "name: nobody")+"---\n"+out)
		on := "impersonate-on:" + tc.mode + ":"
		for question, want := range questions(append(tc.allowed, on+"get pods a"), append(tc.refused, on+"get pods b", on+"delete pods a", on+"get secrets a")) {
			part := strings.Split(question, " ")
			attrs := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "dora", Groups: []string{user.AllAuthenticated}}, Verb: part[0], APIVersion: "v1", Resource: part[1], Name: part[2], ResourceRequest: true}
			if !strings.HasPrefix(part[0], "impersonate-on:") {
				attrs.APIGroup = "authentication.k8s.io"
			}
			if part[1] == "pods" || part[1] == "secrets" || part[1] == "serviceaccounts" {
				attrs.Namespace = "shop"
			}
			if got := host.Decide(context.Background(), attrs); got != want {
				t.Errorf("%s: %v, want %v with\n%s", question, got, want, out)
			}
		}
	}
}

func questions(allowed, refused []string) map[string]offline.Answer {
	all := map[string]offline.Answer{}
	for _, q := range allowed {
		all[q] = offline.Allowed
	}
	for _, q := range refused {
		all[q] = offline.Refused
	}
	return all
}

func hostOf(t *testing.T, policy string) *offline.Host {
	t.Helper()
	documents, err := manifests.Read([]string{write(t, map[string]string{"policy.yaml": policy})}, nil)
	if err != nil {
		t.Fatal(err)
	}
	host, err := offline.New(offline.Config{Texts: manifests.Texts(documents), MasterNamespace: "master"})
	if err != nil {
		t.Fatal(err)
	}
	return host
}

// TM-8: a right that ends is not replaced by one that does not: its binding stays, and what it allows is not suggested.
func TestSuggestLeavesAloneWhatEnds(t *testing.T) {
	const oncall = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: oncall, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
userNames: [dora]
`
	const log = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":"ResponseComplete","auditID":"1","verb":"get","requestURI":"/x","user":{"username":"dora","groups":["system:authenticated"]},"objectRef":{"resource":"secrets","namespace":"shop","apiVersion":"v1","name":"a"},"responseStatus":{"code":200}}` + "\n"
	for more, ends := range map[string]bool{`notAfter: "2997-01-01T00:00:00Z"`: true, "": false} {
		out, _, err := execute(t, NewSuggestCommand, log, "--replay", "-", "--from", write(t, map[string]string{"policy.yaml": oncall + more + "\n"}), "--user", "dora")
		if err != nil {
			t.Fatal(err)
		}
		if kept, suggested := strings.Contains(out, `Keep RoleBinding "shop/oncall"`), strings.Contains(out, "kind: Role"); kept != ends || suggested == ends {
			t.Errorf("ends %v: kept %v, suggested %v\n%s", ends, kept, suggested, out)
		}
	}
}

// TR-10: rights to single fields are replaced with their conditions, also where a request changed nothing, and a
// binding stays if its role asks who the caller is.
func TestSuggestKeepsConditionsOfRightsToFields(t *testing.T) {
	const fields = `apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: labels, namespace: shop}
rules: [{verbs: [granular, "granular:label(team)"], resourceKinds: [configmaps], when: %s}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: labels, namespace: shop}
roleRef: {namespace: shop, name: labels}
userNames: [dora]
`
	const event = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":"ResponseComplete","auditID":"1","verb":"patch","requestURI":"/x",` +
		`"user":{"username":"dora","groups":["system:authenticated"]},"objectRef":{"resource":"configmaps","namespace":"shop","apiVersion":"v1","name":"a"},"responseStatus":{"code":200}%s}` + "\n"
	for _, test := range []struct{ name, when, checks, says, not string }{
		{"a condition on the request", `request.name == "a"`, `,"annotations":{"authorization.proviso.dev/checks":"granular:label(team)=allow"}`, `when: request.name == "a"`, "Keep "},
		{"nothing has changed", `request.name == "a"`, "", `when: request.name == "a"`, "Keep "},
		{"a condition on the caller", `request.user == "dora"`, "", `Keep RoleBinding "shop/labels": its role denies something or asks who the caller is`, "kind: Role"},
	} {
		t.Run(test.name, func(t *testing.T) {
			policy := write(t, map[string]string{"policy.yaml": fmt.Sprintf(fields, "'"+test.when+"'")})
			out, code, err := execute(t, NewSuggestCommand, fmt.Sprintf(event, test.checks), "--replay", "-", "--from", policy, "--user", "dora")
			if code > 1 || err != nil || !strings.Contains(out, test.says) || strings.Contains(out, test.not) || strings.Contains(out, "does not allow") {
				t.Errorf("%d %v\n%s", code, err, out)
			}
		})
	}
}
