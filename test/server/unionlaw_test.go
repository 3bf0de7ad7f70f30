package server

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// lawNamespaces are those of TestUnionLaw. One is the beginning of another.
var lawNamespaces = []string{"ul-a", "ul-a-b", "ul-b", "ul-c", "ul-d"}

// drawnRights are what one user of TestUnionLaw has.
type drawnRights struct {
	said   []string
	denies bool
}

// draw gives a user rights at random, of all kinds and in all places.
func (d *drawnRights) draw(t *testing.T, random *rand.Rand, user string, admin dynamic.Interface, client kubernetes.Interface) {
	t.Helper()
	some := map[string]any{"verbs": []any{"get", "list", "watch"}, "resourceKinds": []any{"configmaps"}}
	rule := func(more ...any) map[string]any {
		r := map[string]any{}
		for k, v := range some {
			r[k] = v
		}
		for i := 0; i < len(more); i += 2 {
			r[more[i].(string)] = more[i+1] //nolint:forcetypeassert // it is written here
		}
		return r
	}
	where := func() string {
		return []string{`resource.metadata.labels.team == "a"`, `resource.data.k.startsWith("v1")`, `resource.metadata.name.endsWith("3")`, `resource.data.nosuch == "x"`,
			`resource.data.k == "v2" || resource.metadata.labels.team == "b"`, `request.name.startsWith("o1")`}[random.IntN(6)]
	}
	for _, ns := range lawNamespaces {
		kind := []string{"none", "none", "rbac", "rbac names", "policy", "policy where", "policy names", "policy deny", "rbac group"}[random.IntN(9)]
		switch name := "ul-" + user; kind {
		case "rbac":
			grantRBAC(t, client, ns, name, toUser(user), rbacReads("configmaps"))
		case "rbac group":
			grantRBAC(t, client, ns, name, toGroup(user+"s"), rbacReads("configmaps"))
		case "rbac names":
			grantRBAC(t, client, ns, name, toUser(user), rbacReads("configmaps", "o1", "o13", "nosuch"))
		case "policy":
			grantPolicy(t, admin, ns, name, user, rule())
		case "policy where":
			grantPolicy(t, admin, ns, name, user, rule("where", where()))
		case "policy names":
			grantPolicy(t, admin, ns, name, user, rule("resourceNames", []any{"o2", "o13"}, "where", where()))
		case "policy deny":
			grantPolicy(t, admin, ns, name, user, rule("deny", true), rule())
			d.denies = true
		}
		d.said = append(d.said, ns+": "+kind)
	}
	wide := []string{"none", "none", "none", "where", "names", "when", "when and where", "rbac names"}[random.IntN(8)]
	switch name := "ul-" + user; wide {
	case "where":
		grantReads(t, admin, name, user, rule("where", where()))
	case "names":
		grantReads(t, admin, name, user, rule("resourceNames", []any{"o3"}))
	case "when":
		grantReads(t, admin, name, user, rule("when", `request.namespace.startsWith("ul-a")`))
	case "when and where":
		grantReads(t, admin, name, user, rule("when", `request.namespace in ["ul-b", "ul-d"] && object.data.k == "v1"`))
	case "rbac names":
		grantRBAC(t, client, "", name, toUser(user), rbacReads("configmaps", "o2"))
	}
	d.said = append(d.said, "everywhere: "+wide)
}

// RD-11, RD-12, RD-13, RD-15: for rights of all kinds, a list over all namespaces shows exactly the objects that the
// caller may get, whole or in pages, and so does what an informer holds. A list of namespaces shows those that the
// caller may get, too.
func TestUnionLaw(t *testing.T) {
	t.Parallel()
	s := united.get(t)
	ctx := t.Context()
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	random := rand.New(rand.NewPCG(11, 37))
	var all []string
	for _, ns := range lawNamespaces {
		if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"o1", "o12", "o13", "o2", "o3"} {
			o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": []string{"v1", "v12", "v2"}[random.IntN(3)]}}
			if team := random.IntN(3); team < 2 {
				o.Labels = map[string]string{"team": []string{"a", "b"}[team]}
			}
			if _, err := client.CoreV1().ConfigMaps(ns).Create(ctx, o, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			all = append(all, ns+"/"+name)
		}
	}
	slices.SortFunc(all, strings.Compare)
	const users = 40
	rights := map[string]*drawnRights{}
	for i := range users {
		user := fmt.Sprintf("ul%d", i)
		rights[user] = &drawnRights{}
		rights[user].draw(t, random, user, admin, client)
	}
	grantRBAC(t, client, "ul-a", "ul-last", toUser("ul-last"), rbacReads("configmaps"))
	last := newReader(t, s.as("ul-last"))
	s.await("the last right", func() (bool, error) { return last.get("/api/v1/configmaps").code == http.StatusOK, nil })

	shown, hidden, refused, places := 0, 0, 0, 0
	for user, had := range rights {
		r := newReader(t, s.as(user, user+"s"))
		var here, named []string
		for _, ns := range lawNamespaces {
			if r.get("/api/v1/namespaces/"+ns).code == http.StatusOK {
				here = append(here, ns)
			}
		}
		if got := r.get("/api/v1/namespaces"); got.code == http.StatusOK {
			named = got.names(t)
		}
		if places += len(here); !slices.Equal(here, named) {
			t.Errorf("%s %s: namespaces %s, want %s", user, had.said, named, here)
		}
		got, listed := []string{}, []string{}
		for _, place := range all {
			ns, name, _ := strings.Cut(place, "/")
			if r.get("/api/v1/namespaces/"+ns+"/configmaps/"+name).code == http.StatusOK {
				got = append(got, place)
			}
		}
		for _, ns := range lawNamespaces {
			if r.get("/api/v1/namespaces/"+ns+"/configmaps").code == http.StatusOK {
				listed = append(listed, r.places("/api/v1/namespaces/"+ns+"/configmaps?")...)
			}
		}
		slices.Sort(listed)
		shown, hidden = shown+len(got), hidden+len(all)-len(got)
		union := []string{}
		if code := r.get("/api/v1/configmaps").code; code == http.StatusOK {
			only := func(places []string) []string { // other tests have theirs
				return slices.DeleteFunc(places, func(p string) bool { return !strings.HasPrefix(p, "ul-") })
			}
			union = only(r.places("/api/v1/configmaps?"))
			for _, path := range []string{"?resourceVersion=0", "?limit=1", "?limit=4", "?limit=3&resourceVersion=0"} {
				if paged := only(r.places("/api/v1/configmaps" + path)); !slices.Equal(paged, union) {
					t.Errorf("%s %s\n%s: %s\nwant %s", user, had.said, path, paged, union)
				}
			}
			if !had.denies {
				informed(t, s, user, union)
			}
		} else {
			refused++
		}
		slices.Sort(union)
		for _, place := range union {
			if !slices.Contains(got, place) {
				t.Errorf("%s %s: %s is shown and cannot be got", user, had.said, place)
			}
		}
		for _, place := range listed {
			if !slices.Contains(union, place) {
				t.Errorf("%s %s: %s is in the list of its namespace only", user, had.said, place)
			}
		}
		if !had.denies && !slices.Equal(union, got) { // a list is denied as a whole where a get is not
			t.Errorf("%s %s: %s\nwant %s", user, had.said, union, got)
		}
	}
	t.Logf("%d shown, %d hidden, %d namespaces, %d of %d users refused", shown, hidden, places, refused, users)
	if shown < 100 || hidden < 100 || places < 50 || places > users*len(lawNamespaces)-20 {
		t.Error("that proves little")
	}
}

// informed checks what an informer for all namespaces holds.
func informed(t *testing.T, s *instance, user string, want []string) {
	t.Helper()
	factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(s.as(user, user+"s")), 0)
	informer := factory.Core().V1().ConfigMaps().Informer()
	stop := make(chan struct{})
	defer factory.Shutdown()
	defer close(stop)
	factory.Start(stop)
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the informer does not sync")
	}
	keys, want := slices.DeleteFunc(informer.GetStore().ListKeys(), func(p string) bool { return !strings.HasPrefix(p, "ul-") }), slices.Clone(want)
	slices.Sort(keys)
	slices.Sort(want)
	if !slices.Equal(keys, want) {
		t.Errorf("%s: the informer holds %s, want %s", user, keys, want)
	}
}

// RD-15: a watch of a union, folded, is the list at every event and bookmark.
func TestUnionFolds(t *testing.T) {
	t.Parallel()
	s := united.get(t)
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	foldedWatchIsTheList(t, s, admin, folding{
		namespace: "uf-a", others: []string{"uf-b", "uf-c", "uf-d"}, user: "uf", of: configmaps, everywhere: true,
		grant: func() {
			grantRBAC(t, client, "uf-a", "uf", toUser("uf"), rbacReads("configmaps"))
			grantPolicy(t, admin, "uf-b", "uf", "uf", readRule(`resource.data.n.startsWith("1") || resource.metadata.labels.team == "f"`, "configmaps"))
			grantRBAC(t, client, "uf-c", "uf", toUser("uf"), rbacReads("configmaps", "f1", "f2"))
			uf := newReader(t, s.as("uf"))
			s.await("the last right", func() (bool, error) { return uf.get("/api/v1/namespaces/uf-c/configmaps").code == http.StatusOK, nil })
		},
		meets: func(o *unstructured.Unstructured) bool {
			n, _, _ := unstructured.NestedString(o.Object, "data", "n")
			switch o.GetNamespace() {
			case "uf-a":
				return true
			case "uf-b":
				return strings.HasPrefix(n, "1") || o.GetLabels()["team"] == "f"
			case "uf-c":
				return o.GetName() == "f1" || o.GetName() == "f2"
			}
			return false
		},
	})
}
