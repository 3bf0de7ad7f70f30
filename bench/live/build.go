package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// Binaries are the programs that are measured, built from the modules of the benchmark, which are those of the product.
type Binaries struct {
	Proviso, APIServer, Etcd string

	dir, version string
}

const module, kubernetes = "proviso.dev/proviso/bench", "k8s.io/kubernetes"

// Build builds them into the user's cache, where the next run finds them if nothing has changed.
func Build(ctx context.Context) (Binaries, error) {
	if out, err := exec.CommandContext(ctx, "go", "list", "-m").Output(); err != nil || strings.TrimSpace(string(out)) != module {
		return Binaries{}, errors.New("the servers are built from the directory bench: run `make bench` or `go -C bench run .`")
	}
	version, err := kubernetesVersion()
	if err != nil {
		return Binaries{}, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return Binaries{}, err
	}
	dir := filepath.Join(cache, "proviso-bench")
	bins := Binaries{dir: dir, version: version, Proviso: filepath.Join(dir, "proviso"), APIServer: filepath.Join(dir, "kube-apiserver"), Etcd: filepath.Join(dir, "etcd")}
	for _, b := range []struct{ path, pkg string }{
		{bins.Proviso, "proviso.dev/proviso/cmd/proviso"}, {bins.APIServer, kubernetes + "/cmd/kube-apiserver"}, {bins.Etcd, "go.etcd.io/etcd/server/v3"},
	} {
		if err := bins.build(ctx, b.path, b.pkg); err != nil {
			return bins, err
		}
	}
	return bins, nil
}

func (b Binaries) build(ctx context.Context, path, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", versionFlags(b.version), "-o", path, pkg)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, out.String())
	}
	return nil
}

// controllerManager builds kube-controller-manager, which one measure needs.
func (b Binaries) controllerManager(ctx context.Context) (string, error) {
	path := filepath.Join(b.dir, "kube-controller-manager")
	return path, b.build(ctx, path, kubernetes+"/cmd/kube-controller-manager")
}

// versionFlags are what upstream's release builds set; clients refuse a server without a version.
func versionFlags(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	var flags []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags, fmt.Sprintf("-X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s", pkg, version, parts[0], parts[1]))
	}
	return strings.Join(flags, " ")
}

func kubernetesVersion() (string, error) {
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, dep := range info.Deps {
			if dep.Path == kubernetes {
				return dep.Version, nil
			}
		}
	}
	return "", fmt.Errorf("this program was built without %s in its module list", kubernetes)
}
