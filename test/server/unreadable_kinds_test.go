package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
)

const kindsPolicy = `
{apiVersion: v1, kind: Namespace, metadata: {name: roles}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: lost, namespace: roles}, rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: lost, namespace: roles}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: lost}, subjects: [{kind: User, name: lena, apiGroup: rbac.authorization.k8s.io}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: writer, namespace: roles}, rules: [
  {apiGroups: [""], resources: [configmaps], verbs: ["*"]}, {apiGroups: [""], resources: [pods/exec, pods/proxy], verbs: [get]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: writer, namespace: roles}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: writer}, subjects: [{kind: User, name: gina, apiGroup: rbac.authorization.k8s.io}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: wide}, rules: [
  {apiGroups: [""], resources: [configmaps], verbs: ["*"]}, {apiGroups: [""], resources: [pods/exec, pods/proxy], verbs: [get, create]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: wide}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: wide}, subjects: [{kind: User, name: wanda, apiGroup: rbac.authorization.k8s.io}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: kubelet-api}, rules: [{apiGroups: [""], resources: [nodes/proxy], verbs: [get]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: kubelet-api}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kubelet-api}, subjects: [{kind: User, name: gina, apiGroup: rbac.authorization.k8s.io}]}
`

// unreadableKinds writes bytes that no codec takes into the keys of RBAC, protected attributes and field permissions
// (SV-8).
func unreadableKinds(t *testing.T, s *instance, admin *caller, etcd *clientv3.Client) {
	x, self := newExamples(t, s), kubernetes.NewForConfigOrDie(s.admin)
	x.createAll(t, kindsPolicy)
	review := func(client kubernetes.Interface, user string, attributes authorizationv1.ResourceAttributes) authorizationv1.SubjectAccessReviewStatus {
		t.Helper()
		got, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: []string{"system:authenticated"}, ResourceAttributes: &attributes}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return got.Status
	}
	may := func(user, verb, resource, sub string) bool {
		return review(self, user, authorizationv1.ResourceAttributes{Namespace: "roles", Verb: verb, Version: "v1", Resource: resource, Subresource: sub, Name: "x"}).Allowed
	}
	await := func(what string, condition func() bool) {
		t.Helper()
		s.await(what, func() (bool, error) { return condition(), nil })
	}
	put := func(key string) {
		t.Helper()
		if _, err := etcd.Put(t.Context(), "/registry/"+key, "\x00\xff\xfe"); err != nil {
			t.Fatal(err)
		}
	}
	notice := func() string {
		_, _, body := admin.do(t, "GET", "/readyz/policy-snapshot", "")
		return string(body)
	}

	// A role that cannot be decoded grants nothing, and other changes of RBAC are effective.
	await("lena", func() bool { return may("lena", "get", "secrets", "") })
	const rbac = "/apis/rbac.authorization.k8s.io/v1"
	put("roles/roles/lost")
	await("the role to grant nothing", func() bool { return !may("lena", "get", "secrets", "") })
	put("clusterrolebindings/garbage")
	for _, kind := range []string{"Role", "ClusterRole"} {
		later := strings.ToLower(kind)
		x.createAll(t, fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: %s, metadata: {name: later, namespace: %q}, rules: [{apiGroups: [""], resources: [endpoints], verbs: [get]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: %sBinding, metadata: {name: later, namespace: %q}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %s, name: later}, subjects: [{kind: User, name: %s, apiGroup: rbac.authorization.k8s.io}]}`,
			kind, map[string]string{"Role": "roles"}[kind], kind, map[string]string{"Role": "roles"}[kind], kind, later))
		await("a grant beside it", func() bool { return may(later, "get", "endpoints", "") })
	}
	await("readyz to name both", func() bool {
		return strings.Contains(notice(), "roles roles/lost") && strings.Contains(notice(), "clusterrolebindings garbage")
	})
	// It can be written again, and deleted.
	admin.must(t, "PUT", rbac+"/namespaces/roles/roles/lost", `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: lost, namespace: roles}, rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]}`)
	await("the role again", func() bool { return may("lena", "get", "secrets", "") })
	admin.must(t, "DELETE", rbac+"/clusterrolebindings/garbage", "")
	await("readyz to forget them", func() bool { return !strings.Contains(notice(), "lost") && !strings.Contains(notice(), "garbage") })

	// A protection that does not say what it protects refuses labels, a field permission that does not say of which
	// field refuses writes; both yield to rights for the whole cluster.
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	n := 0
	create := func(user, label string) error {
		n++
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprint("m", n)}}}
		if label != "" {
			u.SetLabels(map[string]string{label: "x"})
		}
		_, err := x.as(user).Resource(configMaps).Namespace("roles").Create(t.Context(), u, metav1.CreateOptions{DryRun: []string{"All"}})
		return err
	}
	refused := func(err error) bool {
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot be read")
	}
	await("gina", func() bool { return create("gina", "any") == nil && create("wanda", "any") == nil })
	for resource, plain := range map[string]bool{"clusterprotectedattributes": true, "fieldpermissions": false} {
		put("policy.proviso.dev/" + resource + "/lost")
		await(resource+" to refuse", func() bool { return refused(create("gina", "any")) })
		if err := create("gina", ""); (err == nil) != plain {
			t.Errorf("%s: without a label: %v", resource, err)
		}
		fine(t, resource+": a right for the whole cluster", create("wanda", "any"))
		admin.must(t, "DELETE", "/apis/policy.proviso.dev/v1alpha1/"+resource+"/lost", "")
		await(resource+" to be forgotten", func() bool { return create("gina", "any") == nil })
	}

	// CA-9: a review does not say yes to a connection that is refused.
	for _, sub := range []string{"exec", "proxy"} {
		code, message, _ := newCaller(t, s.as("gina")).do(t, "GET", "/api/v1/namespaces/roles/pods/x/"+sub, "")
		if code != 403 || may("gina", "get", "pods", sub) || may("gina", "create", "pods", sub) {
			t.Errorf("get pods/%s without create: %d %s", sub, code, message)
		}
		if !may("wanda", "get", "pods", sub) || !may("wanda", "create", "pods", sub) {
			t.Errorf("get pods/%s with create is not allowed in a review", sub)
		}
		_, _, body := admin.do(t, "POST", "/apis/authorization.proviso.dev/v1alpha1/namespaces/roles/resourceaccessreviews",
			"{apiVersion: authorization.proviso.dev/v1alpha1, kind: ResourceAccessReview, spec: {verb: get, resourceKind: pods/"+sub+"}}")
		var who struct{ Status struct{ UserNames []string } }
		if err := json.Unmarshal(body, &who); err != nil || fmt.Sprint(who.Status.UserNames) != "[wanda]" {
			t.Errorf("who can get pods/%s: %s", sub, body)
		}
	}
	// A kubelet asks about requests to itself.
	node, err := kubernetes.NewForConfig(s.as("system:node:n1", "system:nodes"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := authorizationv1.ResourceAttributes{Verb: "get", Version: "v1", Resource: "nodes", Subresource: "proxy", Name: "n1"}
	if !review(node, "gina", proxy).Allowed || review(self, "gina", proxy).Allowed {
		t.Error("nodes/proxy: a kubelet has to be told what stock tells it, and everybody else what the server does")
	}
}
