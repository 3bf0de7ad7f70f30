package server

import (
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/features/fieldpermissions"
	"proviso.dev/proviso/internal/features/hiddenfields"
	"proviso.dev/proviso/internal/hosts/apiserver"
	"proviso.dev/proviso/test/etcdtest"
)

// FP-18: a definition is replaced while field permissions are switched off, and loses what it declared. With the gate
// on again it still guards, and says so until somebody who may repeats or removes it.
func TestDeclarationsOutliveTheGate(t *testing.T) {
	etcd := etcdtest.Start(t)
	stored, err := clientv3.New(clientv3.Config{Endpoints: etcd.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stored.Close() })
	run := func(beside *instance, change func(*apiserver.Options)) *instance {
		return start(t, func(o *apiserver.Options) {
			useEtcd(o, etcd)
			o.Give("controllers", "data-dir", "etcd-servers")
			o.Agree = true
			if beside != nil {
				copyPKI(t, beside.dir, o.DataDir)
			}
			change(o)
		})
	}
	on := func(*apiserver.Options) {}
	off := func(o *apiserver.Options) { o.SwitchOff(fieldpermissions.Gate, hiddenfields.Gate) }

	const name = "rockets.example.com"
	rocket := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "rockets"}
	fires := func(s *instance) error {
		_, err := dynamic.NewForConfigOrDie(s.as("fred")).Resource(rocket).Namespace("fk").Patch(t.Context(), "one", types.MergePatchType,
			[]byte(`{"spec":{"fire":true}}`), metav1.PatchOptions{DryRun: []string{"All"}})
		return err
	}
	missing := func(s *instance) string {
		crd, err := apiextensionsclient.NewForConfigOrDie(s.admin).ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), name, metav1.GetOptions{})
		fine(t, "reading the definition", err)
		for _, c := range crd.Status.Conditions {
			if c.Type == policyv1alpha1.ConditionDeclarationsMissing {
				return string(c.Status) + " " + c.Message
			}
		}
		return ""
	}
	guards := func(what string, s *instance) {
		t.Helper()
		s.await(what, func() (bool, error) {
			err := fires(s)
			return err != nil && strings.Contains(err.Error(), "granular:example.com/fire"), nil
		})
	}
	declared, plain := rocketFile("verb: example.com/fire", "exclusive: true"), rocketFile()

	s := run(nil, on)
	furnish(t, kubernetes.NewForConfigOrDie(s.admin), "fk")
	s.does(t, declared, "create", "-f", "-")
	s.does(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: fred}, rules: [{verbs: [get, create, update, patch],
  apiGroups: [example.com, apiextensions.k8s.io], resources: [rockets, customresourcedefinitions]}]}`, "create", "-f", "-")
	s.does(t, "", "create", "clusterrolebinding", "fred", "--clusterrole=fred", "--user=fred")
	one := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Rocket", "metadata": map[string]any{"name": "one"}, "spec": map[string]any{"level": "low"}}}
	s.await("the resource", func() (bool, error) {
		_, err := dynamic.NewForConfigOrDie(s.admin).Resource(rocket).Namespace("fk").Create(t.Context(), one, metav1.CreateOptions{})
		return err == nil, nil
	})
	guards("the declaration", s)
	// What is removed while the gate is on is not missing.
	s.does(t, rocketFile("verb: null"), "replace", "-f", "-")
	s.await("the removal", func() (bool, error) { return fires(s) == nil, nil })
	s.does(t, declared, "replace", "-f", "-")
	guards("the declaration, again", s)
	if text := missing(s); text != "" {
		t.Errorf("missing, with the gate on: %s", text)
	}
	s.Stop()

	s = run(s, off)
	s.does(t, plain, "replace", "-f", "-")
	s.await("the gate to be off", func() (bool, error) { return fires(s) == nil, nil })
	s.Stop()

	s = run(s, on)
	second := run(s, on)
	guards("what is missing", s)
	guards("what is missing, in a replica", second)
	s.await("the condition", func() (bool, error) {
		return strings.HasPrefix(missing(s), "True ") && strings.Contains(missing(s), "v1 .spec.fire"), nil
	})
	s.does(t, "", "label", "crd", name, "seen=yes")
	for what, file := range map[string]string{"repeating": declared, "removing": rocketFile("verb: null")} {
		if out, ok := s.kubectl(file, "apply", "--server-side", "--force-conflicts", "-f", "-", "--as=fred"); ok || !strings.Contains(out, `needs the verb "escalate" on fieldpermissions.policy.proviso.dev`) {
			t.Errorf("%s, by fred: %v %s", what, ok, out)
		}
		if out, ok := s.kubectl(file, "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-", "--as=fred"); ok {
			t.Errorf("%s, by fred, as a dry run: %s", what, out)
		}
	}
	s.does(t, declared, "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-")
	if out, ok := s.kubectl(plain, "replace", "-f", "-", "--as=fred"); !ok {
		t.Errorf("a write that says nothing about it: %s", out)
	}
	guards("what is still missing", s)
	if !strings.HasPrefix(missing(s), "True ") {
		t.Error("the condition is gone")
	}

	// Repeated, and lost once more; then removed.
	s.does(t, declared, "apply", "--server-side", "--force-conflicts", "-f", "-")
	s.await("the condition to go", func() (bool, error) { return missing(s) == "", nil })
	guards("what was repeated", s)
	s.Stop()
	second.Stop()
	s = run(s, off)
	s.does(t, plain, "replace", "-f", "-")
	s.Stop()
	s = run(s, on)
	guards("what is missing again", s)
	s.does(t, rocketFile("verb: null"), "replace", "-f", "-")
	s.await("the removal of what was missing", func() (bool, error) { return fires(s) == nil && missing(s) == "", nil })
	s.does(t, plain, "replace", "-f", "-")
	s.Stop()
	s = run(s, on)
	s.await("nothing to be missing", func() (bool, error) { return fires(s) == nil && missing(s) == "", nil })

	// What is kept goes with its definition.
	s.does(t, declared, "replace", "-f", "-")
	kept := func() bool {
		got, err := stored.Get(t.Context(), "/registry/proviso.dev/fields/declared/", clientv3.WithPrefix())
		fine(t, "reading etcd", err)
		return len(got.Kvs) > 0
	}
	s.await("something to be kept", func() (bool, error) { return kept(), nil })
	err = apiextensionsclient.NewForConfigOrDie(s.admin).ApiextensionsV1().CustomResourceDefinitions().Delete(t.Context(), name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	nudge := s.nudger(t, name)
	s.await("it to be dropped", func() (bool, error) {
		nudge()
		return !kept(), nil
	})
}
