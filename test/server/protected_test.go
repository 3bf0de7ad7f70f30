package server

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// protection is one dimension of the matrix: who protects which values of the label.
type protection struct {
	name     string
	label    string
	cluster  bool
	anyValue bool
}

var protectionCases = []protection{
	{"cluster-listed", "example.com/cluster-listed", true, false},
	{"cluster-any", "example.com/cluster-any", true, true},
	{"namespace-listed", "namespace-listed", false, false},
	{"namespace-any", "example.com/namespace-any", false, true},
}

// TestProtectedAttributesMatrix: every way of writing × every change of a protected label × every kind of membership ×
// every kind of protection, on the real server (PA-2, PA-3, PA-4, PA-5).
func TestProtectedAttributesMatrix(t *testing.T) {
	t.Parallel()
	s := plain.get(t)
	ctx := t.Context()
	admin := kubernetes.NewForConfigOrDie(s.admin)
	setUpProtections(t, s, admin)
	writers := map[string]dynamic.Interface{
		"direct member":  dynamic.NewForConfigOrDie(s.as("direct")),
		"group member":   dynamic.NewForConfigOrDie(s.as("somebody", "releasers")),
		"not a member":   dynamic.NewForConfigOrDie(s.as("outsider")),
		"system:masters": dynamic.NewForConfigOrDie(s.admin),
	}
	// Memberships and protections take effect together, in one snapshot: once the outsider is refused, all of them
	// hold.
	s.await("the protections", func() (bool, error) {
		for _, p := range protectionCases {
			cm := labelled("probe", map[string]string{p.label: "prod"})
			if _, err := writers["not a member"].Resource(configMaps).Namespace("default").Create(ctx, cm, metav1.CreateOptions{DryRun: []string{"All"}}); !apierrors.IsForbidden(err) {
				return false, nil
			}
		}
		return true, nil
	})

	n := 0
	for _, p := range protectionCases {
		for who, writer := range writers {
			for _, change := range []string{"set", "replace", "remove", "untouched", "free"} {
				for _, way := range []string{"create", "update", "patch", "apply", "status", "template"} {
					before, after := transition(p, change)
					if way == "create" && before != nil {
						continue // nothing is there before a create
					}
					n++
					name := fmt.Sprintf("m%d", n)
					err := writeLabel(ctx, admin, writer, way, name, p.label, before, after)
					refused := apierrors.IsForbidden(err)
					if err != nil && !refused {
						t.Fatalf("%s, %s, %s, %s: %v", p.name, who, change, way, err)
					}
					protected := change == "set" || change == "replace" || change == "remove" || (change == "free" && p.anyValue)
					if want := protected && who == "not a member"; refused != want {
						t.Errorf("%s, %s, %s by %s: refused %v, want %v (%v)", p.name, who, change, way, refused, want, err)
					}
					if refused && (!strings.Contains(err.Error(), p.label) || !strings.Contains(err.Error(), `"`+p.name+`"`) || !strings.Contains(err.Error(), "release-managers")) {
						t.Errorf("the refusal does not name label, object and role: %v", err) // PA-7
					}
				}
			}
		}
	}
	t.Logf("%d combinations", n)
}

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// transition is the value of the label before and after; nil means that it is absent.
func transition(p protection, change string) (before, after *string) {
	prod, dev := "prod", "dev"
	switch change {
	case "set":
		return nil, &prod
	case "replace":
		if p.anyValue {
			other := "other"
			return &prod, &other
		}
		return &prod, &dev
	case "remove":
		return &prod, nil
	case "untouched":
		return &prod, &prod
	default: // a value that only a protection of every value covers
		return nil, &dev
	}
}

func labelled(name string, labels map[string]string) *unstructured.Unstructured {
	u := object("v1", "ConfigMap", name, nil)
	u.SetLabels(labels)
	return u
}

// writeLabel prepares an object as an admin and changes the label as the writer, in one of the ways.
func writeLabel(ctx context.Context, admin kubernetes.Interface, writer dynamic.Interface, way, name, key string, before, after *string) error {
	set := func(labels map[string]string, v *string) map[string]string {
		out := map[string]string{"app": name}
		for k, x := range labels {
			out[k] = x
		}
		delete(out, key)
		if v != nil {
			out[key] = *v
		}
		return out
	}
	if way == "template" || way == "status" {
		return writeWorkload(ctx, admin, writer, way, name, set(nil, before), set(nil, after))
	}
	client := writer.Resource(configMaps).Namespace("default")
	final := labelled(name, set(nil, after))
	if way == "create" {
		_, err := client.Create(ctx, final, metav1.CreateOptions{})
		return err
	}
	if way == "apply" {
		// Apply removes what the same manager had applied before and leaves out now.
		if _, err := adminApply(ctx, admin, name, set(nil, before)); err != nil {
			return err
		}
		_, err := client.Apply(ctx, name, final, metav1.ApplyOptions{FieldManager: "writer", Force: true})
		return err
	}
	cm, err := admin.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: set(nil, before)}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	switch way {
	case "update":
		final.SetResourceVersion(cm.ResourceVersion)
		final.Object["data"] = map[string]any{"touched": "yes"}
		_, err = client.Update(ctx, final, metav1.UpdateOptions{})
	case "patch":
		value := "null"
		if after != nil {
			value = `"` + *after + `"`
		}
		_, err = client.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}},"data":{"touched":"yes"}}`, key, value), metav1.PatchOptions{})
	}
	return err
}

func adminApply(ctx context.Context, admin kubernetes.Interface, name string, labels map[string]string) (*corev1.ConfigMap, error) {
	data, err := runtime.Encode(unstructured.UnstructuredJSONScheme, labelled(name, labels))
	if err != nil {
		return nil, err
	}
	force := true
	return admin.CoreV1().ConfigMaps("default").Patch(ctx, name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: "writer", Force: &force})
}

// writeWorkload changes the label in a deployment's pod template, or on a pod through its status.
func writeWorkload(ctx context.Context, admin kubernetes.Interface, writer dynamic.Interface, way, name string, before, after map[string]string) error {
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	if way == "status" {
		pod, err := admin.CoreV1().Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: before}, Spec: spec}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		u, err := asUnstructured(pod, "v1", "Pod")
		if err != nil {
			return err
		}
		u.SetLabels(after)
		_, err = writer.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace("default").UpdateStatus(ctx, u, metav1.UpdateOptions{})
		return err
	}
	d, err := admin.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: before}, Spec: spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	u, err := asUnstructured(d, "apps/v1", "Deployment")
	if err != nil {
		return err
	}
	if err := unstructured.SetNestedStringMap(u.Object, after, "spec", "template", "metadata", "labels"); err != nil {
		return err
	}
	_, err = writer.Resource(appsv1.SchemeGroupVersion.WithResource("deployments")).Namespace("default").Update(ctx, u, metav1.UpdateOptions{})
	return err
}

func asUnstructured(obj runtime.Object, apiVersion, kind string) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	return u, nil
}

// setUpProtections protects one label per case and binds one user and one group to the role.
func setUpProtections(t *testing.T, s *instance, admin kubernetes.Interface) {
	t.Helper()
	ctx := t.Context()
	s.accountForPods(t)
	if _, err := admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "release-managers"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bind := func(role string, subjects ...rbacv1.Subject) {
		b := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: subjects}
		if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, b, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	user := func(name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: name}
	}
	bind("cluster-admin", user("direct"), user("somebody"), user("outsider"))
	bind("release-managers", user("direct"), rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "releasers"})

	own := dynamic.NewForConfigOrDie(s.admin)
	for _, p := range protectionCases {
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": policyv1alpha1.SchemeGroupVersion.String(), "metadata": map[string]any{"name": p.name},
			"attributeKind": "Label", "attributeName": p.label,
			"roleRef": map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": "release-managers"},
		}}
		if !p.anyValue {
			u.Object["protectedValues"] = []any{"prod"}
		}
		var err error
		if p.cluster {
			u.SetKind("ClusterProtectedAttribute")
			_, err = own.Resource(policyv1alpha1.SchemeGroupVersion.WithResource("clusterprotectedattributes")).Create(ctx, u, metav1.CreateOptions{})
		} else {
			u.SetKind("ProtectedAttribute")
			_, err = own.Resource(policyv1alpha1.SchemeGroupVersion.WithResource("protectedattributes")).Namespace("default").Create(ctx, u, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
