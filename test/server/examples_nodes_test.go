package server

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// nodeAgent: one rule for reads and writes (CA-16, CA-22, RD-1, RD-4).
func (x *examples) nodeAgent(t *testing.T) {
	const why = "only pods on the agent's own node"
	ctx := t.Context()
	x.install(t, "node-agent/policy.yaml")
	x.s.accountForPods(t)
	for name, node := range map[string]string{"here": "n1", "there": "n2"} {
		x.create(t, inNamespace(object("v1", "Pod", name, map[string]any{
			"nodeName": node, "containers": []any{map[string]any{"name": "a", "image": "a"}},
		}), "default"))
	}
	pods := x.as("agent:n1", "node-agents").Resource(corev1.SchemeGroupVersion.WithResource("pods"))
	local := pods.Namespace("default")
	// CA-16
	x.eventually(t, "list of the node's pods", func() error {
		list, err := pods.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=n1"})
		if err == nil && (len(list.Items) != 1 || list.Items[0].GetName() != "here") {
			t.Errorf("list of the node's pods: %v", list.Items)
		}
		return err
	})
	if isBeside() { // nothing is narrowed there
		_, err := local.Get(ctx, "here", metav1.GetOptions{})
		refusedWith(t, "get of a pod here", err, "on a stock server")
	} else {
		narrowedPods(t, pods, local)
	}

	const seen, ready = `{"metadata":{"labels":{"seen":"yes"}}}`, `{"status":{"message":"seen"}}`
	fine(t, "patch of a pod here", merge(ctx, local, "here", seen))
	refusedWith(t, "patch of a pod there", merge(ctx, local, "there", seen), why)
	fine(t, "status of a pod here", merge(ctx, local, "here", ready, "status"))
	refusedWith(t, "status of a pod there", merge(ctx, local, "there", ready, "status"), why)
	// The agent of another node, and somebody in its name who is not in the group.
	other := x.as("agent:n2", "node-agents").Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace("default")
	refusedWith(t, "patch by another agent", merge(ctx, other, "here", seen), why)
	stranger := x.as("agent:n1").Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace("default")
	refusedWith(t, "patch by no agent", merge(ctx, stranger, "here", seen), "")
	// A name without a node is no agent's; its condition fails for every object.
	nameless := x.as("agent", "node-agents").Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace("default")
	refusedWith(t, "patch by an agent of no node", merge(ctx, nameless, "here", seen), "")

	// deletecollection is object by object (CA-8).
	err := local.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	refusedWith(t, "deletecollection of all pods", err, why)
	admin := x.admin.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace("default")
	there, err := admin.Get(ctx, "there", metav1.GetOptions{})
	if err != nil || there.GetDeletionTimestamp() != nil {
		t.Errorf("a pod there was deleted: %v, %v", there, err)
	}
	refusedWith(t, "delete of a pod there", local.Delete(ctx, "there", metav1.DeleteOptions{}), why)
	fine(t, "delete of a pod there by its own agent", other.Delete(ctx, "there", metav1.DeleteOptions{}))
}

// narrowedPods: RD-1, RD-4. An agent reads the pods of its node, whatever it asks for.
func narrowedPods(t *testing.T, pods, local dynamic.ResourceInterface) {
	t.Helper()
	ctx := t.Context()
	for selector, want := range map[string]string{"": "here", "spec.nodeName=n2": "", "spec.nodeName!=n1": "", "metadata.name=here": "here", "metadata.name=there": "", "metadata.name=here,spec.nodeName=n1": "here"} {
		list, err := pods.List(ctx, metav1.ListOptions{FieldSelector: selector})
		fine(t, "list with "+selector, err)
		w, werr := local.Watch(ctx, metav1.ListOptions{FieldSelector: selector})
		fine(t, "watch with "+selector, werr)
		if err != nil || werr != nil {
			continue
		}
		if want == "" != (len(list.Items) == 0) || want != "" && list.Items[0].GetName() != want {
			t.Errorf("list with %q: %v, want %q", selector, list.Items, want)
		}
		if want != "" {
			if e := <-w.ResultChan(); e.Object.(*unstructured.Unstructured).GetName() != want {
				t.Errorf("watch with %q: %v", selector, e.Object)
			}
		}
		w.Stop()
	}
	_, err := local.Get(ctx, "here", metav1.GetOptions{})
	fine(t, "get of a pod here", err)
	if _, err = local.Get(ctx, "there", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get of a pod there: %v", err)
	}
}

// draAdminAccess: a prohibition that reaches everybody but admins, whatever allows it (CA-22).
func (x *examples) draAdminAccess(t *testing.T) {
	const why = "adminAccess to devices is for device admins"
	ctx := t.Context()
	x.install(t, "dra-admin-access/claims.yaml")
	x.install(t, "dra-admin-access/policy.yaml")
	spec := func(adminAccess bool) map[string]any {
		return map[string]any{"devices": map[string]any{"requests": []any{
			map[string]any{"name": "plain", "exactly": map[string]any{"deviceClassName": "gpu"}},
			map[string]any{"name": "admin", "exactly": map[string]any{"deviceClassName": "gpu", "adminAccess": adminAccess}},
		}}}
	}
	claim := func(name string, adminAccess bool) *unstructured.Unstructured {
		return inNamespace(object("resource.k8s.io/v1", "ResourceClaim", name, spec(adminAccess)), "devices")
	}
	template := func(name string, adminAccess bool) *unstructured.Unstructured {
		return inNamespace(object("resource.k8s.io/v1", "ResourceClaimTemplate", name, map[string]any{"spec": spec(adminAccess)}), "devices")
	}
	dan, ada := x.as("dan", "device-users"), x.as("ada", "device-users", "device-admins")
	x.eventually(t, "a claim", func() error {
		_, err := x.resource(t, dan, claim("plain", false)).Create(ctx, claim("plain", false), metav1.CreateOptions{})
		return err
	})
	x.s.await("the deny rule to be in effect", func() (bool, error) {
		_, err := x.resource(t, dan, claim("dry", true)).Create(ctx, claim("dry", true), metav1.CreateOptions{DryRun: []string{"All"}})
		return apierrors.IsForbidden(err), nil
	})
	for what, make := range map[string]func(string, bool) *unstructured.Unstructured{"claim": claim, "template": template} {
		_, err := x.resource(t, dan, make("admin", true)).Create(ctx, make("admin", true), metav1.CreateOptions{})
		refusedWith(t, what+" with adminAccess", err, why)
		_, err = x.resource(t, dan, make("admin", true)).Apply(ctx, "admin", make("admin", true), metav1.ApplyOptions{FieldManager: "dan"})
		refusedWith(t, "apply of a "+what+" with adminAccess", err, why)
		_, err = x.resource(t, dan, make("applied", false)).Apply(ctx, "applied", make("applied", false), metav1.ApplyOptions{FieldManager: "dan"})
		fine(t, "apply of a "+what, err)
		_, err = x.resource(t, ada, make("admin", true)).Create(ctx, make("admin", true), metav1.CreateOptions{})
		fine(t, what+" with adminAccess, by a device admin", err)
	}
	x.create(t, claim("masters", true))
	// The controller makes claims of templates; another account of kube-system is not trusted for being there (PA-13
	// has the same table).
	for account, want := range map[string]string{"resource-claim-controller": "", "addon": why} {
		user := "system:serviceaccount:kube-system:" + account
		client := x.resource(t, x.as(user, "device-users", "system:serviceaccounts:kube-system"), claim("made", true))
		_, err := client.Create(ctx, claim("made", true), metav1.CreateOptions{DryRun: []string{"All"}})
		if want == "" {
			fine(t, account, err)
		} else {
			refusedWith(t, account, err, want)
		}
	}
	// No requests at all is not a failure that denies.
	_, err := x.resource(t, dan, claim("empty", false)).Create(ctx, inNamespace(object("resource.k8s.io/v1", "ResourceClaim", "empty", map[string]any{}), "devices"), metav1.CreateOptions{})
	fine(t, "a claim without requests", err)
}

// nodeProxyPaths: nothing listens for the node, so that what is allowed gets any answer but 403 (CA-9).
func (x *examples) nodeProxyPaths(t *testing.T) {
	notBeside(t, "conditions on nodes and their proxies do not allow")
	x.install(t, "node-proxy-paths/policy.yaml")
	node := object("v1", "Node", "n1", nil)
	node.Object["status"] = map[string]any{
		"addresses":       []any{map[string]any{"type": "InternalIP", "address": "127.0.0.1"}},
		"daemonEndpoints": map[string]any{"kubeletEndpoint": map[string]any{"Port": int64(1)}},
	}
	x.create(t, node)
	// The path is sent as it is: a client would clean it.
	sendAs := func(user, method, path, query string) (int, string) {
		config := x.s.as(user)
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(config.Host)
		if err != nil {
			t.Fatal(err)
		}
		u.Opaque, u.RawQuery = "//"+u.Host+"/api/v1/nodes/n1/proxy"+path, query
		resp, err := client.Do((&http.Request{Method: method, URL: u, Host: u.Host, Header: http.Header{}}).WithContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var status metav1.Status
		_ = yaml.NewYAMLOrJSONDecoder(resp.Body, 4096).Decode(&status)
		return resp.StatusCode, status.Message
	}
	send := func(method, path, query string) (int, string) { return sendAs("auditor", method, path, query) }
	// A connection has options, and neither object nor old object.
	x.create(t, inNamespace(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authorization.proviso.dev/v1alpha1", "kind": "Role", "metadata": map[string]any{"name": "no-object"}, "rules": []any{map[string]any{
			"verbs": []any{"proxy"}, "resourceKinds": []any{"nodes/proxy"}, "when": `object == null && oldObject == null && options.path == "/metrics"`}},
	}}, "master"))
	x.create(t, inNamespace(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authorization.proviso.dev/v1alpha1", "kind": "RoleBinding", "metadata": map[string]any{"name": "no-object"},
		"roleRef": map[string]any{"namespace": "master", "name": "no-object"}, "userNames": []any{"prober"},
	}}, "master"))
	x.s.await("the path without an object", func() (bool, error) {
		code, _ := sendAs("prober", http.MethodGet, "/metrics", "")
		return code != http.StatusForbidden, nil
	})
	if code, _ := sendAs("prober", http.MethodGet, "/configz", ""); code != http.StatusForbidden {
		t.Errorf("GET /configz as prober: %d", code)
	}
	x.s.await("the policy to be in effect", func() (bool, error) {
		code, _ := send(http.MethodGet, "/configz", "")
		return code != http.StatusForbidden, nil
	})
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		if code, message := send(method, "/configz", ""); code == http.StatusForbidden {
			t.Errorf("%s /configz: %s", method, message)
		}
		if code, message := send(method, "/runningpods", ""); code != http.StatusForbidden || !strings.Contains(message, "only /configz of a kubelet") {
			t.Errorf("%s /runningpods: %d %s", method, code, message)
		}
	}
	for _, c := range []struct{ path, query string }{
		{"", ""}, {"/", ""}, {"/configzz", ""}, {"/configz/x", ""}, {"/run", "path=/configz"}, {"/run", "path=%2Fconfigz&path=x"}, {"/configz%3Fx", ""},
	} {
		if code, message := send(http.MethodGet, c.path, c.query); code != http.StatusForbidden || !strings.Contains(message, "only /configz of a kubelet") {
			t.Errorf("GET %s?%s: %d %s", c.path, c.query, code, message)
		}
	}
	for _, path := range []string{"//configz", "/./configz", "/configz/", "/configz/../x", "/x/../configz", "/configz%2F..%2Fx", "/%2Fconfigz", "//", "/configz//"} {
		if code, message := send(http.MethodGet, path, ""); code != http.StatusForbidden || !strings.Contains(message, "needs a clean path") {
			t.Errorf("GET %s: %d %s", path, code, message)
		}
	}
}

// impersonateNode: lucas may act as a node, only to read pods (CA-19). The node itself may do more, so that what is
// refused is the impersonation.
func (x *examples) impersonateNode(t *testing.T) {
	const why = "only to read pods"
	ctx := t.Context()
	notBeside(t, "conditions on impersonation do not allow")
	x.install(t, "impersonate-node/policy.yaml")
	for _, user := range []string{"system:node:foo", "system:node:bar"} {
		binding := object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", strings.ReplaceAll(user, ":", "-"), nil)
		binding.Object["roleRef"] = map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
		binding.Object["subjects"] = []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}}
		x.create(t, binding)
	}
	as := func(user, resource string) dynamic.ResourceInterface {
		config := x.s.as("lucas")
		config.Impersonate = rest.ImpersonationConfig{UserName: user}
		return dynamic.NewForConfigOrDie(config).Resource(corev1.SchemeGroupVersion.WithResource(resource)).Namespace("default")
	}
	list := func(user, resource string) error {
		_, err := as(user, resource).List(ctx, metav1.ListOptions{})
		return err
	}
	x.eventually(t, "list of pods as the node", func() error { return list("system:node:foo", "pods") })
	// Nothing is remembered from one request to the next: an allowed one, a refused one, in turn.
	for range 3 {
		refusedWith(t, "list of config maps as the node", list("system:node:foo", "configmaps"), why)
		fine(t, "list of pods as the node", list("system:node:foo", "pods"))
	}
	refusedWith(t, "delete of a pod as the node", as("system:node:foo", "pods").Delete(ctx, "x", metav1.DeleteOptions{}), why)
	// Other ways to a pod are not reading pods: connections count as create, whichever method opens them, and logs are
	// another resource.
	get := func(subresource ...string) error {
		_, err := as("system:node:foo", "pods").Get(ctx, "x", metav1.GetOptions{}, subresource...)
		return err
	}
	for _, subresource := range []string{"exec", "attach", "portforward", "proxy", "log"} {
		refusedWith(t, "get of pods/"+subresource+" as the node", get(subresource), why)
	}
	if err := get(); !apierrors.IsNotFound(err) {
		t.Errorf("get of a pod as the node must be allowed: %v", err)
	}
	refusedWith(t, "list of pods as another node", list("system:node:bar", "pods"), "cannot impersonate")

	// A review tells under which condition; it names no version, since users have none.
	answer, err := kubernetes.NewForConfigOrDie(x.s.as("lucas")).AuthorizationV1().RESTClient().Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body([]byte(`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview",
		"spec":{"resourceAttributes":{"verb":"impersonate","resource":"users","name":"system:node:foo"},"conditionalAuthorization":{"mode":"HumanReadable"}}}`)).DoRaw(ctx)
	if err != nil || !strings.Contains(string(answer), `impersonatedRequest.resource == \"pods\"`) || !strings.Contains(string(answer), why) || !strings.Contains(string(answer), `"allowed":false`) {
		t.Errorf("the review does not show the condition: %s, %v", answer, err)
	}
}
