package selfclient

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"proviso.dev/proviso/internal/state/policycodec"
)

// Events reports what is wrong with an object, for people who use `kubectl describe` or read the events of its
// namespace. A reader of events may not be allowed to read the object, so a message names the object but never quotes
// it.
type Events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

// NewEvents returns Events that discard everything until they are started.
func NewEvents() *Events {
	broadcaster := record.NewBroadcaster()
	return &Events{broadcaster: broadcaster, recorder: broadcaster.NewRecorder(policycodec.Scheme, corev1.EventSource{Component: "proviso"})}
}

// Start writes events until the context ends. Earlier events are not written: the status of the object has the
// information, too.
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

// Inform reports what happened to an object.
func (e *Events) Inform(obj runtime.Object, reason, message string) {
	e.recorder.Event(obj, corev1.EventTypeNormal, reason, message)
}

// Warn reports that something is wrong with an object.
func (e *Events) Warn(obj runtime.Object, reason, message string) {
	e.recorder.Event(obj, corev1.EventTypeWarning, reason, message)
}
