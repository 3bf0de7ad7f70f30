package dynamicaudit

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/features/dynamicaudit/sink"
)

// deliveringCondition says whether events reach the sink (DA-11). One replica that fails is enough for False.
func deliveringCondition(status *auditv1alpha1.AuditSinkStatus, s sink.SinkStatus) metav1.Condition {
	c := metav1.Condition{
		Type: auditv1alpha1.ConditionDelivering, Status: metav1.ConditionTrue, Reason: auditv1alpha1.ReasonDelivering, ObservedGeneration: s.Generation,
	}
	switch {
	case status.LastError != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, auditv1alpha1.ReasonDeliveryFailed, status.LastError
	case !s.Active:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, auditv1alpha1.ReasonInactive, "the sink is not active"
	}
	return c
}

// announce writes an Event about a change of the condition Delivering. Only the replica whose report caused the change
// does so, so there is one.
func (r *sinkReporter) announce(ctx context.Context, before, after *auditv1alpha1.AuditSink) error {
	was := meta.FindStatusCondition(before.Status.Conditions, auditv1alpha1.ConditionDelivering)
	is := meta.FindStatusCondition(after.Status.Conditions, auditv1alpha1.ConditionDelivering)
	event := deliveringEvent(was, is)
	if event == nil {
		return nil
	}
	now := metav1.Now()
	event.ObjectMeta = metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", after.Name, now.UnixNano()), Namespace: metav1.NamespaceDefault}
	event.InvolvedObject = corev1.ObjectReference{
		APIVersion: auditv1alpha1.SchemeGroupVersion.String(), Kind: "AuditSink", Name: after.Name, UID: after.UID, ResourceVersion: after.ResourceVersion,
	}
	if namespace, name, local := strings.Cut(after.Name, "/"); local {
		event.Name, event.Namespace = fmt.Sprintf("%s.%x", name, now.UnixNano()), namespace
		event.InvolvedObject.APIVersion, event.InvolvedObject.Kind = policyv1alpha1.SchemeGroupVersion.String(), "NamespaceAuditSink"
		event.InvolvedObject.Name, event.InvolvedObject.Namespace = name, namespace
	}
	event.Source = corev1.EventSource{Component: "proviso"}
	event.ReportingController, event.ReportingInstance = "proviso.dev/audit-sinks", r.replica
	event.FirstTimestamp, event.LastTimestamp, event.Count = now, now, 1
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := r.events.Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
	return err
}

// deliveringEvent is what to report: that deliveries fail, or that they no longer do. A new sink that delivers is
// not reported.
func deliveringEvent(was, is *metav1.Condition) *corev1.Event {
	if is == nil || was != nil && was.Status == is.Status {
		return nil
	}
	switch {
	case is.Status == metav1.ConditionFalse:
		return &corev1.Event{Type: corev1.EventTypeWarning, Reason: is.Reason, Message: "Events are not delivered and wait: " + is.Message}
	case is.Status == metav1.ConditionTrue && was != nil && was.Status == metav1.ConditionFalse:
		return &corev1.Event{Type: corev1.EventTypeNormal, Reason: is.Reason, Message: "Events are delivered again"}
	}
	return nil
}
