package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// disk is a file system of its own that is small enough to fill: a tmpfs in a mount namespace, which takes no
// privileges where user namespaces are allowed. A process holds the namespace for as long as the test runs.
type disk struct {
	t      *testing.T
	holder *process
	// inside is where processes in the namespace see it, outside where the test does.
	inside, outside string
}

func smallDisk(t *testing.T, megabytes int) *disk {
	t.Helper()
	for _, tool := range []string{"unshare", "nsenter", "mount"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("a small disk takes %s(1): %v", tool, err)
		}
	}
	dir := tempDir(t)
	d := &disk{t: t, inside: dir}
	d.holder = spawn(t, "unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
		fmt.Sprintf("mount -t tmpfs -o size=%dm,mode=0700 tmpfs %s && echo mounted && exec sleep 100000", megabytes, dir))
	for !strings.Contains(d.holder.output.String(), "mounted") {
		select {
		case <-d.holder.done:
			t.Skipf("a small disk cannot be mounted here: %s", d.holder.output)
		default:
		}
	}
	d.outside = fmt.Sprintf("/proc/%d/root%s", d.holder.cmd.Process.Pid, dir)
	if _, err := os.ReadDir(d.outside); err != nil {
		t.Skipf("the small disk cannot be reached: %v", err)
	}
	return d
}

// launch starts a server in the namespace, with its data where the test says.
func (d *disk) launch(dataDir string, args ...string) *server {
	d.t.Helper()
	s := &server{dir: dataDir, port: freePort(d.t)}
	s.kubeconfig = filepath.Join(strings.Replace(dataDir, d.inside, d.outside, 1), "admin.kubeconfig")
	all := append([]string{"--target", fmt.Sprint(d.holder.cmd.Process.Pid), "--user", "--mount", "--preserve-credentials", "--",
		binary(d.t), "serve", "--data-dir", dataDir, "--secure-port", fmt.Sprint(s.port)}, args...)
	s.process = spawn(d.t, "nsenter", all...)
	return s
}

func (d *disk) serve(dataDir string, args ...string) *server {
	d.t.Helper()
	s := d.launch(dataDir, args...)
	s.await("readiness", func() bool { return strings.Contains(s.output.String(), "Ready in") })
	return s
}

// fill takes all that is left.
func (d *disk) fill() {
	d.t.Helper()
	f, err := os.OpenFile(filepath.Join(d.outside, "ballast"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			d.t.Fatal(err)
		}
	}
}

func (d *disk) makeRoom() {
	d.t.Helper()
	if err := os.Remove(filepath.Join(d.outside, "ballast")); err != nil {
		d.t.Fatal(err)
	}
}

// SV-8, SV-9: on a full disk the server ends or refuses writes, and says that the disk is full; it does not start on
// one, and says so; with room again it starts, and everything that was acknowledged is there.
func TestFullDisk(t *testing.T) {
	d := smallDisk(t, 64)
	dir := filepath.Join(d.inside, "d")
	s := d.serve(dir)
	c := s.caller()
	var acknowledged []string
	big := func(name string) m {
		return m{"metadata": m{"name": name}, "data": m{"k": strings.Repeat("x", 200<<10)}}
	}
	write := func(i int) bool {
		name := fmt.Sprintf("full-%d", i)
		code, _ := c.send("", "POST", configMaps, big(name))
		if code == http.StatusCreated {
			acknowledged = append(acknowledged, name)
		}
		return code == http.StatusCreated
	}
	for i := range 5 {
		if !write(i) {
			t.Fatal("a write fails before the disk is full")
		}
	}
	d.fill()
	failed := 0
	for i := 5; i < 1000 && failed < 3; i++ {
		if !write(i) {
			failed++
		}
	}
	if failed == 0 {
		t.Fatal("1,000 writes of 200 kB fit on a full disk")
	}
	if code := s.wait(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	// What it cannot store it cannot serve: it ends, with a line that says why.
	if out := s.output.String(); !strings.Contains(out, "no space left on device") || strings.Contains(out, "goroutine ") || strings.Count(out, "\nproviso: ") != 1 {
		t.Errorf("want one line that says that the disk is full:\n%s", out)
	}

	// It does not start on a full disk.
	d.fill()
	again := d.launch(dir)
	if code := again.wait(); code == 0 || !strings.Contains(again.output.String(), "no space left on device") {
		t.Errorf("a start on a full disk: exit code %d\n%s", code, again.output)
	} else if out := again.output.String(); strings.Contains(out, "goroutine ") || strings.Count("\n"+out, "\nproviso: ") != 1 {
		t.Errorf("want one line with the error:\n%s", out)
	}

	d.makeRoom()
	s = d.serve(dir)
	stored := s.kubectl("get", "configmaps", "-o", "jsonpath={.items[*].metadata.name}") + " "
	for _, name := range acknowledged {
		if !strings.Contains(stored, name+" ") {
			t.Errorf("%s was acknowledged and is lost", name)
		}
	}
	c = s.caller()
	if !write(2000) {
		t.Error("no write with room again")
	}
	t.Logf("%d writes acknowledged on the way to a full disk, none lost", len(acknowledged))
}

// DA-8, DA-11: a full disk below the spools loses events only of what it cannot hold, says how many, and holds up no
// request; with room again events are kept, and what was kept before arrives.
func TestFullSpoolDisk(t *testing.T) {
	d := smallDisk(t, 16)
	dir := tempDir(t) + "/d"
	flags := []string{"--audit-dynamic-allow-insecure-sinks", "--audit-dynamic-spool-dir", filepath.Join(d.inside, "spool")}
	s := d.serve(dir, flags...)
	c := s.caller()
	at := collect(t, false)
	at.down.Store(true)
	c.must("", "POST", auditClasses, writesOf("writes", "configmaps"))
	c.must("", "POST", auditSinks, sink("patient", at.webhook(), rule("writes", "Request")))
	s.kubectl("wait", "--for=condition=Active", "auditsink/patient", "--timeout=60s")
	c.must("before", "POST", configMaps, configMap("before"))
	d.fill()
	const n = 200
	for i := range n { // the last page of the segment may take a few of them
		id := fmt.Sprintf("lost-%d", i)
		c.must(id, "POST", configMaps, configMap(id))
	}
	dropped := func() string {
		return s.kubectl("get", "auditsink", "patient", "-o", "jsonpath={.status.dropped}")
	}
	s.await("the status to count what was dropped", func() bool { return dropped() != "" && dropped() != "0" })
	if out := s.kubectl("get", "--raw", "/metrics"); !strings.Contains(out, "proviso_audit_") || !strings.Contains(out, `reason="disk"`) {
		t.Errorf("the metrics do not tell why events were dropped")
	}
	d.makeRoom()
	c.must("after", "POST", configMaps, configMap("after"))
	at.down.Store(false)
	for _, id := range []string{"before", "after"} {
		s.await("event "+id, func() bool { return len(at.of(id)) > 0 })
	}
	arrived := 0
	for i := range n {
		arrived += min(1, len(at.of(fmt.Sprintf("lost-%d", i))))
	}
	s.await("the count to be exact", func() bool { return dropped() == fmt.Sprint(n-arrived) })
	t.Logf("%d of %d events fitted on the full disk, %s are counted as dropped", arrived, n, dropped())

	// Neither does it start on a full disk that has no spool yet: it could keep nothing.
	s.stop()
	d.fill()
	fresh := d.launch(tempDir(t)+"/d", "--audit-dynamic-spool-dir", filepath.Join(d.inside, "other"))
	if code := fresh.wait(); code == 0 || !strings.Contains(fresh.output.String(), "no space left on device") || strings.Count("\n"+fresh.output.String(), "\nproviso: ") != 1 {
		t.Errorf("a start without room for spools: exit code %d\n%s", code, fresh.output)
	}
}
