package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/v1beta4"
	"sigs.k8s.io/yaml"
)

const deploy = "../../deploy"

// TestUnit: systemd accepts the unit and finds it hardened, and the server says that it is ready as the unit expects.
// // OP-2
func TestUnit(t *testing.T) {
	unit := read(t, deploy+"/systemd/proviso.service")
	var line string
	for _, l := range strings.Split(unit, "\n") {
		if rest, ok := strings.CutPrefix(l, "ExecStart="); ok {
			line = rest
		}
	}
	dir := tempDir(t)
	t.Run("systemd", func(t *testing.T) {
		analyze, err := exec.LookPath("systemd-analyze")
		if err != nil {
			t.Skip("systemd-analyze is not installed: nothing was checked")
		}
		file := filepath.Join(dir, "proviso.service")
		here := strings.ReplaceAll(unit, "/usr/local/bin/proviso", binary(t))
		if err := os.WriteFile(file, []byte(here), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(analyze, "verify", "--man=no", file).CombinedOutput(); err != nil || strings.Contains(string(out), "proviso.service:") {
			t.Errorf("systemd-analyze verify: %v\n%s", err, out)
		}
		if out, err := exec.Command(analyze, "security", "--no-pager", "--offline=true", "--threshold=20", file).CombinedOutput(); err != nil {
			t.Errorf("systemd-analyze security: an exposure of more than 2.0: %v\n%s", err, out)
		}
	})
	socket := filepath.Join(dir, "notify")
	notified, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer notified.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	args := strings.Fields(line)
	if args[0] != "/usr/local/bin/proviso" {
		t.Fatalf("ExecStart is %q", line)
	}
	p := spawn(t, binary(t), replaced(args[1:], "/var/lib/proviso", filepath.Join(dir, "d"), "6443", fmt.Sprint(freePort(t)))...)
	if err := notified.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 256)
	n, err := notified.Read(text)
	if err != nil || !bytes.Contains(text[:n], []byte("READY=1")) {
		t.Errorf("the server told systemd %q: %v\n%s", text[:n], err, p.output)
	}
}

func replaced(args []string, pairs ...string) []string {
	r, out := strings.NewReplacer(pairs...), make([]string, len(args))
	for i, arg := range args {
		out[i] = r.Replace(arg)
	}
	return out
}

// TestManifests: what a kubelet and kubeadm are given is what they know, and its flags are the server's. // OP-2
func TestManifests(t *testing.T) {
	var pod, patch corev1.Pod
	strictly(t, read(t, deploy+"/static-pod/proviso.yaml"), &pod)
	strictly(t, read(t, deploy+"/kubeadm/patches/kube-apiserver0+strategic.yaml"), &patch)
	if c := patch.Spec.Containers; len(c) != 1 || c[0].Name != "kube-apiserver" || len(c[0].Command) > 0 {
		t.Errorf("the patch has to change the image of kube-apiserver and nothing else: %+v", c)
	}
	known(t, pod.Spec.Containers[0].Command[1:])

	first, second, _ := strings.Cut(read(t, deploy+"/kubeadm/cluster.yaml"), "\n---\n")
	var start v1beta4.InitConfiguration
	var cluster v1beta4.ClusterConfiguration
	strictly(t, first, &start)
	strictly(t, second, &cluster)
	if start.Patches == nil || start.Patches.Directory != "patches" {
		t.Errorf("kubeadm is not told of the patches: %+v", start.Patches)
	}
	flags := []string{"serve"}
	for _, arg := range cluster.APIServer.ExtraArgs {
		flags = append(flags, "--"+arg.Name+"="+arg.Value)
	}
	known(t, flags)
}

func strictly(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Error(err)
	}
}

// known fails if the server does not know one of the flags.
func known(t *testing.T, args []string) {
	t.Helper()
	if out, err := exec.Command(binary(t), append(args, "--help")...).CombinedOutput(); err != nil {
		t.Errorf("proviso %v: %v\n%s", args, err, out)
	}
}

// TestCompose starts the processes of the compose file, with its flags, on this machine: three etcd and two replicas
// with one PKI, which know the same. // OP-2
func TestCompose(t *testing.T) {
	t.Parallel()
	var file struct {
		Services map[string]struct {
			Command []string
			Volumes []string
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, deploy+"/compose/compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	dir := tempDir(t)
	var hosts []string
	for _, name := range []string{"etcd1", "etcd2", "etcd3"} {
		hosts = append(hosts, name+":2379", fmt.Sprintf("127.0.0.1:%d", freePort(t)), name+":2380", fmt.Sprintf("127.0.0.1:%d", freePort(t)))
	}
	for i, name := range []string{"etcd1", "etcd2", "etcd3"} {
		own := []string{"/data", filepath.Join(dir, name), "0.0.0.0:2379", hosts[4*i+1], "0.0.0.0:2380", hosts[4*i+3]}
		spawn(t, builtEtcd(t), replaced(file.Services[name].Command[1:], append(own, hosts...)...)...)
	}
	var servers []*server
	for _, name := range []string{"proviso1", "proviso2"} {
		s := &server{dir: filepath.Join(dir, name), port: freePort(t)}
		s.kubeconfig = filepath.Join(s.dir, "admin.kubeconfig")
		for _, volume := range file.Services[name].Volumes {
			from, to, _ := strings.Cut(volume, ":")
			mount(t, filepath.Join(dir, from), strings.Replace(to, "/var/lib/proviso", s.dir, 1))
		}
		own := []string{"/var/lib/proviso", s.dir, "0.0.0.0", "127.0.0.1", "6443", fmt.Sprint(s.port)}
		s.process = spawn(t, binary(t), replaced(file.Services[name].Command[1:], append(own, hosts...)...)...)
		s.await("readiness", func() bool { return strings.Contains(s.output.String(), "Ready in") })
		servers = append(servers, s)
	}
	servers[0].kubectl("create", "namespace", "one")
	servers[1].kubectl("get", "namespace", "one")
}

// mount puts a directory where a container would have it: a link, or the directory itself.
func mount(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(from, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(from, to); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
}
