package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

var (
	configmaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	widgetsGVR = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	policyRole = schema.GroupVersionResource{Group: "authorization.proviso.dev", Version: "v1alpha1", Resource: "roles"}
	policyBind = schema.GroupVersionResource{Group: "authorization.proviso.dev", Version: "v1alpha1", Resource: "rolebindings"}
)

// reader is somebody who reads over plain HTTP.
type reader struct {
	t      *testing.T
	client *http.Client
	host   string
}

type shown struct {
	code   int
	header http.Header
	body   string
}

func newReader(t *testing.T, config *rest.Config) *reader {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return &reader{t, client, config.Host}
}

func (r *reader) get(path string, accept ...string) shown {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.host+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, a := range accept {
		req.Header.Set("Accept", a)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return shown{resp.StatusCode, resp.Header, string(body)}
}

// names are those of a list.
func (a shown) names(t *testing.T) []string {
	t.Helper()
	var list struct {
		Metadata metav1.ListMeta
		Items    []metav1.PartialObjectMetadata
	}
	if err := json.Unmarshal([]byte(a.body), &list); err != nil || a.code != http.StatusOK {
		t.Fatalf("%d %s (%v)", a.code, a.body, err)
	}
	names := []string{}
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	slices.Sort(names)
	return names
}

// grantReads gives a user a role of the master namespace.
func grantReads(t *testing.T, admin dynamic.Interface, name, user string, rules ...map[string]any) {
	t.Helper()
	var all []any
	for _, r := range rules {
		all = append(all, r)
	}
	role := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "authorization.proviso.dev/v1alpha1", "kind": "Role",
		"metadata": map[string]any{"name": name, "namespace": "master"}, "rules": all}}
	binding := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "authorization.proviso.dev/v1alpha1", "kind": "RoleBinding",
		"metadata": map[string]any{"name": name, "namespace": "master"}, "roleRef": map[string]any{"namespace": "master", "name": name}, "userNames": []any{user}}}
	for _, one := range []struct {
		of  schema.GroupVersionResource
		obj *unstructured.Unstructured
	}{{policyRole, role}, {policyBind, binding}} {
		if _, err := admin.Resource(one.of).Namespace("master").Apply(t.Context(), name, one.obj, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
}

func readRule(where string, kinds ...any) map[string]any {
	return map[string]any{"verbs": []any{"get", "list", "watch"}, "resourceKinds": kinds, "where": where}
}

func teamObject(kind, apiVersion, namespace, name string, labels map[string]any) *unstructured.Unstructured {
	meta := map[string]any{"name": name}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	if labels != nil {
		meta["labels"] = labels
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": meta}}
}

// RD-1, RD-2, RD-4, RD-6: who may see some objects only sees those, in every form in which they can be read.
func TestReadsUnderACondition(t *testing.T) {
	t.Parallel()
	s := audited.get(t)
	ctx := t.Context()
	admin := dynamic.NewForConfigOrDie(s.admin)
	for name, labels := range map[string]map[string]any{
		"a1": {"team": "a"}, "a2": {"team": "a"}, "a3": {"team": "a"}, "hidden1": {"team": "b"}, "zhidden": {"team": "b"}, "nolabel": nil,
	} {
		o := teamObject("ConfigMap", "v1", "default", name, labels)
		o.Object["data"] = map[string]any{"secret": "of-" + name}
		if _, err := admin.Resource(configmaps).Namespace("default").Create(ctx, o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	grantReads(t, admin, "see-a", "ann", readRule(`resource.metadata.labels.team == "a"`, "configmaps", "componentstatuses"))
	grantReads(t, admin, "see-data", "dan", readRule(`resource.data.secret == "of-hidden1"`, "configmaps"))
	ann, dan := newReader(t, s.as("ann")), newReader(t, s.as("dan"))
	const all = "/api/v1/namespaces/default/configmaps"
	s.await("the right to list", func() (bool, error) { return ann.get(all).code == http.StatusOK, nil })

	want := []string{"a1", "a2", "a3"}
	for _, path := range []string{
		all, "/api/v1/configmaps", all + "?labelSelector=team", all + "?labelSelector=team%3Da", all + "?resourceVersion=0",
		all + "?labelSelector=team&labelSelector=team%3Db", all + "?labelSelector=team%3Da&labelSelector=", all + "?fieldSelector=metadata.name!%3Dx",
		all + "?fieldSelector=metadata.name%21%3Dx&fieldSelector=metadata.name%3Dhidden1", all + "?limit=100",
		all + "?labelselector=team%3Db", all + "?labelSelector=&fieldSelector=",
	} {
		if got := ann.get(path); !slices.Equal(got.names(t), want) {
			t.Errorf("%s: %s", path, got.names(t))
		}
	}
	// Her own selectors contradict, or say nothing that a selector can.
	for _, path := range []string{all + "?labelSelector=team%3Db", all + "?labelSelector=!team", all + "?fieldSelector=metadata.name%3Dhidden1", all + "?labelSelector=team+notin+(a)",
		all + "?fieldSelector=metadata.name%3Dno%5C%2Csuch"} {
		if got := ann.get(path).names(t); len(got) != 0 {
			t.Errorf("%s: %s", path, got)
		}
	}
	for path, code := range map[string]int{all + "?labelSelector=team%253Db": 400, all + "?labelSelector=a%3Db%3Dc": 400, all + "?fieldSelector=data.secret%3Dof-hidden1": 400,
		all + "?fieldSelector=metadata.name": 400, "/api/v1/secrets": 403, "/api/v1/componentstatuses": 403, "/api/v1/componentstatuses/etcd-0": 403} {
		if got := ann.get(path); got.code != code || strings.Contains(got.body, "of-") {
			t.Errorf("%s: %d %s, want %d", path, got.code, got.body, code)
		}
	}
	if got := ann.get(all + "?fieldSelector=metadata.name%3Da1").names(t); !slices.Equal(got, []string{"a1"}) {
		t.Errorf("one by its name: %s", got)
	}
	if got := ann.get(all).header.Get("Warning"); !strings.Contains(got, "labelSelector team=a was added by condition policy.proviso.dev/") {
		t.Errorf("warning: %q", got)
	}
	if got := ann.get(all + "?labelSelector=team%3Da").header.Get("Warning"); got != "" {
		t.Errorf("warning without need: %q", got)
	}
	// Every form of the shown.
	for _, accept := range []string{"application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
		"application/vnd.kubernetes.protobuf", "application/yaml", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"} {
		got := ann.get(all, accept)
		if got.code != http.StatusOK || !strings.Contains(got.body, "a1") || strings.Contains(got.body, "hidden1") || strings.Contains(got.body, "nolabel") {
			t.Errorf("%s: %d %q", accept, got.code, got.body)
		}
	}

	// RD-6: pages. A token says nothing about what follows unseen, and grants nothing.
	first := ann.get(all + "?limit=2")
	var page metav1.PartialObjectMetadataList
	if err := json.Unmarshal([]byte(first.body), &page); err != nil || len(page.Items) != 2 || page.Continue == "" || page.RemainingItemCount != nil {
		t.Fatalf("first page: %s (%v)", first.body, err)
	}
	second := ann.get(all + "?limit=2&continue=" + url.QueryEscape(page.Continue))
	if got := second.names(t); !slices.Equal(got, []string{"a3"}) || strings.Contains(second.body, `"continue":"`) {
		t.Errorf("second page: %s", second.body)
	}
	if whole := ann.get(all + "?limit=3"); strings.Contains(whole.body, `"continue":"`) || strings.Contains(whole.body, "remainingItemCount") {
		t.Errorf("a page with everything tells of more: %s", whole.body)
	}
	mine, err := admin.Resource(configmaps).Namespace("default").List(ctx, metav1.ListOptions{Limit: 4})
	if err != nil {
		t.Fatal(err)
	}
	if got := ann.get(all + "?limit=10&continue=" + url.QueryEscape(mine.GetContinue())); strings.Contains(got.body, "of-zhidden") {
		t.Errorf("somebody else's token: %s", got.body)
	}

	// RD-4: a get, in every form. What may not be seen is answered like what does not exist.
	for _, suffix := range []string{"", "?resourceVersion=0"} {
		if got := ann.get(all + "/a1" + suffix); got.code != http.StatusOK || !strings.Contains(got.body, "of-a1") {
			t.Errorf("a1%s: %d %s", suffix, got.code, got.body)
		}
		for _, name := range []string{"hidden1", "nolabel"} {
			for _, accept := range []string{"application/json", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/vnd.kubernetes.protobuf"} {
				missing, hidden := ann.get(all+"/nosuch"+suffix, accept), ann.get(all+"/"+name+suffix, accept)
				if hidden.code != http.StatusNotFound || hidden.code != missing.code || accept == "application/json" && strings.ReplaceAll(missing.body, "nosuch", name) != hidden.body ||
					len(hidden.header) != len(missing.header) {
					t.Errorf("%s%s as %s: %d %q %v, missing: %d %q %v", name, suffix, accept, hidden.code, hidden.body, hidden.header, missing.code, missing.body, missing.header)
				}
			}
		}
	}
	// A condition that no selector can say is decided for get, and for each object of a list.
	if got := dan.get(all + "/hidden1"); got.code != http.StatusOK {
		t.Errorf("b1: %d %s", got.code, got.body)
	}
	if got := dan.get(all + "/a1"); got.code != http.StatusNotFound {
		t.Errorf("a1: %d %s", got.code, got.body)
	}
	if got := dan.get(all); !slices.Equal(got.names(t), []string{"hidden1"}) || !strings.Contains(got.header.Get("Warning"), "each object is checked by condition policy.proviso.dev/see-data-") {
		t.Errorf("a list: %d %s %s", got.code, got.header, got.body)
	}
	readsOfTwoRules(t, s, admin)
	watchesUnderACondition(t, s, admin)
	readsOfCustomResources(t, s, admin)
	readsOfPods(t, s, admin)
	foldedWatchIsTheList(t, s, admin, folding{namespace: "fold", user: "flo", of: configmaps, where: `resource.metadata.labels.team in ["f", "g"] && resource.metadata.labels.tier != "x"`,
		meets: func(o *unstructured.Unstructured) bool {
			team, tier := o.GetLabels()["team"], o.GetLabels()["tier"]
			return (team == "f" || team == "g") && tier != "" && tier != "x"
		}})
	changesTellWhatMayBeSeen(t, s, admin)
	hiddenReadsAreAudited(t, s, trail)
	readsOfThePast(t, s, admin)
}

// readsOfTwoRules: what differs in one key is one selector; otherwise each object is asked about.
func readsOfTwoRules(t *testing.T, s *instance, admin dynamic.Interface) {
	t.Helper()
	const all = "/api/v1/namespaces/default/configmaps"
	grantReads(t, admin, "see-both", "bob", readRule(`resource.metadata.labels.team == "a"`, "configmaps"), readRule(`resource.metadata.labels.team == "b"`, "configmaps"))
	grantReads(t, admin, "see-mixed", "mia", readRule(`resource.metadata.labels.team == "a"`, "configmaps"), readRule(`resource.metadata.name == "nolabel"`, "configmaps"))
	bob, mia := newReader(t, s.as("bob")), newReader(t, s.as("mia"))
	s.await("the right to list", func() (bool, error) { return bob.get(all).code == http.StatusOK, nil })
	if got := bob.get(all).names(t); !slices.Equal(got, []string{"a1", "a2", "a3", "hidden1", "zhidden"}) {
		t.Errorf("two teams: %s", got)
	}
	s.await("the right to get", func() (bool, error) { return mia.get(all+"/nolabel").code == http.StatusOK, nil })
	if got := mia.get(all); !slices.Equal(got.names(t), []string{"a1", "a2", "a3", "nolabel"}) {
		t.Errorf("two keys: %d %s", got.code, got.body)
	}
	for query, want := range map[string][]string{"?labelSelector=team%3Da": {"a1", "a2", "a3"}, "?fieldSelector=metadata.name%3Dnolabel": {"nolabel"}, "?fieldSelector=metadata.name%3Da2": {"a2"}} {
		if got := mia.get(all + query).names(t); !slices.Equal(got, want) {
			t.Errorf("%s: %s", query, got)
		}
	}
}

// watchesUnderACondition: RD-1 and RD-7.
func watchesUnderACondition(t *testing.T, s *instance, admin dynamic.Interface) {
	t.Helper()
	ctx := t.Context()
	grantReads(t, admin, "see-w", "wil", readRule(`resource.metadata.labels.team == "w"`, "configmaps"))
	wil := kubernetes.NewForConfigOrDie(s.as("wil")).CoreV1().ConfigMaps("default")
	var list *corev1.ConfigMapList
	s.await("the right to list", func() (bool, error) {
		var err error
		list, err = wil.List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
	w, err := wil.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	write := func(name string, labels map[string]any) {
		t.Helper()
		if _, err := admin.Resource(configmaps).Namespace("default").Apply(ctx, name, teamObject("ConfigMap", "v1", "default", name, labels), metav1.ApplyOptions{FieldManager: "w", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	next := func(w watch.Interface) string {
		t.Helper()
		e, ok := <-w.ResultChan()
		if !ok {
			return "closed"
		}
		if status, ok := e.Object.(*metav1.Status); ok {
			return fmt.Sprintf("%s %d", e.Type, status.Code)
		}
		cm := e.Object.(*corev1.ConfigMap)
		return fmt.Sprintf("%s %s %s", e.Type, cm.Name, cm.Labels["team"])
	}
	write("w1", map[string]any{"team": "w"})
	write("w2", map[string]any{"team": "x"})
	write("w2", map[string]any{"team": "w"})
	write("w1", map[string]any{"team": "x"})
	write("w1", map[string]any{"team": "x", "other": "y"})
	write("w3", map[string]any{"team": "w"})
	for _, want := range []string{"ADDED w1 w", "ADDED w2 w", "DELETED w1 w", "ADDED w3 w"} {
		if got := next(w); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	// Another condition ends the watch, and one from before it has to list again.
	grantReads(t, admin, "see-w", "wil", readRule(`resource.metadata.labels.team == "x"`, "configmaps"))
	if got := next(w); got != "ERROR 410" {
		t.Errorf("after the change: %s", got)
	}
	old, err := wil.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	if got := next(old); got != "ERROR 410" {
		t.Errorf("from before the change: %s", got)
	}
	old.Stop()
	if list, err = wil.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 1 || list.Items[0].Name != "w1" {
		t.Fatalf("%v %v", list, err)
	}
	fresh, err := wil.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Stop()
	// A change that concerns others does not end it.
	grantReads(t, admin, "see-v", "vic", readRule(`resource.metadata.labels.team == "v"`, "configmaps"))
	vic := newReader(t, s.as("vic"))
	s.await("the right of somebody else", func() (bool, error) { return vic.get("/api/v1/configmaps").code == http.StatusOK, nil })
	write("w4", map[string]any{"team": "x"})
	if got := next(fresh); got != "ADDED w4 x" {
		t.Errorf("after a change that concerns others: %s", got)
	}
	yes := true
	initial, err := wil.Watch(ctx, metav1.ListOptions{SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	if err != nil {
		t.Fatal(err)
	}
	defer initial.Stop()
	seen := []string{next(initial), next(initial), next(initial)}
	slices.Sort(seen)
	if fmt.Sprint(seen) != "[ADDED w1 x ADDED w4 x BOOKMARK  ]" {
		t.Errorf("initial events: %s", seen)
	}
	if err := admin.Resource(policyBind).Namespace("master").Delete(ctx, "see-w", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := next(fresh); got != "ERROR 410" {
		t.Errorf("after the right is gone: %s", got)
	}
	s.await("the right to be gone", func() (bool, error) {
		_, err := wil.List(ctx, metav1.ListOptions{})
		return err != nil, nil
	})
}

// readsOfCustomResources: as built-in ones.
func readsOfCustomResources(t *testing.T, s *instance, admin dynamic.Interface) {
	t.Helper()
	ctx := t.Context()
	install(t, s, "widgets", "Widget")
	for name, team := range map[string]string{"a": "a", "b": "b"} {
		if _, err := admin.Resource(widgetsGVR).Namespace("default").Create(ctx, teamObject("Widget", widgetsGVR.GroupVersion().String(), "default", name, map[string]any{"team": team}), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	grantReads(t, admin, "see-widgets", "cyd", readRule(`resource.metadata.labels.team == "a"`, "widgets.example.com", "widgets.example.com/status"))
	cyd := newReader(t, s.as("cyd"))
	all := "/apis/" + widgetsGVR.GroupVersion().String() + "/namespaces/default/widgets"
	s.await("the right to list", func() (bool, error) { return cyd.get(all).code == http.StatusOK, nil })
	if got := cyd.get(all).names(t); !slices.Equal(got, []string{"a"}) {
		t.Errorf("widgets: %s", got)
	}
	for path, code := range map[string]int{all + "/a": 200, all + "/b": 404, all + "/nosuch": 404, all + "?labelSelector=team%3Db": 200} {
		if got := cyd.get(path); got.code != code || code == 200 && strings.Contains(got.body, `"team":"b"`) {
			t.Errorf("%s: %d %s", path, got.code, got.body)
		}
	}
}

// readsOfPods: by a node (PO-11), and through subresources.
func readsOfPods(t *testing.T, s *instance, admin dynamic.Interface) {
	t.Helper()
	ctx := t.Context()
	client := kubernetes.NewForConfigOrDie(s.admin)
	s.accountForPods(t)
	for name, node := range map[string]string{"p1": "reads-n1", "p2": "reads-n2", "p3": ""} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		if _, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	grantReads(t, admin, "kubelet", "agent", map[string]any{"verbs": []any{"get", "list", "watch"}, "resourceKinds": []any{"pods", "pods/status", "pods/log", "pods/ephemeralcontainers"},
		"where": `resource.spec.nodeName == "reads-n1"`})
	agent := newReader(t, s.as("agent"))
	const all = "/api/v1/namespaces/default/pods"
	s.await("the right to list", func() (bool, error) { return agent.get(all).code == http.StatusOK, nil })
	if got := agent.get(all).names(t); !slices.Equal(got, []string{"p1"}) {
		t.Errorf("pods of reads-n1: %s", got)
	}
	if got := agent.get(all + "?fieldSelector=spec.nodeName%3Dreads-n2").names(t); len(got) != 0 {
		t.Errorf("pods of reads-n2: %s", got)
	}
	for path, code := range map[string]int{"/p1": 200, "/p2": 404, "/p3": 404, "/p1/status": 200, "/p2/status": 404, "/p1/ephemeralcontainers": 200, "/p2/ephemeralcontainers": 404,
		"/p2/log": 404, "/nosuch/log": 404,
		"/p2/exec?command=x": 403, // RD-5: a connection is no read
	} {
		if got := agent.get(all + path); got.code != code {
			t.Errorf("%s: %d %s, want %d", path, got.code, got.body, code)
		}
	}
	// reads-n1 does not exist, so that there is no log; but it was looked for.
	if got := agent.get(all + "/p1/log"); got.code == http.StatusNotFound && strings.Contains(got.body, `pods \"p1\" not found`) || got.code == http.StatusForbidden {
		t.Errorf("log of p1: %d %s", got.code, got.body)
	}
	// The old path of watches.
	for _, path := range []string{"/api/v1/watch/namespaces/default/pods/p2?timeoutSeconds=1", "/api/v1/watch/namespaces/default/pods?fieldSelector=spec.nodeName%3Dreads-n2&timeoutSeconds=1"} {
		if got := agent.get(path); strings.Contains(got.body, "p2") {
			t.Errorf("%s: %d %s", path, got.code, got.body)
		}
	}
	if got := agent.get("/api/v1/watch/namespaces/default/pods/p1?timeoutSeconds=5"); !strings.Contains(got.body, `"ADDED"`) {
		t.Errorf("watch of p1: %d %s", got.code, got.body)
	}
}
