package apiserver

import "testing"

// A server with an embedded etcd is its own successor, after kill -9 too.
func TestEmbeddedEtcdHasOneIdentity(t *testing.T) {
	alone, replica := NewOptions(), NewOptions()
	if a, b := alone.identity(), alone.identity(); a != b {
		t.Errorf("%q and %q", a, b)
	}
	replica.changed = func(name string) bool { return name == "etcd-servers" }
	if a, b := replica.identity(), replica.identity(); a == b {
		t.Errorf("two replicas have one identity: %q", a)
	}
}
