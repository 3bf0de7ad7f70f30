package etcdclient

import (
	"path/filepath"
	"testing"

	"k8s.io/apiserver/pkg/storage/storagebackend"

	"proviso.dev/proviso/test/etcdtest"
)

// What connects reads and writes; a certificate that cannot be read is an error before anything is asked.
func TestConnect(t *testing.T) {
	etcd := etcdtest.Start(t)
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
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := Connect(storagebackend.TransportConfig{ServerList: etcd.Endpoints(), CertFile: missing, KeyFile: missing}); err == nil {
		t.Error("a certificate that does not exist is taken")
	}
}
