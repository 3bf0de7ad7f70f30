package sidecar

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/platform/pki"
)

func initialized(t *testing.T, change func(*settings)) (dir string) {
	t.Helper()
	return initializedIn(t, newCluster(t), change)
}

// newCluster makes the certificates of a cluster.
func newCluster(t *testing.T) *pki.Files {
	t.Helper()
	files, err := pki.Ensure(t.TempDir(), pki.Config{BindAddress: net.IPv4(127, 0, 0, 1), Port: 6443})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func initializedIn(t *testing.T, cluster *pki.Files, change func(*settings)) (dir string) {
	t.Helper()
	s := &settings{Server: "https://127.0.0.1:1", Listen: "127.0.0.1:2", Namespace: "proviso-system", MasterNamespace: "master", AuditLevel: "Metadata",
		ExemptUsers: []string{"system:kube-scheduler"}, ExemptGroups: []string{"system:nodes"}}
	if change != nil {
		change(s)
	}
	dir = filepath.Join(t.TempDir(), "s")
	if err := initialize(dir, filepath.Dir(cluster.CACert), s); err != nil {
		t.Fatal(err)
	}
	return dir
}

// SC-4: init writes everything, as YAML that can be read, and the same when it is run again.
func TestInit(t *testing.T) {
	dir := initialized(t, nil)
	for name := range written {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if filepath.Ext(name) == ".service" || strings.HasSuffix(name, "+json.yaml") {
			continue
		}
		for _, document := range strings.Split(string(text), "\n---\n") {
			var parsed map[string]any
			if err := yaml.Unmarshal([]byte(document), &parsed); err != nil || parsed["kind"] == nil {
				t.Errorf("%s: %v\n%s", name, err, document)
			}
		}
	}
	flags, err := os.ReadFile(filepath.Join(dir, "kube-apiserver.flags"))
	if err != nil || !strings.Contains(string(flags), "--authorization-config="+dir+"/authorization.yaml\n") || strings.Contains(string(flags), "#") {
		t.Errorf("flags: %s, %v", flags, err)
	}
	// SC-8: nothing is remembered, and everything fails closed.
	authorization, _ := os.ReadFile(filepath.Join(dir, "authorization.yaml"))
	for _, want := range []string{"failurePolicy: Deny", "cacheAuthorizedRequests: false", "cacheUnauthorizedRequests: false", "!(request.user in ['proviso:sidecar'", "'system:kube-scheduler'", "'system:nodes' in request.groups"} {
		if !strings.Contains(string(authorization), want) {
			t.Errorf("authorization.yaml lacks %s", want)
		}
	}
	static, _ := os.ReadFile(filepath.Join(dir, staticDir, staticFile))
	for _, want := range []string{"name: proviso.static.k8s.io", "failurePolicy: Fail", "'system:masters' in request.userInfo.groups || 'system:nodes' in request.userInfo.groups"} {
		if !strings.Contains(string(static), want) {
			t.Errorf("the static manifest lacks %s:\n%s", want, static)
		}
	}
	set, err := readSettings(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := set.manifests(pki.BesideFiles(dir))
	if err != nil || compareDir(filepath.Join(dir, staticDir), manifests) != nil {
		t.Errorf("what was written is not what is expected: %v", err)
	}
}

func TestInitRefuses(t *testing.T) {
	for name, s := range map[string]settings{
		"an address others reach": {Listen: "0.0.0.0:6453"},
		"no port":                 {Listen: "127.0.0.1"},
		"the canary as exempt":    {Listen: "127.0.0.1:1", ExemptUsers: []string{pki.CanaryUser}},
		"an unknown level":        {Listen: "127.0.0.1:1", AuditLevel: "All"},
		"an unknown service":      {Listen: "127.0.0.1:1", Service: "nodeport"},
		"no address":              {Listen: "127.0.0.1:1", Service: byAddress},
		"an address on loopback":  {Listen: "127.0.0.1:1", Service: byAddress, Advertise: "127.0.0.1"},
		"an address for a name":   {Listen: "127.0.0.1:1", Advertise: "192.0.2.1"},
		"an unknown source":       {Listen: "127.0.0.1:1", Audit: "journal"},
		"too short a memory":      {Listen: "127.0.0.1:1", MaxStaleness: metav1.Duration{Duration: time.Second}},
	} {
		s.Server, s.Namespace, s.MasterNamespace = "https://x", "a", "b"
		if s.AuditLevel == "" {
			s.AuditLevel = "Metadata"
		}
		if initialize(t.TempDir(), t.TempDir(), &s) == nil {
			t.Errorf("%s is taken", name)
		}
	}
	ok := &settings{Server: "https://x", Listen: "127.0.0.1:1", Namespace: "a", MasterNamespace: "b", AuditLevel: "Metadata"}
	if err := initialize(t.TempDir(), t.TempDir(), ok); err == nil || !strings.Contains(err.Error(), "--pki-dir") {
		t.Errorf("without an authority: %v", err)
	}
}

// SC-20: init takes no other server for the API server, and leaves no half-made directory behind.
func TestInitProbesTheServer(t *testing.T) {
	cluster := newCluster(t)
	stranger := httptest.NewUnstartedServer(http.NotFoundHandler())
	stranger.Config.ErrorLog = log.New(io.Discard, "", 0)
	stranger.StartTLS()
	defer stranger.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for server, want := range map[string]string{
		stranger.URL: "is not the API server of this cluster", strings.Replace(plain.URL, "http:", "https:", 1): "does not speak TLS",
		answering(t, cluster, nil).URL: "", "https://" + free(t): "",
	} {
		dir := filepath.Join(t.TempDir(), "new")
		err := initialize(dir, filepath.Dir(cluster.CACert), &settings{Server: server, Listen: "127.0.0.1:1", Namespace: "a", MasterNamespace: "b", AuditLevel: "Metadata"})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", server, err, want)
		}
		if _, there := os.Stat(dir); (there == nil) != (err == nil) {
			t.Errorf("%s: the directory: %v", server, there)
		}
	}
}
