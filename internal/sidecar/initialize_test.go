package sidecar

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/pki"
)

func initialized(t *testing.T, change func(*settings)) (dir string) {
	t.Helper()
	cluster := t.TempDir()
	if _, err := pki.Ensure(cluster, pki.Config{BindAddress: net.IPv4(127, 0, 0, 1), Port: 6443}); err != nil {
		t.Fatal(err)
	}
	s := &settings{Server: "https://127.0.0.1:1", Listen: "127.0.0.1:2", Namespace: "proviso-system", MasterNamespace: "master", AuditLevel: "Metadata",
		ExemptUsers: []string{"system:kube-scheduler"}, ExemptGroups: []string{"system:nodes"}}
	if change != nil {
		change(s)
	}
	dir = filepath.Join(t.TempDir(), "s")
	if err := initialize(dir, filepath.Join(cluster, "pki"), s); err != nil {
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
		if filepath.Ext(name) == ".service" {
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
	for _, want := range []string{"failurePolicy: Deny", "cacheAuthorizedRequests: false", "cacheUnauthorizedRequests: false", `request.user != "system:kube-scheduler"`, "'system:nodes' in request.groups"} {
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

// check names each thing that is wrong.
func TestCheckNamesWhatIsWrong(t *testing.T) {
	has := func(problems []string, want string) bool {
		return slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, want) })
	}
	if problems, _ := check(t.Context(), t.TempDir()); !has(problems, "is no directory of a side-car") {
		t.Errorf("an empty directory: %v", problems)
	}
	// Another server's certificate.
	stranger := httptest.NewTLSServer(http.NotFoundHandler())
	defer stranger.Close()
	dir := initialized(t, func(s *settings) { s.Server = stranger.URL; s.Listen = strings.TrimPrefix(stranger.URL, "https://") })
	problems, _ := check(t.Context(), dir)
	if !has(problems, "another authority than that of --pki-dir") || !has(problems, "the side-car at") {
		t.Errorf("another server: %v", problems)
	}
	c := &checker{dir: dir, files: pki.BesideFiles(dir), now: time.Now}
	var err error
	if c.settings, err = readSettings(dir); err != nil {
		t.Fatal(err)
	}
	if problems := append(c.written(t.Context()), c.certificates(t.Context())...); len(problems) > 0 {
		t.Errorf("nothing is wrong with the files: %v", problems)
	}
	c.now = func() time.Time { return time.Now().Add(-time.Hour) }
	if problems := c.certificates(t.Context()); !has(problems, "check the clock") {
		t.Errorf("a clock that is behind: %v", problems)
	}
	c.now = time.Now
	// The authority of another cluster.
	other := initialized(t, nil)
	text, err := os.ReadFile(pki.BesideFiles(other).ClusterCACert)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.files.ClusterCACert, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if problems := c.certificates(context.Background()); !has(problems, "is not signed by") {
		t.Errorf("another authority: %v", problems)
	}
	if err := os.Remove(filepath.Join(dir, staticDir, staticFile)); err != nil {
		t.Fatal(err)
	}
	if problems := c.written(t.Context()); !has(problems, "is missing") {
		t.Errorf("no static manifest: %v", problems)
	}
	if len(tooOld("v1.36.9")) != 1 || len(tooOld("v1.37.1")) != 0 || len(tooOld("x")) != 1 {
		t.Error("an old server is not told")
	}
	if len(skewed(time.Now().Add(time.Minute).UTC().Format(http.TimeFormat), time.Now())) != 1 || len(skewed(time.Now().UTC().Format(http.TimeFormat), time.Now())) != 0 {
		t.Error("skewed clocks are not told")
	}
}
