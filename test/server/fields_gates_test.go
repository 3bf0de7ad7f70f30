package server

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// FP-19: the gates of a pod have a shipped permission, which holds in templates; and a definition whose parameter is
// the type of entries that have none is refused.
func TestSchedulingGates(t *testing.T) {
	t.Parallel()
	s := plain.get(t)
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	furnish(t, client, "fp-gates")
	grantPolicy(t, admin, "fp-gates", "fp-gater", "fp-gater", map[string]any{"verbs": []any{"get", "granular", "granular:schedulingGates"}, "resourceKinds": []any{"deployments.apps"}})
	labels := map[string]string{"app": "web"}
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}}
	if _, err := client.AppsV1().Deployments("fp-gates").Create(t.Context(), web, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	gater := kubernetes.NewForConfigOrDie(s.as("fp-gater"))
	patch := func(text string) error {
		_, err := gater.AppsV1().Deployments("fp-gates").Patch(t.Context(), "web", types.StrategicMergePatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	s.await("the right to gates", func() (bool, error) {
		return patch(`{"spec":{"template":{"spec":{"schedulingGates":[{"name":"example.com/wait"}]}}}}`) == nil, nil
	})
	refusedWith(t, "another field", patch(`{"spec":{"replicas":3}}`), "granular:replicas")
	refusedWith(t, "another field of the template", patch(`{"spec":{"template":{"spec":{"priorityClassName":"high"}}}}`), "granular:specification")

	definition := func(entries map[string]any) error {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "gates.fp.example.com"},
			"spec": map[string]any{"group": "fp.example.com", "scope": "Namespaced", "names": map[string]any{"plural": "gates", "kind": "Gate"}, "versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
					"spec": map[string]any{"type": "object", "properties": map[string]any{"parts": map[string]any{"type": "object", "additionalProperties": entries}}}}}}}}}}}
		_, err := admin.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).Create(t.Context(), u, metav1.CreateOptions{DryRun: []string{"All"}})
		return err
	}
	keys := func(entries map[string]any) map[string]any {
		entries["x-kubernetes-permission-verb"], entries["x-kubernetes-permission-parameterized-by"] = "example.com/part", "condition-type"
		return entries
	}
	if err := definition(keys(map[string]any{"type": "string"})); err == nil || !strings.Contains(err.Error(), "needs entries that are objects with a field type") {
		t.Errorf("a map of strings: %v", err)
	}
	fine(t, "a map of conditions", definition(keys(map[string]any{"type": "object", "properties": map[string]any{"type": map[string]any{"type": "string"}}})))
}
