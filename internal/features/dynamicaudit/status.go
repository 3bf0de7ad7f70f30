package dynamicaudit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/features/dynamicaudit/sink"
	"proviso.dev/proviso/internal/platform/atomicfile"
	"proviso.dev/proviso/internal/state/selfclient"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/internal/state/statuswriter"
)

const (
	// countInterval is how often its figures are brought up to date; each time is a write.
	countInterval = 10 * time.Second
	// aliveInterval is how often a server reports that it is alive, and goneAfter is when the others drop one that does
	// not.
	aliveInterval = time.Hour
	goneAfter     = 24 * time.Hour
)

// sinkReporter writes what this server has done for each sink into the sink's status.
type sinkReporter struct {
	router *sink.Router
	sinks  snapshot.Objects
	client *rest.RESTClient
	// local are the sinks of namespaces, and policy is their client.
	local   snapshot.Objects
	policy  *rest.RESTClient
	events  corev1client.EventsGetter
	replica string
	counted map[string]time.Time
}

func newSinkReporter(router *sink.Router, from snapshot.Source, clients *selfclient.Clients, replica string) (*sinkReporter, error) {
	sinks, err := from.Objects(snapshot.AuditSinks)
	if err != nil {
		return nil, err
	}
	client, err := clients.Group(auditv1alpha1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	core, err := clients.Kubernetes()
	if err != nil {
		return nil, err
	}
	local, err := from.Objects(snapshot.NamespaceAuditSinks)
	if err != nil {
		return nil, err
	}
	policy, err := clients.Group(policyv1alpha1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	return &sinkReporter{router: router, sinks: sinks, local: local, policy: policy, client: client, events: core.CoreV1(), counted: map[string]time.Time{}, replica: replica}, nil
}

// replicaName is the name under which a server reports. Like the figures, it belongs to the spools: if it were that of
// the process, a restart at another address would count spooled events twice.
func replicaName(spoolDir, server string) (string, error) {
	path := filepath.Join(spoolDir, "replica")
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("name of this replica: %w", err)
	}
	if name := string(text); len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name, nil
	}
	name := server + "-" + rand.String(5)
	// A half-written name would be another replica's.
	if err := atomicfile.Replace(path, []byte(name), atomicfile.Options{}); err != nil {
		return "", fmt.Errorf("name of this replica: %w", err)
	}
	return name, nil
}

// Run implements feature.Runner.
func (r *sinkReporter) Run(ctx context.Context) {
	statuswriter.Keep(ctx, "audit sinks", func(ctx context.Context) error {
		var failed []error
		all := r.router.Status()
		r.forget(all)
		for _, s := range all {
			if err := r.report(ctx, s); err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", s.Name, err))
			}
		}
		return errors.Join(failed...)
	})
}

// forget drops what is known about sinks that are gone: users create and delete sinks of namespaces as they like.
func (r *sinkReporter) forget(remaining []sink.SinkStatus) {
	names := map[string]bool{}
	for _, s := range remaining {
		names[s.Name] = true
	}
	maps.DeleteFunc(r.counted, func(name string, _ time.Time) bool { return !names[name] })
}

// report writes the status of one sink, at once if its state has changed and otherwise when its figures are due.
func (r *sinkReporter) report(ctx context.Context, s sink.SinkStatus) error {
	sink, err := r.stored(s.Name)
	if err != nil || sink == nil || sink.UID != s.UID {
		return err
	}
	next := r.merge(sink, s)
	if reflect.DeepEqual(withoutTimes(sink.Status), withoutTimes(next.Status)) && r.heard(sink) {
		return nil
	}
	if sameState(sink.Status, next.Status) && time.Since(r.counted[s.Name]) < countInterval {
		return nil
	}
	r.counted[s.Name] = time.Now()
	before := sink
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		err := r.put(ctx, next)
		if !apierrors.IsConflict(err) {
			return err
		}
		current, failed := r.read(ctx, s.Name)
		if failed != nil {
			return failed
		}
		before, next = current, r.merge(current, s)
		return err
	})
	if err != nil {
		return err
	}
	return r.announce(ctx, before, next)
}

// heard reports whether the others know that this server is there.
func (r *sinkReporter) heard(sink *auditv1alpha1.AuditSink) bool {
	return slices.ContainsFunc(sink.Status.Replicas, func(x auditv1alpha1.AuditSinkReplicaStatus) bool {
		return x.Name == r.replica && time.Since(x.LastUpdate.Time) < aliveInterval
	})
}

// merge puts this replica's figures beside those of the others and adds them up.
func (r *sinkReporter) merge(sink *auditv1alpha1.AuditSink, s sink.SinkStatus) *auditv1alpha1.AuditSink {
	next := sink.DeepCopy()
	status := &next.Status
	own := auditv1alpha1.AuditSinkReplicaStatus{
		Name: r.replica, LastUpdate: metav1.Now(), Delivered: int64(s.Delivered), Spooled: int64(s.Spooled), Dropped: int64(s.Dropped),
		SetAside: int64(s.Drops.SetAside), LagSeconds: int64(s.Lag.Seconds()), LastError: s.LastError,
	}
	if s.LastError != "" {
		own.LastErrorTime = &metav1.Time{Time: s.LastErrorTime}
	}
	status.Replicas = slices.DeleteFunc(status.Replicas, func(x auditv1alpha1.AuditSinkReplicaStatus) bool {
		return x.Name == r.replica || time.Since(x.LastUpdate.Time) > goneAfter
	})
	status.Replicas = append(status.Replicas, own)
	slices.SortFunc(status.Replicas, func(a, b auditv1alpha1.AuditSinkReplicaStatus) int { return cmp.Compare(a.Name, b.Name) })

	status.ObservedGeneration = s.Generation
	status.MissingClasses = s.Missing
	status.CompiledRules = int32(s.Rules)
	status.Delivered, status.Spooled, status.Dropped, status.SetAside, status.LagSeconds, status.LastError, status.LastErrorTime = 0, 0, 0, 0, 0, "", nil
	for _, x := range status.Replicas {
		status.Delivered += x.Delivered
		status.Spooled += x.Spooled
		status.Dropped += x.Dropped
		status.SetAside += x.SetAside
		status.LagSeconds = max(status.LagSeconds, x.LagSeconds)
		if x.LastError != "" {
			status.LastError, status.LastErrorTime = x.LastError, x.LastErrorTime
		}
	}
	active := metav1.Condition{Type: auditv1alpha1.ConditionActive, Status: metav1.ConditionFalse, Reason: s.Reason, Message: s.Message, ObservedGeneration: s.Generation}
	if s.Active {
		active.Status, active.Reason = metav1.ConditionTrue, auditv1alpha1.ReasonActive
	}
	meta.SetStatusCondition(&status.Conditions, active)
	meta.SetStatusCondition(&status.Conditions, deliveringCondition(status, s))
	return next
}

// sameState compares what a person waits for, and leaves the figures out.
func sameState(a, b auditv1alpha1.AuditSinkStatus) bool {
	for _, kind := range []string{auditv1alpha1.ConditionActive, auditv1alpha1.ConditionDelivering} {
		if !sameCondition(meta.FindStatusCondition(a.Conditions, kind), meta.FindStatusCondition(b.Conditions, kind)) {
			return false
		}
	}
	return a.LastError == b.LastError && a.ObservedGeneration == b.ObservedGeneration &&
		(a.Dropped == 0) == (b.Dropped == 0) && (a.SetAside == 0) == (b.SetAside == 0)
}

func sameCondition(a, b *metav1.Condition) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// withoutTimes lets a status that only got older be equal to itself.
func withoutTimes(s auditv1alpha1.AuditSinkStatus) auditv1alpha1.AuditSinkStatus {
	s = *s.DeepCopy()
	s.LastErrorTime = nil
	for i := range s.Replicas {
		s.Replicas[i].LastUpdate, s.Replicas[i].LastErrorTime = metav1.Time{}, nil
	}
	return s
}
