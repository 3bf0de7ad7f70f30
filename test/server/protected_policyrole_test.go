package server

import (
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// PA-15, PA-12, TM-1: the members that a protection excepts can be those of a role of Policy. Such a role is guarded
// against bindings, however they spell it, and against AccessRules.
func TestProtectedForPolicyRoles(t *testing.T) {
	t.Parallel()
	s := plain.get(t)
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	furnish(t, client, "pa-a", "pa-b")
	grantPolicy(t, admin, "master", "pa-keepers", "pa-olga", map[string]any{"verbs": []any{"get"}, "resourceKinds": []any{"configmaps"}})
	work := map[string]any{"verbs": []any{"*"}, "resourceKinds": []any{"rolebindings.authorization.proviso.dev", "configmaps"}}
	grantPolicy(t, admin, "pa-a", "pa-kim", "pa-kim", work)
	grantPolicy(t, admin, "pa-b", "pa-kim", "pa-kim", work)
	grantPolicy(t, admin, "pa-a", "pa-clerks", "pa-nobody", map[string]any{"verbs": []any{"get"}, "resourceKinds": []any{"configmaps"}})
	protect := func(kind, resource, namespace, key string, role map[string]any) {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "policy.proviso.dev/v1alpha1", "kind": kind, "metadata": map[string]any{"name": "pa-" + key},
			"attributeKind": "Label", "attributeName": "pa.example/" + key, "roleRef": role}}
		of := schema.GroupVersionResource{Group: "policy.proviso.dev", Version: "v1alpha1", Resource: resource}
		if _, err := admin.Resource(of).Namespace(namespace).Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const group = "authorization.proviso.dev"
	protect("ClusterProtectedAttribute", "clusterprotectedattributes", "", "zone", map[string]any{"apiGroup": group, "kind": "Role", "namespace": "master", "name": "pa-keepers"})
	protect("ProtectedAttribute", "protectedattributes", "pa-a", "shelf", map[string]any{"apiGroup": group, "kind": "Role", "name": "pa-clerks"})

	kim := dynamic.NewForConfigOrDie(s.as("pa-kim"))
	mark := func(namespace, key string) error {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "marked", "labels": map[string]any{"pa.example/" + key: "x"}}}}
		_, err := kim.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespace).Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{"All"}})
		return err
	}
	s.await("the protections", func() (bool, error) {
		err, other := mark("pa-a", "zone"), mark("pa-a", "shelf")
		return err != nil && other != nil && strings.Contains(err.Error(), "is protected") && strings.Contains(other.Error(), "is protected"), nil
	})
	refusedWith(t, "a role of the master namespace", mark("pa-a", "zone"), `Policy role "master/pa-keepers"`)
	refusedWith(t, "a role of the own namespace", mark("pa-a", "shelf"), `Policy role "pa-a/pa-clerks"`)
	fine(t, "the key is free elsewhere", mark("pa-b", "shelf"))

	join := func(by dynamic.Interface, namespace, name string, fields map[string]any, options metav1.CreateOptions) error {
		b := map[string]any{"apiVersion": "authorization.proviso.dev/v1alpha1", "kind": "RoleBinding", "metadata": map[string]any{"name": name, "namespace": namespace}, "userNames": []any{"pa-kim"}}
		for key, value := range fields {
			b[key] = value
		}
		_, err := by.Resource(policyBind).Namespace(namespace).Create(t.Context(), &unstructured.Unstructured{Object: b}, options)
		return err
	}
	toKeepers := map[string]any{"roleRef": map[string]any{"namespace": "master", "name": "pa-keepers"}}
	for what, fields := range map[string]map[string]any{
		"of the master namespace": toKeepers,
		"as the design spells it": {"roleName": "pa-keepers", "referencesGlobalRole": true},
		"of the own namespace":    {"roleRef": map[string]any{"name": "pa-clerks"}},
		"for an hour":             {"roleRef": map[string]any{"namespace": "master", "name": "pa-keepers"}, "notAfter": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)},
	} {
		refusedWith(t, "joining a role "+what, join(kim, "pa-a", "join", fields, metav1.CreateOptions{DryRun: []string{"All"}}), "guards protected attributes")
	}
	fine(t, "binding another role", join(kim, "pa-b", "join", map[string]any{"roleRef": map[string]any{"name": "pa-kim"}}, metav1.CreateOptions{DryRun: []string{"All"}}))

	rules := schema.GroupVersionResource{Group: "access.proviso.dev", Version: "v1alpha1", Resource: "accessrules"}
	writer := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "pa-rules"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"*"}, APIGroups: []string{rules.Group}, Resources: []string{rules.Resource}}, {Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}}}
	if _, err := client.RbacV1().ClusterRoles().Create(t.Context(), writer, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	grantFor(t, admin, "master", "pa-kim", "pa-rules", time.Now().Add(time.Hour))
	offer := func(by dynamic.Interface) error {
		r := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "access.proviso.dev/v1alpha1", "kind": "AccessRule", "metadata": map[string]any{"name": "pa-offer"}, "spec": map[string]any{
			"subjects": map[string]any{"userNames": []any{"pa-kim"}}, "roleRef": map[string]any{"namespace": "master", "name": "pa-keepers"},
			"namespaces": []any{"pa-a"}, "maxDurationSeconds": int64(60), "approvals": map[string]any{"count": int64(1), "subjects": map[string]any{"userNames": []any{"pa-olga"}}}}}}
		_, err := by.Resource(rules).Create(t.Context(), r, metav1.CreateOptions{DryRun: []string{"All"}})
		return err
	}
	s.await("the right to write rules", func() (bool, error) {
		err := offer(kim)
		return err == nil || !strings.Contains(err.Error(), "cannot create resource"), nil
	})
	refusedWith(t, "letting people ask for it", offer(kim), "guards protected attributes")
	fine(t, "an administrator lets people ask for it", offer(admin))

	if err := join(admin, "pa-a", "kim-keeps", toKeepers, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.await("membership", func() (bool, error) { return mark("pa-a", "zone") == nil, nil })
	refusedWith(t, "a member elsewhere", mark("pa-b", "zone"), "is protected")
	// Who is a member may let others join, where they are one.
	fine(t, "a member binds", join(kim, "pa-a", "another", toKeepers, metav1.CreateOptions{DryRun: []string{"All"}}))
	refusedWith(t, "a member binds elsewhere", join(kim, "pa-b", "another", toKeepers, metav1.CreateOptions{DryRun: []string{"All"}}), "guards protected attributes")
}
