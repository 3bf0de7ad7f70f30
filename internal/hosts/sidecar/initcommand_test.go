package sidecar

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// runInit runs `proviso sidecar init`.
func runInit(t *testing.T, args ...string) (string, error) {
	t.Helper()
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	cmd := newInitCommand(streams)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// SC-4: init that is run again, as check says, keeps every setting that no flag names. The sidecar would otherwise have
// another etcd, with no policy in it, or let others pass.
func TestInitAgainKeepsSettings(t *testing.T) {
	dir, pki := filepath.Join(t.TempDir(), "s"), filepath.Dir(newCluster(t).CACert)
	given := map[string]string{"pki-dir": pki, "server": "https://127.0.0.1:1", "listen": "127.0.0.1:2", "namespace": "beside", "policy-master-namespace": "platform", "exempt": "group:system:nodes",
		"conditions-for": "pods,deployments.apps", "service": "clusterip", "advertise-address": "192.0.2.3", "policy-max-staleness": "1m0s", "max-clock-skew": "3s",
		"etcd-servers": "http://127.0.0.1:3,http://127.0.0.1:4", "etcd-prefix": "/elsewhere", "etcd-cafile": "/nowhere/ca", "etcd-certfile": "/nowhere/cert", "etcd-keyfile": "/nowhere/key",
		"audit": "webhook", "audit-level": "Request", "read-objects": "true", "audit-dynamic-allow-insecure-sinks": "true"}
	args := []string{"--out", dir}
	for name, value := range given {
		args = append(args, "--"+name+"="+value)
	}
	if out, err := runInit(t, args...); err != nil || strings.Contains(out, "Kept") {
		t.Fatalf("%v %s", err, out)
	}
	read := func() *settings {
		t.Helper()
		s, err := readSettings(dir)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := read()
	out, err := runInit(t, "--out", dir)
	if err != nil || !reflect.DeepEqual(read(), first) {
		t.Fatalf("%v: %+v, want %+v", err, read(), first)
	}
	for name, value := range given {
		if !strings.Contains(out, "--"+name+"="+value) {
			t.Errorf("not said to be kept: %s in %s", name, out)
		}
	}
	// One setting changes, also to its default and to nothing; the others stay.
	if _, err := runInit(t, "--out", dir, "--policy-master-namespace=master", "--conditions-for=", "--read-objects=false"); err != nil {
		t.Fatal(err)
	}
	first.MasterNamespace, first.ConditionsFor, first.ReadObjects = "master", nil, false
	if got := read(); !reflect.DeepEqual(got, first) {
		t.Errorf("%+v, want %+v", got, first)
	}
	for _, flag := range newInitFlags(defaults()).names() {
		if given[flag] == "" {
			t.Errorf("--%s is not tried", flag)
		}
	}
	// Settings that cannot be read are not replaced.
	path := filepath.Join(dir, settingsFile)
	if err := os.WriteFile(path, []byte("etcdd: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = runInit(t, "--out", dir)
	if err == nil || !strings.Contains(err.Error(), settingsFile) {
		t.Errorf("settings that cannot be read: %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "etcdd: {}\n" {
		t.Errorf("they were replaced by %s", text)
	}
}

// names are those of all flags.
func (f *initFlags) names() (all []string) {
	f.set.VisitAll(func(flag *pflag.Flag) { all = append(all, flag.Name) })
	return all
}
