package enforce

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// fieldWrite is one write, as field permissions see it.
type fieldWrite struct {
	*Fields
	ctx     context.Context
	holder  *requestctx.State
	known   *facts
	objects admission.ObjectInterfaces
	// aside is set for permissions that are not enforced.
	aside bool
}

// fieldTarget is the resource that a request writes. Events are served by two groups, and stored once.
func fieldTarget(served *snapshot.Served, attrs admission.Attributes) fieldperm.Target {
	resource := attrs.GetResource().GroupResource()
	if resource == eventsv1.Resource("events") {
		resource = corev1.Resource("events")
	}
	version := served.PreferredVersion(schema.GroupKind{Group: resource.Group, Kind: served.OwnKind(resource)})
	return fieldperm.Target{
		Resource:    fieldperm.Resource{Group: resource.Group, Resource: resource.Resource},
		Subresource: attrs.GetSubresource(),
		Version:     version,
	}
}

func (w *fieldWrite) request(target fieldperm.Target, mode fieldperm.Mode) fieldperm.Request {
	req := fieldperm.Request{
		Target:    target,
		Mode:      mode,
		Context:   expr.WithBudget(w.ctx, w.known.data.Budget()),
		Hidden:    hides(w.holder.Snapshot.Served, w.known),
		Objects:   func() (old, new *typed.TypedValue, err error) { return w.compared("") },
		Versioned: w.compared,
		Claimed:   requestctx.NotesOf(w.ctx).Claims(),
		Check: func(verb string) (bool, error) {
			out := w.ask(verb)
			if out.Decision == authorizer.DecisionAllow {
				return true, nil // other failures did not prevent the Allow
			}
			return false, out.Detail
		},
	}
	if isRevision(w.known) && !req.Hidden {
		_, _, err := w.pair("")
		req.Hidden = err != nil
	}
	switch {
	case w.known.GetOperation() == admission.Update:
		req.Managers = func() (old, new []metav1.ManagedFieldsEntry) {
			return managersOf(w.known.GetOldObject()), managersOf(w.known.GetObject())
		}
	case w.known.GetSubresource() == "":
		req.Default = w.defaulted
		if fieldperm.ResetsStatus(target.Resource) {
			req.Reset = statusFields
		}
	}
	return req
}

func (w *fieldWrite) ask(verb string) requestctx.Outcome {
	if w.aside {
		return w.Asker.AskAside(w.ctx, w.holder, verb, w.known)
	}
	return w.Asker.Ask(w.ctx, w.holder, verb, w.known)
}

// statusFields are the fields that the endpoint itself sets, whatever the caller sends.
var statusFields = fieldpath.NewSet(fieldpath.MakePathOrDie("status"))

func managersOf(object runtime.Object) []metav1.ManagedFieldsEntry {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil // it has no metadata, and so no managers
	}
	return accessor.GetManagedFields()
}

// compared returns both sides of the comparison, in one version whatever version the request uses (FP-10): the
// preferred one, or the given one.
func (w *fieldWrite) compared(apiVersion string) (old, new *typed.TypedValue, err error) {
	before, after, err := w.pair(apiVersion)
	if err != nil {
		return nil, nil, err
	}
	schemas, err := w.Schemas.For(after.GetObjectKind().GroupVersionKind())
	if err != nil {
		return nil, nil, err
	}
	if new, err = schemas.ObjectToTyped(after); err == nil && before != nil {
		old, err = schemas.ObjectToTyped(before)
	}
	return old, new, err
}

// pair returns the stored object, nil on create, and the one that will be stored.
func (w *fieldWrite) pair(apiVersion string) (old, new runtime.Object, err error) {
	version, err := w.version(apiVersion)
	if err != nil {
		return nil, nil, err
	}
	if new, err = w.in(version, w.known.GetObject(), w.known.data.Object); err != nil || new == nil {
		return nil, nil, fmt.Errorf("the object is not available: %w", orNone(err))
	}
	old, err = w.in(version, w.known.GetOldObject(), w.known.data.OldObject)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("the stored object is not available: %w", err)
	case isBinding(w.known):
		if old, err = podBehind(w.ctx, w.Behind, w.known); err != nil {
			return nil, nil, err
		}
	case old == nil && w.known.GetOperation() != admission.Create:
		return nil, nil, errors.New("the stored object is not known")
	case isRevision(w.known):
		before, after, err := revealed(old, new)
		if err != nil || before == nil {
			return nil, after, err
		}
		return before, after, nil
	}
	return old, new, nil
}

func orNone(err error) error {
	if err == nil {
		return errors.New("there is none")
	}
	return err
}

// version returns the kind in which objects are compared; an empty apiVersion stands for the preferred one.
func (w *fieldWrite) version(apiVersion string) (schema.GroupVersionKind, error) {
	kind := w.known.GetKind()
	if kind.GroupKind() == (schema.GroupKind{Group: eventsv1.GroupName, Kind: "Event"}) {
		kind = corev1.SchemeGroupVersion.WithKind("Event")
	}
	if apiVersion == "" {
		if preferred := w.holder.Snapshot.Served.PreferredVersion(kind.GroupKind()); preferred != "" {
			kind.Version = preferred
		}
		return kind, nil
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return kind, err
	}
	if gv.Group != kind.Group && gv.Group != w.known.GetKind().Group {
		return kind, fmt.Errorf("%s is not a version of %s", apiVersion, kind.GroupKind())
	}
	return gv.WithKind(kind.Kind), nil
}

// in converts an object; it reuses the conversions made for conditions where they are the same.
func (w *fieldWrite) in(kind schema.GroupVersionKind, object runtime.Object, converted func(string) (runtime.Object, error)) (runtime.Object, error) {
	switch {
	case object == nil:
		return nil, nil
	case kind.Group != w.known.GetKind().Group:
		return admission.ConvertToGVK(object, kind, w.objects)
	case kind.Version == w.holder.Snapshot.Served.PreferredVersion(kind.GroupKind()):
		return converted("")
	}
	return converted(kind.Version)
}

// otherVersions checks the labels and annotations that a conversion webhook gives the object in other versions (FP-16):
// this write also sets what differs there.
func (w *fieldWrite) otherVersions(table *fieldperm.Table, target fieldperm.Target, result fieldperm.Result) fieldperm.Result {
	if !table.Guards(target) {
		return result
	}
	for _, other := range versionsBehind(w.Behind, w.known, w.objects) {
		if other.err != nil {
			return fieldperm.Result{Checks: result.Checks, Err: fmt.Errorf("version %s: %w", other.version, other.err)}
		}
		req := w.request(target, fieldperm.General)
		req.Managers, req.Default, req.Claimed, req.Hidden = nil, nil, false, false
		req.Objects = func() (old, new *typed.TypedValue, err error) {
			if old, err = labelsOf(w.known.GetObject()); err == nil {
				new, err = labelsOf(other.object)
			}
			return old, new, err
		}
		next := table.Decide(req)
		next.Checks = append(result.Checks, next.Checks...)
		if result = next; !result.Allowed() {
			return result
		}
	}
	return result
}

// labelsOf reduces an object to its labels and annotations.
func labelsOf(object runtime.Object) (*typed.TypedValue, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetLabels(accessor.GetLabels())
	u.SetAnnotations(accessor.GetAnnotations())
	return (&fieldperm.Schemas{}).ObjectToTyped(u)
}

// defaulted lets the server's own defaulting fill in what an object does not say.
func (w *fieldWrite) defaulted(object map[string]any) (map[string]any, error) {
	_, example, err := w.pair("")
	if err != nil {
		return nil, err
	}
	objects := w.objects
	kind := example.GetObjectKind().GroupVersionKind()
	if _, custom := example.(*unstructured.Unstructured); custom {
		u := &unstructured.Unstructured{Object: object}
		u.SetGroupVersionKind(kind)
		objects.GetObjectDefaulter().Default(u)
		return u.Object, nil
	}
	filled, err := objects.GetObjectCreater().New(kind)
	if err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, filled); err != nil {
		return nil, err
	}
	objects.GetObjectDefaulter().Default(filled)
	return runtime.DefaultUnstructuredConverter.ToUnstructured(filled)
}
