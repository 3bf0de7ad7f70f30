package main

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proviso.dev/proviso/internal/engine/protectedattr"
)

// protections is an update of a deployment by a member that touches no protected label, or one. The peer is the same
// with a single protection, so that the ratio reports whether the number of protections matters; zero is what nobody
// pays for.
func protections(b *bench) error {
	one, err := protectedKeys(1)
	if err != nil {
		return err
	}
	for _, n := range []int{0, 1_000, 10_000} {
		ix, err := protectedKeys(n)
		if err != nil {
			return err
		}
		for _, touched := range []bool{false, true} {
			name := map[bool]string{false: "protected-untouched", true: "protected-touched"}[touched]
			if err := b.compare(name, n, checking("proviso", ix, touched), checking("one-protection", one, touched)); err != nil {
				return err
			}
		}
	}
	return nil
}

var releaseManagers = protectedattr.Role{Kind: protectedattr.KindClusterRole, Name: "release-managers"}

// protectedKeys is n protections, half of them labels, a fifth of them local to the namespace.
func protectedKeys(n int) (*protectedattr.Index, error) {
	all := make([]protectedattr.Protection, 0, n)
	for i := range n {
		p := protectedattr.Protection{Name: fmt.Sprint(i), Attribute: protectedattr.Attribute(i % 2), Key: fmt.Sprintf("example.com/key-%d", i), Role: releaseManagers, Values: []string{"prod"}}
		if i%10 < 2 {
			p.Namespace = "hammer"
		}
		all = append(all, p)
	}
	return protectedattr.New(protectedattr.Config{Protections: all})
}

func checking(name string, ix *protectedattr.Index, touched bool) side {
	labels := func() map[string]string {
		return map[string]string{"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": "web-1", "app.kubernetes.io/version": "7", "team": "a"}
	}
	old := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "hammer", Labels: labels(),
		Annotations: map[string]string{"deployment.kubernetes.io/revision": "1", "example.com/note": "x"}}}
	old.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels()}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	updated := old.DeepCopy()
	updated.Labels["app.kubernetes.io/version"] = "8"
	if touched {
		updated.Labels["example.com/key-0"] = "prod"
	}
	req := &protectedattr.Request{User: "edgar", Groups: []string{"team-a", "system:authenticated"}, Group: "apps", Resource: "deployments", Namespace: "hammer", Name: "web",
		Member: func(_ string, role protectedattr.Role) bool { return role == releaseManagers }}
	return side{name, func() error {
		if v := ix.Check(req, old, updated); !v.Allowed() {
			return errors.New(v.Reason())
		}
		return nil
	}}
}
