package pki

import (
	"errors"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
)

// template makes one set of files that tests copy, since making keys is what takes time.
func template(t *testing.T) (dir string, cfg Config) {
	t.Helper()
	cfg, _ = testConfig()
	dir = t.TempDir()
	mustEnsure(t, dir, cfg)
	return dir, cfg
}

func copyOf(t *testing.T, dir string) string {
	t.Helper()
	out := t.TempDir()
	if err := os.CopyFS(out, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	// CopyFS applies the umask and adds owner bits only; make the copy exact.
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		rel, _ := filepath.Rel(dir, path)
		return errors.Join(err, os.Chmod(filepath.Join(out, rel), info.Mode().Perm()))
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func regularFiles(t *testing.T, dir string) []string {
	var out []string
	for rel, content := range contents(t, dir) {
		if strings.HasPrefix(content, "-") {
			out = append(out, rel)
		}
	}
	if len(out) < 17 {
		t.Fatalf("only %d files", len(out))
	}
	return out
}

// SV-1: a damaged file is one clear error that names it and a remedy; nothing is regenerated over it.
func TestDamagedFiles(t *testing.T) {
	dir, cfg := template(t)
	other, _ := template(t)
	damages := map[string]func(path, rel string) error{
		"empty":     func(path, _ string) error { return os.Truncate(path, 0) },
		"truncated": func(path, _ string) error { return os.Truncate(path, 60) },
		"garbage":   func(path, _ string) error { return os.WriteFile(path, []byte("{]\x00garbage"), 0o600) },
		"directory": func(path, _ string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		"fifo":      func(path, _ string) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
		"dangling":  func(path, _ string) error { return errors.Join(os.Remove(path), os.Symlink("nowhere", path)) },
		"huge":      func(path, _ string) error { return os.Truncate(path, 1<<40) },
		"open":      func(path, _ string) error { return os.Chmod(path, 0o666) },
		"foreign": func(path, rel string) error {
			data, err := os.ReadFile(filepath.Join(other, rel))
			return errors.Join(err, os.WriteFile(path, data, 0o600))
		},
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			for _, rel := range regularFiles(t, dir) {
				broken := copyOf(t, dir)
				path := filepath.Join(broken, rel)
				if err := damage(path, rel); err != nil {
					t.Fatal(err)
				}
				_, err := Ensure(broken, cfg)
				var fileErr *FileError
				if !errors.As(err, &fileErr) {
					t.Errorf("%s: %v", rel, err)
					continue
				}
				// A pair that disagrees may be reported by its other half.
				stem := strings.TrimSuffix(strings.TrimSuffix(rel, ".crt"), ".key")
				if !strings.Contains(err.Error(), filepath.Join(broken, strings.TrimSuffix(stem, ".pub"))) {
					t.Errorf("%s: the error names another file: %v", rel, err)
				}
				if fileErr.Remedy == "" || strings.ContainsAny(err.Error(), "\n\r") {
					t.Errorf("%s: not one line with a remedy: %q", rel, err)
				}
				if name == "huge" {
					continue
				}
				// Following the remedy works: a file put back makes everything good again.
				data, readErr := os.ReadFile(filepath.Join(dir, rel))
				if err := errors.Join(readErr, os.RemoveAll(path), os.WriteFile(path, data, 0o600)); err != nil {
					t.Fatal(err)
				}
				if files, err := Ensure(broken, cfg); err != nil || len(files.Changed) != 0 {
					t.Errorf("%s: after it was restored: %v", rel, err)
				}
			}
		})
	}
}

// Damage that each file alone does not show.
func TestDamageBetweenFiles(t *testing.T) {
	dir, cfg := template(t)
	other, _ := template(t)
	replace := func(rel ...string) func(string) error {
		return func(broken string) (err error) {
			for _, name := range rel {
				data, readErr := os.ReadFile(filepath.Join(other, name))
				err = errors.Join(err, readErr, os.WriteFile(filepath.Join(broken, name), data, 0o600))
			}
			return err
		}
	}
	open := func(rel string) func(string) error {
		return func(broken string) error { return os.Chmod(filepath.Join(broken, rel), 0o644) }
	}
	for name, tc := range map[string]struct {
		damage func(broken string) error
		want   string // empty: no damage at all
	}{
		"pair of another authority": {replace("pki/apiserver.crt", "pki/apiserver.key"), "pki/apiserver.crt is not signed by"},
		"kubeconfig of another":     {replace("admin.kubeconfig"), "admin.kubeconfig holds a certificate that is not signed by"},
		"another authority":         {replace("pki/ca.crt", "pki/ca.key"), "pki/apiserver.crt is not signed by"},
		"another token key":         {replace("pki/sa.key"), "pki/sa.pub does not hold the public key of"},
		"all of the tokens' keys":   {replace("pki/sa.key", "pki/sa.pub"), ""},
		"readable key":              {open("pki/ca.key"), "pki/ca.key has mode 0644"},
		"readable kubeconfig":       {open("admin.kubeconfig"), "admin.kubeconfig has mode 0644"},
		"readable certificate":      {open("pki/ca.crt"), ""},
		"another key in the kubeconfig": {func(broken string) error {
			path := filepath.Join(broken, "admin.kubeconfig")
			config, err := clientcmd.LoadFromFile(path)
			if err != nil {
				return err
			}
			if config.AuthInfos[adminUser].ClientKeyData, err = os.ReadFile(filepath.Join(broken, "pki/sa.key")); err != nil {
				return err
			}
			return clientcmd.WriteToFile(*config, path)
		}, "admin.kubeconfig is corrupt: the key of kubernetes-admin does not fit"},
		"signature of the authority": {func(broken string) error {
			path := filepath.Join(broken, "pki/ca.crt")
			der := certOf(t, path).Raw
			der[len(der)-1] ^= 1
			return os.WriteFile(path, encodeCert(der), 0o600)
		}, "pki/ca.crt is corrupt"},
	} {
		t.Run(name, func(t *testing.T) {
			broken := copyOf(t, dir)
			if err := tc.damage(broken); err != nil {
				t.Fatal(err)
			}
			files, err := Ensure(broken, cfg)
			switch {
			case tc.want == "" && (err != nil || len(files.Changed) != 0):
				t.Errorf("refused: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

// Leaves and the kubeconfig come back when removed; an authority does not.
func TestRemovedFiles(t *testing.T) {
	dir, cfg := template(t)
	for _, rel := range []string{"pki/apiserver.crt", "pki/front-proxy-client.crt", "pki/etcd/server.crt", "pki/sa.pub", "admin.kubeconfig"} {
		broken := copyOf(t, dir)
		path := filepath.Join(broken, rel)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		files, err := Ensure(broken, cfg)
		if err != nil {
			t.Errorf("%s: %v", rel, err)
		} else if diff := cmp.Diff([]string{path}, files.Changed); diff != "" {
			t.Errorf("%s: changed files:\n%s", rel, diff)
		}
	}
	for _, rel := range []string{"pki/ca.crt", "pki/ca.key", "pki/front-proxy-ca.crt", "pki/etcd/ca.key", "pki/apiserver.key", "pki/sa.key"} {
		broken := copyOf(t, dir)
		path := filepath.Join(broken, rel)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		before := contents(t, broken)
		if _, err := Ensure(broken, cfg); err == nil || !strings.Contains(err.Error(), path+" is missing") {
			t.Errorf("%s: %v", rel, err)
		}
		if diff := cmp.Diff(before, contents(t, broken)); diff != "" {
			t.Errorf("%s: files were changed:\n%s", rel, diff)
		}
	}
	// Both halves of the authority are gone, and even every certificate: the kubeconfig still tells.
	broken := copyOf(t, dir)
	if err := os.RemoveAll(filepath.Join(broken, "pki")); err != nil {
		t.Fatal(err)
	}
	if _, err := Ensure(broken, cfg); err == nil || !strings.Contains(err.Error(), "ca.crt is missing although it signed") {
		t.Errorf("lost authority: %v", err)
	}
	// The remedy of that message works.
	if err := errors.Join(os.RemoveAll(filepath.Join(broken, "pki")), os.Remove(filepath.Join(broken, "admin.kubeconfig"))); err != nil {
		t.Fatal(err)
	}
	mustEnsure(t, broken, cfg)
}

// A law: whatever happens to the bytes of a file, Ensure either says so or works on with files that fit together, and
// never replaces an authority or a key.
func TestDamageLaw(t *testing.T) {
	dir, cfg := template(t)
	random := rand.New(rand.NewSource(1))
	rounds := 10
	if testing.Short() {
		rounds = 2
	}
	for _, rel := range regularFiles(t, dir) {
		original, err := os.ReadFile(filepath.Join(dir, rel))
		if err != nil {
			t.Fatal(err)
		}
		for range rounds {
			broken := copyOf(t, dir)
			data := append([]byte(nil), original...)
			if random.Intn(2) == 0 {
				data = data[:random.Intn(len(data))]
			} else {
				data[random.Intn(len(data))] ^= 1 << random.Intn(8)
			}
			if err := os.WriteFile(filepath.Join(broken, rel), data, 0o600); err != nil {
				t.Fatal(err)
			}
			before := contents(t, broken)
			files, err := Ensure(broken, cfg)
			after := contents(t, broken)
			for name := range before {
				if before[name] == after[name] {
					continue
				}
				if err != nil || name != "admin.kubeconfig" {
					t.Errorf("damage to %s changed %s (%v)", rel, name, err)
				}
			}
			if err == nil {
				if again, err := Ensure(broken, cfg); err != nil || len(again.Changed) != 0 {
					t.Errorf("damage to %s was accepted once (changed %v) and then not: %v", rel, files.Changed, err)
				}
			}
		}
	}
}
