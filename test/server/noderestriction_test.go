package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/request/authorize/noderestriction"
)

// CA-18: with upstream's plugin off, a node may do exactly what it may do with it on, and the restriction is visible
// beforehand.
func TestNodeRestriction(t *testing.T) {
	t.Parallel()
	s := bare.get(t)
	ctx := t.Context()
	admin := kubernetes.NewForConfigOrDie(s.admin)
	for _, name := range []string{"n1", "n2"} {
		if _, err := admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	n1 := kubernetes.NewForConfigOrDie(s.as("system:node:n1", "system:nodes"))
	patch := func(node, body string) error {
		_, err := n1.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	s.await("the node to reach its own object", func() (bool, error) {
		return patch("n1", `{"metadata":{"annotations":{"a":"b"}}}`) == nil, nil
	})
	wantForbidden(t, "another node", patch("n2", `{"metadata":{"annotations":{"a":"b"}}}`))
	wantForbidden(t, "a label that is reserved", patch("n1", `{"metadata":{"labels":{"node-restriction.kubernetes.io/x":"y"}}}`))
	if err := patch("n1", `{"metadata":{"labels":{"example.com/mine":"y"}}}`); err != nil {
		t.Errorf("a label of its own: %v", err)
	}
	mirror := func(name, node string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}},
			Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
	}
	own, err := admin.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	controller := true
	mine := mirror("mine", "n1")
	mine.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: own.UID, Controller: &controller}}
	s.await("a mirror pod of its own", func() (bool, error) {
		_, err := n1.CoreV1().Pods("default").Create(ctx, mine, metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err), nil
	})
	_, err = n1.CoreV1().Pods("default").Create(ctx, mirror("theirs", "n2"), metav1.CreateOptions{})
	wantForbidden(t, "a mirror pod of another node", err)
	if !strings.Contains(err.Error(), "node restriction") {
		t.Errorf("the refusal does not say what it is: %v", err)
	}

	// Reviews that ask for conditions show the restriction, with the node's name; plain ones answer as stock does.
	ask := func(node, attributes, more string) string {
		t.Helper()
		review := fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"system:node:%s","groups":["system:nodes","system:authenticated"],
			"resourceAttributes":{"version":"v1",%s}%s}}`, node, attributes, more)
		answer, err := kubernetes.NewForConfigOrDie(rest.CopyConfig(s.admin)).AuthorizationV1().RESTClient().Post().AbsPath("/apis/authorization.k8s.io/v1/subjectaccessreviews").
			SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body([]byte(review)).DoRaw(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return string(answer)
	}
	const asking = `,"conditionalAuthorization":{"mode":"HumanReadable"}`
	const createPods = `"verb":"create","resource":"pods","namespace":"default"`
	answer := ask("n1", createPods, asking)
	for _, want := range []string{`"authorizerName":"node-restriction"`, `"type":"k8s.io/node-authorizer"`, `"effect":"Deny"`, `\"nodeName\":\"n1\"`, `node \"n1\" may write only itself`, `"authorizerName":"node"`} {
		if !strings.Contains(answer, want) {
			t.Errorf("the review does not show %s: %s", want, answer)
		}
	}
	// CA-25: where CEL can say it, it does, here and in what a node asks about itself.
	const leases = `"verb":"create","group":"coordination.k8s.io","resource":"leases","namespace":"kube-node-lease"`
	if answer := ask("n1", leases, asking); !strings.Contains(answer, `"condition":"object.metadata.?name.orValue(\"\") != \"n1\"","description":"NodeRestriction`) || !strings.Contains(answer, expr.TypeCEL) {
		t.Errorf("the review of a lease does not say it in CEL: %s", answer)
	}
	status := newCaller(t, s.as("system:node:n1", "system:nodes")).ask(t, "", "verb: patch, resourceKind: nodes, resourceName: n1, trace: true")
	if shown := fmt.Sprintf("%+v", status.Trace); status.Trace == nil || !strings.Contains(shown, `object.spec.?taints.orValue([]) != oldObject.spec.?taints.orValue([])`) {
		t.Errorf("the trace does not show the restriction: %s", shown)
	}
	// kubeadm binds these to the group of nodes, for the controller that approves certificates.
	const selfNodeClient = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient"
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "node-autoapprove-certificate-rotation"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: selfNodeClient},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:nodes"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const approve = `"verb":"create","group":"certificates.k8s.io","resource":"certificatesigningrequests","subresource":"selfnodeclient"`
	s.await("the approval of a node's certificate", func() (bool, error) { return strings.Contains(ask("n1", approve, ""), `"allowed":true`), nil })
	for _, tc := range []struct{ attributes, more, want string }{
		{approve, asking, `"allowed":true`}, // it never reaches admission, so that nothing restricts it
		{createPods, "", `"allowed":true`},
		{`"verb":"create","resource":"nodes"`, "", `"allowed":true`},
		{`"verb":"patch","resource":"nodes","subresource":"status","name":"n2"`, "", `"allowed":true`}, // the plugin refuses it, and is no part of the answer
		{`"verb":"create","group":"coordination.k8s.io","resource":"leases","namespace":"kube-node-lease"`, "", `"allowed":true`},
		{`"verb":"create","resource":"configmaps","namespace":"default"`, "", `"allowed":false`},
	} {
		if answer := ask("n1", tc.attributes, tc.more); !strings.Contains(answer, tc.want) || strings.Contains(answer, "node-restriction") {
			t.Errorf("%s%s: %s, want %s", tc.attributes, tc.more, answer, tc.want)
		}
	}
	servedSubresources(t, admin.Discovery())
}

// servedSubresources: every subresource that a node can write through the plugin is restricted; one that Kubernetes
// adds shows here.
func servedSubresources(t *testing.T, client discovery.DiscoveryInterface) {
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	// What the plugin does not look at, or admission does not show to it.
	free := []string{"pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "pods/log", "nodes/proxy",
		"certificatesigningrequests/approval", "certificatesigningrequests/status", "serviceaccounts"}
	seen := 0
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			resource, subresource, _ := strings.Cut(r.Name, "/")
			if !slices.Contains(noderestriction.Resources, schema.GroupResource{Group: gv.Group, Resource: resource}) {
				continue
			}
			seen++
			for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
				attrs := authorizer.AttributesRecord{Verb: verb, APIGroup: gv.Group, Resource: resource, Subresource: subresource, ResourceRequest: true}
				if slices.Contains(r.Verbs, verb) && noderestriction.ReachesPlugin(attrs) == slices.Contains(free, r.Name) {
					t.Errorf("%s %s: restricted is %v", verb, r.Name, noderestriction.ReachesPlugin(attrs))
				}
			}
		}
	}
	if seen < 15 {
		t.Errorf("only %d resources were looked at", seen)
	}
}
