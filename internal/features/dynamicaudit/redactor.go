package dynamicaudit

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
	"proviso.dev/proviso/internal/features/dynamicaudit/sink"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/state/snapshot"
)

// annotationRedacted names, in an event, what was removed for the sink.
const annotationRedacted = "audit.proviso.dev/redacted"

// quoting are the prefixes of annotations that may quote an object: the patches of mutating webhooks, and messages of
// admission policies.
var quoting = []string{"patch.webhook.admission.k8s.io/", "validation.policy.admission.k8s.io/"}

// redactor removes from events what sinks must not get: fields hidden from readers (HF-8), and fields that the sinks
// ask to redact (DA-16).
type redactor struct{ k *feature.Kernel }

// Redact implements sink.Redactor.
func (r redactor) Redact(ev *auditinternal.Event, view sink.View) *auditinternal.Event {
	ev = r.k.Redact(ev, view.Reveal)
	if view.Redact == nil || ev.ObjectRef == nil {
		return ev
	}
	snap := r.k.Store.Current()
	fields, sure := redactedFields(snap, view.Redact, ev.ObjectRef)
	if sure && len(fields) == 0 {
		return ev
	}
	out := *ev
	out.Annotations = maps.Clone(ev.Annotations)
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	maps.DeleteFunc(out.Annotations, func(key, _ string) bool {
		return slices.ContainsFunc(quoting, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
	})
	kind := ""
	if sure {
		kind = kindIn(snap.Served, ev.ObjectRef)
	}
	request := ev.RequestObject
	if ev.Verb == "patch" {
		request = nil
	}
	out.RequestObject, out.ResponseObject = replaced(fields, request, kind), replaced(fields, ev.ResponseObject, kind)
	if ev.RequestObject != nil || ev.ResponseObject != nil {
		out.Annotations[annotationRedacted] = redactedText(fields, ev, &out)
	}
	if s := ev.ResponseStatus; s != nil && s.Code >= http.StatusBadRequest {
		out.ResponseStatus = &metav1.Status{Status: s.Status, Code: s.Code, Reason: s.Reason, Message: "not shown: it may quote fields that are redacted"}
	}
	return &out
}

// redactedFields returns the fields of a resource that a sink does not get; false if they are not known.
func redactedFields(snap *snapshot.Snapshot, redact *sink.Redaction, ref *auditinternal.ObjectReference) (fields hiddenfield.Set, sure bool) {
	resource := fieldperm.Resource{Group: ref.APIGroup, Resource: ref.Resource}
	sure = !redact.Invalid
	for _, name := range redact.Permissions {
		more, declared := snap.Fields.Named(name, resource, ref.APIVersion)
		fields, sure = append(fields, more...), sure && declared
	}
	for _, f := range redact.Fields {
		fields = append(fields, snap.Fields.Placed(f.Resources, f.Field, resource)...)
	}
	return fields.In(schema.GroupVersion{Group: ref.APIGroup, Version: ref.APIVersion}.String()), sure
}

// kindIn returns the kind of a resource; empty if the event is about another version than the one for which fields are
// declared.
func kindIn(served *snapshot.Served, ref *auditinternal.ObjectReference) string {
	kind := schema.GroupKind{Group: ref.APIGroup, Kind: served.OwnKind(schema.GroupResource{Group: ref.APIGroup, Resource: ref.Resource})}
	if version := served.PreferredVersion(kind); version == "" || version != ref.APIVersion {
		return ""
	}
	return kind.Kind
}

// replaced returns an object of an event without the values of the fields; nil if they cannot be found in it.
func replaced(fields hiddenfield.Set, object *runtime.Unknown, kind string) *runtime.Unknown {
	if object == nil || len(object.Raw) == 0 {
		return nil
	}
	text, ok := fields.Replace(object.Raw, kind)
	if !ok {
		return nil
	}
	out := *object
	out.Raw = text
	return &out
}

// redactedText says what was replaced, and which bodies were removed.
func redactedText(fields hiddenfield.Set, was, is *auditinternal.Event) string {
	parts := []string{}
	if len(fields) > 0 {
		parts = append(parts, fields.Names())
	}
	if was.RequestObject != nil && is.RequestObject == nil {
		parts = append(parts, "requestObject removed")
	}
	if was.ResponseObject != nil && is.ResponseObject == nil {
		parts = append(parts, "responseObject removed")
	}
	return strings.Join(parts, "; ")
}
