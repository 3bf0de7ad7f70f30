package controllers

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	upstream "k8s.io/kubernetes/cmd/kube-controller-manager/names"

	"proviso.dev/proviso/internal/platform/pki"
)

func files(t *testing.T) *pki.Files {
	t.Helper()
	files, err := pki.Ensure(t.TempDir(), pki.Config{Port: 6443})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// SV-1: the catalog is what a lone server needs, under the names that kube-controller-manager uses.
func TestKnown(t *testing.T) {
	want := []string{upstream.ServiceAccountTokenController, upstream.ServiceAccountController, upstream.RootCACertificatePublisherController,
		upstream.NamespaceController, upstream.ClusterRoleAggregationController, upstream.ResourceQuotaController, upstream.GarbageCollectorController,
		upstream.PersistentVolumeClaimProtectionController, upstream.PersistentVolumeProtectionController}
	if diff := cmp.Diff(want, Known()); diff != "" {
		t.Error(diff)
	}
}

// SV-2: --controllers means what it means to kube-controller-manager.
func TestNames(t *testing.T) {
	made := files(t)
	all := Known()
	without := func(names ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(n string) bool { return slices.Contains(names, n) })
	}
	for list, want := range map[string][]string{
		"":                               all,
		"*":                              all,
		"*,-namespace-controller":        without("namespace-controller"),
		"-namespace-controller,*":        without("namespace-controller"),
		"-namespace,*":                   without("namespace-controller"),
		"namespace-controller":           {"namespace-controller"},
		"garbagecollector,resourcequota": {"resourcequota-controller", "garbage-collector-controller"},
		"-namespace-controller":          nil,
		"namespace,-namespace":           {"namespace-controller"},
		"-namespace,namespace":           nil,
		"*,-serviceaccount-token,-garbagecollector": without("serviceaccount-token-controller", "garbage-collector-controller"),
	} {
		cfg := Config{RestConfig: &rest.Config{}, RootCA: read(t, made.CACert), ServiceAccountKeyFile: made.SAKey}
		if list != "" {
			cfg.Names = strings.Split(list, ",")
		}
		c, err := New(cfg)
		if err != nil {
			t.Errorf("%q: %v", list, err)
			continue
		}
		if diff := cmp.Diff(want, c.Names()); diff != "" {
			t.Errorf("%q:\n%s", list, diff)
		}
	}
	for _, bad := range []string{"deployment-controller", "-nonsense", "-*", "**", " namespace", "-", "--namespace", "Namespace"} {
		_, err := New(Config{RestConfig: &rest.Config{}, Names: []string{"*", bad}})
		if err == nil || !strings.Contains(err.Error(), `"`+bad+`" is not known`) || !strings.Contains(err.Error(), "namespace-controller") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// What a controller needs must be there if it is named, and be right in any case.
func TestNeeds(t *testing.T) {
	made := files(t)
	c, err := New(Config{RestConfig: &rest.Config{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{upstream.ServiceAccountTokenController, upstream.RootCACertificatePublisherController} {
		if slices.Contains(c.Names(), name) {
			t.Errorf("%s runs without what it needs", name)
		}
		if _, err := New(Config{RestConfig: &rest.Config{}, Names: []string{name}}); err == nil || !strings.Contains(err.Error(), name+" cannot run: it needs") {
			t.Errorf("%s: %v", name, err)
		}
	}
	broken := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(broken, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]Config{
		"no client":      {},
		"missing key":    {RestConfig: &rest.Config{}, ServiceAccountKeyFile: broken + "-not-there"},
		"corrupt key":    {RestConfig: &rest.Config{}, ServiceAccountKeyFile: broken},
		"public key":     {RestConfig: &rest.Config{}, ServiceAccountKeyFile: made.SAPub},
		"corrupt root":   {RestConfig: &rest.Config{}, RootCA: []byte("garbage")},
		"key as a root":  {RestConfig: &rest.Config{}, RootCA: read(t, made.SAKey)},
		"unknown choice": {RestConfig: &rest.Config{}, Names: []string{""}},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// Each controller can be told apart by its user agent, and the caller's configuration is left alone.
func TestUserAgents(t *testing.T) {
	given := &rest.Config{UserAgent: "proviso"}
	c, err := New(Config{RestConfig: given})
	if err != nil {
		t.Fatal(err)
	}
	term, err := c.newTerm()
	if err != nil {
		t.Fatal(err)
	}
	if got := term.config("namespace-controller").UserAgent; got != "proviso/namespace-controller" {
		t.Errorf("user agent %q", got)
	}
	if given.UserAgent != "proviso" || given.QPS != 0 {
		t.Errorf("the configuration was changed: %+v", given)
	}
}
