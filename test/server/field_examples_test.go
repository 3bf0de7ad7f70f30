package server

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// TestFieldExamples applies the examples of field permissions exactly as they are and does, as the users in question,
// what they are about, with a client that knows nothing of them and updates whole objects (FP-11).
func TestFieldExamples(t *testing.T) {
	x := newExamples(t, peopled.get(t)) // pods need a service account
	t.Run("supersafe by RBAC", func(t *testing.T) {
		x.install(t, "supersafe/rbac.yaml")
		supersafe(t, x, "default", "supersafe")
	})
	t.Run("supersafe by Policy", func(t *testing.T) {
		x.install(t, "supersafe/policy.yaml")
		supersafe(t, x, "vault", "supersafe-vault")
	})
	t.Run("exclusive-field", func(t *testing.T) { exclusiveField(t, x) })
}

// deployment is one that validates.
func deployment(namespace, name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
			},
		},
	}
}

// supersafe does plain updates of whole objects as the operator.
func supersafe(t *testing.T, x *examples, namespace, user string) {
	ctx := t.Context()
	admin := kubernetes.NewForConfigOrDie(x.s.admin).AppsV1().Deployments(namespace)
	operator := kubernetes.NewForConfigOrDie(x.s.as(user)).AppsV1().Deployments(namespace)
	if _, err := admin.Create(ctx, deployment(namespace, "web"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	update := func(change func(*appsv1.Deployment)) error {
		d, err := operator.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(d)
		_, err = operator.Update(ctx, d, metav1.UpdateOptions{})
		return err
	}
	x.eventually(t, "the operator's rights", func() error {
		return update(func(d *appsv1.Deployment) { d.Labels["super.safe.com/checked"] = "yes" })
	})
	for _, tc := range []struct {
		name   string
		change func(*appsv1.Deployment)
		needs  string // empty if it is allowed
	}{
		{"own label", func(d *appsv1.Deployment) { d.Labels["super.safe.com/checked"] = "no" }, ""},
		{"other label", func(d *appsv1.Deployment) { d.Labels["other.com/x"] = "1" },
			"field .metadata.labels[other.com/x] needs granular:label(other.com) (or granular:labels, granular:metadata)"}, // FP-9
		{"label without a prefix", func(d *appsv1.Deployment) { delete(d.Labels, "app") }, "granular:label(app)"},
		{"own annotation", func(d *appsv1.Deployment) { d.Annotations = map[string]string{"super.safe.com/a": "b"} }, ""},
		{"other annotation", func(d *appsv1.Deployment) {
			d.Annotations = map[string]string{"safe.com/a": "b", "super.safe.com/a": "b"}
		}, "granular:annotation(safe.com)"},
		{"own finalizer", func(d *appsv1.Deployment) { d.Finalizers = []string{"super.safe.com/hold"} }, ""},
		{"other finalizer", func(d *appsv1.Deployment) { d.Finalizers = append(d.Finalizers, "other.com/hold") }, "granular:finalizer(other.com)"},
		{"owner", func(d *appsv1.Deployment) {
			d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "b"}}
		}, "granular:ownerReferences"},
		{"image", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "evil" }, "granular:specification"},
		{"own label and image", func(d *appsv1.Deployment) {
			d.Labels["super.safe.com/checked"] = "x"
			d.Spec.Template.Spec.Containers[0].Image = "evil"
		}, "granular:specification"},
		{"replicas", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32) }, "granular:replicas (or granular:specification)"},
		{"nothing", func(*appsv1.Deployment) {}, ""},
		{"own finalizer removed", func(d *appsv1.Deployment) { d.Finalizers = nil }, ""},
	} {
		expect(t, tc.name, update(tc.change), tc.needs)
	}
	status := func(condition appsv1.DeploymentCondition, replicas int32) error {
		d, err := operator.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		d.Status.Conditions = append(d.Status.Conditions[:0:0], condition)
		d.Status.Replicas = replicas
		_, err = operator.UpdateStatus(ctx, d, metav1.UpdateOptions{})
		return err
	}
	own := appsv1.DeploymentCondition{Type: "SuperSafe", Status: "True"}
	expect(t, "own condition", status(own, 0), "")
	expect(t, "own condition and more", status(own, 3), "granular:status")
	expect(t, "other condition", status(appsv1.DeploymentCondition{Type: "Available", Status: "True"}, 0), "granular:condition(Available)")
	_, err := operator.Create(ctx, deployment(namespace, "mine"), metav1.CreateOptions{})
	expect(t, "create", err, "granular:label(app)")
	if err := operator.Delete(ctx, "web", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("delete: %v", err)
	}
}

// expect compares an answer with what is wanted: allowed, or refused because of a permission.
func expect(t *testing.T, what string, err error, needs string) {
	t.Helper()
	switch {
	case needs == "" && err != nil:
		t.Errorf("%s: %v", what, err)
	case needs != "" && !apierrors.IsForbidden(err):
		t.Errorf("%s: got %v, want a refusal for the lack of %s", what, err, needs)
	case needs != "" && !strings.Contains(err.Error(), needs):
		t.Errorf("%s: refused with %q, which does not name %s", what, err, needs)
	}
}

func exclusiveField(t *testing.T, x *examples) {
	ctx := t.Context()
	x.install(t, "exclusive-field/fieldpermissions.yaml")
	x.install(t, "exclusive-field/roles.yaml")
	dora, nadia := kubernetes.NewForConfigOrDie(x.s.as("dora")), kubernetes.NewForConfigOrDie(x.s.as("nadia"))
	n := 0
	create := func(client kubernetes.Interface, hostNetwork bool) error {
		n++
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", n)}, Spec: deployment("", "x").Spec.Template.Spec}
		pod.Spec.HostNetwork = hostNetwork
		_, err := client.CoreV1().Pods("play").Create(ctx, pod, metav1.CreateOptions{})
		return err
	}
	template := func(client kubernetes.Interface, hostNetwork bool) error {
		n++
		d := deployment("play", fmt.Sprint("d", n))
		d.Spec.Template.Spec.HostNetwork = hostNetwork
		_, err := client.AppsV1().Deployments("play").Create(ctx, d, metav1.CreateOptions{})
		return err
	}
	older := func(client kubernetes.Interface) error {
		_, err := client.CoreV1().Namespaces().Patch(ctx, "play", types.MergePatchType, []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce-version":"v1.20"}}}`), metav1.PatchOptions{})
		return err
	}
	level := func(ctx context.Context, client kubernetes.Interface, value string) error {
		ns, err := client.CoreV1().Namespaces().Get(ctx, "play", metav1.GetOptions{})
		if err != nil {
			return err
		}
		ns.Labels["pod-security.kubernetes.io/enforce"], ns.Labels["note"] = value, fmt.Sprint(n)
		_, err = client.CoreV1().Namespaces().Update(ctx, ns, metav1.UpdateOptions{})
		return err
	}
	x.eventually(t, "nadia's permission", func() error { return level(ctx, nadia, "privileged") })
	const needs = "field .spec.hostNetwork needs granular:example.com/nodeNetwork"
	x.eventually(t, "the service account of pods", func() error { return create(nadia, false) })
	x.s.await("the exclusive field", func() (bool, error) { return apierrors.IsForbidden(create(dora, true)), nil })
	expect(t, "true by dora", create(dora, true), needs)
	expect(t, "false by dora", create(dora, false), "")
	expect(t, "true by nadia", create(nadia, true), "")
	expect(t, "true in a template by dora", template(dora, true), "field .spec.template.spec.hostNetwork needs granular:example.com/nodeNetwork") // FP-15
	expect(t, "false in a template by dora", template(dora, false), "")
	expect(t, "true in a template by nadia", template(nadia, true), "")
	expect(t, "level by dora", level(ctx, dora, "restricted"), "field .metadata.labels[pod-security.kubernetes.io/enforce] needs granular:example.com/podSecurityLevel")
	expect(t, "older version by dora", older(dora), "field .metadata.labels[pod-security.kubernetes.io/enforce-version] needs granular:example.com/podSecurityLevel")
	expect(t, "same level by dora", level(ctx, dora, "privileged"), "")
	expect(t, "level by nadia", level(ctx, nadia, "restricted"), "")
}
