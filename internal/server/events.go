package server

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"proviso.dev/proviso/internal/registry"
)

// events tells people who look at an object with `kubectl describe`, or at the events of its namespace, what is wrong with it. Whoever reads
// events may not be allowed to read the object: a message names what it is about and never quotes it.
type events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

func newEvents() *events {
	broadcaster := record.NewBroadcaster()
	return &events{broadcaster: broadcaster, recorder: broadcaster.NewRecorder(registry.Scheme, corev1.EventSource{Component: "proviso"})}
}

// start writes events until the context ends. What happened before is not told: it is in the status of the object, too.
func (e *events) start(ctx context.Context, loopback *rest.Config) error {
	client, err := kubernetes.NewForConfig(loopback)
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

// warn tells that something is wrong with an object.
func (e *events) warn(obj runtime.Object, reason, message string) {
	e.recorder.Event(obj, corev1.EventTypeWarning, reason, message)
}
