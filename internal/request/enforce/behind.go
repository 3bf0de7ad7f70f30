package enforce

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// Behind knows what a request writes beyond what its body shows: the pod behind a Binding, and the other versions of an
// object.
type Behind interface {
	// Pod reads a pod as it is stored now.
	Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// Versions returns the versions in which a kind is stored and served, if labels and annotations may differ between
	// them. Storage is empty if objects are not converted to be stored.
	Versions(kind schema.GroupKind) (storage string, served []string)
}

// isBinding reports whether a request assigns a pod to a node. The labels and annotations of a Binding are merged into
// the pod.
func isBinding(attrs admission.Attributes) bool {
	if attrs.GetOperation() != admission.Create {
		return false
	}
	r := attrs.GetResource()
	return r.Group == "" && (r.Resource == "bindings" && attrs.GetSubresource() == "" || r.Resource == "pods" && attrs.GetSubresource() == "binding")
}

// podBehind is what is stored behind a Binding, in the shape of one: its labels and annotations as far as the request
// would replace them. The request must be pinned to the pod that was read, so it cannot replace anything else.
func podBehind(ctx context.Context, b Behind, attrs admission.Attributes) (*corev1.Binding, error) {
	binding, err := meta.Accessor(attrs.GetObject())
	if err != nil {
		return nil, err
	}
	old := &corev1.Binding{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Binding"}}
	old.Name, old.Namespace = binding.GetName(), attrs.GetNamespace()
	if len(binding.GetLabels()) == 0 && len(binding.GetAnnotations()) == 0 {
		return old, nil
	}
	if b == nil {
		return nil, errors.New("the pod is not available")
	}
	pod, err := b.Pod(ctx, attrs.GetNamespace(), binding.GetName())
	if err != nil {
		return nil, err
	}
	if binding.GetResourceVersion() == "" {
		// Beside a stock server nothing else pins it.
		return nil, apierrors.NewConflict(corev1.Resource("pods/binding"), binding.GetName(), errors.New("the labels and annotations of the Binding are compared with those of the pod: give it the metadata.resourceVersion of the pod"))
	}
	if pod.ResourceVersion != binding.GetResourceVersion() {
		return nil, apierrors.NewConflict(corev1.Resource("pods/binding"), binding.GetName(), errors.New("the pod has changed meanwhile: try again"))
	}
	old.Labels = common(pod.Labels, binding.GetLabels())
	old.Annotations = common(pod.Annotations, binding.GetAnnotations())
	return old, nil
}

// common returns the entries of a map whose keys the other map has.
func common(of, keys map[string]string) map[string]string {
	found := map[string]string{}
	for key := range keys {
		if value, ok := of[key]; ok {
			found[key] = value
		}
	}
	return found
}

// isRevision reports whether the object is a ControllerRevision, whose data is a part of the set it was made from.
func isRevision(attrs admission.Attributes) bool {
	r := attrs.GetResource()
	return r.Group == appsv1.GroupName && r.Resource == "controllerrevisions"
}

// revealed returns both states of a ControllerRevision with their data as the set's type reads it: in one form, however
// it was written, so a path leads to what the controller will find there. Unchanged data is left out. An error means
// that the data cannot be read.
func revealed(old, new runtime.Object) (before, after *unstructured.Unstructured, err error) {
	is, ok := new.(*appsv1.ControllerRevision)
	if !ok {
		return nil, nil, fmt.Errorf("a revision cannot be read: %T", new)
	}
	var was *appsv1.ControllerRevision
	if old != nil {
		if was, ok = old.(*appsv1.ControllerRevision); !ok {
			return nil, nil, fmt.Errorf("a revision cannot be read: %T", old)
		}
	}
	same := was != nil && string(was.Data.Raw) == string(is.Data.Raw)
	if after, err = reveal(is, same); err != nil || was == nil {
		return nil, after, err
	}
	before, err = reveal(was, same)
	return before, after, err
}

func reveal(revision *appsv1.ControllerRevision, withoutData bool) (*unstructured.Unstructured, error) {
	shell := revision.DeepCopy()
	shell.Data = runtime.RawExtension{}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(shell)
	if err != nil {
		return nil, err
	}
	delete(content, "data")
	if !withoutData && len(revision.Data.Raw) > 0 {
		set := &appsv1.StatefulSet{}
		if err := json.Unmarshal(revision.Data.Raw, set); err != nil {
			return nil, fmt.Errorf("data cannot be read as a part of a set: %w", err)
		}
		data, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&set.Spec)
		if err != nil {
			return nil, err
		}
		content["data"] = map[string]any{"spec": data}
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ControllerRevision"))
	return u, nil
}

// converted is an object in another version, or why it cannot be converted.
type converted struct {
	version string
	object  runtime.Object
	err     error
}

// versionsBehind converts the final object to the version in which it is stored, and from there to those in which it is
// served, as storing and reading it will do.
func versionsBehind(b Behind, attrs admission.Attributes, objects admission.ObjectInterfaces) []converted {
	if b == nil || attrs.GetSubresource() != "" && attrs.GetSubresource() != "status" {
		return nil
	}
	kind, stored := attrs.GetKind(), attrs.GetObject()
	storage, served := b.Versions(kind.GroupKind())
	var all []converted
	if storage != "" && storage != kind.Version {
		c := convert(stored, kind, storage, objects)
		if all = append(all, c); c.err != nil {
			return all
		}
		stored = c.object
	}
	for _, version := range served {
		if version != storage && (version != kind.Version || storage != "" && storage != kind.Version) {
			all = append(all, convert(stored, kind, version, objects))
		}
	}
	return all
}

func convert(object runtime.Object, kind schema.GroupVersionKind, version string, objects admission.ObjectInterfaces) converted {
	made, err := admission.ConvertToGVK(object, kind.GroupKind().WithVersion(version), objects)
	return converted{version, made, err}
}
