package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// grantRBAC binds a role of RBAC with one rule in a namespace, or in the cluster if that is empty.
func grantRBAC(t *testing.T, client kubernetes.Interface, namespace, name string, to rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	t.Helper()
	ctx := t.Context()
	var errs [2]error
	if namespace == "" {
		_, errs[0] = client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
		_, errs[1] = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			Subjects: []rbacv1.Subject{to}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}}, metav1.CreateOptions{})
	} else {
		_, errs[0] = client.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
		_, errs[1] = client.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			Subjects: []rbacv1.Subject{to}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}}, metav1.CreateOptions{})
	}
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// grantPolicy binds a role of Policy in a namespace.
func grantPolicy(t *testing.T, admin dynamic.Interface, namespace, name, user string, rules ...map[string]any) {
	t.Helper()
	var all []any
	for _, r := range rules {
		all = append(all, r)
	}
	for kind, name := range map[string]string{"Policy": "default", "PolicyBinding": namespace} {
		container := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "policy.proviso.dev/v1alpha1", "kind": kind, "metadata": map[string]any{"name": name}}}
		of := schema.GroupVersionResource{Group: "policy.proviso.dev", Version: "v1alpha1", Resource: map[string]string{"Policy": "policies", "PolicyBinding": "policybindings"}[kind]}
		if _, err := admin.Resource(of).Namespace(namespace).Create(t.Context(), container, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	meta := func() map[string]any { return map[string]any{"name": name, "namespace": namespace} }
	for _, one := range []struct {
		of  schema.GroupVersionResource
		obj map[string]any
	}{
		{policyRole, map[string]any{"kind": "Role", "metadata": meta(), "rules": all}},
		{policyBind, map[string]any{"kind": "RoleBinding", "metadata": meta(), "roleRef": map[string]any{"namespace": namespace, "name": name}, "userNames": []any{user}}},
	} {
		one.obj["apiVersion"] = "authorization.proviso.dev/v1alpha1"
		if _, err := admin.Resource(one.of).Namespace(namespace).Apply(t.Context(), name, &unstructured.Unstructured{Object: one.obj}, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
}

var readVerbs = []string{"get", "list", "watch"}

func toUser(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

func toGroup(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name}
}

func rbacReads(resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: readVerbs, ResourceNames: names}
}

// furnish makes namespaces with config maps one, two and three in them, of which one is of team a.
func furnish(t *testing.T, client kubernetes.Interface, namespaces ...string) {
	t.Helper()
	for _, ns := range namespaces {
		if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"one", "two", "three"} {
			o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": ns + "-" + name}}
			if name == "one" {
				o.Labels = map[string]string{"team": "a"}
			}
			if _, err := client.CoreV1().ConfigMaps(ns).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// places are the objects of a list as namespace/name, page by page.
func (r *reader) places(path string) []string {
	r.t.Helper()
	all := []string{}
	for next := ""; ; {
		got := r.get(path + next)
		var list corev1.ConfigMapList
		if got.code != http.StatusOK {
			r.t.Fatalf("%s: %d %s", path+next, got.code, got.body)
		}
		decode(r.t, got.body, &list)
		for _, o := range list.Items {
			all = append(all, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))
		}
		if list.Continue == "" {
			return all
		}
		if list.RemainingItemCount != nil {
			r.t.Errorf("%s: tells how many follow", path)
		}
		path, _, _ = strings.Cut(path, "resourceVersionMatch=Exact&") // which the token says
		next = "&continue=" + list.Continue
	}
}

// RD-11, RD-13: a list over all namespaces is what the caller may see in each of them, in whichever way they have the
// right; by whatever way it is read, and page by page. Who may see nothing gets the 403 of before.
func TestUnion(t *testing.T) {
	t.Parallel()
	s := united.get(t)
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	furnish(t, client, "un-a", "un-a-b", "un-b", "un-c", "un-d", "un-e")
	grantRBAC(t, client, "un-a", "una", toUser("una"), rbacReads("configmaps"))
	grantRBAC(t, client, "un-a-b", "una", toGroup("unas"), rbacReads("configmaps"))
	grantPolicy(t, admin, "un-b", "una", "una", readRule(`resource.metadata.labels.team == "a"`, "configmaps"))
	grantRBAC(t, client, "un-c", "una", toUser("una"), rbacReads("configmaps", "two", "nosuch"))
	grantPolicy(t, admin, "un-e", "una", "una", map[string]any{"verbs": []any{"*"}, "resourceKinds": []any{"configmaps"}},
		map[string]any{"verbs": []any{"list", "watch"}, "resourceKinds": []any{"configmaps"}, "deny": true})
	una := newReader(t, s.as("una", "unas"))
	want := []string{"un-a-b/one", "un-a-b/three", "un-a-b/two", "un-a/one", "un-a/three", "un-a/two", "un-b/one", "un-c/two"}
	s.await("the union", func() (bool, error) {
		got := una.get("/api/v1/configmaps")
		return got.code == http.StatusOK && len(got.names(t)) == len(want), nil
	})
	for _, path := range []string{"?", "?resourceVersion=0", "?limit=1", "?limit=3", "?limit=500", "?limit=2&resourceVersion=0", "?resourceVersionMatch=NotOlderThan&resourceVersion=1"} {
		if got := una.places("/api/v1/configmaps" + path); !slices.Equal(got, want) {
			t.Errorf("%s: %s\nwant %s", path, got, want)
		}
	}
	for path, want := range map[string][]string{
		"?labelSelector=team%3Da":                                        {"un-a-b/one", "un-a/one", "un-b/one"},
		"?fieldSelector=metadata.name%3Dtwo":                             {"un-a-b/two", "un-a/two", "un-c/two"},
		"?fieldSelector=metadata.namespace%3Dun-c":                       {"un-c/two"},
		"?fieldSelector=metadata.namespace%3Dun-d":                       {},
		"?fieldSelector=metadata.namespace%3Dun-a,metadata.name%3Dthree": {"un-a/three"},
		"?labelSelector=team%21%3Da&limit=1":                             {"un-a-b/three", "un-a-b/two", "un-a/three", "un-a/two", "un-c/two"},
	} {
		if got := una.places("/api/v1/configmaps" + path); !slices.Equal(got, want) {
			t.Errorf("%s: %s\nwant %s", path, got, want)
		}
	}
	got := una.get("/api/v1/configmaps")
	if warned := strings.Join(got.header.Values("Warning"), ""); !strings.Contains(warned, "only what you may see is shown: 4 namespaces") {
		t.Errorf("it warns: %s", warned)
	}
	if got := una.places("/api/v1/namespaces/un-c/configmaps?"); !slices.Equal(got, []string{"un-c/two"}) {
		t.Errorf("by name, in a namespace: %s", got)
	}
	for _, path := range []string{"/api/v1/secrets", "/api/v1/nodes", "/api/v1/namespaces/un-d/configmaps", "/api/v1/namespaces/un-e/configmaps", "/api/v1/pods"} {
		if got := una.get(path); got.code != http.StatusForbidden {
			t.Errorf("%s: %d %s", path, got.code, got.body)
		}
	}
	for _, accept := range []string{"application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "application/yaml", "application/vnd.kubernetes.protobuf"} {
		if got := una.get("/api/v1/configmaps", accept); got.code != http.StatusOK || strings.Contains(got.body, "un-d") || !strings.Contains(got.body, "un-a-b") {
			t.Errorf("%s: %d %s", accept, got.code, got.body)
		}
	}
}

// RD-11: without the gate, and for those who may see nothing, the answer is that of Kubernetes.
func TestUnionRefused(t *testing.T) {
	t.Parallel()
	stock := plain.get(t)
	client := kubernetes.NewForConfigOrDie(stock.admin)
	furnish(t, client, "unr-a")
	grantRBAC(t, client, "unr-a", "unr", toUser("unr"), rbacReads("configmaps"))
	grantRBAC(t, client, "", "unr", toUser("unr"), rbacReads("nodes", "one"))
	unr := newReader(t, stock.as("unr"))
	stock.await("the right", func() (bool, error) { return unr.get("/api/v1/namespaces/unr-a/configmaps").code == http.StatusOK, nil })
	on := united.get(t)
	for _, path := range []string{"/api/v1/configmaps", "/api/v1/configmaps?watch=1", "/api/v1/nodes", "/api/v1/namespaces", "/api/v1/namespaces/unr-a", "/api/v1/namespaces/nosuch", "/apis/apps/v1/deployments"} {
		// Of the other two servers, one has the gate, and neither has a right of theirs.
		with, without := unr.get(path), newReader(t, stock.as("unrr")).get(path)
		none := newReader(t, on.as("unrr")).get(path)
		if with.code != http.StatusForbidden || with.body != strings.ReplaceAll(without.body, "unrr", "unr") || none.body != without.body || none.code != without.code {
			t.Errorf("%s: %d %s\n%d %s\n%d %s", path, with.code, with.body, without.code, without.body, none.code, none.body)
		}
	}
}

// RD-12: of namespaces everybody sees those in which they have a right, and that nobody denies them.
func TestUnionOfNamespaces(t *testing.T) {
	t.Parallel()
	s := united.get(t)
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	furnish(t, client, "unn-a", "unn-b", "unn-c", "unn-d", "unn-e", "unn-f", "unn-g")
	grantRBAC(t, client, "unn-a", "unn", toUser("unn"), rbacReads("secrets"))
	grantPolicy(t, admin, "unn-b", "unn", "unn", map[string]any{"verbs": []any{"create"}, "resourceKinds": []any{"pods"}, "where": `resource.metadata.labels.team == "a"`})
	grantRBAC(t, client, "unn-c", "unn", toUser("unn"), rbacReads("nodes"))                          // which are in no namespace
	grantRBAC(t, client, "unn-d", "unn", toGroup("system:authenticated"), rbacReads("podtemplates")) // which no other test reads
	grantRBAC(t, client, "", "unn", toUser("unn"), rbacReads("namespaces", "unn-e"))
	grantPolicy(t, admin, "unn-f", "unn", "unn", map[string]any{"verbs": []any{"*"}, "resourceKinds": []any{"*"}}, map[string]any{"verbs": []any{"get"}, "resourceKinds": []any{"namespaces"}, "deny": true})
	unn := newReader(t, s.as("unn"))
	want := []string{"unn-a", "unn-b", "unn-e"}
	s.await("the namespaces", func() (bool, error) {
		got := unn.get("/api/v1/namespaces")
		return got.code == http.StatusOK && slices.Equal(got.names(t), want), nil
	})
	for _, path := range []string{"?resourceVersion=0", "?limit=1", "?labelSelector=kubernetes.io/metadata.name"} {
		if got := unn.places("/api/v1/namespaces" + path); !slices.Equal(got, want) {
			t.Errorf("%s: %s", path, got)
		}
	}
	for name, code := range map[string]int{"unn-a": 200, "unn-b": 200, "unn-c": 403, "unn-d": 403, "unn-e": 200, "unn-f": 403, "unn-g": 403, "unn-none": 403} {
		if got := unn.get("/api/v1/namespaces/" + name); got.code != code {
			t.Errorf("%s: %d %s", name, got.code, got.body)
		}
	}
	absent, hidden := unn.get("/api/v1/namespaces/unn-x"), unn.get("/api/v1/namespaces/unn-g")
	if absent.body != strings.ReplaceAll(hidden.body, "unn-g", "unn-x") {
		t.Errorf("what is not there: %s\nwhat is: %s", absent.body, hidden.body)
	}
	if got := newReader(t, s.as("unnn")).get("/api/v1/namespaces"); got.code != http.StatusForbidden {
		t.Errorf("somebody without a right: %d %s", got.code, got.body)
	}
}

// RD-11: a client that asks before it lists is told that it may; about others the answer is that of Kubernetes.
func TestUnionReviews(t *testing.T) {
	t.Parallel()
	s := united.get(t)
	client := kubernetes.NewForConfigOrDie(s.admin)
	furnish(t, client, "unv-a", "unv-b", "unv-c")
	grantRBAC(t, client, "unv-a", "unv", toUser("unv"), rbacReads("pods"))
	grantRBAC(t, client, "unv-b", "unv", toUser("unv"), rbacReads("pods"))
	grantRBAC(t, client, "unv-a", "unv-cm", toUser("unv"), rbacReads("configmaps"))
	grantRBAC(t, client, "", "unv", toUser("unv"), rbacReads("nodes", "one"))
	self := kubernetes.NewForConfigOrDie(s.as("unv"))
	ask := func(a authorizationv1.ResourceAttributes) authorizationv1.SubjectAccessReviewStatus {
		t.Helper()
		got, err := self.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return got.Status
	}
	s.await("the rights", func() (bool, error) {
		return ask(authorizationv1.ResourceAttributes{Verb: "list", Resource: "nodes"}).Allowed, nil
	})
	for _, tc := range []struct {
		of     authorizationv1.ResourceAttributes
		allow  bool
		begins string
	}{
		{authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"}, true, "narrowed to 2 namespaces"},
		{authorizationv1.ResourceAttributes{Verb: "watch", Resource: "pods", Version: "v1"}, true, "narrowed to 2 namespaces"},
		{authorizationv1.ResourceAttributes{Verb: "list", Resource: "configmaps"}, true, "narrowed to 1 namespace"},
		{authorizationv1.ResourceAttributes{Verb: "list", Resource: "namespaces"}, true, "narrowed to 2 namespaces"},
		{authorizationv1.ResourceAttributes{Verb: "get", Resource: "namespaces", Name: "unv-a", Namespace: "unv-a"}, true, ""},
		{authorizationv1.ResourceAttributes{Verb: "get", Resource: "namespaces", Name: "unv-c", Namespace: "unv-c"}, false, ""},
		{authorizationv1.ResourceAttributes{Verb: "list", Resource: "nodes"}, true, "narrowed to the objects"},
		{authorizationv1.ResourceAttributes{Verb: "list", Resource: "secrets"}, false, ""},
		{authorizationv1.ResourceAttributes{Verb: "list", Resource: "*"}, false, ""},
		{authorizationv1.ResourceAttributes{Verb: "*", Resource: "pods"}, false, ""},
		{authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"}, false, ""},
		{authorizationv1.ResourceAttributes{Verb: "delete", Resource: "pods"}, false, ""},
		{authorizationv1.ResourceAttributes{Verb: "deletecollection", Resource: "pods"}, false, ""},
		{authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", Namespace: "unv-c"}, false, ""},
	} {
		if got := ask(tc.of); got.Allowed != tc.allow || !strings.HasPrefix(got.Reason, tc.begins) {
			t.Errorf("%+v: %+v", tc.of, got)
		}
		others, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "unv", Groups: []string{"system:authenticated"}, ResourceAttributes: &tc.of}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if others.Status.Allowed || others.Status.Reason != "" {
			t.Errorf("about others, %+v: %+v", tc.of, others.Status)
		}
	}
}

// RD-7, RD-11: a watch of a union ends with 410 within a second when its caller may see something else, and goes on if
// others do.
func TestUnionEnds(t *testing.T) {
	t.Parallel()
	s := united.get(t)
	ctx := t.Context()
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	furnish(t, client, "une-a", "une-b", "une-c")
	for _, user := range []string{"une", "uni"} {
		grantRBAC(t, client, "une-a", user, toUser(user), rbacReads("configmaps"))
		grantPolicy(t, admin, "une-b", user, user, readRule(`resource.metadata.labels.team == "a"`, "configmaps"))
	}
	type open struct {
		watch.Interface
		shown int
	}
	begin := func(user string, want int, of schema.GroupVersionResource) open {
		t.Helper()
		in := dynamic.NewForConfigOrDie(s.as(user)).Resource(of)
		var list *unstructured.UnstructuredList
		s.await("what is seen", func() (bool, error) {
			var err error
			list, err = in.List(ctx, metav1.ListOptions{})
			return err == nil && len(list.Items) == want, nil
		})
		w, err := in.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		return open{w, len(list.Items)}
	}
	next := func(w watch.Interface) string {
		t.Helper()
		select {
		case e := <-w.ResultChan():
			if e.Type == watch.Error {
				if status, ok := apierrors.FromObject(e.Object).(apierrors.APIStatus); ok {
					return fmt.Sprint(status.Status().Code)
				}
			}
			return string(e.Type)
		case <-time.After(10 * time.Second):
			return "nothing"
		}
	}
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	theirs, others := begin("une", 4, configmaps), begin("uni", 4, configmaps)
	places, otherPlaces := begin("une", 2, namespaces), begin("uni", 2, namespaces)
	since := time.Now()
	grantRBAC(t, client, "une-c", "une", toUser("une"), rbacReads("configmaps", "two"))
	for _, w := range []open{theirs, places} {
		if got := next(w); got != "410" {
			t.Errorf("a new right: %s", got)
		}
	}
	if took := time.Since(since); took > 2*time.Second { // half of it for a machine that does other things
		t.Errorf("it took %s", took)
	}
	theirs, places = begin("une", 5, configmaps), begin("une", 3, namespaces)
	if err := client.RbacV1().RoleBindings("une-a").Delete(ctx, "une", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, w := range []open{theirs, places} {
		if got := next(w); got != "410" {
			t.Errorf("a right that is gone: %s", got)
		}
	}
	begin("une", 2, configmaps)
	if _, err := client.CoreV1().ConfigMaps("une-b").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "four", Labels: map[string]string{"team": "a"}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().Patch(ctx, "une-b", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if a, b := next(others), next(otherPlaces); a != "ADDED" || b != "MODIFIED" {
		t.Errorf("what is about others: %s %s", a, b)
	}
}

func decode(t *testing.T, body string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), into); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
}
