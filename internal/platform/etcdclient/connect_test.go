package etcdclient

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apiserver/pkg/storage/storagebackend"

	"proviso.dev/proviso/internal/platform/localetcd"
)

// What connects reads and writes; a certificate that cannot be read is an error before anything is asked.
func TestConnect(t *testing.T) {
	dir, err := os.MkdirTemp("", "pv") // the path of a unix socket is limited to 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	etcd, err := localetcd.Start(context.Background(), localetcd.Config{Dir: filepath.Join(dir, "etcd")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	client, err := Connect(storagebackend.TransportConfig{ServerList: etcd.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if _, err := client.Put(t.Context(), "a", "b"); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Get(t.Context(), "a"); err != nil || got.Count != 1 || string(got.Kvs[0].Value) != "b" {
		t.Errorf("read %v, %v", got, err)
	}
	missing := filepath.Join(dir, "missing")
	if _, err := Connect(storagebackend.TransportConfig{ServerList: etcd.Endpoints(), CertFile: missing, KeyFile: missing}); err == nil {
		t.Error("a certificate that does not exist is taken")
	}
}
