package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"proviso.dev/proviso/internal/hosts/apiserver"
)

// TestUnreadable writes straight into etcd what no server writes, and looks at what the running server makes of it.
func TestUnreadable(t *testing.T) {
	var options *apiserver.Options
	s := start(t, func(o *apiserver.Options) { options = o })
	admin := newCaller(t, s.admin)
	etcd, err := clientv3.New(clientv3.Config{Endpoints: options.Kube.Etcd.StorageConfig.Transport.ServerList, Logger: zap.NewNop()}) // a unix socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	const key = "/registry/policy.proviso.dev/policies/%s/default"
	for _, ns := range []string{"hammer", "anvil"} {
		admin.must(t, "POST", "/api/v1/namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: "+ns+"}}")
		admin.must(t, "POST", containersIn(ns, "policies"), policyYAML(ns, "default"))
		admin.must(t, "POST", containersIn(ns, "policybindings"), "{apiVersion: policy.proviso.dev/v1alpha1, kind: PolicyBinding, metadata: {name: "+ns+"}}")
		admin.must(t, "POST", viewsIn(ns, "roles"), roleYAML("dev", `{verbs: ["*"], resourceKinds: [configmaps]}`))
		admin.must(t, "POST", viewsIn(ns, "rolebindings"), bindingYAML("devs", ns, "dev"))
		if got, err := etcd.Get(t.Context(), fmt.Sprintf(key, ns), clientv3.WithKeysOnly()); err != nil || got.Count != 1 {
			t.Fatalf("the policy of %s is not where it was expected: %v", ns, err)
		}
	}
	allowed := func(who, verb, ns string) bool {
		_, _, body := admin.do(t, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", fmt.Sprintf(
			`{apiVersion: authorization.k8s.io/v1, kind: SubjectAccessReview, spec: {user: %s, groups: ["system:authenticated"], resourceAttributes: {verb: %s, version: v1, resource: configmaps, namespace: %s, name: x}}}`, who, verb, ns))
		var review struct{ Status struct{ Allowed bool } }
		if err := json.Unmarshal(body, &review); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		return review.Status.Allowed
	}
	await := func(what string, condition func() bool) {
		t.Helper()
		s.await(what, func() (bool, error) { return condition(), nil })
	}
	put := func(ns, value string) {
		t.Helper()
		if _, err := etcd.Put(t.Context(), fmt.Sprintf(key, ns), value); err != nil {
			t.Fatal(err)
		}
	}
	readyz := func(path string) (int, string, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", admin.host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := admin.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body), resp.Header.Get("Warning")
	}
	await("edgar to be allowed", func() bool { return allowed("edgar", "get", "hammer") && allowed("edgar", "get", "anvil") })
	if _, body, warning := readyz("/readyz?verbose"); strings.Contains(body, "cannot be read") || warning != "" {
		t.Errorf("readyz warns of nothing: %q %s", warning, body)
	}

	// SV-8: bytes that no codec takes deny to their namespace, and keep nobody from changing policy elsewhere.
	for i, garbage := range []string{"\x00\xff\xfe", `{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"Policy","metadata":{"na`, "null", `{"kind":7}`} {
		put("hammer", garbage)
		await("what cannot be read to deny", func() bool { return !allowed("edgar", "get", "hammer") })
		later := fmt.Sprint("later", i)
		admin.must(t, "POST", viewsIn("anvil", "rolebindings"), strings.Replace(bindingYAML(later, "anvil", "dev"), "edgar", later, 1))
		await("a grant elsewhere to be effective", func() bool { return allowed(later, "get", "anvil") })
		if allowed("edgar", "get", "hammer") {
			t.Errorf("%q denies no longer", garbage)
		}
	}
	await("readyz to name it", func() bool {
		code, body, warning := readyz("/readyz?verbose")
		return code == http.StatusOK && strings.Contains(body, "policies hammer/default") && strings.Contains(warning, "policies hammer/default")
	})
	if code, body, _ := readyz("/readyz"); code != http.StatusOK || body != "ok" {
		t.Errorf("plain readyz: %d %q", code, body)
	}
	if code, body, _ := readyz("/readyz/policy-snapshot"); code != http.StatusOK || !strings.Contains(body, "policies hammer/default") {
		t.Errorf("the check of the snapshot: %d %q", code, body)
	}
	// It can be seen and deleted, and not written to; then it denies nobody any more.
	if text := string(admin.must(t, "GET", containersIn("hammer", "policies")+"/default", "")); !strings.Contains(text, "policy.proviso.dev/unreadable") {
		t.Errorf("it does not say that it cannot be read: %s", text)
	}
	if code, message, _ := admin.do(t, "POST", viewsIn("hammer", "roles"), roleYAML("new", `{verbs: [get], resourceKinds: [pods]}`)); code < 400 || code >= 500 {
		t.Errorf("a role was written into it: %d %s", code, message)
	}
	admin.must(t, "DELETE", containersIn("hammer", "policies")+"/default", "")
	await("readyz to forget it", func() bool { _, _, warning := readyz("/readyz"); return warning == "" })

	unreadableKinds(t, s, admin, etcd)

	// PO-21: a bomb that is stored already is quarantined by counting: the deny rule denies without its condition.
	bomb := strings.Repeat("[", 240) + strings.Repeat("]", 240) + " == []"
	put("anvil", `{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"Policy","metadata":{"name":"default","namespace":"anvil","creationTimestamp":"2100-01-01T00:00:00Z"},"roles":{"dev":{"rules":[`+
		`{"verbs":["*"],"resourceKinds":["configmaps"]},{"deny":true,"verbs":["delete"],"resourceKinds":["configmaps"],"when":"`+bomb+`"}]}}}`)
	await("the deny rule", func() bool { return !allowed("edgar", "delete", "anvil") })
	if !allowed("edgar", "get", "anvil") {
		t.Error("what is beside the bomb does not take effect")
	}
	if code, message, _ := admin.do(t, "POST", viewsIn("anvil", "roles"), roleYAML("bomb", `{deny: true, verbs: [delete], resourceKinds: [pods], when: "`+bomb+`"}`)); code != 422 || !strings.Contains(message, "nested 240 deep") {
		t.Errorf("a bomb was written: %d %s", code, message)
	}
}
