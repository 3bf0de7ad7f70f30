package server

import (
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// documents reads objects from YAML.
func documents(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		u := &unstructured.Unstructured{}
		if err := decoder.Decode(&u.Object); err != nil {
			return out
		}
		out = append(out, u)
	}
}

// createAll makes objects as an admin.
func (x *examples) createAll(t *testing.T, text string) {
	t.Helper()
	for _, u := range documents(t, text) {
		x.create(t, u)
	}
}

const effectsPolicy = `
{apiVersion: v1, kind: Namespace, metadata: {name: effects}}
---
{apiVersion: policy.proviso.dev/v1alpha1, kind: Policy, metadata: {name: default, namespace: effects}}
---
{apiVersion: policy.proviso.dev/v1alpha1, kind: PolicyBinding, metadata: {name: effects, namespace: effects}}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: careful, namespace: effects}
rules:
- {verbs: ["*"], resourceKinds: ["*"]}
- {deny: true, verbs: [delete], resourceKinds: [ConfigMap, Pod, winches], attributeRestrictions: {labelsContain: [protected]}, description: protected objects stay}
- {deny: true, verbs: [proxy], resourceKinds: [services], resourceNames: [admin], description: not the admin service}
- {deny: true, verbs: [proxy], resourceKinds: [services], when: request.name == "ledger", description: not the ledger}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: fields, namespace: effects}
rules:
- {verbs: [granular, "granular:ownerReferences", "granular:finalizers", "granular:metadata"], resourceKinds: [configmaps]}
- {deny: true, verbs: [delete], resourceKinds: [ConfigMap], attributeRestrictions: {labelsContain: [protected]}}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: mutable, namespace: effects}
rules:
- {verbs: [update], resourceKinds: [configmaps], attributeRestrictions: {fieldsMutable: [.metadata.ownerReferences]}}
- {deny: true, verbs: [delete], resourceKinds: [ConfigMap], attributeRestrictions: {labelsContain: [protected]}}
---
{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: careful, namespace: effects}, roleRef: {namespace: effects, name: careful}, userNames: [effects-edgar]}
---
{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: fields, namespace: effects}, roleRef: {namespace: effects, name: fields}, userNames: [effects-gerda]}
---
{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: mutable, namespace: effects}, roleRef: {namespace: effects, name: mutable}, userNames: [effects-muriel]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: effects-places}, rules: [
  {apiGroups: [""], resources: [namespaces], verbs: [get, delete]}, {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [delete, deletecollection]},
  {apiGroups: [""], resources: [pods], verbs: [deletecollection]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: effects-places}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: effects-places},
  subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: effects-edgar}, {apiGroup: rbac.authorization.k8s.io, kind: User, name: effects-frieda}]}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: owner, namespace: effects}}
---
{apiVersion: authorization.proviso.dev/v1alpha1, kind: Role, metadata: {name: spare, namespace: effects}, rules: [{verbs: [get], resourceKinds: [configmaps]}]}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: ledger, namespace: effects, labels: {protected: "yes"}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: notes, namespace: effects}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: effects}}
---
{apiVersion: v1, kind: Pod, metadata: {name: kept, namespace: effects, labels: {protected: "yes"}}, spec: {containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: plain, namespace: effects}, spec: {containers: [{name: c, image: i}]}}
---
{apiVersion: example.com/v1, kind: Winch, metadata: {name: kept, namespace: effects, labels: {protected: "yes"}}}
`

// TestDenyHoldsByEffect: what somebody is denied to delete, he cannot have deleted either, on the real server (PO-20).
func TestDenyHoldsByEffect(t *testing.T) {
	t.Parallel()
	s := plain.get(t)
	ctx := t.Context()
	install(t, s, "winches", "Winch")
	x := newExamples(t, s)
	x.createAll(t, effectsPolicy)
	admin, edgar := kubernetes.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.as("effects-edgar"))
	maps := admin.CoreV1().ConfigMaps("effects")
	owner, err := maps.Get(ctx, "owner", metav1.GetOptions{})
	fine(t, "get", err)
	hang := []byte(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"` + string(owner.UID) + `"}]}}`)
	stray := []byte(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"00000000-0000-0000-0000-000000000000"}]}}`)
	patch := func(who kubernetes.Interface, name string, body []byte) error {
		_, err := who.CoreV1().ConfigMaps("effects").Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
		return err
	}
	x.eventually(t, "the policy", func() error { return patch(edgar, "notes", []byte(`{"metadata":{"annotations":{"a":"b"}}}`)) })

	t.Run("ownerReferences", func(t *testing.T) {
		for _, who := range []string{"edgar", "gerda", "muriel"} {
			client := kubernetes.NewForConfigOrDie(s.as("effects-" + who))
			refusedWith(t, who+" hangs a protected object below another", patch(client, "ledger", hang), "denies you to delete it")
			refusedWith(t, who+" hangs it below nothing", patch(client, "ledger", stray), "denies you to delete it")
			fine(t, who+" does so with another object", patch(client, "notes", hang))
			fine(t, who+" takes it back", patch(client, "notes", []byte(`{"metadata":{"ownerReferences":null}}`)))
		}
		applied := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ledger",` + strings.TrimPrefix(string(hang), `{"metadata":{`))
		_, err := edgar.CoreV1().ConfigMaps("effects").Patch(ctx, "ledger", types.ApplyPatchType, applied, metav1.PatchOptions{FieldManager: "edgar"})
		refusedWith(t, "server-side apply", err, "denies you to delete it")
	})

	t.Run("owners", func(t *testing.T) {
		fine(t, "the admin hangs it there", patch(admin, "ledger", hang))
		for name, policy := range map[string]*metav1.DeletionPropagation{"by default": nil, "in the background": ptr(metav1.DeletePropagationBackground), "in the foreground": ptr(metav1.DeletePropagationForeground)} {
			err := edgar.CoreV1().ConfigMaps("effects").Delete(ctx, "owner", metav1.DeleteOptions{PropagationPolicy: policy})
			refusedWith(t, "delete the owner "+name, err, "the garbage collector would delete configmaps")
		}
		err := edgar.CoreV1().ConfigMaps("effects").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=owner"})
		refusedWith(t, "delete the owner in a collection", err, "the garbage collector would delete configmaps")
		fine(t, "delete the owner and leave what it owns", edgar.CoreV1().ConfigMaps("effects").Delete(ctx, "owner", metav1.DeleteOptions{PropagationPolicy: ptr(metav1.DeletePropagationOrphan)}))
		// No garbage collector runs here: the owner waits with its orphan finalizer, and without it what it owns would
		// go.
		refusedWith(t, "take the orphan finalizer off", patch(edgar, "owner", []byte(`{"metadata":{"finalizers":null}}`)), "the garbage collector would delete configmaps")
		fine(t, "the admin does the collector's work", patch(admin, "ledger", []byte(`{"metadata":{"ownerReferences":null}}`)))
		fine(t, "take it off then", patch(edgar, "owner", []byte(`{"metadata":{"finalizers":null}}`)))
		// A role is an entry of a container: nothing is orphaned with it.
		spare, err := x.admin.Resource(policyRole).Namespace("effects").Get(ctx, "spare", metav1.GetOptions{})
		fine(t, "get the role", err)
		fine(t, "the admin hangs it below a role", patch(admin, "ledger", []byte(`{"metadata":{"ownerReferences":[{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"Role","name":"spare","uid":"`+string(spare.GetUID())+`"}]}}`)))
		roles := dynamic.NewForConfigOrDie(s.as("effects-edgar")).Resource(policyRole).Namespace("effects")
		refusedWith(t, "delete the role and leave what it owns", roles.Delete(ctx, "spare", metav1.DeleteOptions{PropagationPolicy: ptr(metav1.DeletePropagationOrphan)}), "the garbage collector would delete configmaps")
		fine(t, "the admin takes it off", patch(admin, "ledger", []byte(`{"metadata":{"ownerReferences":null}}`)))
		fine(t, "delete the role", roles.Delete(ctx, "spare", metav1.DeleteOptions{PropagationPolicy: ptr(metav1.DeletePropagationOrphan)}))
		if _, err := x.admin.Resource(policyRole).Namespace("effects").Get(ctx, "spare", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("a role that was deleted with Orphan waits for nothing: %v", err)
		}
		fine(t, "delete what owns nothing", edgar.CoreV1().ConfigMaps("effects").Delete(ctx, "notes", metav1.DeleteOptions{}))
	})

	t.Run("namespaces and definitions", func(t *testing.T) {
		refusedWith(t, "delete the namespace", edgar.CoreV1().Namespaces().Delete(ctx, "effects", metav1.DeleteOptions{}), "denies you delete on")
		dry := metav1.DeleteOptions{DryRun: []string{"All"}}
		frieda := kubernetes.NewForConfigOrDie(s.as("effects-frieda"))
		fine(t, "delete it without a deny", frieda.CoreV1().Namespaces().Delete(ctx, "effects", dry))
		definitions := func(who string) error {
			return apiextensionsclient.NewForConfigOrDie(s.as(who)).ApiextensionsV1().CustomResourceDefinitions().Delete(ctx, "winches.example.com", dry)
		}
		refusedWith(t, "delete the definition of a protected object", definitions("effects-edgar"), "denies you delete on winches.example.com")
		fine(t, "delete it without a deny", definitions("effects-frieda"))
		one := metav1.ListOptions{FieldSelector: "metadata.name=winches.example.com"}
		refusedWith(t, "delete it in a collection", apiextensionsclient.NewForConfigOrDie(s.as("effects-edgar")).ApiextensionsV1().CustomResourceDefinitions().DeleteCollection(ctx, dry, one), "denies you delete on winches.example.com")
		fine(t, "and without a deny", apiextensionsclient.NewForConfigOrDie(s.as("effects-frieda")).ApiextensionsV1().CustomResourceDefinitions().DeleteCollection(ctx, dry, one))
		// A cluster-wide grant of deletecollection is none of delete, which the namespace denies.
		refusedWith(t, "delete the pods in a collection", edgar.CoreV1().Pods("effects").DeleteCollection(ctx, dry, metav1.ListOptions{FieldSelector: "metadata.name=kept"}), "protected objects stay")
		fine(t, "and another pod", edgar.CoreV1().Pods("effects").DeleteCollection(ctx, dry, metav1.ListOptions{FieldSelector: "metadata.name=plain"}))
		winches := dynamic.NewForConfigOrDie(s.admin).Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "winches"}).Namespace("effects")
		fine(t, "delete the object", winches.Delete(ctx, "kept", metav1.DeleteOptions{}))
		fine(t, "delete the definition of nothing protected", definitions("effects-edgar"))
	})

	t.Run("eviction", func(t *testing.T) {
		evict := func(pod string) error {
			return edgar.PolicyV1().Evictions("effects").Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: "effects"}})
		}
		refusedWith(t, "evict a protected pod", evict("kept"), "protected objects stay")
		fine(t, "evict another", evict("plain"))
		if _, err := admin.CoreV1().Pods("effects").Get(ctx, "kept", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})

	t.Run("names in proxies", func(t *testing.T) {
		proxy := func(name string) error {
			return edgar.CoreV1().RESTClient().Get().Namespace("effects").Resource("services").Name(name).SubResource("proxy").Do(ctx).Error()
		}
		for _, name := range []string{"admin", "admin:80", "http:admin:80", "https:admin:"} {
			refusedWith(t, name, proxy(name), "not the admin service")
			refusedWith(t, strings.ReplaceAll(name, "admin", "ledger"), proxy(strings.ReplaceAll(name, "admin", "ledger")), "not the ledger")
			if err := proxy(strings.ReplaceAll(name, "admin", "web")); apierrors.IsForbidden(err) {
				t.Errorf("%s is another service: %v", name, err)
			}
		}
	})
	if _, err := maps.Get(ctx, "ledger", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func ptr[T any](v T) *T { return &v }
