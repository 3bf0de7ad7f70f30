package sink

import (
	"maps"
	"strings"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"

	"proviso.dev/proviso/internal/engine/auditrule"
)

// What upstream's truncating backend marks events with.
const (
	truncatedKey   = "audit.k8s.io/truncated"
	truncatedValue = "true"
)

// patchAnnotations begins the only annotations that upstream writes at level Request and above alone: the patches of
// mutating webhooks, which show parts of the object. (Its own name for it is not worth the weight of its package.)
const patchAnnotations = "patch.webhook.admission.k8s.io/"

func needsRequestLevel(key string) bool { return strings.HasPrefix(key, patchAnnotations) }

// trimmed returns a copy of the event with the detail of a lower level, as if it had been made at that level. The copy
// shares what is not changed; its annotations are its own, because upstream's truncating backend adds to them.
func trimmed(ev *auditinternal.Event, level auditrule.Level) *auditinternal.Event {
	out := *ev
	out.Level = level.Audit()
	out.Annotations = maps.Clone(ev.Annotations)
	if level < auditrule.Request {
		out.RequestObject = nil
		maps.DeleteFunc(out.Annotations, func(key, _ string) bool { return needsRequestLevel(key) })
	}
	if level < auditrule.RequestResponse {
		out.ResponseObject = nil
	}
	return &out
}
