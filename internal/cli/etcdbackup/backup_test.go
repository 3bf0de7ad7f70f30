package etcdbackup

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/platform/localetcd"
	"proviso.dev/proviso/internal/platform/pki"
)

// limit bounds what must not hang; no test waits for it to pass.
const limit = 4 * time.Minute

// etcd is one that runs in a data directory.
type etcd struct {
	*clientv3.Client
	stop func()
}

func begin(t *testing.T, dir string) *etcd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	lock, err := pki.LockDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	e, err := localetcd.Start(ctx, localetcd.Config{Dir: filepath.Join(dir, "etcd")})
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: e.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	out := &etcd{client, func() {
		if !stopped {
			stopped = true
			_ = client.Close()
			e.Close()
			_ = lock.Release()
		}
	}}
	t.Cleanup(out.stop)
	return out
}

func (e *etcd) put(t *testing.T, key, value string) int64 {
	t.Helper()
	resp, err := e.Put(t.Context(), key, value)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

// values are all that is stored.
func (e *etcd) values(t *testing.T) map[string]string {
	t.Helper()
	resp, err := e.Get(t.Context(), "/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, kv := range resp.Kvs {
		all[string(kv.Key)] = string(kv.Value)
	}
	return all
}

// run is a command line, as main runs it.
func run(args ...string) (stdout, stderr string, err error) {
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	cmd := NewCommand(streams)
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(errOut)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(context.Background())
	return out.String(), errOut.String(), err
}

func mustRun(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	stdout, stderr, err := run(args...)
	if err != nil {
		t.Fatalf("snapshot %s: %v", strings.Join(args, " "), err)
	}
	return stdout, stderr
}

// shortDir is short, because the path of a unix socket is limited.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// TestNothingAcknowledgedIsLost saves while others write. What was acknowledged before the backup began is in it, what
// is in it was written, and there is no hole: writes are one after the other. // OP-3
func TestNothingAcknowledgedIsLost(t *testing.T) {
	root := shortDir(t)
	source, file := filepath.Join(root, "a"), filepath.Join(root, "backup.db")
	e := begin(t, source)
	var acknowledged atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := int64(1); ctx.Err() == nil; n++ {
			if _, err := e.Put(ctx, fmt.Sprintf("/n/%08d", n), strconv.FormatInt(n, 10)); err == nil {
				acknowledged.Store(n)
			}
		}
	}()
	for acknowledged.Load() < 200 {
		time.Sleep(time.Millisecond)
	}
	before := acknowledged.Load()
	mustRun(t, "save", file, "--data-dir", source)
	for acknowledged.Load() < before+200 { // it goes on being written meanwhile and afterwards
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-done
	e.stop()

	target := filepath.Join(root, "b")
	mustRun(t, "restore", file, "--data-dir", target)
	restored := begin(t, target).values(t)
	if int64(len(restored)) < before {
		t.Errorf("%d writes are in the backup, %d were acknowledged before it began", len(restored), before)
	}
	for n := 1; n <= len(restored); n++ {
		if restored[fmt.Sprintf("/n/%08d", n)] != strconv.Itoa(n) {
			t.Fatalf("write %d of %d is not in the backup", n, len(restored))
		}
	}
}

// TestBackAndForth saves from a server that runs and from one that does not, and goes back to both. // OP-3
func TestBackAndForth(t *testing.T) {
	root := shortDir(t)
	dir, first, second := filepath.Join(root, "d"), filepath.Join(root, "1.db"), filepath.Join(root, "2.db")
	e := begin(t, dir)
	e.put(t, "/a", "1")
	out, _ := mustRun(t, "save", first, "--data-dir", dir)
	if !strings.HasPrefix(out, "saved "+first+": revision 2, 1 keys, ") {
		t.Errorf("save says %q", out)
	}
	if info, err := os.Stat(first); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup is readable for others: %v %v", info.Mode(), err)
	}
	seen := e.put(t, "/a", "2")
	e.put(t, "/b", "2")
	if _, _, err := run("restore", first, "--data-dir", dir, "--discard-newer"); err == nil || !strings.Contains(err.Error(), "is in use: stop the server first") {
		t.Errorf("restored under a running server: %v", err)
	}
	e.stop()
	mustRun(t, "save", second, "--data-dir", dir)

	if _, _, err := run("restore", first, "--data-dir", dir); err == nil || !strings.Contains(err.Error(), "newer than the backup") || !strings.Contains(err.Error(), "--discard-newer") {
		t.Errorf("newer data was replaced: %v", err)
	}
	_, warned := mustRun(t, "restore", first, "--data-dir", dir, "--discard-newer")
	if !strings.Contains(warned, "The old data is in "+filepath.Join(dir, "etcd.replaced-")) || !strings.Contains(warned, "has no pki directory") {
		t.Errorf("restore says %q", warned)
	}
	e = begin(t, dir)
	if got := e.values(t); len(got) != 1 || got["/a"] != "1" {
		t.Errorf("restored %v", got)
	}
	if now := e.put(t, "/c", "3"); now <= seen {
		t.Errorf("revision %d after the restore: clients have seen %d", now, seen)
	}
	if watched := <-e.Watch(t.Context(), "/", clientv3.WithPrefix(), clientv3.WithRev(seen)); watched.CompactRevision == 0 {
		t.Errorf("a watch from before the restore goes on: %+v", watched)
	}
	e.stop()
	mustRun(t, "restore", second, "--data-dir", dir, "--discard-newer")
	if got := begin(t, dir).values(t); len(got) != 2 || got["/a"] != "2" {
		t.Errorf("restored %v", got)
	}
}

// TestStatusTellsWhatABackupHolds, for people and for scripts. // OP-3
func TestStatusTellsWhatABackupHolds(t *testing.T) {
	root := shortDir(t)
	dir, file := filepath.Join(root, "d"), filepath.Join(root, "b.db")
	begin(t, dir).put(t, "/a", "1")
	mustRun(t, "save", file, "--data-dir", dir)
	out, _ := mustRun(t, "status", file)
	if !strings.Contains(out, "REVISION   2\nKEYS       1\n") {
		t.Errorf("status says %q", out)
	}
	out, _ = mustRun(t, "status", file, "-o", "json")
	var b localetcd.Backup
	if err := json.Unmarshal([]byte(out), &b); err != nil || b.Revision != 2 || b.Keys != 1 || len(b.SHA256) != 64 {
		t.Errorf("status -o json says %q: %v", out, err)
	}
}

// TestWhatIsNoBackupIsRefused, before anything is touched. // OP-3
func TestWhatIsNoBackupIsRefused(t *testing.T) {
	root := shortDir(t)
	dir, good := filepath.Join(root, "d"), filepath.Join(root, "good.db")
	e := begin(t, dir)
	e.put(t, "/a", "1")
	mustRun(t, "save", good, "--data-dir", dir)
	e.stop()
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(text)
	flipped[len(flipped)/2] ^= 1
	for name, bad := range map[string][]byte{"empty": {}, "cut off": text[:len(text)-4096], "without a checksum": text[:len(text)-32], "flipped": flipped, "text": []byte("hello")} {
		file := filepath.Join(root, "bad.db")
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"status", file}, {"restore", file, "--data-dir", dir, "--discard-newer"}} {
			if _, _, err := run(args...); err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("%s: snapshot %s: %v", name, args[0], err)
			}
		}
	}
	if _, _, err := run("restore", filepath.Join(root, "none.db"), "--data-dir", filepath.Join(root, "new")); err == nil {
		t.Error("restored from nothing")
	}
	if _, err := os.Stat(filepath.Join(root, "new")); !os.IsNotExist(err) {
		t.Errorf("a directory was made for nothing: %v", err)
	}
	if _, _, err := run("save", good, "--data-dir", filepath.Join(root, "new")); err == nil || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("saved from nothing: %v", err)
	}
	for _, args := range [][]string{{"save"}, {"status"}, {"restore", "a", "b"}} {
		if _, _, err := run(args...); err == nil || !strings.Contains(err.Error(), "want one file") {
			t.Errorf("snapshot %v: %v", args, err)
		}
	}
	if got := begin(t, dir).values(t); len(got) != 1 {
		t.Errorf("the data has changed: %v", got)
	}
}

// TestAnInterruptedRestoreIsNoticed: the process died after it had moved the old data away. A server that started empty
// would have lost every deny. // OP-3
func TestAnInterruptedRestoreIsNoticed(t *testing.T) {
	root := shortDir(t)
	dir, file := filepath.Join(root, "d"), filepath.Join(root, "b.db")
	e := begin(t, dir)
	e.put(t, "/a", "1")
	mustRun(t, "save", file, "--data-dir", dir)
	e.stop()
	data := filepath.Join(dir, "etcd")
	if err := os.Rename(data, data+".replaced-x"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(data+".restored", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := localetcd.Start(t.Context(), localetcd.Config{Dir: data}); err == nil || !strings.Contains(err.Error(), "was interrupted: run `proviso backup restore` again") {
		t.Fatalf("started: %v", err)
	}
	mustRun(t, "restore", file, "--data-dir", dir)
	if got := begin(t, dir).values(t); got["/a"] != "1" {
		t.Errorf("restored %v", got)
	}
}
