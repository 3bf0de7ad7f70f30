package sink

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/platform/atomicfile"
)

// A server that has just started serves its first requests before it has read the sinks from its storage. To not lose
// their events, the router saves the sinks and classes in force, and spools by them until it has read the current ones.

const memoryName = "sinks.json"

type memory struct {
	Sinks   []*v1alpha1.AuditSink  `json:"sinks"`
	Classes []*v1alpha1.AuditClass `json:"classes"`
	// Scopes are those of the sinks that belong to a namespace.
	Scopes map[types.UID]*Scope `json:"scopes,omitempty"`
}

// remember writes down what is in force. If it cannot, the next start has the gap that remembering closes.
func (r *Router) remember() {
	m := memory{Scopes: r.current.scopes}
	for _, s := range r.current.sinks {
		m.Sinks = append(m.Sinks, &v1alpha1.AuditSink{ObjectMeta: identity(&s.ObjectMeta), Spec: s.Spec})
	}
	for _, c := range r.current.classes {
		m.Classes = append(m.Classes, &v1alpha1.AuditClass{ObjectMeta: identity(&c.ObjectMeta), Spec: c.Spec})
	}
	text, err := json.Marshal(m)
	if err == nil {
		err = atomicfile.Replace(filepath.Join(r.cfg.Dir, memoryName), text, atomicfile.Options{Sync: r.cfg.Fsync})
	}
	if err != nil {
		klog.ErrorS(err, "Audit sinks cannot be remembered; events of the first requests after the next start may be lost")
	}
}

func identity(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.Name, UID: m.UID, Generation: m.Generation}
}

// recall returns what an earlier process has remembered.
func (r *Router) recall() configuration {
	text, err := os.ReadFile(filepath.Join(r.cfg.Dir, memoryName))
	if errors.Is(err, os.ErrNotExist) {
		return configuration{}
	}
	var m memory
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		klog.ErrorS(err, "Remembered audit sinks cannot be read; events of requests before the sinks are known are lost")
		return configuration{}
	}
	return configuration{
		scopes:  m.Scopes,
		sinks:   slices.DeleteFunc(m.Sinks, func(s *v1alpha1.AuditSink) bool { return s == nil }),
		classes: slices.DeleteFunc(m.Classes, func(c *v1alpha1.AuditClass) bool { return c == nil }),
	}
}
