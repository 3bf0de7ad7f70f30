package localetcd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sockets returns the inodes of this process's sockets.
func sockets(t *testing.T) map[string]bool {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(links) == 0 {
		t.Skip("no /proc to look at")
	}
	out := map[string]bool{}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err == nil && strings.HasPrefix(target, "socket:[") {
			out[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = true
		}
	}
	return out
}

// listening returns where this process accepts connections: ports as "tcp", unix sockets by path.
func listening(t *testing.T) map[string]bool {
	t.Helper()
	own := sockets(t)
	out := map[string]bool{}
	for _, table := range []string{"tcp", "tcp6"} {
		for _, fields := range rows(t, table) {
			// sl local remote state ... inode at 9; 0A is LISTEN
			if len(fields) > 9 && fields[3] == "0A" && own[fields[9]] {
				out["tcp"] = true
			}
		}
	}
	for _, fields := range rows(t, "unix") {
		// num refcount protocol flags type state inode path; flag 0x10000 is "accepts connections"
		if len(fields) > 6 && fields[3] == "00010000" && own[fields[6]] {
			out[strings.Join(fields[7:], " ")] = true
		}
	}
	return out
}

func rows(t *testing.T, table string) (out [][]string) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/net/" + table)
	if err != nil {
		t.Skip(err)
	}
	for _, line := range strings.Split(string(data), "\n")[1:] {
		out = append(out, strings.Fields(line))
	}
	return out
}

// SV-1: the store is reachable by nobody else: no port, no abstract socket, nothing outside its private directory.
func TestReachableByNobodyElse(t *testing.T) {
	before := listening(t)
	dir := filepath.Join(t.TempDir(), "etcd")
	e := start(t, Config{Dir: dir})
	put(t, dial(t, e), "/a", "1")
	var added []string
	for where := range listening(t) {
		if !before[where] {
			added = append(added, where)
		}
	}
	if want := filepath.Join(dir, socketName); len(added) != 1 || added[0] != want {
		t.Errorf("listens on %q, want only %s", added, want)
	}
	e.Close()
	for where := range listening(t) {
		if !before[where] {
			t.Errorf("still listens on %s", where)
		}
	}
}
