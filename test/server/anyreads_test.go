package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
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

// anyRules are rules of all kinds of conditions.
func anyRules(random *rand.Rand) []map[string]any {
	pick := func(all ...string) string { return all[random.IntN(len(all))] }
	var where func(depth int) string
	where = func(depth int) string {
		if depth > 0 && random.IntN(2) == 0 {
			return fmt.Sprintf("(%s) %s (%s)", where(depth-1), pick("&&", "||"), where(depth-1))
		}
		return pick(
			`resource.data.k.startsWith("v1")`, `size(resource.data) > 1`, `resource.data.exists(k, k == "other")`, `resource.data.?other.orValue("") == ""`,
			`resource.metadata.annotations["note"] == "1"`, `resource.metadata.labels.team == "a"`, `resource.metadata.labels.team != "a"`, `resource.metadata.labels.team in ["b", "c"]`,
			`!has(resource.metadata.labels) || !has(resource.metadata.labels.team)`, `resource.metadata.name.endsWith("3")`, `request.name.startsWith("any-1")`, `request.user == resource.data.k`,
			`resource.metadata.namespace == "any-x"`, `resource.metadata.name == "any-12"`, `resource.data.nosuch == "x"`, `resource.data.k.matches("^v[12]")`)
	}
	var rules []map[string]any
	for range 1 + random.IntN(3) {
		rule := readRule(where(2), "configmaps")
		if random.IntN(4) == 0 {
			delete(rule, "where")
			rule["when"] = pick(`namespaceObject.metadata.labels.env.startsWith("d") && object.data.k != "x"`, `object.data.k == "v2"`, `namespaceObject.metadata.labels.env == "prod"`, `request.name.endsWith("1")`)
		}
		rules = append(rules, rule)
	}
	return rules
}

// RD-10, RD-13, RD-15: for random rules, every way to read many objects shows those, and only those, that the same
// caller gets one by one.
func TestListIsWhatOneMayGet(t *testing.T) {
	t.Parallel()
	s := plain.get(t)
	ctx := t.Context()
	admin := dynamic.NewForConfigOrDie(s.admin)
	random := rand.New(rand.NewPCG(10, 15))
	var names []string
	for ns, env := range map[string]string{"any-x": "dev", "any-y": "prod"} {
		if _, err := kubernetes.NewForConfigOrDie(s.admin).CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: map[string]string{"env": env}}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for i := range 16 {
			labels := map[string]any{}
			if team := random.IntN(4); team < 3 {
				labels["team"] = []string{"a", "b", "c"}[team]
			}
			o := teamObject("ConfigMap", "v1", ns, fmt.Sprintf("any-%d", i), labels)
			data := map[string]any{"k": []string{"v1", "v12", "v2", "x", "any-u3"}[random.IntN(5)]}
			if random.IntN(2) == 0 {
				data["other"] = "o"
			}
			o.Object["data"] = data
			o.SetAnnotations(map[string]string{"note": fmt.Sprint(random.IntN(2))})
			if _, err := admin.Resource(configmaps).Namespace(ns).Create(ctx, o, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			names = append(names, ns+"/"+o.GetName())
		}
	}
	slices.Sort(names)
	const users = 30
	rules := map[string][]map[string]any{}
	for i := range users {
		user := fmt.Sprintf("any-u%d", i)
		rules[user] = anyRules(random)
		grantReads(t, admin, "see-"+user, user, rules[user]...)
	}
	grantReads(t, admin, "see-any-last", "any-last", readRule(`resource.data.k.startsWith("v1")`, "configmaps"))
	last := newReader(t, s.as("any-last"))
	s.await("the right to list", func() (bool, error) {
		return last.get("/api/v1/namespaces/any-x/configmaps").code == http.StatusOK, nil
	})

	var watches sync.WaitGroup
	shown, hidden := 0, 0
	for user, rules := range rules {
		r := newReader(t, s.as(user))
		var want []string
		for _, name := range names {
			ns, name, _ := strings.Cut(name, "/")
			switch got := r.get("/api/v1/namespaces/" + ns + "/configmaps/" + name); got.code {
			case http.StatusOK:
				want = append(want, ns+"/"+name)
			case http.StatusNotFound, http.StatusForbidden:
			default:
				t.Fatalf("%d %s", got.code, got.body)
			}
		}
		shown, hidden = shown+len(want), hidden+len(names)-len(want)
		in := func(ns string) (some []string) {
			for _, name := range want {
				if strings.HasPrefix(name, ns) {
					some = append(some, name)
				}
			}
			return some
		}
		for path, want := range map[string][]string{
			"/namespaces/any-x/configmaps?": in("any-x/"), "/namespaces/any-y/configmaps?resourceVersion=0": in("any-y/"), "/configmaps?": want, "/configmaps?resourceVersion=0": want,
			"/namespaces/any-x/configmaps?limit=3": in("any-x/"), "/configmaps?limit=4": want, "/configmaps?limit=1": want, "/namespaces/any-y/configmaps?shardSelector=nonsense": in("any-y/"),
		} {
			if got := r.pages(t, "/api/v1"+path); !slices.Equal(got, want) {
				t.Errorf("%s %v\n%s: %s\nwant %s", user, rules, path, got, want)
			}
		}
		watches.Go(func() {
			w, _, err := followInitial(ctx, dynamic.NewForConfigOrDie(s.as(user)).Resource(configmaps).Namespace("any-x"))
			if want := in("any-x/"); len(want) > 0 && (err != nil || len(w) == 0 || len(w[0].objects) != len(want)) {
				t.Errorf("%s %v: the watch begins with %v (%v), want %s", user, rules, w, err, want)
			}
		})
	}
	watches.Wait()
	t.Logf("%d shown, %d hidden", shown, hidden)
	if shown < 100 || hidden < 100 {
		t.Error("that proves little")
	}
}

// pages are the objects of a list of the namespaces of this test, page by page. A list that is refused has none.
func (r *reader) pages(t *testing.T, path string) []string {
	t.Helper()
	var all []string
	said := 0
	for next := ""; ; {
		got := r.get(path + "&continue=" + url.QueryEscape(next))
		if got.code == http.StatusForbidden {
			return nil
		}
		var list corev1.ConfigMapList
		if err := json.Unmarshal([]byte(got.body), &list); err != nil || got.code != http.StatusOK {
			t.Fatalf("%s: %d %s", path, got.code, got.body)
		}
		if strings.Contains(got.body, "shardInfo") {
			t.Errorf("%s tells how it is made: %s", path, got.body)
		}
		if n := list.RemainingItemCount; n != nil { // everything is shown
			said = max(said, len(all)+len(list.Items)+int(*n))
		}
		for _, o := range list.Items {
			if strings.HasPrefix(o.Namespace, "any-") {
				all = append(all, o.Namespace+"/"+o.Name)
			}
		}
		if next = list.Continue; next == "" {
			if said > 0 && said != len(all) {
				t.Errorf("%s says that there are %d, and shows %d", path, said, len(all))
			}
			return all
		}
	}
}

// RD-7, RD-10, RD-13: a watch under a condition that no selector can say ends with 410 when the rule is another one,
// when the right is gone, and when a namespace changes that the condition looks at; nothing else ends it.
func TestAnyConditionEnds(t *testing.T) {
	t.Parallel()
	s := plain.get(t)
	ctx := t.Context()
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	for _, ns := range []string{"ends-1", "ends-2"} {
		if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: map[string]string{"open": "no"}}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		o := teamObject("ConfigMap", "v1", ns, "one", nil)
		o.Object["data"] = map[string]any{"k": "ends-1"}
		if _, err := admin.Resource(configmaps).Namespace(ns).Create(ctx, o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	byPlace := map[string]any{"verbs": []any{"get", "list", "watch"}, "resourceKinds": []any{"configmaps"}, "when": `namespaceObject.metadata.labels.open == "yes" && object.data.k.startsWith("ends")`}
	grantReads(t, admin, "see-ends-data", "ed", readRule(`resource.data.k.startsWith("ends")`, "configmaps"))
	grantReads(t, admin, "see-ends-place", "edda", byPlace)
	watching := func(user, ns string) (watch.Interface, []string) {
		t.Helper()
		in := dynamic.NewForConfigOrDie(s.as(user)).Resource(configmaps).Namespace(ns)
		var list *unstructured.UnstructuredList
		s.await("the right to list", func() (bool, error) {
			var err error
			list, err = in.List(ctx, metav1.ListOptions{})
			return err == nil, nil
		})
		w, err := in.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		var names []string
		for _, o := range list.Items {
			names = append(names, o.GetName())
		}
		return w, names
	}
	next := func(w watch.Interface) string {
		t.Helper()
		select {
		case e := <-w.ResultChan():
			if status := new(apierrors.StatusError); e.Type == watch.Error && errors.As(apierrors.FromObject(e.Object), &status) {
				return fmt.Sprint(status.Status().Code)
			}
			return string(e.Type)
		case <-time.After(10 * time.Second):
			return "nothing"
		}
	}
	byData, shown := watching("ed", "ends-1")
	if !slices.Equal(shown, []string{"one"}) {
		t.Errorf("by data: %s", shown)
	}
	closed, shown := watching("edda", "ends-1")
	if len(shown) != 0 {
		t.Errorf("by namespace: %s", shown)
	}
	other, _ := watching("edda", "ends-2")
	// The namespace opens, and the object is not touched.
	if _, err := client.CoreV1().Namespaces().Patch(ctx, "ends-1", types.MergePatchType, []byte(`{"metadata":{"labels":{"open":"yes"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := next(closed); got != "410" {
		t.Errorf("the namespace has changed: %s", got)
	}
	opened, shown := watching("edda", "ends-1")
	if !slices.Equal(shown, []string{"one"}) {
		t.Errorf("by namespace, now: %s", shown)
	}
	// The same rule with another description is the same right, and another rule is another one.
	again := readRule(`resource.data.k.startsWith("ends")`, "configmaps")
	again["description"] = "said better"
	grantReads(t, admin, "see-ends-data", "ed", again)
	grantReads(t, admin, "see-ends-place", "edda", readRule(`resource.data.k.endsWith("2")`, "configmaps"))
	for name, w := range map[string]watch.Interface{"opened": opened, "other": other} {
		if got := next(w); got != "410" {
			t.Errorf("%s, after the rule has changed: %s", name, got)
		}
	}
	o := teamObject("ConfigMap", "v1", "ends-1", "two", nil)
	o.Object["data"] = map[string]any{"k": "ends-1"}
	if _, err := admin.Resource(configmaps).Namespace("ends-1").Create(ctx, o, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := next(byData); got != "ADDED" {
		t.Errorf("what does not concern the watch ended it: %s", got)
	}
	if err := admin.Resource(policyBind).Namespace("master").Delete(ctx, "see-ends-data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := next(byData); got != "410" {
		t.Errorf("the right is gone: %s", got)
	}
}
