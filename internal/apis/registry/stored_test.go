package registry

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/yaml"
)

func fieldPermissionYAML(name, spec string) string {
	return fmt.Sprintf("{apiVersion: policy.proviso.dev/v1alpha1, kind: FieldPermission, metadata: {name: %q}, spec: {%s}}", name, spec)
}

const podSecurity = `resources: [namespaces], field: ".metadata.labels[pod-security.kubernetes.io/enforce]", permission: proviso.dev/podSecurityLevel, parameter: {from: key, treatment: slash-delimited-prefix}, exclusive: true`

// FP-1, FP-4
func TestFieldPermissions(t *testing.T) {
	s := serve(t, &world{})
	path := policyAPI + "/fieldpermissions"
	s.must("POST", path, fieldPermissionYAML("pod-security-level", podSecurity))
	s.must("POST", path, fieldPermissionYAML("node", `resources: [pods], field: .spec.nodeName, permission: nodeAssignment`))
	for _, tc := range []struct{ name, spec, want string }{
		{"dots", `resources: [pods], field: .spec.x, permission: example.com/spec.x`, "must not contain dots"},
		{"upper-case", `resources: [pods], field: .spec.x, permission: example.com/SelfDestruct`, "lowerCamelCase"},
		{"snake", `resources: [pods], field: .spec.x, permission: example.com/self-destruct`, "lowerCamelCase"},
		{"no-domain", `resources: [pods], field: .spec.x, permission: selfDestruct`, "example.com/selfDestruct"},
		{"bad-domain", `resources: [pods], field: .spec.x, permission: Example/selfDestruct`, "domain name"},
		{"no-name", `resources: [pods], field: .spec.x, permission: ""`, "spec.permission"},
		{"no-resource", `resources: [], field: .spec.x, permission: a.b/c`, "spec.resources"},
		{"star-and-more", `resources: ["*", pods], field: .spec.x, permission: a.b/c`, "spec.resources[0]"},
		{"subresource", `resources: [pods/status], field: .spec.x, permission: a.b/c`, "spec.resources[0]"},
		{"twice", `resources: [pods, pods], field: .spec.x, permission: a.b/c`, "Duplicate"},
		{"no-dot", `resources: [pods], field: spec.x, permission: a.b/c`, "spec.field"},
		{"open-bracket", `resources: [pods], field: ".spec[x", permission: a.b/c`, "spec.field"},
		{"treatment", `resources: [pods], field: .spec.x, permission: a.b/c, parameter: {from: key, treatment: upper}`, "spec.parameter.treatment"},
		{"from", `resources: [pods], field: .spec.x, permission: a.b/c, parameter: {from: ""}`, "spec.parameter.from"},
		{"identity", `resources: [pods], field: .metadata.name, permission: a.b/c`, "never needs a permission"},
		{"when", `resources: [pods], field: .spec.x, permission: a.b/c, exclusiveWhen: "self == true"`, "exclusive: true"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.refuse(422, "POST", path, fieldPermissionYAML(tc.name, tc.spec), tc.want)
		})
	}
}

// FP-4: writing one needs the verb escalate on it; metadata and status do not.
func TestFieldPermissionsNeedEscalate(t *testing.T) {
	w := &world{}
	w.authorize = func(a authorizer.Attributes) authorizer.Decision {
		if a.GetVerb() == "escalate" && a.GetResource() == "fieldpermissions" && a.GetAPIGroup() == "policy.proviso.dev" && a.GetUser().GetName() == "clark" && a.IsResourceRequest() {
			return authorizer.DecisionAllow
		}
		return authorizer.DecisionNoOpinion
	}
	s := serve(t, w)
	path := policyAPI + "/fieldpermissions"
	s.refuse(403, "POST", path, fieldPermissionYAML("a", podSecurity), `"escalate"`, "tester")
	if got := s.call("PATCH", path+"/a?fieldManager=me", fieldPermissionYAML("a", podSecurity), "Content-Type", applyPatch); got.code != 403 {
		t.Errorf("apply: %d %s", got.code, got.message())
	}
	s.must("POST", path, fieldPermissionYAML("a", podSecurity), "X-User", "clark")
	change := `{"spec":{"field":".metadata.annotations[]"}}`
	if got := s.call("PATCH", path+"/a", change, "Content-Type", mergePatch); got.code != 403 {
		t.Errorf("a change of the spec: %d %s", got.code, got.message())
	}
	s.must("PATCH", path+"/a", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", mergePatch)
	s.must("PATCH", path+"/a/status", `{"status":{"coveredResources":["namespaces"]}}`, "Content-Type", mergePatch)
	got := s.must("PATCH", path+"/a", change, "Content-Type", mergePatch, "X-User", "clark")
	if got.at("metadata", "generation") != float64(2) || fmt.Sprint(got.at("status", "coveredResources")) != "[namespaces]" {
		t.Errorf("after a change: %v", got.body)
	}
	// FP-5: what withholds a field is taken away by those who may give it, alone or among others; what only names one,
	// by everybody who may delete it.
	s.must("POST", path, fieldPermissionYAML("b", `resources: [pods], field: .spec.nodeName, permission: example.com/b`), "X-User", "clark")
	s.must("POST", path, fieldPermissionYAML("c", `resources: [pods], field: .spec.hostname, permission: example.com/c, exclusive: true, exclusiveWhen: "self != null"`), "X-User", "clark")
	s.must("DELETE", path+"/b", nil)
	for _, where := range []string{path + "/a", path + "/c", path} {
		s.refuse(403, "DELETE", where, nil, `"escalate"`, "exclusive")
		s.refuse(403, "DELETE", where+"?dryRun=All", nil, `"escalate"`)
	}
	s.must("DELETE", path+"/a", nil, "X-User", "clark")
	s.must("DELETE", path, nil, "X-User", "clark")
	s.refuse(404, "GET", path+"/c", nil)
}

// PA-1, PA-14, PA-15
func TestProtectedAttributes(t *testing.T) {
	w := &world{rbac: map[string]bool{"ClusterRole//release-managers": true, "Role/hammer/local": true, "Policy role/master/keepers": true, "Policy role/hammer/clerks": true}}
	s := serve(t, w)
	cluster, local := policyAPI+"/clusterprotectedattributes", policyAPI+"/namespaces/hammer/protectedattributes"
	object := func(kind, name, rest string) string {
		return fmt.Sprintf("{apiVersion: policy.proviso.dev/v1alpha1, kind: %s, metadata: {name: %q}, %s}", kind, name, rest)
	}
	const toManagers = `roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: release-managers}`
	got := s.must("POST", cluster, object("ClusterProtectedAttribute", "env-prod", `attributeKind: Label, attributeName: env, protectedValues: [prod], `+toManagers))
	if got.at("scope") != "IncludeTemplates" || len(got.warnings) != 1 || !strings.Contains(got.warnings[0], "unlistedValues: Forbidden") { // PA-14
		t.Errorf("scope %v, warnings %q", got.at("scope"), got.warnings)
	}
	// PA-14, PA-15: all that can be said, without a warning.
	got = s.must("POST", cluster, object("ClusterProtectedAttribute", "domain", `attributeKind: Label, attributeName: "example.com/*", protectedValues: [a], unlistedValues: Forbidden, resources: [namespaces, Pod, deployments.apps], `+toManagers))
	if len(got.warnings) != 0 || got.at("unlistedValues") != "Forbidden" {
		t.Errorf("unlistedValues %v, warnings %q", got.at("unlistedValues"), got.warnings)
	}
	// PA-15: a role of Policy, of the master namespace or of the own one, which is the default.
	got = s.must("POST", cluster, object("ClusterProtectedAttribute", "by-policy", `attributeKind: Label, attributeName: example.com/zone, roleRef: {apiGroup: authorization.proviso.dev, kind: Role, namespace: master, name: keepers}`))
	if len(got.warnings) != 0 || got.at("roleRef", "namespace") != "master" {
		t.Errorf("roleRef %v, warnings %q", got.at("roleRef"), got.warnings)
	}
	for name, in := range map[string]string{"own": "", "own-said": "namespace: hammer,", "masters": "namespace: master,"} {
		role := "clerks"
		if name == "masters" {
			role = "keepers"
		}
		got = s.must("POST", local, object("ProtectedAttribute", name, `attributeKind: Label, attributeName: shelf, roleRef: {apiGroup: authorization.proviso.dev, kind: Role, `+in+` name: `+role+`}`))
		if len(got.warnings) != 0 {
			t.Errorf("%s: warnings %q", name, got.warnings)
		}
	}
	got = s.must("POST", local, object("ProtectedAttribute", "missing-policy-role", `attributeKind: Label, attributeName: shelf, roleRef: {apiGroup: authorization.proviso.dev, kind: Role, name: keepers}`))
	if !strings.Contains(strings.Join(got.warnings, " "), `Policy role \"hammer/keepers\" does not exist`) {
		t.Errorf("warnings %q", got.warnings)
	}
	// PA-15: members of a protection for a domain can set keys that have protections for other roles.
	got = s.must("POST", cluster, object("ClusterProtectedAttribute", "domain-again", `attributeKind: Label, attributeName: "example.com/*", `+toManagers))
	if text := strings.Join(got.warnings, " "); !strings.Contains(text, `members of ClusterRole \"release-managers\" can now also set keys that have protections for other roles: example.com/zone (\"by-policy\", for Policy role \"master/keepers\")`) {
		t.Errorf("warnings %q", got.warnings)
	}
	got = s.must("POST", cluster, object("ClusterProtectedAttribute", "annotations", `attributeKind: Annotation, attributeName: "example.com/*", `+toManagers))
	if len(got.warnings) != 0 {
		t.Errorf("another kind: warnings %q", got.warnings)
	}
	got = s.must("POST", local, object("ProtectedAttribute", "local", `attributeKind: Annotation, attributeName: example.com/x, scope: ObjectOnly, roleRef: {kind: Role, name: local}`))
	if got.at("roleRef", "apiGroup") != "rbac.authorization.k8s.io" || len(got.warnings) != 0 {
		t.Errorf("roleRef %v, warnings %q", got.at("roleRef"), got.warnings)
	}
	// A role that does not exist is accepted with a warning: the attribute is protected all the same.
	got = s.must("POST", local, object("ProtectedAttribute", "dangling", `attributeKind: Label, attributeName: a, roleRef: {kind: Role, name: nobody}`))
	if !strings.Contains(strings.Join(got.warnings, " "), `Role \"nobody\" does not exist`) {
		t.Errorf("warnings %q", got.warnings)
	}
	for _, tc := range []struct{ name, path, kind, rest, want string }{
		{"kind", cluster, "ClusterProtectedAttribute", `attributeKind: Taint, attributeName: env, ` + toManagers, "attributeKind"},
		{"no-key", cluster, "ClusterProtectedAttribute", `attributeKind: Label, ` + toManagers, "attributeName"},
		{"bad-key", cluster, "ClusterProtectedAttribute", `attributeKind: Label, attributeName: "a b", ` + toManagers, "attributeName"},
		{"cluster-role-only", cluster, "ClusterProtectedAttribute", `attributeKind: Label, attributeName: env, roleRef: {kind: Role, name: x}`, "roleRef.kind"},
		{"role-group", cluster, "ClusterProtectedAttribute", `attributeKind: Label, attributeName: env, roleRef: {apiGroup: example.com, kind: ClusterRole, name: x}`, "roleRef.apiGroup"},
		{"policy-kind", cluster, "ClusterProtectedAttribute", `attributeKind: Label, attributeName: env, roleRef: {apiGroup: authorization.proviso.dev, kind: ClusterRole, namespace: master, name: x}`, "roleRef.kind"},
		{"policy-nowhere", cluster, "ClusterProtectedAttribute", `attributeKind: Label, attributeName: env, roleRef: {apiGroup: authorization.proviso.dev, kind: Role, name: x}`, "roleRef.namespace"},
		{"policy-elsewhere", cluster, "ClusterProtectedAttribute", `attributeKind: Label, attributeName: env, roleRef: {apiGroup: authorization.proviso.dev, kind: Role, namespace: hammer, name: x}`, "roleRef.namespace"},
		{"local-elsewhere", local, "ProtectedAttribute", `attributeKind: Label, attributeName: env, roleRef: {apiGroup: authorization.proviso.dev, kind: Role, namespace: anvil, name: x}`, "roleRef.namespace"},
		{"rbac-elsewhere", local, "ProtectedAttribute", `attributeKind: Label, attributeName: env, roleRef: {kind: Role, namespace: anvil, name: x}`, "roleRef.namespace"},
		{"cluster-role-place", local, "ProtectedAttribute", `attributeKind: Label, attributeName: env, roleRef: {kind: ClusterRole, namespace: hammer, name: x}`, "roleRef.namespace"},
		{"no-role", cluster, "ClusterProtectedAttribute", `attributeKind: Label, attributeName: env, roleRef: {kind: ClusterRole}`, "roleRef.name"},
		{"scope", cluster, "ClusterProtectedAttribute", `attributeKind: Label, attributeName: env, scope: Everything, ` + toManagers, "scope"},
		{"value", cluster, "ClusterProtectedAttribute", `attributeKind: Label, attributeName: env, protectedValues: ["no label"], ` + toManagers, "protectedValues[0]"},
		{"value-twice", cluster, "ClusterProtectedAttribute", `attributeKind: Label, attributeName: env, protectedValues: [a, a], ` + toManagers, "Duplicate"},
		{"no-values", cluster, "ClusterProtectedAttribute", `attributeKind: Label, attributeName: env, protectedValues: [], ` + toManagers, "protectedValues"},
		{"unlisted", cluster, "ClusterProtectedAttribute", `attributeKind: Label, attributeName: env, protectedValues: [a], unlistedValues: Refused, ` + toManagers, "unlistedValues"},
		{"unlisted-alone", cluster, "ClusterProtectedAttribute", `attributeKind: Label, attributeName: env, unlistedValues: Forbidden, ` + toManagers, "needs protectedValues"},
		{"every-key", cluster, "ClusterProtectedAttribute", `attributeKind: Label, attributeName: "*", ` + toManagers, "<domain>/*"},
		{"every-domain", cluster, "ClusterProtectedAttribute", `attributeKind: Label, attributeName: "*/*", ` + toManagers, "attributeName"},
		{"part-of-a-key", cluster, "ClusterProtectedAttribute", `attributeKind: Label, attributeName: "example.com/a*", ` + toManagers, "attributeName"},
		{"subresource", cluster, "ClusterProtectedAttribute", `attributeKind: Label, attributeName: env, resources: [pods, pods/status], ` + toManagers, "resources[1]"},
		{"negated", cluster, "ClusterProtectedAttribute", `attributeKind: Label, attributeName: env, resources: [-pods], ` + toManagers, "resources[0]"},
		{"every-resource", cluster, "ClusterProtectedAttribute", `attributeKind: Label, attributeName: env, resources: ["*"], ` + toManagers, "resources[0]"},
		{"resource-twice", cluster, "ClusterProtectedAttribute", `attributeKind: Label, attributeName: env, resources: [pods, pods], ` + toManagers, "Duplicate"},
		{"no-resources", cluster, "ClusterProtectedAttribute", `attributeKind: Label, attributeName: env, resources: [], ` + toManagers, "resources"},
		{"local-kind", local, "ProtectedAttribute", `attributeKind: Label, attributeName: env, roleRef: {kind: Group, name: x}`, "roleRef.kind"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.refuse(422, "POST", tc.path, object(tc.kind, tc.name, tc.rest), tc.want)
		})
	}
	// PA-1: the end of a protection is said.
	got = s.must("DELETE", local+"/local", nil)
	if !strings.Contains(strings.Join(got.warnings, " "), `annotation \"example.com/x\" is no longer protected here`) {
		t.Errorf("warnings %q", got.warnings)
	}
	// An annotation can have any value.
	s.must("POST", cluster, object("ClusterProtectedAttribute", "any-value", `attributeKind: Annotation, attributeName: env, protectedValues: ["no label"], `+toManagers))
	// Kind and name stay; the rest can change, and a new role that does not exist is warned about.
	for _, patch := range []string{`{"attributeKind":"Annotation"}`, `{"attributeName":"other"}`} {
		if got := s.call("PATCH", cluster+"/env-prod", patch, "Content-Type", mergePatch); got.code != 422 || !strings.Contains(got.message(), "cannot be changed") {
			t.Errorf("%s: %d %s", patch, got.code, got.message())
		}
	}
	got = s.must("PATCH", cluster+"/env-prod", `{"protectedValues":["prod","live"]}`, "Content-Type", mergePatch)
	if len(got.warnings) != 0 {
		t.Errorf("warnings %q", got.warnings)
	}
	got = s.must("PATCH", cluster+"/env-prod", `{"roleRef":{"name":"gone"}}`, "Content-Type", mergePatch)
	if !strings.Contains(strings.Join(got.warnings, " "), "gone") {
		t.Errorf("warnings %q", got.warnings)
	}
	s.must("PATCH", cluster+"/env-prod/status", `{"status":{"conditions":[{"type":"RolesResolved","status":"False","reason":"NotFound","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, "Content-Type", mergePatch)
}

// DA-1, DA-2, DA-14: the seed's Example 1 is accepted as written, with create and with apply, and comes back
// normalised.
func TestSeedExampleOfAudit(t *testing.T) {
	text, err := os.ReadFile("testdata/audit-example-1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"create", "apply"} {
		t.Run(how, func(t *testing.T) {
			s := serve(t, &world{})
			for _, doc := range strings.Split(string(text), "\n---\n") {
				var head struct {
					Kind     string
					Metadata struct{ Name string }
				}
				if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
					t.Fatal(err)
				}
				path := auditAPI + map[string]string{"AuditSink": "/auditsinks", "AuditClass": "/auditclasses"}[head.Kind]
				if how == "create" {
					s.must("POST", path+"?fieldValidation=Strict", doc)
					continue
				}
				item := path + "/" + head.Metadata.Name + "?fieldManager=me&fieldValidation=Strict"
				s.must("PATCH", item, doc, "Content-Type", applyPatch)
				s.idempotent(path+"/"+head.Metadata.Name, doc)
			}
			class := s.must("GET", auditAPI+"/auditclasses/noisy-lowrisk-things", nil)
			rules := fmt.Sprint(class.at("spec", "rules"))
			for _, want := range []string{"nonResourceSelectors:[map[urls:[/api* /version]]]", "type:User]", "type:UserGroup"} {
				if !strings.Contains(rules, want) {
					t.Errorf("stored as %s, lacks %s", rules, want)
				}
			}
			sink := s.must("GET", auditAPI+"/auditsinks/mysink", nil)
			if sink.at("spec", "policy", "level") != "Request" || sink.at("spec", "webhook") != nil {
				t.Errorf("sink %v", sink.at("spec"))
			}
		})
	}
}

// DA-1, DA-2: what is wrong with a sink or a class is a 422 that names it.
func TestAuditValidation(t *testing.T) {
	s := serve(t, &world{})
	sink := func(spec string) string {
		return "{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditSink, metadata: {name: bad}, spec: {" + spec + "}}"
	}
	class := func(rules string) string {
		return "{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditClass, metadata: {name: bad}, spec: {rules: [" + rules + "]}}"
	}
	hook := func(config string) string { return sink("webhook: {clientConfig: {" + config + "}}") }
	for _, tc := range []struct{ name, path, body, want string }{
		{"level", "/auditsinks", sink("policy: {level: Everything}"), "spec.policy.level"},
		{"rule level", "/auditsinks", sink("policy: {rules: [{withAuditClass: a}]}"), "spec.policy.rules[0].level"},
		{"no class", "/auditsinks", sink("policy: {rules: [{level: None}]}"), "withAuditClass"},
		{"impossible class", "/auditsinks", sink("policy: {rules: [{level: None, withAuditClass: A_B}]}"), "withAuditClass"},
		{"no target", "/auditsinks", hook(``), "url or service"},
		{"two targets", "/auditsinks", hook(`url: "https://a.example/", service: {namespace: a, name: b}`), "either url or service"},
		{"http", "/auditsinks", hook(`url: "http://a.example/"`), "https"},
		{"loopback", "/auditsinks", hook(`url: "https://127.0.0.1/"`), "loopback"},
		{"mapped loopback", "/auditsinks", hook(`url: "https://[::ffff:127.0.0.1]/"`), "loopback"},
		{"localhost", "/auditsinks", hook(`url: "https://LocalHost./"`), "loopback"},
		{"metadata service", "/auditsinks", hook(`url: "https://169.254.169.254/"`), "link-local"},
		{"unspecified", "/auditsinks", hook(`url: "https://0.0.0.0/"`), "unspecified"},
		{"user", "/auditsinks", hook(`url: "https://user:hunter2@a.example/"`), "user name"},
		{"fragment", "/auditsinks", hook(`url: "https://a.example/#x"`), "fragment"},
		{"no host", "/auditsinks", hook(`url: "https:///x"`), "host"},
		{"not a url", "/auditsinks", hook(`url: "https://%zz"`), "https://host:port/path"},
		{"service path", "/auditsinks", hook(`service: {namespace: a, name: b, path: "../x"}`), "service.path"},
		{"service port", "/auditsinks", hook(`service: {namespace: a, name: b, port: 70000}`), "service.port"},
		{"service name", "/auditsinks", hook(`service: {namespace: a}`), "service.name"},
		{"ca", "/auditsinks", hook(`url: "https://a.example/", caBundle: aGVsbG8=`), "caBundle"},
		{"qps", "/auditsinks", sink(`webhook: {throttle: {qps: 0}, clientConfig: {url: "https://a.example/"}}`), "throttle.qps"},
		{"end with a fraction", "/auditsinks", sink(`notAfter: "2031-01-01T00:00:00.5Z"`), "spec.notAfter"},
		{"empty redaction", "/auditsinks", sink(`redact: {}`), "spec.redact"},
		{"redacted permission", "/auditsinks", sink(`redact: {permissions: [Secret]}`), "spec.redact.permissions[0]"},
		{"redacted path", "/auditsinks", sink(`redact: {fields: [{resources: [secrets], field: data}]}`), "spec.redact.fields[0].field"},
		{"redacted name", "/auditsinks", sink(`redact: {fields: [{resources: ["*"], field: .metadata}]}`), "every event shows"},
		{"redacted resources", "/auditsinks", sink(`redact: {fields: [{field: .data}]}`), "spec.redact.fields[0].resources"},
		{"revealed permission", "/auditsinks", sink(`reveal: [""]`), "spec.reveal[0]"},
		{"too much is revealed", "/auditsinks", sink(`reveal: [` + strings.Repeat("a.b/c, ", 65) + `a.b/d]`), "must have at most 64 items"},
		{"all subjects of one type", "/auditclasses", class(`{subjects: [{type: User, names: [a]}], allSubjects: true}`), "allSubjects"},
		{"no rules", "/auditclasses", class(``), "spec.rules"},
		{"both selectors", "/auditclasses", class(`{groupResourceSelectors: [{group: ""}], nonResourceSelectors: {urls: [/a]}}`), "two rules"},
		{"subject type", "/auditclasses", class(`{subjects: [{type: Robot, names: [a]}]}`), "subjects[0].type"},
		{"subject names", "/auditclasses", class(`{subjects: [{type: User, names: []}]}`), "subjects[0].names"},
		{"verb", "/auditclasses", class(`{verbs: [GET]}`), "verbs[0]"},
		{"kind", "/auditclasses", class(`{groupResourceSelectors: [{group: "", resources: [{kind: pods/exec}]}]}`), "subresources"},
		{"upper kind", "/auditclasses", class(`{groupResourceSelectors: [{group: "", resources: [{kind: Secret}]}]}`), "resources[0].kind"},
		{"scope", "/auditclasses", class(`{groupResourceSelectors: [{group: "", scope: World}]}`), "scope"},
		{"namespaces without scope", "/auditclasses", class(`{groupResourceSelectors: [{group: "", namespaces: [a]}]}`), "scope: Namespaced"},
		{"namespace", "/auditclasses", class(`{groupResourceSelectors: [{group: "", scope: Namespaced, namespaces: ["a b"]}]}`), "namespaces[0]"},
		{"url", "/auditclasses", class(`{nonResourceSelectors: {urls: [api]}}`), "urls[0]"},
		{"star inside", "/auditclasses", class(`{nonResourceSelectors: {urls: [/a*b]}}`), "urls[0]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := s.refuse(422, "POST", auditAPI+tc.path, tc.body, tc.want)
			if strings.Contains(got.message(), "hunter2") {
				t.Errorf("the message repeats a password: %s", got.message())
			}
		})
	}
	s.must("POST", auditAPI+"/auditsinks", strings.Replace(hook(`url: "https://10.0.0.7:8443/audit"`), "name: bad", "name: good", 1))
	got := s.must("POST", auditAPI+"/auditsinks", strings.Replace(hook(`service: {namespace: a, name: b}`), "name: bad", "name: service", 1))
	if fmt.Sprint(got.at("spec", "webhook", "throttle")) != "map[burst:15 qps:10]" || got.at("spec", "webhook", "clientConfig", "service", "port") != float64(443) {
		t.Errorf("defaults %v", got.at("spec", "webhook"))
	}
}

// DA-4: a class that sinks refer to stays, and the refusal names them.
func TestReferredClassesStay(t *testing.T) {
	s := serve(t, &world{})
	class := func(name string) string {
		return fmt.Sprintf("{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditClass, metadata: {name: %s}, spec: {rules: [{verbs: [get]}]}}", name)
	}
	s.must("POST", auditAPI+"/auditclasses", class("used"))
	s.must("POST", auditAPI+"/auditclasses", class("unused"))
	for _, name := range []string{"second", "first"} {
		// A sink whose classes do not all exist is accepted.
		s.must("POST", auditAPI+"/auditsinks", fmt.Sprintf("{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditSink, metadata: {name: %s}, spec: {policy: {rules: [{level: Metadata, withAuditClass: used}, {level: None, withAuditClass: missing}]}}}", name))
	}
	s.refuse(409, "DELETE", auditAPI+"/auditclasses/used", nil, "first, second")
	s.refuse(409, "DELETE", auditAPI+"/auditclasses", nil, "first, second")
	s.must("GET", auditAPI+"/auditclasses/used", nil)
	s.must("DELETE", auditAPI+"/auditsinks/first", nil)
	s.refuse(409, "DELETE", auditAPI+"/auditclasses/used", nil, "second")
	s.must("DELETE", auditAPI+"/auditsinks/second", nil)
	s.must("DELETE", auditAPI+"/auditclasses/used", nil)
}

// DA-9: as many sinks as the flag says, and not one more, through create and apply, also of many at the same moment and
// through two servers.
func TestSinkLimit(t *testing.T) {
	first := serve(t, &world{})
	second := serveAt(t, &world{}, first.prefix)
	sink := func(i int) string {
		return fmt.Sprintf("{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditSink, metadata: {name: sink-%d}}", i)
	}
	first.must("POST", auditAPI+"/auditsinks", sink(100))
	inParallel(t, 8, func(w int) error {
		s := []*api{first, second}[w%2]
		got, err := s.try("POST", auditAPI+"/auditsinks", sink(w))
		if err == nil && got.code != 201 && (got.code != 403 || !strings.Contains(got.message(), "--audit-dynamic-max-sinks")) {
			err = fmt.Errorf("%d %s", got.code, got.message())
		}
		return err
	})
	count := func() int {
		items, _ := first.must("GET", auditAPI+"/auditsinks", nil).at("items").([]any)
		return len(items)
	}
	if n := count(); n > 3 {
		t.Fatalf("%d sinks, 3 are allowed", n)
	}
	for i := 200; count() < 3; i++ {
		first.must("POST", auditAPI+"/auditsinks", sink(i))
	}
	first.refuse(403, "POST", auditAPI+"/auditsinks", sink(300), "3 audit sinks")
	if got := first.call("PATCH", auditAPI+"/auditsinks/sink-300?fieldManager=me", sink(300), "Content-Type", applyPatch); got.code != 403 {
		t.Errorf("apply of one more: %d %s", got.code, got.message())
	}
	// Those that exist can be changed.
	first.must("PATCH", auditAPI+"/auditsinks/sink-100", `{"spec":{"policy":{"level":"Metadata"}}}`, "Content-Type", mergePatch)
	first.must("PATCH", auditAPI+"/auditsinks/sink-100/status", `{"status":{"delivered":7}}`, "Content-Type", mergePatch)
}

// DA-9: two servers let a sink in at the same moment, each having counted before the other wrote. One too many does not
// stay.
func TestSinkLimitAmongServers(t *testing.T) {
	first := serve(t, &world{})
	second := serveAt(t, &world{}, first.prefix)
	sink := func(name string) string {
		return fmt.Sprintf("{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditSink, metadata: {name: %s}}", name)
	}
	first.must("POST", auditAPI+"/auditsinks", sink("one"))
	first.must("POST", auditAPI+"/auditsinks", sink("two"))
	// The name is asked for after the count and before the write.
	store := first.sinks().Store
	name := store.ObjectNameFunc
	raced := false
	store.ObjectNameFunc = func(obj runtime.Object) (string, error) {
		if !raced {
			raced = true
			second.must("POST", auditAPI+"/auditsinks", sink("three"))
		}
		return name(obj)
	}
	first.refuse(403, "POST", auditAPI+"/auditsinks", sink("four"), "--audit-dynamic-max-sinks")
	if !raced {
		t.Fatal("the other server did not get in between")
	}
	first.refuse(404, "GET", auditAPI+"/auditsinks/four", nil)
	first.must("GET", auditAPI+"/auditsinks/three", nil)
}
