package server

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// PA-14, PA-15, PA-16: a protection can be for some resources, for all keys of a domain, and for the values that it
// does not list. Everybody can read it, and it makes conditional only what it can reach.
func TestProtectedOnSomeResources(t *testing.T) {
	t.Parallel()
	x := &protectedExamples{examples: newExamples(t, peopled.get(t))}
	x.typed = kubernetes.NewForConfigOrDie(x.s.admin)
	ctx := t.Context()
	x.create(t, object("v1", "Namespace", "wharf", nil))
	x.bind(t, "", rbacv1.RoleRef{Kind: "ClusterRole", Name: "cluster-admin"}, "wanda", "walter")
	platform := x.clusterRole(t, "wharf-platform")
	x.bind(t, "", platform, "walter")
	protect := func(name, key string, fields map[string]any) {
		u := object(policyv1alpha1.SchemeGroupVersion.String(), "ClusterProtectedAttribute", name, nil)
		u.Object["attributeKind"], u.Object["attributeName"] = "Label", key
		u.Object["roleRef"] = map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": platform.Name}
		for field, value := range fields {
			u.Object[field] = value
		}
		x.create(t, u)
	}
	protect("wharf-namespaces", "wharf.example.com/*", map[string]any{"resources": []any{"namespaces"}})
	protect("wharf-pods", "zone.wharf.example.com/zone", map[string]any{"resources": []any{"Pod"}, "protectedValues": []any{"eu", "us"}, "unlistedValues": "Forbidden"})

	namespace := object("v1", "Namespace", "wharf-2", nil)
	namespace.SetLabels(map[string]string{"wharf.example.com/team": "a"})
	configMap := inNamespace(labelled("x", map[string]string{"wharf.example.com/team": "a", "zone.wharf.example.com/zone": "mars"}), "wharf")
	workload := func(own, inTemplate string) *unstructured.Unstructured {
		const key = "zone.wharf.example.com/zone"
		u := inNamespace(object("apps/v1", "Deployment", "web", map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
				"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}}},
		}), "wharf")
		if own != "" {
			u.SetLabels(map[string]string{key: own})
		}
		if inTemplate != "" {
			u = with(t, u, inTemplate, "spec", "template", "metadata", "labels", key)
		}
		return u
	}
	try := func(user string, u *unstructured.Unstructured) error {
		return dry(ctx, x.resource(t, x.as(user), u), u)
	}
	x.inEffect(t, "the protection of pods", func() error { return try("wanda", workload("", "eu")) })

	refusedWith(t, "a key of the domain on a namespace", try("wanda", namespace), "label wharf.example.com/team=a is protected")
	fine(t, "a member, on a namespace", try("walter", namespace))
	fine(t, "the same keys on a config map", try("wanda", configMap))
	fine(t, "the label of the deployment itself", try("wanda", workload("mars", "")))
	refusedWith(t, "a pod template", try("wanda", workload("", "us")), "label zone.wharf.example.com/zone=us in .spec.template.metadata is protected")
	fine(t, "a pod template of a member", try("walter", workload("", "us")))
	refusedWith(t, "a value that is not listed", try("walter", workload("", "mars")), `allows only eu and us`)

	asked := x.ask(t, x.as("wanda"), "conditionalAuthorization") // config maps in lab
	if strings.Contains(asked, "wharf") {
		t.Errorf("a review about config maps names what cannot reach them: %s", asked)
	}
	protections := policyv1alpha1.SchemeGroupVersion.WithResource("clusterprotectedattributes")
	if _, err := x.as("passer-by").Resource(protections).Get(ctx, "wharf-pods", metav1.GetOptions{}); err != nil {
		t.Errorf("everybody can read which labels are protected: %v", err)
	}
	if err := x.as("passer-by").Resource(protections).Delete(ctx, "wharf-pods", metav1.DeleteOptions{}); err == nil {
		t.Error("everybody can delete a protection")
	}
}
