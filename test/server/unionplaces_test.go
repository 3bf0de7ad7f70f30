package server

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// RD-12: a rule of the master namespace that looks at request.namespace shows the namespaces in which it may give a
// right to something, whatever else its condition asks of objects. A rule that holds everywhere shows none.
func TestNamespacesByRule(t *testing.T) {
	t.Parallel()
	s := united.get(t)
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	furnish(t, client, "unw-a", "unw-a-b", "unw-b", "unw-c", "unw-d")
	rule := func(verb, kind string, more ...string) map[string]any {
		r := map[string]any{"verbs": []any{verb}, "resourceKinds": []any{}}
		for _, k := range strings.Split(kind, ",") {
			r["resourceKinds"] = append(r["resourceKinds"].([]any), k) //nolint:forcetypeassert // it is written here
		}
		for i := 0; i < len(more); i += 2 {
			r[more[i]] = more[i+1]
		}
		return r
	}
	deny := func(r map[string]any, name string) map[string]any {
		r["deny"], r["resourceNames"] = true, []any{name}
		return r
	}
	allNamespaces := []string{"*"} // other tests have theirs
	for _, tc := range []struct {
		user  string
		rules []map[string]any
		want  []string // nil is a 403
	}{
		{"unw1", []map[string]any{rule("create", "pods", "when", `request.namespace.startsWith("unw-a")`)}, []string{"unw-a", "unw-a-b"}},
		// TM-2: what a condition says of the time is decided.
		{"unwt1", []map[string]any{rule("create", "pods", "when", `request.namespace == "unw-b" && request.time < timestamp("2000-01-01T00:00:00Z")`)}, []string{}},
		{"unwt2", []map[string]any{rule("create", "pods", "when", `request.namespace == "unw-b" && request.time > timestamp("2000-01-01T00:00:00Z")`)}, []string{"unw-b"}},
		{"unw2", []map[string]any{rule("*", "*", "when", `request.namespace in ["unw-b", "unw-c", "unw-x"]`)}, []string{"unw-b", "unw-c"}},
		{"unw3", []map[string]any{rule("list", "secrets", "where", `resource.metadata.labels.team == "a"`, "when", `request.namespace == "unw-b"`)}, []string{"unw-b"}},
		{"unw4", []map[string]any{rule("list", "secrets", "where", `resource.metadata.labels.team == "a"`)}, nil},
		{"unw5", []map[string]any{rule("list", "nodes", "when", `request.namespace == "unw-b"`)}, nil},
		{"unw6", []map[string]any{rule("get", "secrets", "when", `request.namespace == "unw-b" && request.verb == "list"`)}, []string{}},
		{"unw7", []map[string]any{rule("*", "secrets", "when", `request.namespace == "unw-b" && request.verb == "list" || request.resource == "pods" && request.namespace == "unw-c"`)}, []string{"unw-b"}},
		{"unw8", []map[string]any{rule("create", "pods", "when", `request.namespace.startsWith("unw-a")`), deny(rule("get", "namespaces"), "unw-a")}, []string{"unw-a-b"}},
		{"unw9", []map[string]any{rule("exec", "pods", "when", `request.namespace == "unw-d"`)}, []string{"unw-d"}},
		{"unw10", []map[string]any{rule("create", "pods/eviction", "when", `request.namespace == "unw-d" && request.subresource == "eviction"`)}, []string{"unw-d"}},
		{"unw11", []map[string]any{rule("list", "namespaces", "when", `request.namespace == "unw-c"`)}, []string{"unw-c"}},
		{"unw12", []map[string]any{rule("get", "configmaps", "when", `request.user == "unw12" && request.namespace == "unw-c"`)}, []string{"unw-c"}},
		{"unw13", []map[string]any{rule("get", "configmaps", "when", `request.user == "unw12" && request.namespace == "unw-c"`)}, []string{}},
		{"unw14", []map[string]any{rule("get", "configmaps", "when", `request.namespace == "unw-c" && namespaceObject.metadata.labels.x == "y"`)}, nil},
		{"unw15", []map[string]any{rule("list", "namespaces,secrets,pods", "when", `request.namespace == "unw-c" && object.metadata.labels.team == "x"`)}, []string{"unw-c"}},
		{"unw16", []map[string]any{rule("list", "namespaces", "when", `request.namespace == "unw-c" && object.metadata.labels.team == "x"`)}, []string{}},
		{"unw17", []map[string]any{rule("*", "secrets", "when", `request.namespace == "unw-c" && operation == "DELETE"`)}, []string{"unw-c"}},
		{"unw18", []map[string]any{rule("create", "secrets", "when", `request.namespace == "unw-c" && operation == "DELETE"`)}, []string{}},
		{"unw19", []map[string]any{rule("get", "secrets", "when", `request.namespace == "unw-c" && oldObject.metadata.labels.team == "a"`)}, []string{"unw-c"}},
		{"unw20", []map[string]any{rule("get", "secrets", "where", `request.namespace == "unw-c"`)}, []string{"unw-c"}},
		{"unw21", []map[string]any{rule("get", "secrets", "where", `resource.metadata.name == "x" && request.namespace == "unw-c"`)}, []string{"unw-c"}},
		{"unw22", []map[string]any{rule("get", "secrets", "when", `request.namespace == "unw-c" && request.name == "x"`)}, []string{"unw-c"}},
		{"unw23", []map[string]any{rule("get", "secrets", "when", `request.name == "x" || request.namespace == "unw-c"`)}, allNamespaces},
		{"unw24", []map[string]any{rule("get", "secrets", "when", `request.namespace == "unw-c" && request.name.startsWith("x") && request.verb == "list"`)}, []string{}},
	} {
		t.Run(tc.user, func(t *testing.T) {
			grantReads(t, admin, tc.user, tc.user, append(tc.rules, rule("get", "nodes"))...)
			r := newReader(t, s.as(tc.user))
			s.await("the rules", func() (bool, error) { return r.get("/api/v1/nodes/none").code == http.StatusNotFound, nil })
			list := r.get("/api/v1/namespaces")
			switch {
			case tc.want == nil && list.code != http.StatusForbidden:
				t.Errorf("%d %s", list.code, list.body)
			case slices.Equal(tc.want, allNamespaces):
				if !slices.Contains(list.names(t), "default") {
					t.Errorf("%s", list.names(t))
				}
				return
			case tc.want != nil && !slices.Equal(list.names(t), tc.want):
				t.Errorf("%s, want %s", list.names(t), tc.want)
			}
			for _, path := range []string{"?limit=1", "?resourceVersion=0", "?labelSelector=kubernetes.io/metadata.name"} {
				if tc.want != nil && !slices.Equal(r.places("/api/v1/namespaces"+path), tc.want) {
					t.Errorf("%s: %s", path, r.places("/api/v1/namespaces"+path))
				}
			}
			for _, name := range []string{"unw-a", "unw-a-b", "unw-b", "unw-c", "unw-d", "default"} {
				want := http.StatusForbidden
				if slices.Contains(tc.want, name) && tc.user != "unw11" { // who may list, and not get
					want = http.StatusOK
				}
				if got := r.get("/api/v1/namespaces/" + name); got.code != want {
					t.Errorf("%s: %d %s", name, got.code, got.body)
				}
			}
			if got := r.get("/api/v1/namespaces/unw-x"); got.code != http.StatusForbidden && tc.user != "unw2" {
				t.Errorf("what is not there: %d %s", got.code, got.body)
			}
		})
	}
}

// RD-7, RD-12: while rights come and go, a client that lists and watches namespaces, and starts again on a 410 as all
// do, soon holds those which are theirs, and has none in between that never was.
func TestNamespacesComeAndGo(t *testing.T) {
	t.Parallel()
	s := united.get(t)
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	furnish(t, client, "ung-a", "ung-b", "ung-c", "ung-none")
	r := newReader(t, s.as("ung"))
	open := func() (names []string, w watch.Interface) {
		t.Helper()
		namespaces := kubernetes.NewForConfigOrDie(s.as("ung")).CoreV1().Namespaces()
		list, err := namespaces.List(t.Context(), metav1.ListOptions{})
		if apierrors.IsForbidden(err) {
			return nil, watch.NewEmptyWatch()
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			names = append(names, o.Name)
		}
		if w, err = namespaces.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion}); err != nil && !apierrors.IsForbidden(err) && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			t.Fatal(err)
		}
		return names, w
	}
	rules := func(when string) {
		grantReads(t, admin, "ung", "ung", map[string]any{"verbs": []any{"get"}, "resourceKinds": []any{"secrets"}, "when": when})
	}
	var before []string
	for _, step := range []struct {
		name   string
		change func()
		want   []string
	}{
		{"nothing", func() {}, nil},
		{"a binding", func() { grantRBAC(t, client, "ung-a", "ung", toUser("ung"), rbacReads("pods")) }, []string{"ung-a"}},
		{"a rule for all namespaces", func() { rules(`request.namespace == "ung-b"`) }, []string{"ung-a", "ung-b"}},
		{"another condition", func() { rules(`request.namespace in ["ung-b", "ung-c"]`) }, []string{"ung-a", "ung-b", "ung-c"}},
		{"the binding is gone", func() {
			if err := client.RbacV1().RoleBindings("ung-a").Delete(t.Context(), "ung", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}, []string{"ung-b", "ung-c"}},
		{"a deny", func() {
			grantPolicy(t, admin, "ung-c", "ung", "ung", map[string]any{"verbs": []any{"get"}, "resourceKinds": []any{"namespaces"}, "deny": true})
		}, []string{"ung-b"}},
		{"the rule is gone", func() {
			for _, of := range []string{"rolebindings", "roles"} {
				if err := admin.Resource(policyRole.GroupVersion().WithResource(of)).Namespace("master").Delete(t.Context(), "ung", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}, nil},
	} {
		_, w := open()
		step.change()
		since := time.Now()
		if len(before) > 0 {
			if got := lastOf(t, w); got != "410" {
				t.Errorf("%s: the watch ends with %s", step.name, got)
			}
			if took := time.Since(since); took > 2*time.Second { // half of it for a machine that does other things
				t.Errorf("%s: it took %s", step.name, took)
			}
		}
		var got []string
		s.await(step.name, func() (bool, error) {
			got, w = open()
			if w != nil {
				w.Stop()
			}
			return slices.Equal(got, step.want), nil
		})
		for _, name := range []string{"ung-a", "ung-b", "ung-c", "ung-none"} {
			if code := r.get("/api/v1/namespaces/" + name).code; (code == http.StatusOK) != slices.Contains(step.want, name) {
				t.Errorf("%s: get of %s: %d", step.name, name, code)
			}
		}
		before = step.want
	}
}

// lastOf is the last event of a watch: its type, or the code of an error.
func lastOf(t *testing.T, w watch.Interface) string {
	t.Helper()
	defer w.Stop()
	last := "nothing"
	for {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				return last
			}
			last = string(e.Type)
			if e.Type == watch.Error && apierrors.IsGone(apierrors.FromObject(e.Object)) || e.Type == watch.Error && apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
				return "410"
			}
		case <-time.After(10 * time.Second):
			return last + ", and then nothing"
		}
	}
}

// RD-12, RD-15: an informer of namespaces follows the creation of one that a rule names, and never holds another.
func TestNamespacesAreFollowed(t *testing.T) {
	t.Parallel()
	s := united.get(t)
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	grantReads(t, admin, "unf", "unf", map[string]any{"verbs": []any{"*"}, "resourceKinds": []any{"*"}, "when": `request.namespace.startsWith("unf-")`})
	theirs := kubernetes.NewForConfigOrDie(s.as("unf")).CoreV1().Namespaces()
	var list *corev1.NamespaceList
	s.await("the rule", func() (_ bool, err error) {
		list, err = theirs.List(t.Context(), metav1.ListOptions{})
		return err == nil, nil
	})
	if len(list.Items) > 0 {
		t.Errorf("before there is one: %v", list.Items)
	}
	seen := make(chan string, 100)
	factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(s.as("unf")), 0)
	if _, err := factory.Core().V1().Namespaces().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(added any) {
		if o, ok := added.(*corev1.Namespace); ok {
			seen <- o.Name
		}
	}}); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	defer factory.Shutdown()
	defer close(stop)
	factory.Start(stop)
	for _, name := range []string{"unf-a", "other-unf", "unf-b"} {
		if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for added := map[string]bool{}; len(added) < 2; {
		select {
		case name := <-seen:
			if !strings.HasPrefix(name, "unf-") {
				t.Fatalf("shown: %s", name)
			}
			added[name] = true
		case <-time.After(30 * time.Second):
			t.Fatalf("only %v is shown", added)
		}
	}
}
