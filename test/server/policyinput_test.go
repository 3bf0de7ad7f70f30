package server

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
)

// TestPolicyThroughTheServer asks the real server what only it can answer: what it says to bad input, what it shows of
// its decisions, and who may take a deny away.
func TestPolicyThroughTheServer(t *testing.T) {
	s := start(t)
	p := &policyServer{s: s, admin: newCaller(t, s.admin)}
	p.admin.must(t, "POST", "/api/v1/namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: hammer}}")
	p.admin.must(t, "POST", "/api/v1/namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: anvil}}")
	p.admin.must(t, "POST", containersIn("hammer", "policies"), policyYAML("hammer", "default"))
	p.admin.must(t, "POST", containersIn("hammer", "policybindings"), "{apiVersion: policy.proviso.dev/v1alpha1, kind: PolicyBinding, metadata: {name: hammer}}")
	p.admin.must(t, "POST", viewsIn("hammer", "roles"), roleYAML("dev", `{verbs: [create], resourceKinds: [configmaps], where: 'resource.metadata.name == "mine"'}`))
	p.admin.must(t, "POST", viewsIn("hammer", "rolebindings"), bindingYAML("devs", "hammer", "dev"))
	t.Run("bad input", p.badInput)
	t.Run("content", p.content)
	t.Run("explain", p.explain)
	t.Run("self", p.self)
	t.Run("unbind", p.unbind)
	t.Run("protected", p.protected)
	t.Run("remote", p.remote)
	t.Run("tools", p.tools)
}

type policyServer struct {
	s     *instance
	admin *caller
}

// caller speaks YAML to the server, as one user.
type caller struct {
	client *http.Client
	host   string
}

func newCaller(t *testing.T, config *rest.Config) *caller {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return &caller{client, config.Host}
}

// do returns the status, the message of a refusal, and the body.
func (c *caller) do(t *testing.T, method, path, body string) (int, string, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, c.host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Content-Type", "application/yaml")
	if method == "PATCH" {
		req.Header.Set("Content-Type", "application/merge-patch+json")
		if strings.Contains(path, "fieldManager=") {
			req.Header.Set("Content-Type", "application/apply-patch+yaml")
		}
	}
	resp, err := c.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var status struct{ Message string }
	_ = json.Unmarshal(data, &status) // what is not JSON has no message
	return resp.StatusCode, status.Message, data
}

func (c *caller) must(t *testing.T, method, path, body string) []byte {
	t.Helper()
	code, message, data := c.do(t, method, path, body)
	if code >= 300 {
		t.Fatalf("%s %s: %d %s", method, path, code, message)
	}
	return data
}

func containersIn(ns, resource string) string {
	return "/apis/policy.proviso.dev/v1alpha1/namespaces/" + ns + "/" + resource
}

func viewsIn(ns, resource string) string {
	return "/apis/authorization.proviso.dev/v1alpha1/namespaces/" + ns + "/" + resource
}

func policyYAML(ns, name string) string {
	return "{apiVersion: policy.proviso.dev/v1alpha1, kind: Policy, metadata: {namespace: " + ns + ", name: " + name + "}}"
}

func roleYAML(name, rules string) string {
	return "{apiVersion: authorization.proviso.dev/v1alpha1, kind: Role, metadata: {name: " + name + "}, rules: [" + rules + "]}"
}

func bindingYAML(name, roleNamespace, role string) string {
	return "{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: " + name + "}, roleRef: {namespace: " + roleNamespace + ", name: " + role + "}, userNames: [edgar]}"
}

// PO-3, PO-4, PO-5, PO-11: everything that can be wrong with policy is a 4xx that names the thing and the remedy; the
// twin of each differs in that one thing and is accepted.
func (p *policyServer) badInput(t *testing.T) {
	restricted := func(restriction string) string {
		return roleYAML("restricted", `{verbs: [update], resourceKinds: [pods], attributeRestrictions: {`+restriction+`}}`)
	}
	const dryRun = "?dryRun=All"
	for _, tc := range []struct {
		name, method, path, body string
		code                     int
		thing, remedy            string
		// good is the body of the twin; with goodPath, it is written there instead. Empty means that the twin is in the
		// set-up.
		good, goodPath string
	}{
		{name: "unknown attribute restriction", method: "POST", path: viewsIn("hammer", "roles") + dryRun, body: restricted("colour: blue"),
			code: 422, thing: "rules[0].attributeRestrictions.colour", remedy: "there are fieldsMutable, labelsContain, sameNodeRestriction", good: restricted("labelsContain: [blue]")},
		{name: "unknown attribute restriction in the seed's shape", method: "POST", path: viewsIn("hammer", "roles") + dryRun, body: restricted("kind: sameColour"),
			code: 422, thing: "rules[0].attributeRestrictions.kind", remedy: "sameNodeRestriction", good: restricted("kind: sameMinionRestriction")},
		{name: "roleRef to a third namespace", method: "POST", path: viewsIn("hammer", "rolebindings") + dryRun, body: bindingYAML("x", "anvil", "dev"),
			code: 422, thing: `roleRef.namespace: Invalid value: "anvil"`, remedy: `its own namespace, "hammer", or of the master namespace, "master"`, good: bindingYAML("x", "master", "view")},
		{name: "missing role", method: "POST", path: viewsIn("hammer", "rolebindings") + dryRun, body: bindingYAML("x", "hammer", "nope"),
			code: 422, thing: `roleRef.name: Invalid value: "nope"`, remedy: "create it first (roles.authorization.proviso.dev)", good: bindingYAML("x", "hammer", "dev")},
		{name: "role without a Policy", method: "POST", path: viewsIn("anvil", "roles") + dryRun, body: roleYAML("x", ""),
			code: 422, thing: `"anvil"`, remedy: "create its Policy \"default\" first, with `proviso policy open anvil`", good: roleYAML("x", ""), goodPath: viewsIn("hammer", "roles") + dryRun},
		{name: "deleting a bound role", method: "DELETE", path: viewsIn("hammer", "roles") + "/dev", code: 409, thing: "hammer/devs", remedy: "delete these first"},
		{name: "a second Policy", method: "POST", path: containersIn("hammer", "policies"), body: policyYAML("hammer", "second"),
			code: 422, thing: `metadata.name: Invalid value: "second"`, remedy: `named "default"; use that name`, good: policyYAML("anvil", "default"), goodPath: containersIn("anvil", "policies") + dryRun},
		{name: "the same Policy again", method: "POST", path: containersIn("hammer", "policies"), body: policyYAML("hammer", "default"), code: 409, thing: `"default"`, remedy: "already exists"},
		{name: "a Policy that is born full", method: "POST", path: containersIn("anvil", "policies"),
			body: "{apiVersion: policy.proviso.dev/v1alpha1, kind: Policy, metadata: {name: default}, roles: {x: {rules: []}}}",
			code: 422, thing: "roles: Forbidden", remedy: "create its roles as objects of kind Role (roles.authorization.proviso.dev)"},
		{name: "a Policy edited directly", method: "PATCH", path: containersIn("hammer", "policies") + "/default", body: `{"roles":null}`,
			code: 422, thing: "roles: Forbidden", remedy: "through objects of kind Role (roles.authorization.proviso.dev) only"},
		{name: "a PolicyBinding edited directly", method: "PATCH", path: containersIn("hammer", "policybindings") + "/hammer", body: `{"roleBindings":{"devs":{"userNames":["mallory"]}}}`,
			code: 422, thing: "roleBindings: Forbidden", remedy: "through objects of kind RoleBinding (rolebindings.authorization.proviso.dev) only"},
		{name: "a Policy that is not empty deleted", method: "DELETE", path: containersIn("hammer", "policies") + "/default", code: 409, thing: "(dev)", remedy: "delete them first"},
		{name: "a PolicyBinding named after nothing", method: "POST", path: containersIn("anvil", "policybindings") + dryRun,
			body: "{apiVersion: policy.proviso.dev/v1alpha1, kind: PolicyBinding, metadata: {name: other}}", code: 422, thing: `metadata.name: Invalid value: "other"`,
			remedy: `its own, "anvil", or the master namespace, "master"`, good: "{apiVersion: policy.proviso.dev/v1alpha1, kind: PolicyBinding, metadata: {name: anvil}}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, message, _ := p.admin.do(t, tc.method, tc.path, tc.body)
			if code != tc.code || !strings.Contains(message, tc.thing) || !strings.Contains(message, tc.remedy) {
				t.Errorf("got %d %s\nwant %d with %q and %q", code, message, tc.code, tc.thing, tc.remedy)
			}
			if tc.good == "" {
				return
			}
			path := tc.path
			if tc.goodPath != "" {
				path = tc.goodPath
			}
			if code, message, _ := p.admin.do(t, tc.method, path, tc.good); code >= 300 {
				t.Errorf("the twin: %d %s", code, message)
			}
		})
	}
}

// ask creates a review and returns its answer.
func (c *caller) ask(t *testing.T, ns, spec string) authz.SubjectAccessReviewStatus {
	t.Helper()
	var review authz.SubjectAccessReview
	data := c.must(t, "POST", viewsIn(ns, "subjectaccessreviews"), "{apiVersion: authorization.proviso.dev/v1alpha1, kind: SubjectAccessReview, spec: {"+spec+"}}")
	if err := json.Unmarshal(data, &review); err != nil {
		t.Fatal(err)
	}
	return review.Status
}
