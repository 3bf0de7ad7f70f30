package selfclient

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"proviso.dev/proviso/internal/state/policycodec"
)

// Events tells people who look at an object with `kubectl describe`, or at the events of its namespace, what is wrong
// with it. A reader of events may not be allowed to read the object: a message names what it is about and never
// quotes it.
type Events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

// NewEvents keeps what it is told for itself until it is started.
func NewEvents() *Events {
	broadcaster := record.NewBroadcaster()
	return &Events{broadcaster: broadcaster, recorder: broadcaster.NewRecorder(policycodec.Scheme, corev1.EventSource{Component: "proviso"})}
}

// Start writes events until the context ends. What happened before is not told: it is in the status of the object, too.
func (e *Events) Start(ctx context.Context, clients *Clients) error {
	client, err := clients.Kubernetes()
	if err != nil {
		return err
	}
	e.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	go func() {
		<-ctx.Done()
		e.broadcaster.Shutdown()
	}()
	return nil
}

// Inform tells what became of an object.
func (e *Events) Inform(obj runtime.Object, reason, message string) {
	e.recorder.Event(obj, corev1.EventTypeNormal, reason, message)
}

// Warn tells that something is wrong with an object.
func (e *Events) Warn(obj runtime.Object, reason, message string) {
	e.recorder.Event(obj, corev1.EventTypeWarning, reason, message)
}
