package cli

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/engine/narrowedtoken"
)

// TestParseAllow reads what a token can do (TK-8).
func TestParseAllow(t *testing.T) {
	rule, err := parseAllow("get,list pods,deployments.apps -n web,db --name api")
	if err != nil || strings.Join(rule.Verbs, " ") != "get list" || strings.Join(rule.ResourceKinds, " ") != "pods deployments.apps" ||
		strings.Join(rule.Namespaces, " ") != "web db" || strings.Join(rule.ResourceNames, " ") != "api" {
		t.Errorf("%+v %v", rule, err)
	}
	if rule, err := parseAllow("get /metrics,/healthz"); err != nil || len(rule.NonResourceURLs) != 2 || rule.ResourceKinds != nil {
		t.Errorf("%+v %v", rule, err)
	}
	for _, bad := range []string{"", "get", "get pods -n", "get pods web", "get pods --where true", "-n web"} {
		if rule, err := parseAllow(bad); err == nil {
			t.Errorf("%q became %+v", bad, rule)
		}
	}
}

// runToken runs a token command offline.
func runToken(t *testing.T, in string, args ...string) (out, errOut string, err error) {
	t.Helper()
	streams, stdin, stdout, stderr := genericiooptions.NewTestIOStreams()
	stdin.WriteString(in)
	cmd := NewTokenCommand(streams)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	cmd.SetOut(&bytes.Buffer{})
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// TestAttenuateOffline narrows a token and shows it, without a server (TK-2, TK-8).
func TestAttenuateOffline(t *testing.T) {
	secret := make([]byte, narrowedtoken.KeySize)
	if _, err := rand.Read(secret); err != nil {
		t.Fatal(err)
	}
	key, err := narrowedtoken.NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	token, err := narrowedtoken.New(key, narrowedtoken.Payload{ID: strings.Repeat("0a", 16), Issued: time.Now().Unix(), Expires: time.Now().Unix() + 3600, User: narrowedtoken.User{Name: "edgar"}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	narrower, _, err := runToken(t, "", "attenuate", "--token-file", file, "--allow", "get pods -n web", "--for", "5m", "--description", "sub-agent")
	if err != nil {
		t.Fatal(err)
	}
	read, err := narrowedtoken.Verify(narrowedtoken.Keys{key}, strings.TrimSpace(narrower))
	if err != nil || len(read.Links) != 1 || read.Links[0].Description != "sub-agent" || time.Until(read.Expires()) > 5*time.Minute {
		t.Fatalf("%+v %v", read, err)
	}
	shown, _, err := runToken(t, narrower, "inspect")
	if err != nil || !strings.Contains(shown, "User:     edgar") || !strings.Contains(shown, "sub-agent") || !strings.Contains(shown, "web") || strings.Contains(shown, "pvt1.") {
		t.Errorf("%s %v", shown, err)
	}
	t.Setenv(envToken, strings.TrimSpace(narrower))
	if shown, _, err := runToken(t, "", "inspect"); err != nil || !strings.Contains(shown, "sub-agent") {
		t.Errorf("from the environment: %s %v", shown, err)
	}
	for _, bad := range [][]string{
		{"attenuate", "--token-file", file}, {"attenuate", "--token-file", file + "x", "--allow", "get pods"}, {"attenuate", "--token-file", file, "--allow", "get"},
		{"attenuate", "--token-file", file, "--allow", "get pods", "--for", "-5m"}, {"attenuate", "--token-file", file, "--allow", "get pods", "--description", strings.Repeat("x", 300)},
		{"attenuate", "--token-file", file, "--allow", "get pods -n Web"}, {"inspect", token}, {"revoke", "--token", token, "x"},
	} {
		if out, _, err := runToken(t, "", bad...); err == nil {
			t.Errorf("%v: %s", bad[:2], out)
		} else if strings.Contains(err.Error(), token[len(token)-20:]) && bad[0] != "inspect" {
			t.Errorf("%v shows the token: %v", bad[:2], err)
		}
	}
}
