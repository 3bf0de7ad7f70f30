package dynamicaudit

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/features/dynamicaudit/sink"
)

// DA-11: the figures of a replica replace its own of before, are added to those of others, and outlive neither a
// restart at another address nor a replica that is gone for good.
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
	stored := &auditv1alpha1.AuditSink{Status: auditv1alpha1.AuditSinkStatus{Replicas: []auditv1alpha1.AuditSinkReplicaStatus{
		{Name: name, LastUpdate: ago(2 * aliveInterval), Spooled: 100},
		{Name: "alive", LastUpdate: ago(2 * aliveInterval), Spooled: 10, Delivered: 5},
		{Name: "gone", LastUpdate: ago(2 * goneAfter), Spooled: 1000},
	}}}
	if r.heard(stored) {
		t.Error("a report of two hours ago is taken as a sign of life")
	}
	next := r.merge(stored, sink.SinkStatus{Active: true, Spooled: 1, Delivered: 2})
	if s := next.Status; s.Spooled != 11 || s.Delivered != 7 || len(s.Replicas) != 2 {
		t.Errorf("status is %+v", s)
	}
	if !r.heard(next) {
		t.Error("a report of now is not taken as a sign of life")
	}
}

// DA-8, DA-11: the status says while deliveries fail on any replica, and what the receiver refused; a change of that is
// an Event.
func TestSinkStatusDelivering(t *testing.T) {
	r := &sinkReporter{replica: "this"}
	now := metav1.Now()
	failing := sink.SinkStatus{Active: true, LastError: "connection refused", LastErrorTime: now.Time}
	working := sink.SinkStatus{Active: true, Dropped: 3, Drops: sink.Drops{SetAside: 2, Full: 1}}
	other := func(lastError string) *auditv1alpha1.AuditSink {
		return &auditv1alpha1.AuditSink{Status: auditv1alpha1.AuditSinkStatus{Replicas: []auditv1alpha1.AuditSinkReplicaStatus{{Name: "other", LastUpdate: now, LastError: lastError, SetAside: 5}}}}
	}
	for name, tc := range map[string]struct {
		before *auditv1alpha1.AuditSink
		after  sink.SinkStatus
		want   metav1.ConditionStatus
		event  string
	}{
		"a new sink that works":          {other(""), working, "True", ""},
		"a new sink that fails":          {other(""), failing, "False", "Warning"},
		"another replica fails":          {other("no route"), working, "False", "Warning"},
		"it begins to fail":              {r.merge(other(""), working), failing, "False", "Warning"},
		"it goes on failing":             {r.merge(other(""), failing), failing, "False", ""},
		"it works again":                 {r.merge(other(""), failing), working, "True", "Normal"},
		"it works again, not everywhere": {r.merge(other("no route"), failing), working, "False", ""},
		"it is switched off":             {r.merge(other(""), working), sink.SinkStatus{}, "Unknown", ""},
	} {
		after := r.merge(tc.before, tc.after)
		is := meta.FindStatusCondition(after.Status.Conditions, auditv1alpha1.ConditionDelivering)
		event := ""
		if e := deliveringEvent(meta.FindStatusCondition(tc.before.Status.Conditions, auditv1alpha1.ConditionDelivering), is); e != nil {
			event = e.Type
		}
		if is == nil || is.Status != tc.want || event != tc.event {
			t.Errorf("%s: %+v, event %q; want %s, %q", name, is, event, tc.want, tc.event)
		}
		if tc.after.Drops.SetAside > 0 && after.Status.SetAside != 7 {
			t.Errorf("%s: %d events are set aside, want 7", name, after.Status.SetAside)
		}
	}
}

// DA-11: what is remembered of sinks ends with them.
func TestSinksThatAreGone(t *testing.T) {
	r := &sinkReporter{counted: map[string]time.Time{"stays": time.Now(), "team/gone": time.Now()}}
	r.forget([]sink.SinkStatus{{Name: "stays"}, {Name: "new"}})
	if _, stays := r.counted["stays"]; !stays || len(r.counted) != 1 {
		t.Errorf("remembered are %v", r.counted)
	}
}
