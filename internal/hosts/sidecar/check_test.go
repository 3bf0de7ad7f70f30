package sidecar

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/hosts/sidecar/webhooks"
	"proviso.dev/proviso/internal/platform/pki"
	"proviso.dev/proviso/internal/state/source"
)

func has(problems []string, want string) bool {
	return slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, want) })
}

// check names each thing that is wrong.
func TestCheckNamesWhatIsWrong(t *testing.T) {
	if problems, _ := check(t.Context(), t.TempDir()); !has(problems, "is not the directory of a sidecar") {
		t.Errorf("an empty directory: %v", problems)
	}
	// Another server's certificate: it is the cause, and what follows from it is not listed (SC-20).
	address := free(t)
	dir := initialized(t, func(s *settings) { s.Server, s.Listen = "https://"+address, address })
	if problems, _ := check(t.Context(), dir); len(problems) != 1 || !has(problems, "connection refused") {
		t.Errorf("no server: %v", problems)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	stranger := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.NotFoundHandler(), ErrorLog: log.New(io.Discard, "", 0)}}
	stranger.StartTLS()
	defer stranger.Close()
	if problems, _ := check(t.Context(), dir); len(problems) != 1 || !has(problems, "another authority than that of --pki-dir") {
		t.Errorf("another server: %v", problems)
	}
	c := &checker{dir: dir, files: pki.BesideFiles(dir), now: time.Now}
	if c.settings, err = readSettings(dir); err != nil {
		t.Fatal(err)
	}
	if problems := c.running(t.Context()); !has(problems, "the sidecar at") {
		t.Errorf("another server in the place of the sidecar: %v", problems)
	}
	if problems := append(c.written(t.Context()), c.certificates(t.Context())...); len(problems) > 0 {
		t.Errorf("nothing is wrong with the files: %v", problems)
	}
	c.now = func() time.Time { return time.Now().Add(-time.Hour) }
	if problems := c.certificates(t.Context()); !has(problems, "check the clock") {
		t.Errorf("a clock that is behind: %v", problems)
	}
	c.now = func() time.Time { return time.Now().AddDate(30, 0, 0) }
	if problems := c.certificates(t.Context()); !has(problems, "expired on") {
		t.Errorf("long after: %v", problems)
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
}

// free is an address at which nothing listens.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// answering is an API server of a cluster that gives prepared answers, for what no real one can be brought to say.
func answering(t *testing.T, cluster *pki.Files, answers map[string]string) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if date := answers["date"]; date != "" {
			w.Header().Set("Date", date)
		}
		w.Header().Set("Content-Type", "application/json")
		if answer := answers[r.URL.Path]; answer != "" {
			_, _ = w.Write([]byte(answer))
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	pair, err := tls.LoadX509KeyPair(cluster.ServingCert, cluster.ServingKey)
	if err != nil {
		t.Fatal(err)
	}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func checkerOf(t *testing.T, cluster *pki.Files, server string) *checker {
	t.Helper()
	dir := initializedIn(t, cluster, func(s *settings) { s.Server = server })
	c := &checker{dir: dir, files: pki.BesideFiles(dir), now: time.Now}
	var err error
	if c.settings, err = readSettings(dir); err != nil {
		t.Fatal(err)
	}
	return c
}

// SC-4: check tells an API server that is too old, and one whose clock is wrong.
func TestCheckLooksAtTheServer(t *testing.T) {
	cluster := newCluster(t)
	for name, tc := range map[string]struct{ version, date, want string }{
		"as it should be":   {version: `{"gitVersion": "v1.37.1"}`},
		"old":               {version: `{"gitVersion": "v1.36.9"}`, want: "is of version v1.36.9"},
		"without a version": {version: `{"gitVersion": "x"}`, want: "cannot be read"},
		"no API server":     {version: `hello`, want: "does not say its version"},
		"ahead":             {version: `{"gitVersion": "v1.37.1"}`, date: time.Now().Add(time.Minute).UTC().Format(http.TimeFormat), want: "apart"},
		"behind":            {version: `{"gitVersion": "v1.37.1"}`, date: time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), want: "apart"},
	} {
		server := answering(t, cluster, map[string]string{"/version": tc.version, "date": tc.date})
		problems := checkerOf(t, cluster, server.URL).apiServer(t.Context())
		if tc.want == "" && len(problems) > 0 || tc.want != "" && !has(problems, tc.want) {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

// SC-4: check tells an API server of the same authority whose certificate is for another address: it is another one of
// the cluster's, or its certificate was made for another name.
func TestCheckTellsACertificateForAnotherName(t *testing.T) {
	cluster := newCluster(t)
	listener, err := net.Listen("tcp", "127.0.0.9:0")
	if err != nil {
		t.Skipf("this machine has no further loopback addresses: %v", err)
	}
	pair, err := tls.LoadX509KeyPair(cluster.ServingCert, cluster.ServingKey)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.NotFoundHandler(), ErrorLog: log.New(io.Discard, "", 0)}, TLS: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}}
	s.StartTLS()
	defer s.Close()
	c := checkerOf(t, cluster, "https://"+free(t))
	c.settings.Server = s.URL
	if problems := c.reached(t.Context()); len(problems) != 1 || !has(problems, "its certificate is for another name") {
		t.Errorf("another name: %v", problems)
	}
}

// SC-4: check tells what listens in the place of the sidecar, with a certificate that is right.
func TestCheckTellsWhoIsNoSideCar(t *testing.T) {
	cluster := newCluster(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dir := initializedIn(t, cluster, func(s *settings) { s.Listen = listener.Addr().String() })
	files := pki.BesideFiles(dir)
	pair, err := tls.LoadX509KeyPair(files.ServerCert, files.ServerKey)
	if err != nil {
		t.Fatal(err)
	}
	answer := "hello"
	s := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) })},
		TLS: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}}
	s.StartTLS()
	defer s.Close()
	c := &checker{dir: dir, files: files, now: time.Now}
	if c.settings, err = readSettings(dir); err != nil {
		t.Fatal(err)
	}
	for said, want := range map[string]string{"hello": "is not a sidecar", `{"policy":"it waits"}`: "does not know its policy: it waits", `{"conditions":"no canary"}`: "conditions are not honoured: no canary", `{}`: ""} {
		answer = said
		if problems := c.running(t.Context()); want == "" && len(problems) > 0 || want != "" && (len(problems) != 1 || !has(problems, want)) {
			t.Errorf("%s: %v", said, problems)
		}
	}
}

// SC-2, SC-4: check tells groups that are not registered, lead elsewhere, or cannot be reached, as with
// --enable-aggregator-routing.
func TestCheckLooksAtRegistrations(t *testing.T) {
	cluster := newCluster(t)
	for name, tc := range map[string]struct{ service, status, want string }{
		"as it should be":     {"proviso", "True", ""},
		"another service":     {"other", "True", "leads to another server"},
		"aggregator routing":  {"proviso", "False", "--enable-aggregator-routing"},
		"another certificate": {"proviso", "other", "has another certificate"},
		"none":                {"", "", "kubectl apply -f"},
	} {
		answers := map[string]string{}
		c := checkerOf(t, cluster, answering(t, cluster, answers).URL)
		ca, err := os.ReadFile(c.files.ClusterCACert)
		if err != nil {
			t.Fatal(err)
		}
		if tc.status == "other" {
			ca = []byte("x")
		}
		for _, gv := range groupVersions() {
			if tc.service == "" {
				continue
			}
			answers[fmt.Sprintf("/apis/apiregistration.k8s.io/v1/apiservices/%s.%s", gv.Version, gv.Group)] = fmt.Sprintf(`{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
				"spec": {"service": {"namespace": "proviso-system", "name": %q}, "caBundle": %q}, "status": {"conditions": [{"type": "Available", "status": %q, "message": "no endpoints"}]}}`,
				tc.service, base64.StdEncoding.EncodeToString(ca), tc.status)
		}
		problems := c.registered(t.Context())
		if tc.want == "" && len(problems) > 0 || tc.want != "" && !has(problems, tc.want) {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

// SC-3: check tells two sidecars with different policies, by asking through every API server of the cluster.
func TestCheckComparesSideCars(t *testing.T) {
	cluster := newCluster(t)
	policies := func(uid string) map[string]string {
		list := func(kind, items string) string {
			return fmt.Sprintf(`{"apiVersion": "policy.proviso.dev/v1alpha1", "kind": %q, "metadata": {"resourceVersion": "9"}, "items": [%s]}`, kind, items)
		}
		return map[string]string{
			"/apis/policy.proviso.dev/v1alpha1/policies":       list("PolicyList", fmt.Sprintf(`{"metadata": {"name": "default", "namespace": "team", "uid": %q, "resourceVersion": "7"}}`, uid)),
			"/apis/policy.proviso.dev/v1alpha1/policybindings": list("PolicyBindingList", ""),
		}
	}
	ours := policies("a")
	ours["/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"] = `{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSliceList", "items": [
		{"endpoints": [{"addresses": ["10.0.0.2"]}, {"addresses": ["10.0.0.1"]}], "ports": [{"name": "https", "port": 6443}]}]}`
	one, same, other := answering(t, cluster, ours), answering(t, cluster, policies("a")), answering(t, cluster, policies("b"))
	c := checkerOf(t, cluster, one.URL)
	if found, err := c.servers(t.Context()); err != nil || !slices.Equal(found, []string{"https://10.0.0.1:6443", "https://10.0.0.2:6443"}) {
		t.Errorf("servers %v, %v", found, err)
	}
	if problems := c.samePolicy(t.Context(), []string{one.URL, same.URL}); len(problems) > 0 {
		t.Errorf("the same policy: %v", problems)
	}
	if problems := c.samePolicy(t.Context(), []string{one.URL, other.URL}); len(problems) != 1 || !has(problems, other.URL+" has another policy") {
		t.Errorf("another policy: %v", problems)
	}
	other.Close()
	if problems := c.samePolicy(t.Context(), []string{other.URL}); !has(problems, "cannot be read") {
		t.Errorf("a sidecar that is away: %v", problems)
	}
	if problems := checkerOf(t, cluster, same.URL).peers(t.Context()); !has(problems, "cannot be listed") {
		t.Errorf("without the right to list servers: %v", problems)
	}
}

// SC-8: rules whose subjects include exempt callers are told, groups counted; others are not.
func TestExemptSubjectsAreTold(t *testing.T) {
	e := (&settings{ExemptUsers: []string{"system:kube-scheduler", "system:serviceaccount:kube-system:boot"}, ExemptGroups: []string{"system:nodes"}}).exempt()
	for _, tc := range []struct {
		users, groups []string
		want          string
	}{
		{users: []string{"anna", "system:kube-scheduler"}, want: "user system:kube-scheduler"},
		{users: []string{"system:node:n1"}, want: "user system:node:n1"},
		{groups: []string{"system:nodes"}, want: "group system:nodes"},
		{groups: []string{"system:masters"}, want: "group system:masters"},
		{groups: []string{"system:authenticated"}, want: "group system:authenticated"},
		{groups: []string{"system:serviceaccounts:kube-system"}, want: "group system:serviceaccounts:kube-system"},
		{groups: []string{"system:serviceaccounts:team", "team", "system:unauthenticated"}, users: []string{"anna"}},
	} {
		if got := exempted(e, tc.users, tc.groups); got != tc.want {
			t.Errorf("%v %v: %q, want %q", tc.users, tc.groups, got, tc.want)
		}
	}
	if got := exempted(webhooks.Exempt{}, []string{"system:node:n1"}, nil); got != "" {
		t.Errorf("nodes are not exempt: %q", got)
	}
	told := warnings{}
	ctx := warning.WithWarningRecorder(t.Context(), &told)
	for _, who := range []string{"anna", "system:kube-scheduler"} {
		if err := (exemptWarner{e}).Validate(ctx, admission.NewAttributesRecord(&authz.RoleBinding{UserNames: []string{who}}, nil, schema.GroupVersionKind{}, "", "", schema.GroupVersionResource{}, "", admission.Create, nil, false, nil), nil); err != nil {
			t.Error(err)
		}
	}
	if len(told) != 1 || !strings.Contains(told[0], "user system:kube-scheduler") {
		t.Errorf("warnings: %v", told)
	}
}

// HF-9: check names permissions that hide nothing here.
func TestShownFieldsAreTold(t *testing.T) {
	const permission = "{apiVersion: policy.proviso.dev/v1alpha1, kind: FieldPermission, metadata: {name: %s}, spec: {resources: [secrets], field: .data, permission: example.com/%s, readExclusive: %v}}"
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte(fmt.Sprintf(permission, "data", "data", true)+"\n---\n"+fmt.Sprintf(permission, "other", "other", false)), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := source.ReadFiles(source.FilesConfig{Paths: []string{path}, MasterNamespace: "master"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := adviceOf(webhooks.Exempt{}, files)
	if err != nil || len(a.Shown) != 1 || !has(a.Shown, "field permission data hides nothing") || !has(a.Shown, "shows .data of secrets") {
		t.Errorf("%v %v", a.Shown, err)
	}
}

type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

// SC-10: check tells when a sink asks for more than the audit policy has.
func TestCheckLooksAtTheAuditPolicy(t *testing.T) {
	c := checkerOf(t, newCluster(t), "https://127.0.0.1:1")
	c.said.Audit = map[string]string{"little": "Metadata", "none": "None", "much": "Request"}
	if warnings := c.audited(); len(warnings) != 1 || !has(warnings, "audit sink much asks for level Request") || !has(warnings, "--audit-level=Request") {
		t.Errorf("too little: %v", warnings)
	}
	text := "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]\n"
	if err := os.WriteFile(filepath.Join(c.dir, "audit-policy.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if warnings := c.audited(); len(warnings) > 0 {
		t.Errorf("enough: %v", warnings)
	}
	if err := os.Remove(filepath.Join(c.dir, "audit-policy.yaml")); err != nil {
		t.Fatal(err)
	}
	if warnings := c.audited(); !has(warnings, "cannot be read") {
		t.Errorf("none: %v", warnings)
	}
}
