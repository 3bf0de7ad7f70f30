package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/auditsink"
)

// DA-11: the figures of a replica replace its own of before, are added to those of others, and outlive neither a restart at
// another address nor a replica that is gone for good.
func TestSinkStatusOfReplicas(t *testing.T) {
	dir := t.TempDir()
	name, err := replicaName(dir, "apiserver-a")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := replicaName(dir, "apiserver-b"); err != nil || again != name {
		t.Errorf("after a restart the replica is %q, %v; it was %q", again, err, name)
	}
	if other, err := replicaName(t.TempDir(), "apiserver-a"); err != nil || other == name {
		t.Errorf("two replicas on one host are both %q, %v", other, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "replica"), []byte("../\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if repaired, err := replicaName(dir, "apiserver-a"); err != nil || repaired == "../\n" {
		t.Errorf("a damaged name gives %q, %v", repaired, err)
	}

	ago := func(d time.Duration) metav1.Time { return metav1.Time{Time: time.Now().Add(-d)} }
	r := &sinkReporter{replica: name}
	sink := &auditv1alpha1.AuditSink{Status: auditv1alpha1.AuditSinkStatus{Replicas: []auditv1alpha1.AuditSinkReplicaStatus{
		{Name: name, LastUpdate: ago(2 * aliveInterval), Spooled: 100},
		{Name: "alive", LastUpdate: ago(2 * aliveInterval), Spooled: 10, Delivered: 5},
		{Name: "gone", LastUpdate: ago(2 * goneAfter), Spooled: 1000},
	}}}
	if r.heard(sink) {
		t.Error("a report of two hours ago is taken as a sign of life")
	}
	next := r.merge(sink, auditsink.SinkStatus{Active: true, Spooled: 1, Delivered: 2})
	if s := next.Status; s.Spooled != 11 || s.Delivered != 7 || len(s.Replicas) != 2 {
		t.Errorf("status is %+v", s)
	}
	if !r.heard(next) {
		t.Error("a report of now is not taken as a sign of life")
	}
}
