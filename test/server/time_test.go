package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
)

// grantFor binds a user to a ClusterRole of RBAC until an instant.
func grantFor(t *testing.T, admin dynamic.Interface, namespace, user, role string, until time.Time) {
	t.Helper()
	b := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "authorization.proviso.dev/v1alpha1", "kind": "RoleBinding", "metadata": map[string]any{"name": user, "namespace": namespace},
		"roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}, "userNames": []any{user}, "notAfter": until.UTC().Format(time.RFC3339)}}
	if _, err := admin.Resource(policyBind).Namespace(namespace).Apply(t.Context(), user, b, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
		t.Fatal(err)
	}
}

// fakeKubelet answers logs that never end, and connections that stay open.
func fakeKubelet(t *testing.T, client kubernetes.Interface, namespace, node string) {
	t.Helper()
	kubelet := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			_, _ = io.WriteString(w, "first line\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
		_, _ = io.Copy(io.Discard, buffered)
	}))
	t.Cleanup(kubelet.Close)
	host, port, err := net.SplitHostPort(kubelet.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	made, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	made.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}, AutomountServiceAccountToken: new(bool)}}
	if pod, err = client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning
	if _, err := client.CoreV1().Pods(namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// upgrade opens a connection to a pod and returns when it is over.
func upgrade(t *testing.T, config *rest.Config, path string, opened chan<- struct{}) (ended time.Time, err error) {
	t.Helper()
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		return ended, err
	}
	to, err := url.Parse(config.Host)
	if err != nil {
		return ended, err
	}
	secure.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", to.Host, secure)
	if err != nil {
		return ended, err
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n", path, to.Host)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return ended, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return ended, fmt.Errorf("answered %s", resp.Status)
	}
	close(opened)
	_, _ = io.Copy(io.Discard, in)
	return time.Now(), nil
}

// TM-1, TM-3, TM-5: a right ends with the second. Requests are refused from then on, a body that arrives later is not
// admitted, and watches, logs and connections end within a second. Others go on.
func TestARightEnds(t *testing.T) {
	t.Parallel()
	s := plain.get(t)
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	furnish(t, client, "tm-a")
	fakeKubelet(t, client, "tm-a", "tm-node")
	end := time.Now().Add(8 * time.Second).Truncate(time.Second)
	grantFor(t, admin, "tm-a", "tma", "cluster-admin", end)
	grantFor(t, admin, "tm-a", "tmb", "cluster-admin", end.Add(time.Hour))
	reads, other := newReader(t, s.as("tma")), newReader(t, s.as("tmb"))
	s.await("the right", func() (bool, error) {
		return reads.get("/api/v1/namespaces/tm-a/configmaps/one").code == http.StatusOK && other.get("/api/v1/namespaces/tm-a/configmaps/one").code == http.StatusOK, nil
	})

	type ended struct {
		what string
		at   time.Time
		text string
		err  error
	}
	over := make(chan ended, 5)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream := func(what string, as *rest.Config, path string, began chan<- struct{}) {
		httpClient, err := rest.HTTPClientFor(as)
		if err != nil {
			over <- ended{what: what, err: err}
			return
		}
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, as.Host+path, nil)
		resp, err := httpClient.Do(req)
		if err != nil {
			over <- ended{what: what, err: err}
			return
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("answered %s", resp.Status)
		}
		close(began)
		text, _ := io.ReadAll(resp.Body)
		over <- ended{what, time.Now(), string(text), err}
	}
	begun := map[string]chan struct{}{"watch": make(chan struct{}), "log": make(chan struct{}), "exec": make(chan struct{})}
	go stream("watch", s.as("tma"), "/api/v1/namespaces/tm-a/configmaps?watch=true", begun["watch"])
	go stream("log", s.as("tma"), "/api/v1/namespaces/tm-a/pods/web/log?follow=true&container=c", begun["log"])
	go func() {
		at, err := upgrade(t, s.as("tma"), "/api/v1/namespaces/tm-a/pods/web/exec?command=sh&stdin=true&container=c", begun["exec"])
		over <- ended{"exec", at, "", err}
	}()
	elsewhere := make(chan struct{})
	go stream("log of another", s.as("tmb"), "/api/v1/namespaces/tm-a/pods/web/log?follow=true&container=c", elsewhere)
	// A body that is slow: it began while the right was there.
	body, feed := io.Pipe()
	slow := make(chan *http.Response, 1)
	go func() {
		httpClient, err := rest.HTTPClientFor(s.as("tma"))
		if err == nil {
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.admin.Host+"/api/v1/namespaces/tm-a/configmaps", body)
			req.Header.Set("Content-Type", "application/json")
			if resp, err := httpClient.Do(req); err == nil {
				slow <- resp
				return
			}
		}
		slow <- nil
	}()
	_, _ = io.WriteString(feed, `{"apiVersion": "v1", "kind": "ConfigMap", `)
	for what, ch := range begun {
		select {
		case <-ch:
		case got := <-over:
			t.Fatalf("%s: %s, %v", got.what, got.text, got.err)
		case <-ctx.Done():
			t.Fatalf("%s did not begin", what)
		}
	}
	<-elsewhere
	if left := time.Until(end); left < 0 {
		t.Skip("the machine is too slow: the right has ended before everything began")
	}
	time.Sleep(time.Until(end)) // an instant is what is tested
	if got := reads.get("/api/v1/namespaces/tm-a/configmaps/one"); got.code != http.StatusForbidden {
		t.Errorf("after its end the right still counts: %d", got.code)
	}
	_, _ = io.WriteString(feed, `"metadata": {"name": "late"}}`)
	_ = feed.Close()
	if resp := <-slow; resp == nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("a body that arrived after the end: %v", resp)
	}
	if _, err := client.CoreV1().ConfigMaps("tm-a").Get(t.Context(), "late", metav1.GetOptions{}); err == nil {
		t.Error("it was stored")
	}
	for range 3 {
		select {
		case got := <-over:
			if got.err != nil || got.what == "log of another" || got.at.Before(end) {
				t.Errorf("%s ended %s before the end: %v", got.what, end.Sub(got.at), got.err)
			}
			if got.what == "watch" && !strings.Contains(got.text, `"code":410`) {
				t.Errorf("the watch ends with %q", got.text)
			}
			t.Logf("%s ended %s after the edge", got.what, got.at.Sub(end))
		case <-ctx.Done():
			t.Fatal("streams outlive the right")
		}
	}
	if got := other.get("/api/v1/namespaces/tm-a/configmaps/one"); got.code != http.StatusOK {
		t.Errorf("another one's right ended too: %d", got.code)
	}
	select {
	case got := <-over:
		t.Errorf("%s ended: %v", got.what, got.err)
	default:
	}
}

// ssarAt asks what a user may do at an instant; now if it is zero.
func ssarAt(t *testing.T, as *rest.Config, namespace string, at time.Time) *reviewv1.SelfSubjectAccessReview {
	t.Helper()
	r := &reviewv1.SelfSubjectAccessReview{TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}}
	r.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{Verb: "delete", Resource: "configmaps", Namespace: namespace}
	r.Spec.ConditionalAuthorization = &reviewv1.ConditionalAuthorization{Mode: reviewv1.HumanReadable}
	if !at.IsZero() {
		r.Spec.Time = &metav1.Time{Time: at}
	}
	body, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := kubernetes.NewForConfigOrDie(as).AuthorizationV1().RESTClient().Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(body).DoRaw(t.Context())
	if err == nil {
		err = json.Unmarshal(answer, r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TM-6: reviews answer about an instant, and say when the answer changes next.
func TestReviewsOfAnInstant(t *testing.T) {
	t.Parallel()
	s := plain.get(t)
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	furnish(t, client, "tm-b")
	end := time.Now().Add(time.Hour).Truncate(time.Second)
	grantFor(t, admin, "tm-b", "tmd", "cluster-admin", end)
	ask := func(resource, kind string, spec map[string]any) map[string]any {
		t.Helper()
		spec["verb"], spec["resourceKind"] = "delete", "configmaps"
		of := policyBind
		of.Resource = resource
		got, err := admin.Resource(of).Namespace("tm-b").Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": "authorization.proviso.dev/v1alpha1", "kind": kind, "spec": spec}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		status, _, _ := unstructured.NestedMap(got.Object, "status")
		return status
	}
	s.await("the right", func() (bool, error) {
		return ask("subjectaccessreviews", "SubjectAccessReview", map[string]any{"userName": "tmd"})["allowed"] == true, nil
	})
	for at, allowed := range map[time.Time]bool{{}: true, end.Add(-time.Second): true, end: false, end.Add(time.Hour): false} {
		spec := map[string]any{"userName": "tmd"}
		who := map[string]any{}
		if !at.IsZero() {
			spec["time"], who["time"] = at.UTC().Format(time.RFC3339), at.UTC().Format(time.RFC3339)
		}
		status := ask("subjectaccessreviews", "SubjectAccessReview", spec)
		until, _ := status["until"].(string)
		if status["allowed"] != allowed || (until != "") != allowed {
			t.Errorf("at %v: %v", at, status)
		}
		if changes, err := time.Parse(time.RFC3339, until); allowed && (err != nil || !changes.Equal(end)) {
			t.Errorf("until %q, want %v", until, end)
		}
		self := ssarAt(t, s.as("tmd"), "tm-b", at)
		if self.Status.Allowed != allowed || (self.Status.Until != nil) != allowed || allowed && !self.Status.Until.Equal(&metav1.Time{Time: end}) {
			t.Errorf("the caller's own review at %v: %+v", at, self.Status)
		}
		users, _, _ := unstructured.NestedStringSlice(ask("resourceaccessreviews", "ResourceAccessReview", who), "userNames")
		if slices.Contains(users, "tmd") != allowed {
			t.Errorf("who can at %v: %v", at, users)
		}
	}
}

// TM-1, PA-12: a role that guards a protected attribute is guarded against bindings of Policy and against AccessRules,
// too; and who is bound by one is a member while it counts.
func TestGuardedRolesBoundByPolicy(t *testing.T) {
	t.Parallel()
	s := plain.get(t)
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	furnish(t, client, "tm-c")
	if _, err := client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "tm-marker"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	protection := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "policy.proviso.dev/v1alpha1", "kind": "ClusterProtectedAttribute", "metadata": map[string]any{"name": "tm-marked"},
		"attributeKind": "Label", "attributeName": "tm.example/marked", "roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tm-marker"}}}
	of := schema.GroupVersionResource{Group: "policy.proviso.dev", Version: "v1alpha1", Resource: "clusterprotectedattributes"}
	if _, err := admin.Resource(of).Create(t.Context(), protection, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	grantPolicy(t, admin, "tm-c", "tme", "tme", map[string]any{"verbs": []any{"*"}, "resourceKinds": []any{"rolebindings.authorization.proviso.dev", "configmaps"}})
	tme := dynamic.NewForConfigOrDie(s.as("tme"))
	join := func(by dynamic.Interface, until time.Time) error {
		b := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "authorization.proviso.dev/v1alpha1", "kind": "RoleBinding", "metadata": map[string]any{"name": "join", "namespace": "tm-c"},
			"roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tm-marker"}, "userNames": []any{"tme"}, "notAfter": until.UTC().Format(time.RFC3339)}}
		_, err := by.Resource(policyBind).Namespace("tm-c").Create(t.Context(), b, metav1.CreateOptions{})
		return err
	}
	mark := func(name string) error {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "labels": map[string]any{"tm.example/marked": "yes"}}}}
		_, err := tme.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("tm-c").Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{"All"}})
		return err
	}
	s.await("the protection", func() (bool, error) {
		err := mark("a")
		return err != nil && strings.Contains(err.Error(), "tm-marked"), nil
	})
	if err := join(tme, time.Now().Add(time.Hour)); err == nil || !strings.Contains(err.Error(), "guards protected attributes") {
		t.Errorf("a user who holds nothing joins: %v", err)
	}
	// Letting people ask for it takes the same.
	rules := schema.GroupVersionResource{Group: "access.proviso.dev", Version: "v1alpha1", Resource: "accessrules"}
	writer := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "tm-rules"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{rules.Group}, Resources: []string{rules.Resource}}}}
	if _, err := client.RbacV1().ClusterRoles().Create(t.Context(), writer, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	grantFor(t, admin, "master", "tme", "tm-rules", time.Now().Add(time.Hour))
	offer := func(by dynamic.Interface, name string, namespaces ...any) error {
		r := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "access.proviso.dev/v1alpha1", "kind": "AccessRule", "metadata": map[string]any{"name": name}, "spec": map[string]any{
			"subjects": map[string]any{"userNames": []any{"tme"}}, "roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tm-marker"},
			"namespaces": namespaces, "maxDurationSeconds": int64(60), "approvals": map[string]any{"count": int64(1), "subjects": map[string]any{"userNames": []any{"tmf"}}}}}}
		_, err := by.Resource(rules).Create(t.Context(), r, metav1.CreateOptions{DryRun: []string{"All"}})
		return err
	}
	s.await("the right to write rules", func() (bool, error) {
		err := offer(tme, "tm-c-one", "tm-c")
		return err == nil || !strings.Contains(err.Error(), "cannot create resource"), nil
	})
	for _, places := range [][]any{{"tm-c"}, {"*"}, {"default", "tm-c"}} {
		if err := offer(tme, "tm-c-one", places...); err == nil || !strings.Contains(err.Error(), "guards protected attributes") {
			t.Errorf("a user who holds nothing lets people ask for it in %v: %v", places, err)
		}
		if err := offer(admin, "tm-c-one", places...); err != nil {
			t.Errorf("an administrator lets people ask for it in %v: %v", places, err)
		}
	}
	if err := join(admin, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	s.await("membership", func() (bool, error) { return mark("b") == nil, nil })
}

// TM-3: upstream remembers for ten seconds who may act as whom. A right to that which has ended, or was taken away,
// does not go on meanwhile; one that is there is not asked for in vain.
func TestImpersonationIsNotRemembered(t *testing.T) {
	t.Parallel()
	s := plain.get(t)
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	furnish(t, client, "tm-i")
	grantFor(t, admin, "tm-i", "tmi-other", "cluster-admin", time.Now().Add(time.Hour))
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "tm-i-acts"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"impersonate:user-info"}, APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"users"}, ResourceNames: []string{"tmi-other"}},
		{Verbs: []string{"impersonate-on:user-info:get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}}}
	if _, err := client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const path = "/api/v1/namespaces/tm-i/configmaps/one"
	acting := func(user string) *reader {
		as := s.as(user)
		as.Impersonate.UserName = "tmi-other"
		return newReader(t, as)
	}
	revoked, ends := acting("tmi-b"), acting("tmi-a")
	grantFor(t, admin, "master", "tmi-b", "tm-i-acts", time.Now().Add(time.Hour))
	end := time.Now().Add(4 * time.Second).Truncate(time.Second)
	grantFor(t, admin, "master", "tmi-a", "tm-i-acts", end)
	for _, r := range []*reader{revoked, ends} {
		s.await("the right to act as another user", func() (bool, error) { return r.get(path).code == http.StatusOK, nil })
		if got := r.get(path); got.code != http.StatusOK { // as it is remembered
			t.Errorf("once more: %d %s", got.code, got.body)
		}
		if got := r.get("/api/v1/namespaces/tm-i/secrets"); got.code != http.StatusForbidden {
			t.Errorf("something else: %d", got.code)
		}
	}
	if err := admin.Resource(policyBind).Namespace("master").Delete(t.Context(), "tmi-b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	taken := time.Now()
	s.await("the end of what was revoked", func() (bool, error) { return revoked.get(path).code == http.StatusForbidden, nil })
	if took := time.Since(taken); took > 5*time.Second {
		t.Errorf("that took %s", took)
	}
	if ends.get(path); time.Now().Before(end) {
		time.Sleep(time.Until(end)) // an instant is what is tested
	}
	if got := ends.get(path); got.code != http.StatusForbidden {
		t.Errorf("after its end: %d %s", got.code, got.body)
	}
}
