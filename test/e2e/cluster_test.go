package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer, description: How large it is.}}}}}}
`

// SV-1, SV-3: a complete API server: namespaces with their service accounts, apply, patch, watch, custom resources,
// garbage collection, quota and aggregation, all through the bundled kubectl.
func TestItIsAKubernetes(t *testing.T) {
	t.Parallel()
	s := serve(t, tempDir(t)+"/d")

	s.kubectl("create", "namespace", "hammer")
	s.await("the default service account", func() bool {
		out, err := s.try("", "get", "serviceaccount/default", "configmap/kube-root-ca.crt", "-n", "hammer", "-o", "name")
		return err == nil && strings.Count(out, "\n") == 2
	})
	if token := s.kubectl("create", "token", "default", "-n", "hammer"); strings.Count(token, ".") != 2 {
		t.Errorf("no token: %q", token)
	}

	// apply, client side and server side, patch, label
	s.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: hammer}\ndata: {a: one}\n")
	s.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: hammer}\ndata: {b: two}\n", "--server-side", "--force-conflicts")
	s.kubectl("patch", "configmap", "c", "-n", "hammer", "--type", "json", "-p", `[{"op":"add","path":"/data/c","value":"three"}]`)
	if got := s.kubectl("get", "configmap", "c", "-n", "hammer", "-o", "jsonpath={.data.b}{.data.c}"); got != "twothree" {
		t.Errorf("apply and patch: %q", got)
	}

	// watch sees what is written after it began
	watch := spawn(t, binary(t), "kubectl", "--kubeconfig", s.kubeconfig, "get", "configmaps", "-n", "hammer", "-o", "name", "--watch")
	watch.await("the watch", func() bool { return strings.Contains(watch.output.String(), "configmap/c") })
	s.kubectl("create", "configmap", "seen", "-n", "hammer")
	watch.await("an event", func() bool { return strings.Contains(watch.output.String(), "configmap/seen") })

	// custom resources
	s.apply(widgets)
	s.established("widgets.example.com")
	s.await("the custom resource to be accepted", func() bool {
		_, err := s.try("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: hammer}\nspec: {size: 3}\n", "apply", "-f", "-")
		return err == nil
	})
	s.await("explain", func() bool {
		out, err := s.try("", "explain", "widget.spec.size")
		return err == nil && strings.Contains(out, "How large it is.")
	})

	// owners take what they own with them
	uid := s.kubectl("get", "configmap", "c", "-n", "hammer", "-o", "jsonpath={.metadata.uid}")
	s.apply("apiVersion: v1\nkind: Secret\nmetadata:\n  name: owned\n  namespace: hammer\n  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: c, uid: " + strings.TrimSpace(uid) + "}]\n")
	s.kubectl("delete", "configmap", "c", "-n", "hammer")
	s.await("garbage collection", func() bool {
		_, err := s.try("", "get", "secret", "owned", "-n", "hammer")
		return err != nil
	})

	// quota counts, aggregated roles fill
	s.kubectl("create", "quota", "q", "--hard=configmaps=5", "-n", "hammer")
	s.await("quota", func() bool {
		return s.kubectl("get", "quota", "q", "-n", "hammer", "-o", "jsonpath={.status.used.configmaps}") != ""
	})
	s.apply("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: more-view, labels: {rbac.authorization.k8s.io/aggregate-to-view: 'true'}}\nrules: [{apiGroups: [example.com], resources: [widgets], verbs: [get]}]\n")
	s.await("aggregation", func() bool { return strings.Contains(s.kubectl("get", "clusterrole", "view", "-o", "yaml"), "widgets") })

	// deleting a namespace completes, custom resources, policies and all
	s.apply("apiVersion: policy.proviso.dev/v1alpha1\nkind: Policy\nmetadata: {name: default, namespace: hammer}\n")
	s.kubectl("delete", "namespace", "hammer", "--timeout=90s")

	// our groups are first-class: discovery, explain, columns, watch
	if out := s.kubectl("api-resources", "--api-group", "policy.proviso.dev"); !strings.Contains(out, "policies") || !strings.Contains(out, "Policy") {
		t.Errorf("discovery:\n%s", out)
	}
	if out := s.kubectl("explain", "roles.authorization.proviso.dev.rules.where"); !strings.Contains(out, "CEL expression") {
		t.Errorf("explain:\n%s", out)
	}

	// any kubectl works; a stock one is used if the machine has one
	if stock, err := exec.LookPath("kubectl"); err == nil {
		if out, err := exec.Command(stock, "--kubeconfig", s.kubeconfig, "get", "namespaces").CombinedOutput(); err != nil {
			t.Errorf("stock kubectl: %v\n%s", err, out)
		}
	}
}
