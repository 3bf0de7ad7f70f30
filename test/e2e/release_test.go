package e2e

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"
)

const (
	keptObjects = "testdata/release/objects.yaml"
	keptData    = "testdata/release/v0.1.db.gz"
	keptGates   = "--feature-gates=NarrowedTokens=true" // without it TokenRevocation is not served
)

// keptRequest is stored, and ends: it is read by `proviso backup check`, and so is the AccessUsage that counts it.
var keptRequest = m{"apiVersion": "access.proviso.dev/v1alpha1", "kind": "AccessRequest", "metadata": m{"name": "kept"}, "spec": m{
	"ruleRef": m{"name": "kept"}, "durationSeconds": 600, "once": true, "reason": "INC-1", "verbs": []string{"get"}, "resourceKinds": []string{"pods"}, "resourceNames": []string{"x"}}}

// TestKeepRelease stores one object of each kind and keeps the data: `go run ./hack/prove keep-release`.
func TestKeepRelease(t *testing.T) {
	if os.Getenv("PROVISO_KEEP_RELEASE") == "" {
		t.Skip("run go run ./hack/prove keep-release with a release that is published")
	}
	root := tempDir(t)
	dir, file := filepath.Join(root, "d"), filepath.Join(root, "kept.db")
	s := serve(t, dir, keptGates)
	manifest, err := os.ReadFile(keptObjects)
	if err != nil {
		t.Fatal(err)
	}
	s.apply(string(manifest))
	s.servesKept()
	s.requestsAccess()
	s.stop()
	if text, err := exec.Command(binary(t), "backup", "save", file, "--data-dir", dir).CombinedOutput(); err != nil {
		t.Fatalf("save: %v\n%s", err, text)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(keptData)
	if err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := zip.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// requestsAccess makes the request with credentials of its own: nobody may make one by impersonation.
func (s *server) requestsAccess() {
	s.t.Helper()
	kubeconfig, err := s.issue("dora")
	if err != nil {
		s.t.Fatal(err)
	}
	dora, last := s.callerFrom(kubeconfig), ""
	s.await("a request that is kept", func() bool {
		code, text := dora.send("", "POST", "/apis/access.proviso.dev/v1alpha1/namespaces/kept/accessrequests", keptRequest)
		if text != last {
			s.t.Log(text)
			last = text
		}
		return code == http.StatusCreated
	})
}

// keptRelease unpacks what the release before has stored.
func keptRelease(t *testing.T, dir string) string {
	t.Helper()
	in, err := os.Open(keptData)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	zip, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "kept.db")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// servesKept reads every object of the manifest and compares what it has with what was written, and looks at effects.
func (s *server) servesKept() {
	s.t.Helper()
	var stored struct{ Items []m }
	if text := s.kubectl("get", "-f", keptObjects, "-o", "json"); json.Unmarshal([]byte(text), &stored) != nil {
		s.t.Fatal(text)
	}
	written := documents(s.t, keptObjects)
	if len(stored.Items) != len(written) || len(stored.Items) < 10 {
		s.t.Fatalf("%d objects are stored, %d were written", len(stored.Items), len(written))
	}
	for i, want := range written {
		if missing := lacks(stored.Items[i], want); missing != "" {
			s.t.Errorf("%v %v has lost %s", want["kind"], want["metadata"], missing)
		}
	}
	can := func(want bool, args ...string) func() bool {
		return func() bool {
			text, _ := s.try("", append([]string{"auth", "can-i", "--as=kim", "--namespace=kept"}, args...)...)
			return strings.Contains(text, "yes") == want
		}
	}
	s.await("the kept grant", can(true, "get", "configmaps/x"))
	s.await("the kept deny", can(false, "get", "configmaps/hidden"))
	if text := s.kubectl("get", "--raw", "/readyz?verbose"); strings.Contains(text, "cannot be read") {
		s.t.Errorf("readyz: %s", text)
	}
}

// documents reads a file of manifests.
func documents(t testing.TB, file string) (all []m) {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for decoder := yaml.NewYAMLOrJSONDecoder(in, 4096); ; {
		var one m
		switch err := decoder.Decode(&one); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		}
		all = append(all, one)
	}
}

// lacks names the first thing of want that have does not have.
func lacks(have, want any) string {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		for key, value := range want {
			if !ok || have[key] == nil {
				return key
			}
			if missing := lacks(have[key], value); missing != "" {
				return key + "." + missing
			}
		}
	case []any:
		have, ok := have.([]any)
		if !ok || len(have) != len(want) {
			return "an entry"
		}
		for i := range want {
			if missing := lacks(have[i], want[i]); missing != "" {
				return missing
			}
		}
	default:
		if have != want {
			return "a value"
		}
	}
	return ""
}
