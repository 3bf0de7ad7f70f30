package fieldfilter

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/hiddenfield"
)

// The prefixes of annotations that hold the patches of mutating webhooks, and messages of admission policies about an
// object.
const (
	webhookPatches = "patch.webhook.admission.k8s.io/"
	policyFailures = "validation.policy.admission.k8s.io/"
)

// Redact removes hidden fields from an audit event for sinks (HF-8): from the objects of request and response, and from
// whatever may quote them, except fields of permissions that the sink reveals. It does not matter who made the request.
// An object that cannot be read is left out.
func (f *Filters) Redact(ev *auditinternal.Event, reveal []string) *auditinternal.Event {
	snap := f.cfg.Store.Current()
	if ev.ObjectRef == nil || !snap.Fields.HidesAny() {
		return ev
	}
	resource := schema.GroupResource{Group: ev.ObjectRef.APIGroup, Resource: ev.ObjectRef.Resource}
	hidden := hiddenfield.Set(snap.Fields.Hidden(fieldperm.Resource{Group: resource.Group, Resource: resource.Resource}))
	if len(reveal) > 0 {
		hidden = slices.DeleteFunc(slices.Clone(hidden), func(h fieldperm.Hidden) bool { return slices.Contains(reveal, h.Permission) })
	}
	if len(hidden) == 0 {
		return ev
	}
	hidden = f.inVersion(hidden, snap.Served, resource)
	out := *ev
	kind := schema.GroupKind{Group: resource.Group, Kind: snap.Served.OwnKind(resource)}
	known := snap.Served.PreferredVersion(kind) == ev.ObjectRef.APIVersion || f.schemeOf(resource) == nil && !snap.Served.Converted(resource)
	out.RequestObject, out.ResponseObject = redacted(hidden, ev.RequestObject, known), redacted(hidden, ev.ResponseObject, known)
	out.Annotations = maps.Clone(ev.Annotations)
	maps.DeleteFunc(out.Annotations, func(key, _ string) bool {
		return strings.HasPrefix(key, webhookPatches) || strings.HasPrefix(key, policyFailures)
	})
	if s := ev.ResponseStatus; s != nil && s.Code >= http.StatusBadRequest {
		out.ResponseStatus = &metav1.Status{Status: s.Status, Code: s.Code, Reason: s.Reason, Message: "not shown: it may quote fields that are hidden (" + hidden.Names() + ")"}
	}
	return &out
}

// redacted returns an object of an event without hidden fields; nil if they cannot be found in it.
func redacted(hidden hiddenfield.Set, object *runtime.Unknown, known bool) *runtime.Unknown {
	if object == nil || !known {
		return nil
	}
	text, ok := hidden.Redact(object.Raw)
	if !ok {
		return nil
	}
	out := *object
	out.Raw = text
	return &out
}
