package server

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// changesTellWhatMayBeSeen: who changes pods under a condition, and gets them under one, is told what is wrong with a
// change of a pod that he may see, and of one that is not there yet; of another pod only that it is wrong (CA-6, RD-4).
func changesTellWhatMayBeSeen(t *testing.T, s *instance, admin dynamic.Interface) {
	t.Helper()
	const own = `resource.spec.nodeName == "reads-n1"`
	grantReads(t, admin, "menders", "mel", readRule(own, "pods"), map[string]any{"verbs": []any{"patch", "create"}, "resourceKinds": []any{"pods"}, "where": own})
	grantReads(t, admin, "writers", "wes", map[string]any{"verbs": []any{"patch"}, "resourceKinds": []any{"pods"}, "where": own})
	mel, wes := kubernetes.NewForConfigOrDie(s.as("mel")), kubernetes.NewForConfigOrDie(s.as("wes"))
	change := func(client kubernetes.Interface, name string, kind types.PatchType, patch string) error {
		opts := metav1.PatchOptions{}
		if kind == types.ApplyPatchType {
			opts.FieldManager = "test"
		}
		_, err := client.CoreV1().Pods("default").Patch(t.Context(), name, kind, []byte(patch), opts)
		return err
	}
	const immutable = `{"spec":{"hostname":"other"}}`
	const test = `[{"op":"test","path":"/spec/nodeName","value":"wrong"}]`
	const broken = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"fresh"},"spec":{"nodeName":"reads-n1","containers":[{"name":"NOT A NAME","image":"i"}]}}`
	s.await("the right to change p1", func() (bool, error) {
		return apierrors.IsInvalid(change(mel, "p1", types.MergePatchType, immutable)) && apierrors.IsInvalid(change(wes, "p1", types.MergePatchType, immutable)), nil
	})
	for _, tc := range []struct {
		what   string
		client kubernetes.Interface
		name   string
		kind   types.PatchType
		patch  string
		want   string
	}{
		{"a pod that he may see", mel, "p1", types.MergePatchType, immutable, "pod updates may not change fields"},
		{"a test of a pod that he may see", mel, "p1", types.JSONPatchType, test, "the server rejected our request"},
		{"a pod that is not there", mel, "fresh", types.ApplyPatchType, broken, "NOT A NAME"},
		// No change of this pod is allowed: whether one is valid would tell what is stored.
		{"a pod that he may not see", mel, "p2", types.MergePatchType, immutable, "was not met"},
		{"a test of a pod that he may not see", mel, "p2", types.JSONPatchType, test, "was not met"},
		{"a pod, by who may see none", wes, "p1", types.MergePatchType, immutable, "is not shown"},
	} {
		err := change(tc.client, tc.name, tc.kind, tc.patch)
		if refused := tc.want == "was not met"; apierrors.IsForbidden(err) != refused || apierrors.IsInvalid(err) == refused || !strings.Contains(err.Error(), tc.want) || tc.want == "is not shown" && (strings.Contains(err.Error(), "reads-n2") || strings.Contains(err.Error(), "nodeName")) {
			t.Errorf("%s: %v, want %q", tc.what, err, tc.want)
		}
	}
	if err := change(mel, "p1", types.MergePatchType, `{"metadata":{"labels":{"mended":"yes"}}}`); err != nil {
		t.Errorf("a change that is right: %v", err)
	}
}
