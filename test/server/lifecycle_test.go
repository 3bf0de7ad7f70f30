package server

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const lifecyclePolicy = `
{apiVersion: v1, kind: Namespace, metadata: {name: NS}}
---
{apiVersion: policy.proviso.dev/v1alpha1, kind: Policy, metadata: {name: default, namespace: NS}}
---
{apiVersion: policy.proviso.dev/v1alpha1, kind: PolicyBinding, metadata: {name: NS, namespace: NS}}
---
{apiVersion: authorization.proviso.dev/v1alpha1, kind: Role, metadata: {name: keep, namespace: NS}, rules: [{deny: true, verbs: [delete, update], resourceKinds: [configmaps]}]}
---
{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: keep, namespace: NS}, roleRef: {namespace: NS, name: keep}, userNames: [edgar]}
---
{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: admins, namespace: NS}, roleRef: {namespace: master, name: admin}, userNames: [hubert, edgar]}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: ledger, namespace: NS, finalizers: [example.com/hold]}}
`

// TestNamespaceLifeAndDeath: policies belong to one namespace. They deny until it is gone, its deletion completes, and
// its successor inherits nothing (PO-4, PO-20).
func TestNamespaceLifeAndDeath(t *testing.T) {
	t.Parallel()
	s := bare.get(t)
	ctx := t.Context()
	x := newExamples(t, s)
	admin := kubernetes.NewForConfigOrDie(s.admin)
	edgar, hubert := kubernetes.NewForConfigOrDie(s.as("edgar")), kubernetes.NewForConfigOrDie(s.as("hubert"))
	own := func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: "policy.proviso.dev", Version: "v1alpha1", Resource: resource}
	}
	setUp := func(ns string) {
		t.Helper()
		x.createAll(t, strings.ReplaceAll(lifecyclePolicy, "NS", ns))
		x.eventually(t, "the policy of "+ns, func() error {
			_, err := hubert.CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
			return err
		})
	}
	remove := func(ns string) error {
		return edgar.CoreV1().ConfigMaps(ns).Delete(ctx, "ledger", metav1.DeleteOptions{})
	}
	gone := func(ns string) {
		t.Helper()
		var last *corev1.Namespace
		defer func() {
			if t.Failed() {
				t.Logf("%s is left as %+v", ns, last)
			}
		}()
		s.await("the end of "+ns, func() (bool, error) {
			found, err := admin.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
			if err == nil {
				last = found
			}
			return apierrors.IsNotFound(err), nil
		})
	}
	// The server itself reads what others do not see: a watch shows it.
	left := func(ns string) int {
		n := 0
		for _, resource := range []string{"policies", "policybindings"} {
			w, err := x.admin.Resource(own(resource)).Namespace(ns).Watch(ctx, metav1.ListOptions{SendInitialEvents: ptr(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
			if err != nil {
				t.Fatal(err)
			}
			for e := range w.ResultChan() {
				if e.Type == "BOOKMARK" {
					break
				}
				n++
			}
			w.Stop()
		}
		return n
	}

	t.Run("denies go last", func(t *testing.T) {
		setUp("slow")
		fine(t, "delete the namespace", admin.CoreV1().Namespaces().Delete(ctx, "slow", metav1.DeleteOptions{}))
		s.await("the containers to be released", func() (bool, error) {
			list, err := x.admin.Resource(own("policybindings")).Namespace("slow").List(ctx, metav1.ListOptions{})
			return err == nil && len(list.Items) == 0, err
		})
		// The config map holds the namespace; its deny still holds, and the grants do not.
		refusedWith(t, "delete what is denied", remove("slow"), "denied")
		_, err := edgar.CoreV1().ConfigMaps("slow").Patch(ctx, "ledger", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		refusedWith(t, "let its deletion end", err, "denied")
		s.await("the grants to end", func() (bool, error) {
			_, err := hubert.CoreV1().ConfigMaps("slow").List(ctx, metav1.ListOptions{})
			return apierrors.IsForbidden(err), nil
		})
		if n := left("slow"); n != 3 {
			t.Errorf("%d containers are stored while the namespace is being deleted, want 3", n)
		}
		_, err = admin.CoreV1().ConfigMaps("slow").Patch(ctx, "ledger", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		fine(t, "the admin lets it go", err)
		gone("slow")
		s.await("the containers to go", func() (bool, error) { return left("slow") == 0, nil })
	})

	t.Run("finalize leaves nothing", func(t *testing.T) {
		setUp("twice")
		fine(t, "delete the namespace", admin.CoreV1().Namespaces().Delete(ctx, "twice", metav1.DeleteOptions{}))
		finalize(t, ctx, admin, "twice")
		gone("twice")
		if _, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "twice"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		// Nobody is admin of the successor, at no moment.
		for range 20 {
			_, err := hubert.CoreV1().Secrets("twice").List(ctx, metav1.ListOptions{})
			wantForbidden(t, "the admin of the earlier namespace", err)
		}
		s.await("what was left to go", func() (bool, error) { return left("twice") == 0, nil })
		// The successor can be opened for policies of its own.
		x.createAll(t, `{apiVersion: policy.proviso.dev/v1alpha1, kind: Policy, metadata: {name: default, namespace: twice}}
---
{apiVersion: policy.proviso.dev/v1alpha1, kind: PolicyBinding, metadata: {name: twice, namespace: twice}}
---
{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: admins, namespace: twice}, roleRef: {namespace: master, name: admin}, userNames: [hubert]}`)
		x.eventually(t, "its own admin", func() error {
			_, err := hubert.CoreV1().ConfigMaps("twice").List(ctx, metav1.ListOptions{})
			return err
		})
		roles, err := x.admin.Resource(schema.GroupVersionResource{Group: "authorization.proviso.dev", Version: "v1alpha1", Resource: "roles"}).Namespace("twice").List(ctx, metav1.ListOptions{})
		if err != nil || len(roles.Items) != 0 {
			t.Errorf("roles of the earlier namespace: %v, %v", roles, err)
		}
	})
}

// finalize ends a namespace without deleting what is in it.
func finalize(t *testing.T, ctx context.Context, admin kubernetes.Interface, name string) {
	t.Helper()
	ns, err := admin.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	ns.Spec.Finalizers = nil
	if _, err := admin.CoreV1().Namespaces().Finalize(ctx, ns, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
}
