// Package etcdtest starts an etcd for a test.
package etcdtest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"proviso.dev/proviso/internal/platform/localetcd"
)

// Start starts an etcd that ends with the test.
func Start(t testing.TB) *localetcd.Etcd {
	t.Helper()
	dir, err := os.MkdirTemp("", "pv") // short, because the path of a unix socket is limited to 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	etcd, err := localetcd.Start(context.Background(), localetcd.Config{Dir: filepath.Join(dir, "etcd")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	return etcd
}

// Client connects to an etcd of its own.
func Client(t testing.TB) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: Start(t).Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}
