package localetcd

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"

	"proviso.dev/proviso/internal/platform/pki"
)

// limit bounds what must not hang; no test waits for it to pass.
const limit = 4 * time.Minute

func start(t *testing.T, cfg Config) *Etcd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	e, err := Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func dial(t *testing.T, e *Etcd) *clientv3.Client {
	t.Helper()
	cfg := clientv3.Config{Endpoints: e.Endpoints(), Logger: zap.NewNop()}
	if files := e.ClientTLS(); files.CACert != "" {
		info := transport.TLSInfo{CertFile: files.ClientCert, KeyFile: files.ClientKey, TrustedCAFile: files.CACert}
		var err error
		if cfg.TLS, err = info.ClientConfig(); err != nil {
			t.Fatal(err)
		}
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func put(t *testing.T, c *clientv3.Client, key, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if _, err := c.Put(ctx, key, value); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, c *clientv3.Client, key string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	resp, err := c.Get(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return ""
	}
	return string(resp.Kvs[0].Value)
}

// longDir returns a directory whose socket would have a path the kernel refuses.
func longDir(t *testing.T) string {
	return filepath.Join(t.TempDir(), strings.Repeat("long", 25), "etcd")
}

// SV-1: the store survives a restart, also one from another place, and Close does not wait for watches.
func TestRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	// etcd itself waits 5 s for the watch, every time. A busy machine is as slow now and then.
	for attempt, took := 0, time.Hour; took > 4*time.Second; attempt++ {
		if attempt == 5 {
			t.Fatalf("closing took %v in the end", took)
		}
		e := start(t, Config{Dir: dir})
		client := dial(t, e)
		put(t, client, "/a", "1")
		watch := client.Watch(context.Background(), "/a", clientv3.WithCreatedNotify())
		<-watch
		began := time.Now()
		e.Close()
		took = time.Since(began)
		select {
		case err := <-e.Err():
			t.Errorf("a wanted end is reported: %v", err)
		default:
		}
	}
	moved := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	again := start(t, Config{Dir: moved})
	if got := get(t, dial(t, again), "/a"); got != "1" {
		t.Errorf("after a restart: %q", got)
	}
}

// SV-1: a stale socket of a killed process is in nobody's way, and the files are private.
func TestStaleSocketAndModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, socketName), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	e := start(t, Config{Dir: dir})
	put(t, dial(t, e), "/a", "1")
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, socketName): 0o600, filepath.Join(dir, "member"): 0o700} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o", path, got)
		}
	}
	if size := usage(t, dir); size > 40<<20 {
		t.Errorf("an empty store takes %d MB", size>>20)
	}
}

func usage(t *testing.T, dir string) (size int64) {
	t.Helper()
	err := filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// SV-1: where no unix socket is possible, a port of the loopback interface is used, and only with a client certificate
// of this store's own authority.
func TestLoopbackNeedsCertificate(t *testing.T) {
	dataDir := t.TempDir()
	files, err := pki.Ensure(dataDir, pki.Config{Port: 6443})
	if err != nil {
		t.Fatal(err)
	}
	certs := TLS{CACert: files.EtcdCACert, ServerCert: files.EtcdServerCert, ServerKey: files.EtcdServerKey,
		ClientCert: files.EtcdClientCert, ClientKey: files.EtcdClientKey}
	e := start(t, Config{Dir: longDir(t), TLS: certs})
	if !strings.HasPrefix(e.Endpoints()[0], "https://127.0.0.1:") {
		t.Fatalf("endpoint %s", e.Endpoints()[0])
	}
	client := dial(t, e)
	put(t, client, "/a", "1")
	if got := get(t, client, "/a"); got != "1" {
		t.Errorf("got %q", got)
	}
	for name, info := range map[string]transport.TLSInfo{
		"":                        {TrustedCAFile: files.EtcdCACert, CertFile: files.EtcdClientCert, KeyFile: files.EtcdClientKey},
		"no certificate":          {TrustedCAFile: files.EtcdCACert},
		"that of the API clients": {TrustedCAFile: files.EtcdCACert, CertFile: files.KubeletClientCert, KeyFile: files.KubeletClientKey},
		"that of the proxy":       {TrustedCAFile: files.EtcdCACert, CertFile: files.ProxyClientCert, KeyFile: files.ProxyClientKey},
	} {
		cfg, err := info.ClientConfig()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := tls.Dial("tcp", strings.TrimPrefix(e.Endpoints()[0], "https://"), cfg)
		if err == nil {
			// The server's answer arrives with the first answer.
			_, err = io.WriteString(conn, "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
			if err == nil {
				_, err = conn.Read(make([]byte, 1))
			}
			_ = conn.Close()
		}
		if (err == nil) != (name == "") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := Start(context.Background(), Config{Dir: longDir(t)}); err == nil || !strings.Contains(err.Error(), "choose a data dir with a shorter") {
		t.Errorf("without certificates: %v", err)
	}
}

// Paths that a list of URLs cannot carry are not used for sockets.
func TestChooseListener(t *testing.T) {
	certs := TLS{"a", "b", "c", "d", "e"}
	parent := t.TempDir()
	for name, wantSecure := range map[string]bool{"plain-1.2_3": false, "with space": true, "comma,": true, "q?": true, "h#": true, "p%41": true, "ümlaut": true} {
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		got, err := chooseListener(dir, certs)
		if err != nil || got.secure() != wantSecure {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if entries, _ := os.ReadDir(dir); len(entries) != 0 {
			t.Errorf("%s: %v is left behind", name, entries)
		}
	}
	for n, wantErr := range map[int]bool{longestSocket: false, longestSocket + 1: true} {
		dir, err := os.MkdirTemp("", "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, strings.Repeat("x", n-len(dir)-1))
		if err := trySocket(path); (err != nil) != wantErr {
			t.Errorf("a path of %d bytes: %v", n, err)
		}
	}
}

// SV-1: a store that cannot be read is one error that names it, not a panic and not an empty store.
func TestDamagedStore(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "etcd")
	e := start(t, Config{Dir: whole})
	put(t, dial(t, e), "/a", "1")
	e.Close()
	for name, damage := range map[string]func(dir string) error{
		"database": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "member/snap/db"), []byte(strings.Repeat("garbage", 10000)), 0o600)
		},
		"log": func(dir string) error {
			logs, err := filepath.Glob(filepath.Join(dir, "member/wal/*.wal"))
			if err != nil || len(logs) != 1 {
				return fmt.Errorf("%v, %v", logs, err)
			}
			return os.WriteFile(logs[0], []byte(strings.Repeat("garbage!", 1000)), 0o600)
		},
		"truncated database": func(dir string) error {
			return os.Truncate(filepath.Join(dir, "member/snap/db"), int64(3*os.Getpagesize()))
		},
		"no log": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "member/wal")) },
		"not a directory": func(dir string) error {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			return os.WriteFile(dir, nil, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "etcd")
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			if err := damage(dir); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			e, err := Start(ctx, Config{Dir: dir})
			if err == nil {
				got := get(t, dial(t, e), "/a")
				e.Close()
				t.Fatalf("started, and /a is %q", got)
			}
			if !strings.Contains(err.Error(), dir) || strings.ContainsAny(err.Error(), "\n") {
				t.Errorf("not one line that names the directory: %v", err)
			}
			t.Log(err)
		})
	}
}

// A context that has ended stops the start, and leaves the directory usable.
func TestStartCancelled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if e, err := Start(ctx, Config{Dir: dir}); err == nil {
		e.Close() // the race between ready and cancelled may be won by ready
	}
	put(t, dial(t, start(t, Config{Dir: dir})), "/a", "1")
}

// An end that nobody asked for is reported, so that the server does not go on without its store.
func TestUnexpectedEnd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	e := start(t, Config{Dir: dir})
	e.embedded.Server.Stop()
	select {
	case err := <-e.Err():
		if err == nil || !strings.Contains(err.Error(), dir+" stopped unexpectedly") {
			t.Error(err)
		}
	case <-time.After(limit):
		t.Error("nothing is reported")
	}
}

// unfinished makes what a process leaves behind that is killed between creating its log and writing the first entry.
func unfinished(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "etcd")
	if err := os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700); err != nil {
		t.Fatal(err)
	}
	log, err := wal.Create(zap.NewNop(), filepath.Join(dir, "member", "wal"), []byte{8, 1, 16, 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// SV-1: an unfinished first start is finished by the next one.
func TestUnfinishedFirstStart(t *testing.T) {
	dir := unfinished(t)
	e := start(t, Config{Dir: dir})
	put(t, dial(t, e), "/a", "1")
	e.Close()
	if got := get(t, dial(t, start(t, Config{Dir: dir})), "/a"); got != "1" {
		t.Errorf("got %q", got)
	}
}

// An etcd that does not become ready can be closed all the same.
func TestCloseBeforeReady(t *testing.T) {
	e := &Etcd{dir: unfinished(t), errs: make(chan error, 1), closing: make(chan struct{}), log: newJournal()}
	where, err := chooseListener(e.dir, TLS{})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.startEmbedded(e.options(Config{Dir: e.dir}, where)); err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() { defer close(closed); e.Close() }()
	select {
	case <-closed:
	case <-time.After(limit):
		t.Fatal("does not close")
	}
}

// The log alone holds every write until the database has caught up: it must not be taken for an unfinished start.
func TestLogWithoutDatabase(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	e := start(t, Config{Dir: dir})
	put(t, dial(t, e), "/a", "1")
	e.Close()
	if err := os.Remove(filepath.Join(dir, "member", "snap", "db")); err != nil {
		t.Fatal(err)
	}
	if got := get(t, dial(t, start(t, Config{Dir: dir})), "/a"); got != "1" {
		t.Errorf("got %q", got)
	}
}
