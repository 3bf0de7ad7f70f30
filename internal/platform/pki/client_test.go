package pki

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"
	clocktesting "k8s.io/utils/clock/testing"
)

// SV-1: `proviso kubeconfig --user U --group G` gives a certificate of that user, with an expiry.
func TestIssueClient(t *testing.T) {
	dir, _ := template(t)
	before := contents(t, dir)
	files, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	clk := clocktesting.NewFakePassiveClock(testTime)
	data, err := IssueClient(files, ClientRequest{User: "jane", Groups: []string{"ops", "dev", "ops"}, TTL: time.Hour, Clock: clk})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		t.Fatal(err)
	}
	context := config.Contexts[config.CurrentContext]
	cluster, user := config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo]
	if cluster.Server != "https://127.0.0.1:6443" {
		t.Errorf("server %s", cluster.Server)
	}
	certs, err := certutil.ParseCertsPEM(user.ClientCertificateData)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cluster.CertificateAuthorityData)
	verify := func(at time.Time, usage x509.ExtKeyUsage) error {
		_, err := certs[0].Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{usage}})
		return err
	}
	if err := verify(testTime.Add(59*time.Minute), x509.ExtKeyUsageClientAuth); err != nil {
		t.Error(err)
	}
	if verify(testTime.Add(61*time.Minute), x509.ExtKeyUsageClientAuth) == nil {
		t.Error("the certificate does not expire")
	}
	if verify(testTime, x509.ExtKeyUsageServerAuth) == nil {
		t.Error("a client certificate can pose as a server")
	}
	if got := certs[0].Subject; got.CommonName != "jane" {
		t.Errorf("user %q", got.CommonName)
	} else if diff := cmp.Diff([]string{"dev", "ops"}, got.Organization); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
		t.Errorf("files were changed:\n%s", diff)
	}
}

func TestIssueClientRefusals(t *testing.T) {
	dir, _ := template(t)
	files, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		req  ClientRequest
		want string
	}{
		"empty user":     {ClientRequest{TTL: time.Hour}, "user is empty"},
		"blank user":     {ClientRequest{User: " ", TTL: time.Hour}, "begins or ends with a space"},
		"control":        {ClientRequest{User: "a\x00b", TTL: time.Hour}, "cannot be printed"},
		"not UTF-8":      {ClientRequest{User: "a\xff", TTL: time.Hour}, "cannot be printed"},
		"long user":      {ClientRequest{User: strings.Repeat("a", 1025), TTL: time.Hour}, "1025 bytes long"},
		"empty group":    {ClientRequest{User: "a", Groups: []string{"g", ""}, TTL: time.Hour}, "group is empty"},
		"no expiry":      {ClientRequest{User: "a"}, "not positive"},
		"beyond the CA":  {ClientRequest{User: "a", TTL: defaultCALife + time.Hour}, "beyond the end of the authority"},
		"CA has expired": {ClientRequest{User: "a", TTL: time.Hour, Clock: clocktesting.NewFakePassiveClock(testTime.Add(2 * defaultCALife))}, "expired on"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.req.Clock == nil {
				tc.req.Clock = clocktesting.NewFakePassiveClock(testTime)
			}
			if _, err := IssueClient(files, tc.req); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
	if err := os.WriteFile(files.CAKey, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	req := ClientRequest{User: "a", TTL: time.Hour, Clock: clocktesting.NewFakePassiveClock(testTime)}
	if _, err := IssueClient(files, req); err == nil || !strings.Contains(err.Error(), files.CAKey+" is corrupt") {
		t.Errorf("corrupt authority: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "nothing")); err == nil || !strings.Contains(err.Error(), "start `proviso serve`") {
		t.Errorf("no data dir: %v", err)
	}
}
