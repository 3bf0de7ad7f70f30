package server

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// PO-20: what an owner owns, be it through others, is found by the index of owners: at once after it was written, in
// its namespace and of any kind, and not by looking at every object.
func TestOwnedObjectsAreFoundByIndex(t *testing.T) {
	t.Parallel()
	s := plain.get(t)
	ctx := t.Context()
	admin := kubernetes.NewForConfigOrDie(s.admin)
	grantReads(t, dynamic.NewForConfigOrDie(s.admin), "owned", "owned-olga", map[string]any{"verbs": []any{"*"}, "resourceKinds": []any{"*"}},
		map[string]any{"verbs": []any{"delete"}, "resourceKinds": []any{"limitranges"}, "deny": true, "where": `resource.metadata.name.startsWith("owned-kept")`})
	olga := kubernetes.NewForConfigOrDie(s.as("owned-olga"))
	dry := metav1.DeleteOptions{DryRun: []string{"All"}}
	s.await("the rules", func() (bool, error) {
		_, err := olga.CoreV1().Secrets("default").Get(ctx, "owned", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	searches := func() (n int) {
		body, err := admin.RESTClient().Get().AbsPath("/metrics").Do(ctx).Raw()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(body)) {
			if strings.HasPrefix(line, "apiserver_cache_list_total") && strings.Contains(line, `resource="limitranges"`) && strings.Contains(line, `index="f:metadata.ownerReferences.uid"`) {
				n++
			}
		}
		return n
	}
	for i := range 3 {
		name := fmt.Sprint("owned-", i)
		top, err := admin.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		remove := func() error { return olga.CoreV1().Secrets("default").Delete(ctx, name, dry) }
		if err := remove(); err != nil {
			t.Errorf("an owner of nothing: %v", err)
		}
		below := func(kind, name string, owner metav1.Object) metav1.ObjectMeta {
			return metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: owner.GetName(), UID: owner.GetUID()}}}
		}
		middle, err := admin.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: below("Secret", name, top)}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := remove(); err != nil {
			t.Errorf("an owner of what is not denied: %v", err)
		}
		for _, kept := range []string{"owned-free-", "owned-kept-"} {
			if _, err := admin.CoreV1().LimitRanges("default").Create(ctx, &corev1.LimitRange{ObjectMeta: below("ServiceAccount", kept+name, middle)}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := remove(); apierrors.IsForbidden(err) != (kept == "owned-kept-") || err != nil && !strings.Contains(err.Error(), "the garbage collector would delete limitranges that the object owns") {
				t.Errorf("with %s: %v", kept+name, err)
			}
		}
	}
	if searches() == 0 {
		t.Error("the index was not asked")
	}
}
