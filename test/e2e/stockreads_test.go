package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"proviso.dev/proviso/internal/platform/pki"
	"proviso.dev/proviso/test/stock"
)

// RD-11, SV-2: with the gate UnionReads off, as it is in the drop-in, a user with rights in one namespace gets what a
// stock kube-apiserver answers to lists and watches over all namespaces, and to questions about them: the same codes,
// headers and texts. Refusals of Proviso end with the command that says more (TR-12), which is cut off.
func TestGateOffIsStock(t *testing.T) {
	t.Parallel()
	original, err := stock.Server()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(tempDir(t), "kube-apiserver")
	if err := os.Symlink(binary(t), link); err != nil {
		t.Fatal(err)
	}
	var clients [2]*rest.Config
	for i, program := range []string{original, link} {
		e, dir, port := startEtcd(t), tempDir(t), freePort(t)
		f, err := pki.Ensure(dir, pki.Config{Port: port})
		if err != nil {
			t.Fatal(err)
		}
		s := &server{dir: dir, port: port, kubeconfig: f.AdminKubeconfig}
		s.process = spawn(t, program, slices.Concat([]string{"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", "--authorization-mode=Node,RBAC"}, stock.ServerFlags(f, port), e.flags())...)
		s.await("readiness", func() bool {
			_, err := s.try("", "get", "--raw", "/readyz")
			return err == nil
		})
		kubeconfig, err := s.issue("dana")
		if err != nil {
			t.Fatal(err)
		}
		s.kubectl("create", "namespace", "shop")
		s.kubectl("-n", "shop", "create", "configmap", "settings")
		s.kubectl("-n", "shop", "create", "role", "reader", "--verb=get,list,watch", "--resource=configmaps,pods,deployments.apps")
		s.kubectl("-n", "shop", "create", "rolebinding", "dana", "--role=reader", "--user=dana")
		s.kubectl("create", "clusterrole", "named", "--verb=get,list,watch", "--resource=nodes,namespaces", "--resource-name=one")
		s.kubectl("create", "clusterrolebinding", "named", "--clusterrole=named", "--user=dana")
		s.await("the rights", func() bool {
			_, err := s.try("", "--kubeconfig", kubeconfig, "-n", "shop", "get", "configmaps")
			return err == nil
		})
		s.await("the last right", func() bool {
			out, _ := s.try("", "--kubeconfig", kubeconfig, "get", "node", "one")
			return strings.Contains(out, "not found")
		})
		if clients[i], err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
			t.Fatal(err)
		}
	}
	const table, meta = "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	refused := 0
	for _, path := range []string{"/api/v1/configmaps", "/api/v1/configmaps?watch=1", "/api/v1/configmaps?limit=1", "/api/v1/configmaps?resourceVersion=0", "/api/v1/configmaps?labelSelector=a%3Db",
		"/api/v1/configmaps?fieldSelector=metadata.namespace%3Dshop", "/api/v1/configmaps?fieldSelector=metadata.name%3Dsettings", "/api/v1/configmaps?shardSelector=x", "/api/v1/watch/configmaps",
		"/apis/apps/v1/deployments", "/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
		"/api/v1/nodes", "/api/v1/nodes?fieldSelector=metadata.name%3Done", "/api/v1/nodes?fieldSelector=metadata.name%3Dtwo", "/api/v1/namespaces", "/api/v1/namespaces?watch=1", "/api/v1/namespaces/shop", "/api/v1/namespaces/nosuch", "/api/v1/secrets"} {
		for _, accept := range []string{"application/json", table, meta, protobufType} {
			want, got := answerTo(t, clients[0], http.MethodGet, path, accept, ""), answerTo(t, clients[1], http.MethodGet, path, accept, "")
			if want != got {
				t.Errorf("%s as %s:\nstock %s\nours  %s", path, accept, want, got)
			}
			if strings.HasPrefix(want, "403") {
				refused++
			}
		}
	}
	// CA-24
	for _, attributes := range []string{`{"verb":"list","resource":"pods"}`, `{"verb":"watch","resource":"configmaps","version":"v1"}`, `{"verb":"list","resource":"namespaces"}`,
		`{"verb":"get","resource":"namespaces","name":"shop","namespace":"shop"}`, `{"verb":"list","resource":"nodes"}`, `{"verb":"list","resource":"secrets"}`} {
		body := `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":` + attributes + `}}`
		status := func(c *rest.Config) string {
			var review struct{ Status map[string]any }
			_, answer, _ := strings.Cut(answerTo(t, c, http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "application/json", body), "\n")
			if err := json.Unmarshal([]byte(answer), &review); err != nil {
				t.Fatalf("%s: %v", answer, err)
			}
			text, _ := json.Marshal(review.Status) //nolint:errchkjson // it was JSON
			return string(text)
		}
		if want, got := status(clients[0]), status(clients[1]); want != got {
			t.Errorf("%s: stock %s, ours %s", attributes, want, got)
		}
	}
	if refused < 40 {
		t.Errorf("stock refuses only %d of the requests", refused)
	}
}

const protobufType = "application/vnd.kubernetes.protobuf"

// own is what each server says in its own way: the end of a refusal, and revisions of its etcd.
var own = regexp.MustCompile(": `proviso explain [^`]*` says what would allow it|\"resourceVersion\":\"[0-9]+\"")

// answerTo is the code, what people see of the headers, and the body of an answer.
func answerTo(t *testing.T, config *rest.Config, method, path, accept, body string) string {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, config.Host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	text := own.ReplaceAllString(string(data), "")
	if accept == protobufType {
		text = "" // which has the lengths of texts
	}
	return resp.Status[:3] + " " + resp.Header.Get("Content-Type") + " " + resp.Header.Get("Warning") + "\n" + text
}
