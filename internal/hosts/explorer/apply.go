package explorer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

// apply writes a change, as the user: only if the explorer was started for that, and only what a plan was shown of.
func (h *handler) apply(r *http.Request, q planQuestion) (map[string][]string, error) {
	switch {
	case !h.AllowApply:
		return nil, refused{http.StatusForbidden, "this explorer is read-only: start it with --allow-apply to apply changes"}
	case q.Delete:
		return nil, refused{http.StatusForbidden, "the explorer deletes nothing: use kubectl delete"}
	case !h.planned.take(q.YAML):
		return nil, refused{http.StatusConflict, "this change has not been planned: plan it first, then apply that plan"}
	}
	objects, err := objectsOf(q.YAML)
	if err != nil {
		return nil, err
	}
	finder, err := discovery.NewDiscoveryClientForConfig(h.Rest)
	if err != nil {
		return nil, err
	}
	groups, err := restmapper.GetAPIGroupResources(finder)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(h.Rest)
	if err != nil {
		return nil, err
	}
	mapper, applied := restmapper.NewDiscoveryRESTMapper(groups), []string{}
	for _, object := range objects {
		name, err := h.applyOne(r.Context(), client, mapper, object)
		if err != nil {
			return nil, fmt.Errorf("applied %d of %d objects (%s), then: %w", len(applied), len(objects), strings.Join(applied, ", "), err)
		}
		applied = append(applied, name)
	}
	return map[string][]string{"applied": applied}, nil
}

func (h *handler) applyOne(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, object *unstructured.Unstructured) (string, error) {
	kind := object.GroupVersionKind()
	name := kind.Kind + " " + object.GetName()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	var target dynamic.ResourceInterface = client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace := object.GetNamespace()
		if namespace == "" {
			namespace = h.Namespace
		}
		target = client.Resource(mapping.Resource).Namespace(namespace)
	}
	if err := replace(ctx, target, object.DeepCopy()); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return name, nil
}

// replace makes an object what the plan has shown: exactly what was written, in place of what is there. An apply would
// keep what others have added, such as subjects of a binding that the plan has shown to be gone. A user who changes the
// object meanwhile makes it fail.
func replace(ctx context.Context, target dynamic.ResourceInterface, object *unstructured.Unstructured) error {
	const manager, validation = "proviso-explorer", "Strict"
	have, err := target.Get(ctx, object.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = target.Create(ctx, object, metav1.CreateOptions{FieldManager: manager, FieldValidation: validation})
		return err
	}
	if err != nil {
		return err
	}
	object.SetResourceVersion(have.GetResourceVersion())
	// What no plan looks at stays unless it is written: who owns the object, who cleans up after it, and notes on it.
	if object.GetOwnerReferences() == nil {
		object.SetOwnerReferences(have.GetOwnerReferences())
	}
	if object.GetFinalizers() == nil {
		object.SetFinalizers(have.GetFinalizers())
	}
	if notes := have.GetAnnotations(); notes != nil {
		maps.Copy(notes, object.GetAnnotations())
		object.SetAnnotations(notes)
	}
	_, err = target.Update(ctx, object, metav1.UpdateOptions{FieldManager: manager, FieldValidation: validation})
	return err
}

// objectsOf reads the objects of a change.
func objectsOf(text string) (all []*unstructured.Unstructured, err error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		data, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		object := &unstructured.Unstructured{}
		if err == nil {
			err = yaml.UnmarshalStrict(data, &object.Object)
		}
		switch {
		case err != nil:
			return nil, refused{http.StatusBadRequest, err.Error()}
		case len(object.Object) == 0:
		case object.GetKind() == "" || object.GetAPIVersion() == "" || object.GetName() == "":
			return nil, refused{http.StatusBadRequest, "an object has no apiVersion, kind or name"}
		default:
			all = append(all, object)
		}
	}
}
