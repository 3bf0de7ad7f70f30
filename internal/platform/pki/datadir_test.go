package pki

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const childEnv = "PROVISO_TEST_LOCK_DIR"

// TestMain lets the test binary pose as another process that holds a data directory.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if _, err := LockDataDir(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("locked")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// SV-1: a data dir in use by another process is an error that names it, and is free again once that is killed.
func TestLockAgainstOtherProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+dir)
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(stdout).ReadString('\n'); line != "locked\n" {
		t.Fatalf("the other process says %q", line)
	}
	want := "is in use by process " + strconv.Itoa(child.Process.Pid)
	if _, err := LockDataDir(dir); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	lock, err := LockDataDir(dir)
	if err != nil {
		t.Fatalf("after the other process was killed: %v", err)
	}
	if lock.Dir() != dir || mode(t, dir) != 0o700 {
		t.Errorf("dir %s, mode %o", lock.Dir(), mode(t, dir))
	}
	// A second lock of the same process is refused as well, and possible after a release.
	if _, err := LockDataDir(dir); err == nil || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("locked twice: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := LockDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}

// SV-1: the data dir is private; a shared directory named by mistake is left alone.
func TestDataDirPermissions(t *testing.T) {
	own := t.TempDir()
	lock, err := LockDataDir(own)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	empty, shared := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(shared, "something"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{own, empty, shared} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{own, empty} {
		lock, err := LockDataDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := mode(t, dir); got != 0o700 {
			t.Errorf("mode %o", got)
		}
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
	}
	if _, err := LockDataDir(shared); err == nil || !strings.Contains(err.Error(), "has mode 0755 and holds other files") {
		t.Errorf("shared directory: %v", err)
	}
	if got := mode(t, shared); got != 0o755 {
		t.Errorf("the shared directory was changed to mode %o", got)
	}
	if err := os.Chmod(shared, 0o700); err != nil {
		t.Fatal(err)
	}
	if lock, err = LockDataDir(shared); err != nil {
		t.Errorf("after the remedy: %v", err)
	} else if err := lock.Release(); err != nil {
		t.Error(err)
	}
}

func TestDataDirRefusals(t *testing.T) {
	if _, err := LockDataDir(""); err == nil {
		t.Error("an empty name is accepted")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below"), "/proc/self/proviso-data"} {
		if _, err := LockDataDir(dir); err == nil || !strings.Contains(err.Error(), dir+" cannot be created") {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if os.Geteuid() == 0 {
		foreign := t.TempDir()
		if err := os.Chown(foreign, 12345, -1); err != nil {
			t.Fatal(err)
		}
		if _, err := LockDataDir(foreign); err == nil || !strings.Contains(err.Error(), "belongs to user id 12345") {
			t.Errorf("foreign directory: %v", err)
		}
		return
	}
	readOnly := t.TempDir()
	if err := os.Chmod(readOnly, 0o500); err != nil {
		t.Fatal(err)
	}
	if _, err := LockDataDir(readOnly); err == nil || !strings.Contains(err.Error(), "is not writable") {
		t.Errorf("read-only directory: %v", err)
	}
}
