package base

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/klog/v2"

	"proviso.dev/proviso/internal/state/journal"
)

// era says when a namespace began, for one answer. A namespace of the same name that was deleted before had other
// owners, and its policy was not for readers of this one.
type era struct {
	// revision at which the namespace was created; 0 if that is not known.
	revision uint64
	// time after which an entry is of this namespace, if the revision is not known.
	time time.Time
	// none: it is not known when it began, or whether it exists.
	none bool
}

// has reports whether an entry is of this namespace, and not of an earlier one.
func (a era) has(e *journal.Entry) bool {
	switch {
	case a.none:
		return false
	case a.revision > 0:
		return e.At() >= a.revision
	}
	return !e.Time.Before(a.time)
}

// eraOf finds out when a namespace began.
func (h *history) eraOf(ctx context.Context, namespace string) era {
	if namespace == "" || namespace == h.kernel.Master {
		return era{} // the namespace of the master policy is never deleted
	}
	revision, err := h.journal.NamespaceSince(ctx, namespace)
	if err != nil {
		klog.FromContext(ctx).Error(err, "It is not known when a namespace began: its history is shown only to those who may read that of all", "namespace", namespace)
		return era{none: true}
	}
	if revision > 0 {
		return era{revision: revision}
	}
	if h.kernel.Namespaces == nil {
		return era{none: true}
	}
	object, err := h.kernel.Namespaces.Namespace(namespace)
	if err != nil {
		return era{none: true} // it does not exist
	}
	m, err := meta.Accessor(object)
	if err != nil {
		return era{none: true}
	}
	return era{time: m.GetCreationTimestamp().Add(time.Second)} // which has no fractions of a second
}
