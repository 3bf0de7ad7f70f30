package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
)

func addDefaults(scheme *runtime.Scheme) error {
	scheme.AddTypeDefaultingFunc(&AuditSink{}, defaulter(SetAuditSinkDefaults))
	scheme.AddTypeDefaultingFunc(&AuditSinkList{}, defaulter(func(l *AuditSinkList) {
		for i := range l.Items {
			SetAuditSinkDefaults(&l.Items[i])
		}
	}))
	scheme.AddTypeDefaultingFunc(&AuditClass{}, defaulter(SetAuditClassDefaults))
	scheme.AddTypeDefaultingFunc(&AuditClassList{}, defaulter(func(l *AuditClassList) {
		for i := range l.Items {
			SetAuditClassDefaults(&l.Items[i])
		}
	}))
	return nil
}

// defaulter makes a typed function one that a scheme takes.
func defaulter[T any](set func(*T)) func(any) {
	return func(obj any) {
		if typed, ok := obj.(*T); ok {
			set(typed)
		}
	}
}

// SetAuditSinkDefaults fills in the level None, the throttle and the port of a service.
func SetAuditSinkDefaults(s *AuditSink) {
	if s.Spec.Policy.Level == "" {
		s.Spec.Policy.Level = LevelNone
	}
	w := s.Spec.Webhook
	if w == nil {
		return
	}
	if w.Throttle == nil {
		w.Throttle = &WebhookThrottleConfig{}
	}
	if w.Throttle.QPS == nil {
		w.Throttle.QPS = new(DefaultQPS)
	}
	if w.Throttle.Burst == nil {
		w.Throttle.Burst = new(DefaultBurst)
	}
	if svc := w.ClientConfig.Service; svc != nil && svc.Port == nil {
		svc.Port = new(DefaultServicePort)
	}
}

// SetAuditClassDefaults normalises the types of subjects: server-side apply takes them over without decoding them.
func SetAuditClassDefaults(c *AuditClass) {
	for i := range c.Spec.Rules {
		for j := range c.Spec.Rules[i].Subjects {
			s := &c.Spec.Rules[i].Subjects[j]
			s.Type = s.Type.normalised()
		}
	}
}
