package localetcd

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const socketName = "client.sock"

// longestSocket is the longest path the kernel takes for a socket.
const longestSocket = len(syscall.RawSockaddrUnix{}.Path) - 1

// listener is where etcd listens for clients.
type listener struct{ url url.URL }

func (l listener) secure() bool { return l.url.Scheme == "https" }

// chooseListener prefers a unix socket. The choice may differ between starts; the data does not depend on it.
func chooseListener(dir string, tls TLS) (listener, error) {
	path := filepath.Join(dir, socketName)
	problem := trySocket(path)
	if problem == nil {
		return listener{url.URL{Scheme: "unix", Path: path}}, nil
	}
	if !tls.complete() {
		return listener{}, fmt.Errorf("etcd cannot listen on the unix socket %s (%w) and has no certificates to use a port instead; choose a data dir with a shorter or simpler path", path, problem)
	}
	// The kernel picks a free port, so that no other process can take it first.
	return listener{url.URL{Scheme: "https", Host: "127.0.0.1:0"}}, nil
}

// trySocket finds out whether clients can reach a socket of that path, and leaves none behind.
func trySocket(path string) error {
	if len(path) > longestSocket {
		return fmt.Errorf("its path has %d bytes, the limit is %d", len(path), longestSocket)
	}
	// Clients find the socket by a URL in a comma-separated list.
	if i := strings.IndexFunc(path, func(r rune) bool { return !plain(r) }); i >= 0 {
		return fmt.Errorf("its path holds %q", []rune(path[i:])[0])
	}
	// What a killed process left behind would block the path; nobody listens there, the caller owns the directory.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	return l.Close()
}

func plain(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+=~", r)
}

// protect closes the socket itself to others; the directory is closed already.
func (l listener) protect() error {
	if l.secure() {
		return nil
	}
	return os.Chmod(l.url.Path, 0o600)
}

func (l listener) endpoint(addr net.Addr) string {
	if l.secure() {
		return "https://" + addr.String()
	}
	return "unix://" + l.url.Path
}
