package server

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
)

// TestExamples applies the examples of conditional authorization exactly as they are and does, as the users in
// question, what they are about: each refusal has a twin that is allowed and differs in one thing (CA-22).
func TestExamples(t *testing.T) {
	t.Parallel()
	s := startHost(t)
	x := newExamples(t, s)
	t.Run("pv-storage-class", x.pvStorageClass)
	t.Run("immutable-field", x.immutableField)
	t.Run("allowed-names", x.allowedNames)
	t.Run("csr-signer", x.csrSigner)
	t.Run("token-audience", x.tokenAudience)
	t.Run("own-finalizer", x.ownFinalizer)
	t.Run("node-agent", x.nodeAgent)
	t.Run("dra-admin-access", x.draAdminAccess)
	t.Run("node-proxy-paths", x.nodeProxyPaths)
	t.Run("impersonate-node", x.impersonateNode)
	t.Run("typed client", x.typedClient)
}

type examples struct {
	s      *instance
	admin  dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

func newExamples(t *testing.T, s *instance) *examples {
	t.Helper()
	x := &examples{s: s, admin: dynamic.NewForConfigOrDie(s.admin)}
	x.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery.NewDiscoveryClientForConfigOrDie(s.admin)))
	return x
}

// read returns the documents of a file of an example.
func (x *examples) read(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	f, err := os.Open(filepath.Join("../..", "examples", filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(f, 4096); ; {
		u := &unstructured.Unstructured{}
		if err := decoder.Decode(&u.Object); err != nil {
			break
		}
		if len(u.Object) > 0 {
			out = append(out, u)
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s has no documents", file)
	}
	return out
}

// resource is the client for an object's kind and namespace.
func (x *examples) resource(t *testing.T, client dynamic.Interface, u *unstructured.Unstructured) dynamic.ResourceInterface {
	t.Helper()
	gvk := u.GroupVersionKind()
	mapping, err := x.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		t.Fatal(err)
	}
	if u.GetNamespace() != "" {
		return client.Resource(mapping.Resource).Namespace(u.GetNamespace())
	}
	return client.Resource(mapping.Resource)
}

// install applies a file as a cluster admin.
func (x *examples) install(t *testing.T, file string) {
	t.Helper()
	for _, u := range x.read(t, file) {
		if _, err := x.resource(t, x.admin, u).Apply(t.Context(), u.GetName(), u, metav1.ApplyOptions{FieldManager: "examples"}); err != nil {
			t.Fatalf("%s: %s %q: %v", file, u.GetKind(), u.GetName(), err)
		}
	}
}

// create makes an object as an admin.
func (x *examples) create(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	if _, err := x.resource(t, x.admin, u).Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until a policy is in effect: a request that it allows succeeds.
func (x *examples) eventually(t *testing.T, what string, request func() error) {
	t.Helper()
	var last error
	x.s.await(what, func() (bool, error) {
		last = request()
		if last != nil && !apierrors.IsForbidden(last) {
			t.Fatalf("%s: %v", what, last)
		}
		return last == nil, nil
	})
}

func (x *examples) as(user string, groups ...string) dynamic.Interface {
	return dynamic.NewForConfigOrDie(x.s.as(user, groups...))
}

// refusedWith wants a 403 that says why (CA-10).
func refusedWith(t *testing.T, what string, err error, description string) {
	t.Helper()
	if !apierrors.IsForbidden(err) {
		t.Errorf("%s: want 403, got %v", what, err)
	} else if !strings.Contains(err.Error(), description) {
		t.Errorf("%s: the refusal does not say %q: %v", what, description, err)
	}
}

func fine(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// with returns a copy in which a field is changed.
func with(t *testing.T, u *unstructured.Unstructured, value any, path ...string) *unstructured.Unstructured {
	t.Helper()
	u = u.DeepCopy()
	if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
		t.Fatal(err)
	}
	return u
}

func merge(ctx context.Context, client dynamic.ResourceInterface, name, patch string, subresources ...string) error {
	_, err := client.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	return err
}

func (x *examples) pvStorageClass(t *testing.T) {
	const why = "only volumes of storage class dev"
	ctx := t.Context()
	x.install(t, "pv-storage-class/policy.yaml")
	volume := x.read(t, "pv-storage-class/volume.yaml")[0]
	prod := with(t, with(t, volume, "prod", "spec", "storageClassName"), "ledger", "metadata", "name")
	vera := x.resource(t, x.as("vera"), volume)
	x.eventually(t, "vera creates a volume", func() error {
		_, err := vera.Create(ctx, volume, metav1.CreateOptions{})
		return err
	})
	_, err := vera.Create(ctx, prod, metav1.CreateOptions{})
	refusedWith(t, "create with another class", err, why)
	none := with(t, volume, "none", "metadata", "name")
	unstructured.RemoveNestedField(none.Object, "spec", "storageClassName")
	_, err = vera.Create(ctx, none, metav1.CreateOptions{})
	refusedWith(t, "create without a class", err, why)
	_, err = vera.Apply(ctx, "ledger", prod, metav1.ApplyOptions{FieldManager: "vera"})
	refusedWith(t, "apply that creates with another class", err, why)
	_, err = vera.Create(ctx, with(t, with(t, volume, "beta", "metadata", "name"), map[string]any{"volume.beta.kubernetes.io/storage-class": "prod"}, "metadata", "annotations"), metav1.CreateOptions{})
	refusedWith(t, "create with another class by its older name", err, why)
	refusedWith(t, "giving hers away by the older name", merge(ctx, vera, "scratch", `{"metadata":{"annotations":{"volume.beta.kubernetes.io/storage-class":"prod"}}}`), why)

	x.create(t, prod)
	fine(t, "patch of hers", merge(ctx, vera, "scratch", `{"metadata":{"labels":{"tier":"low"}}}`))
	refusedWith(t, "patch of another", merge(ctx, vera, "ledger", `{"metadata":{"labels":{"tier":"low"}}}`), why)
	refusedWith(t, "adopting another", merge(ctx, vera, "ledger", `{"spec":{"storageClassName":"dev"}}`), why)
	refusedWith(t, "giving hers away", merge(ctx, vera, "scratch", `{"spec":{"storageClassName":"prod"}}`), why)
	refusedWith(t, "delete of another", vera.Delete(ctx, "ledger", metav1.DeleteOptions{}), why)
	fine(t, "delete of hers", vera.Delete(ctx, "scratch", metav1.DeleteOptions{}))
}

func (x *examples) immutableField(t *testing.T) {
	const why = "the service account of a deployment stays as it is"
	ctx := t.Context()
	x.install(t, "immutable-field/policy.yaml")
	deployment := x.read(t, "immutable-field/deployment.yaml")[0]
	olga := x.resource(t, x.as("olga"), deployment)
	x.eventually(t, "olga applies a deployment", func() error {
		_, err := olga.Apply(ctx, "web", deployment, metav1.ApplyOptions{FieldManager: "olga"})
		return err
	})
	// The deny and the allow are two writes: await the deny too, with a dry run that changes nothing.
	const other = `{"spec":{"template":{"spec":{"serviceAccountName":"admin","serviceAccount":"admin"}}}}`
	x.s.await("the deny rule to be in effect", func() (bool, error) {
		_, err := olga.Patch(ctx, "web", types.MergePatchType, []byte(other), metav1.PatchOptions{DryRun: []string{"All"}})
		return apierrors.IsForbidden(err), nil
	})
	refusedWith(t, "patch of the field", merge(ctx, olga, "web", other), why)
	refusedWith(t, "removal of the field", merge(ctx, olga, "web", `{"spec":{"template":{"spec":{"serviceAccountName":null,"serviceAccount":null}}}}`), why)
	_, err := olga.Apply(ctx, "web", with(t, deployment, "admin", "spec", "template", "spec", "serviceAccountName"), metav1.ApplyOptions{FieldManager: "olga"})
	refusedWith(t, "apply that changes the field", err, why)
	stored, err := olga.Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = olga.Update(ctx, with(t, with(t, stored, "admin", "spec", "template", "spec", "serviceAccountName"), "admin", "spec", "template", "spec", "serviceAccount"), metav1.UpdateOptions{})
	refusedWith(t, "update of the field", err, why)

	fine(t, "patch of another field", merge(ctx, olga, "web", `{"spec":{"paused":true}}`))
	if stored, err = olga.Get(ctx, "web", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = olga.Update(ctx, with(t, stored, int64(3), "spec", "replicas"), metav1.UpdateOptions{})
	fine(t, "update of another field", err)
	// What grants the whole cluster is not locked out by a namespace (PO-7).
	fine(t, "patch of the field by an admin", merge(ctx, x.resource(t, x.admin, deployment), "web", other))
}

func (x *examples) allowedNames(t *testing.T) {
	ctx := t.Context()
	x.install(t, "allowed-names/policy.yaml")
	tina := x.as("tina", "team-a")
	namespaces := tina.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	create := func(name, generate string) error {
		u := object("v1", "Namespace", name, nil)
		u.SetGenerateName(generate)
		_, err := namespaces.Create(ctx, u, metav1.CreateOptions{})
		return err
	}
	const why = "only namespaces whose name begins with team-a-"
	x.eventually(t, "tina creates a namespace", func() error { return create("team-a-blue", "") })
	refusedWith(t, "another name", create("blue", ""), why)
	refusedWith(t, "another generated name", create("", "team-b-"), why)
	fine(t, "a generated name", create("", "team-a-"))
	_, err := namespaces.Apply(ctx, "green", object("v1", "Namespace", "green", nil), metav1.ApplyOptions{FieldManager: "tina"})
	refusedWith(t, "apply, which would take update too", err, "")
	labelled := object("v1", "Namespace", "team-a-open", nil)
	labelled.SetLabels(map[string]string{"pod-security.kubernetes.io/enforce": "privileged"})
	_, err = namespaces.Create(ctx, labelled, metav1.CreateOptions{})
	refusedWith(t, "a label that opens doors", err, why)
	labelled.SetLabels(map[string]string{"team": "a"})
	_, err = namespaces.Create(ctx, labelled, metav1.CreateOptions{})
	fine(t, "the team's label", err)

	classes := tina.Resource(schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"})
	class := func(name string) *unstructured.Unstructured {
		u := object("scheduling.k8s.io/v1", "PriorityClass", name, nil)
		u.Object["value"] = int64(10)
		return u
	}
	const classWhy = "only the priority classes team-a-high and team-a-low"
	_, err = classes.Create(ctx, class("team-a-low"), metav1.CreateOptions{})
	fine(t, "a class by name", err)
	_, err = classes.Create(ctx, class("urgent"), metav1.CreateOptions{})
	refusedWith(t, "another class", err, classWhy)
	_, err = classes.Create(ctx, with(t, class("team-a-high"), int64(1000000), "value"), metav1.CreateOptions{})
	refusedWith(t, "a value above all others", err, classWhy)
	refusedWith(t, "a class for everybody", merge(ctx, classes, "team-a-low", `{"globalDefault":true}`), classWhy)
	_, err = classes.Apply(ctx, "team-a-high", class("team-a-high"), metav1.ApplyOptions{FieldManager: "tina"})
	fine(t, "apply that creates a class", err)
	_, err = classes.Apply(ctx, "urgent", class("urgent"), metav1.ApplyOptions{FieldManager: "tina"})
	refusedWith(t, "apply that creates another class", err, classWhy)
}

func (x *examples) csrSigner(t *testing.T) {
	const why = "only requests to example.com/signer"
	ctx := t.Context()
	x.install(t, "csr-signer/policy.yaml")
	request := x.read(t, "csr-signer/request.yaml")[0]
	bot := x.resource(t, x.as("cert-bot"), request)
	x.eventually(t, "a request to the signer", func() error {
		_, err := bot.Create(ctx, request, metav1.CreateOptions{})
		return err
	})
	_, err := bot.Create(ctx, with(t, with(t, request, "kubernetes.io/kube-apiserver-client", "spec", "signerName"), "evil", "metadata", "name"), metav1.CreateOptions{})
	refusedWith(t, "a request to another signer", err, why)

	// CA-16, RD-1
	list, err := bot.List(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=example.com/signer"})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("list of its own requests: %v, %v", list, err)
	}
	other := with(t, with(t, request, "example.com/other", "spec", "signerName"), "other", "metadata", "name")
	x.create(t, other)
	if isBeside() { // nothing is narrowed there
		_, err = bot.List(ctx, metav1.ListOptions{})
		refusedWith(t, "list without a selector", err, "on a stock server")
		return
	}
	if list, err = bot.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 1 || list.Items[0].GetName() != request.GetName() {
		t.Errorf("list without a selector: %v, %v", list, err)
	}
	if list, err = bot.List(ctx, metav1.ListOptions{FieldSelector: "spec.signerName!=example.com/signer"}); err != nil || len(list.Items) != 0 {
		t.Errorf("list of the requests of others: %v, %v", list, err)
	}
}

func (x *examples) tokenAudience(t *testing.T) {
	const why = "only tokens for vault.example.com"
	ctx := t.Context()
	x.install(t, "token-audience/policy.yaml")
	pipeline := kubernetes.NewForConfigOrDie(x.s.as("pipeline")).CoreV1().ServiceAccounts("ci")
	token := func(account string, audiences ...string) error {
		got, err := pipeline.CreateToken(ctx, account, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}, metav1.CreateOptions{})
		if err == nil && got.Status.Token == "" {
			t.Error("the token is empty")
		}
		return err
	}
	x.eventually(t, "a token for the audience", func() error { return token("builder", "vault.example.com") })
	refusedWith(t, "a token for another", token("builder", "bank.example.com"), why)
	refusedWith(t, "a token for both", token("builder", "vault.example.com", "bank.example.com"), why)
	refusedWith(t, "a token for the API server", token("builder"), why)
	x.create(t, inNamespace(object("v1", "ServiceAccount", "deployer", nil), "ci"))
	refusedWith(t, "a token of another account", token("deployer", "vault.example.com"), "")
}

func (x *examples) ownFinalizer(t *testing.T) {
	const why = "only the finalizer example.com/cleanup"
	ctx := t.Context()
	x.install(t, "own-finalizer/policy.yaml")
	one := inNamespace(object("v1", "ConfigMap", "one", nil), "assets")
	one.SetFinalizers([]string{"example.com/other"})
	x.create(t, one)
	controller := x.resource(t, x.as("cleanup-controller"), one)
	x.eventually(t, "adding its finalizer", func() error {
		return merge(ctx, controller, "one", `{"metadata":{"finalizers":["example.com/other","example.com/cleanup"]}}`)
	})
	owned := inNamespace(object("v1", "ConfigMap", "one", nil), "assets")
	owned.Object["data"] = map[string]any{"kept": "yes"}
	if _, err := x.resource(t, x.admin, one).Apply(ctx, "one", owned, metav1.ApplyOptions{FieldManager: "flux"}); err != nil {
		t.Fatal(err)
	}
	_, err := controller.Apply(ctx, "one", owned, metav1.ApplyOptions{FieldManager: "other", Force: true})
	refusedWith(t, "managing what is there already", err, why)
	refusedWith(t, "emptying managedFields", merge(ctx, controller, "one", `{"metadata":{"managedFields":[{}]}}`), why)
	for what, patch := range map[string]string{
		"adding another finalizer":      `{"metadata":{"finalizers":["example.com/other","example.com/cleanup","example.com/third"]}}`,
		"removing another finalizer":    `{"metadata":{"finalizers":["example.com/cleanup"]}}`,
		"removing all finalizers":       `{"metadata":{"finalizers":null}}`,
		"data":                          `{"data":{"a":"b"}}`,
		"its finalizer, and data":       `{"metadata":{"finalizers":["example.com/other"]},"data":{"a":"b"}}`,
		"its finalizer, and a label":    `{"metadata":{"finalizers":["example.com/other"],"labels":{"a":"b"}}}`,
		"its finalizer, and an owner":   `{"metadata":{"finalizers":["example.com/other"],"ownerReferences":[{"apiVersion":"v1","kind":"Secret","name":"s","uid":"u"}]}}`,
		"its finalizer, and immutable!": `{"metadata":{"finalizers":["example.com/other"]},"immutable":true}`,
	} {
		refusedWith(t, what, merge(ctx, controller, "one", patch), why)
	}
	_, err = controller.Create(ctx, inNamespace(object("v1", "ConfigMap", "two", nil), "assets"), metav1.CreateOptions{})
	refusedWith(t, "create", err, "")
	two := inNamespace(object("v1", "ConfigMap", "two", nil), "assets")
	two.SetFinalizers([]string{"example.com/cleanup"})
	_, err = controller.Apply(ctx, "two", two, metav1.ApplyOptions{FieldManager: "c"})
	refusedWith(t, "apply that creates", err, "")

	stored, err := controller.Get(ctx, "one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored.SetFinalizers([]string{"example.com/other"})
	_, err = controller.Update(ctx, stored, metav1.UpdateOptions{})
	fine(t, "removing its finalizer with an update", err)

	// While the object is being deleted nothing is different, up to the last finalizer, whose removal deletes it.
	mine := inNamespace(object("v1", "ConfigMap", "mine", nil), "assets")
	mine.SetFinalizers([]string{"example.com/cleanup"})
	x.create(t, mine)
	admin := x.resource(t, x.admin, one)
	for _, name := range []string{"one", "mine"} {
		fine(t, "delete", admin.Delete(ctx, name, metav1.DeleteOptions{}))
	}
	refusedWith(t, "releasing an object that another holds", merge(ctx, controller, "one", `{"metadata":{"finalizers":null}}`), why)
	fine(t, "releasing an object that it holds", merge(ctx, controller, "mine", `{"metadata":{"finalizers":null}}`))
	if _, err := admin.Get(ctx, "mine", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the released object is still there: %v", err)
	}
}

func inNamespace(u *unstructured.Unstructured, namespace string) *unstructured.Unstructured {
	u.SetNamespace(namespace)
	return u
}
