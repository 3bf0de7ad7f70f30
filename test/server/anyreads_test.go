package server

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// RD-10, RD-15: a watch under a condition that no selector can say, folded, is the list at every event and bookmark: of
// what the watch cache serves, of what comes from etcd, and over all namespaces.
func TestAnyConditionFolds(t *testing.T) {
	t.Parallel()
	s := plain.get(t)
	admin := dynamic.NewForConfigOrDie(s.admin)
	for _, f := range []folding{
		{namespace: "anyfold", user: "fay", of: configmaps, where: `resource.data.n.startsWith("1") || resource.metadata.name.endsWith("3") && resource.metadata.labels.team == "f"`,
			meets: func(o *unstructured.Unstructured) bool {
				n, _, _ := unstructured.NestedString(o.Object, "data", "n")
				return strings.HasPrefix(n, "1") || strings.HasSuffix(o.GetName(), "3") && o.GetLabels()["team"] == "f"
			}},
		{namespace: "anyfold-etcd", user: "fee", of: events, where: `resource.reason.startsWith("1") || resource.reason.endsWith("2")`,
			meets: func(o *unstructured.Unstructured) bool {
				n, _, _ := unstructured.NestedString(o.Object, "reason")
				return strings.HasPrefix(n, "1") || strings.HasSuffix(n, "2")
			}},
		{namespace: "anyfold-all", user: "fia", of: configmaps, everywhere: true, where: `resource.metadata.namespace.startsWith("anyfold-a") && resource.metadata.labels.n.startsWith("2")`,
			meets: func(o *unstructured.Unstructured) bool {
				return o.GetNamespace() == "anyfold-all" && strings.HasPrefix(o.GetLabels()["n"], "2")
			}},
	} {
		t.Run(f.namespace, func(t *testing.T) {
			t.Parallel()
			foldedWatchIsTheList(t, s, admin, f)
		})
	}
}
