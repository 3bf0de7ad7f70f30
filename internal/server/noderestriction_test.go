package server

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// CA-18: with upstream's plugin off, a node may do exactly what it may do with it on, and the restriction is visible
// beforehand.
func TestNodeRestriction(t *testing.T) {
	s := start(t, func(o *Options) {
		o.Kube.Admission.GenericAdmission.DisablePlugins = []string{"NodeRestriction"}
		given := o.changed
		o.changed = func(name string) bool { return name == "enable-admission-plugins" || given(name) }
	})
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

	review := []byte(`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"system:node:n1","groups":["system:nodes"],
		"resourceAttributes":{"verb":"create","version":"v1","resource":"pods","namespace":"default"},"conditionalAuthorization":{"mode":"HumanReadable"}}}`)
	config := rest.CopyConfig(s.admin)
	answer, err := kubernetes.NewForConfigOrDie(config).AuthorizationV1().RESTClient().Post().AbsPath("/apis/authorization.k8s.io/v1/subjectaccessreviews").
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(review).DoRaw(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"authorizerName":"node-restriction"`, `"type":"k8s.io/node-authorizer"`, `"effect":"Deny"`, `"authorizerName":"node"`} {
		if !strings.Contains(string(answer), want) {
			t.Errorf("the review does not show %s: %s", want, answer)
		}
	}
}
