package server

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"proviso.dev/proviso/internal/hosts/apiserver"
)

// bindIn binds a cluster role of RBAC in namespaces, which it makes with one config map each.
func bindIn(t *testing.T, client kubernetes.Interface, role string, namespaces []string, users ...string) {
	t.Helper()
	var subjects []rbacv1.Subject
	for _, user := range users {
		subjects = append(subjects, toUser(user))
	}
	var wait sync.WaitGroup
	for part := range 8 {
		wait.Go(func() {
			for i := part; i < len(namespaces); i += 8 {
				ns := namespaces[i]
				_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
				if err == nil {
					_, err = client.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one", Labels: map[string]string{"odd": fmt.Sprint(i % 2)}}}, metav1.CreateOptions{})
				}
				if err == nil {
					_, err = client.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role}, Subjects: subjects,
						RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}}, metav1.CreateOptions{})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
}

// RD-11, RD-14: a union of more namespaces than are read one by one shows the same as one of fewer: everything in all
// of them, however it is read. Two users differ in two namespaces, and so in the way.
func TestUnionOfManyNamespaces(t *testing.T) {
	t.Parallel()
	s := united.get(t)
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	if _, err := client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "unm"}, Rules: []rbacv1.PolicyRule{rbacReads("configmaps")}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var few, more []string
	for i := range 64 {
		few = append(few, fmt.Sprintf("unm-%02d", i))
	}
	for i := range 3 {
		more = append(more, fmt.Sprintf("unm-%02d-x", i)) // which comes before unm-00/ in the order of keys
	}
	bindIn(t, client, "unm", few, "unm-few", "unm-many")
	bindIn(t, client, "unm", more, "unm-many")
	furnish(t, client, "unm-some", "unm-no", "unm-others")
	grantPolicy(t, admin, "unm-some", "unm", "unm-many", readRule(`resource.data.k.endsWith("-two")`, "configmaps"))
	grantPolicy(t, admin, "unm-no", "unm", "unm-many", map[string]any{"verbs": []any{"*"}, "resourceKinds": []any{"configmaps"}},
		map[string]any{"verbs": []any{"list", "watch"}, "resourceKinds": []any{"configmaps"}, "deny": true})
	for user, want := range map[string][]string{"unm-few": few, "unm-many": slices.Concat(few, more, []string{"unm-some"})} {
		r := newReader(t, s.as(user))
		s.await("the rights of "+user, func() (bool, error) {
			got := r.get("/api/v1/configmaps")
			return got.code == http.StatusOK && len(got.names(t)) == len(want), nil
		})
		var all, odd []string
		for i, ns := range want {
			name := "/one"
			if ns == "unm-some" {
				name = "/two"
			}
			all = append(all, ns+name)
			if (i%64)%2 == 1 && ns != "unm-some" {
				odd = append(odd, ns+name)
			}
		}
		order := func(places []string) { // of keys
			slices.SortFunc(places, func(a, b string) int { return strings.Compare(a, b) })
		}
		order(all)
		order(odd)
		for path, want := range map[string][]string{"?": all, "?limit=7": all, "?limit=64": all, "?resourceVersion=0": all, "?resourceVersion=0&limit=5": all, "?labelSelector=odd%3D1": odd, "?labelSelector=odd%3D1&limit=3": odd,
			"?fieldSelector=metadata.name%3Dtwo": slices.DeleteFunc(slices.Clone(all), func(p string) bool { return !strings.HasSuffix(p, "/two") })} {
			if got := r.places("/api/v1/configmaps" + path); !slices.Equal(got, want) {
				t.Errorf("%s %s: %s\nwant %s", user, path, got, want)
			}
		}
		if got := r.get("/api/v1/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"); strings.Count(got.body, `"ADDED"`) != len(want) || !strings.Contains(got.body, "k8s.io/initial-events-end") {
			t.Errorf("%s: a watch-list has %d", user, strings.Count(got.body, `"ADDED"`))
		}
		warned := strings.Join(r.get("/api/v1/configmaps").header.Values("Warning"), "")
		if !strings.Contains(warned, fmt.Sprintf("%d namespaces", len(want))) {
			t.Errorf("%s: it warns: %s", user, warned)
		}
	}
}

// RD-6, RD-11: old revisions of a union are judged by today's rights on the state of then, and its pages go on at the
// revision of the first; by the way of few namespaces and by that of many.
func TestUnionOfThePast(t *testing.T) {
	t.Parallel()
	s := united.get(t)
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	furnish(t, client, "unp-a", "unp-b", "unp-c")
	// The second has a rule for all namespaces besides, so everything is looked at.
	for _, user := range []string{"unp1", "unp2"} {
		grantRBAC(t, client, "unp-a", user, toUser(user), rbacReads("configmaps"))
		grantPolicy(t, admin, "unp-b", user, user, readRule(`resource.data.k.startsWith("unp") && resource.metadata.?labels.?team.orValue("a") == "a"`, "configmaps"))
	}
	grantReads(t, admin, "unp2", "unp2", readRule(`resource.metadata.name.startsWith("unp-never")`, "configmaps"))
	put := func(ns, name string, labels map[string]string) string {
		t.Helper()
		o, err := client.CoreV1().ConfigMaps(ns).Get(t.Context(), name, metav1.GetOptions{})
		if err == nil {
			o.Labels = labels
			o, err = client.CoreV1().ConfigMaps(ns).Update(t.Context(), o, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		return o.ResourceVersion
	}
	then := put("unp-a", "one", nil)
	now := put("unp-b", "two", map[string]string{"team": "b"})
	wasThere := []string{"unp-a/one", "unp-a/three", "unp-a/two", "unp-b/one", "unp-b/three", "unp-b/two"}
	isThere := wasThere[:5]
	for _, user := range []string{"unp1", "unp2"} {
		r := newReader(t, s.as(user))
		s.await("the rights of "+user, func() (bool, error) {
			got := r.get("/api/v1/configmaps?resourceVersion=" + now)
			return got.code == http.StatusOK && len(got.names(t)) == len(isThere), nil
		})
		for path, want := range map[string][]string{
			"?resourceVersionMatch=Exact&resourceVersion=" + then:         wasThere,
			"?limit=1&resourceVersionMatch=Exact&resourceVersion=" + then: wasThere,
			"?resourceVersionMatch=Exact&resourceVersion=" + now:          isThere,
			"?limit=4&resourceVersionMatch=Exact&resourceVersion=" + now:  isThere,
			"?resourceVersionMatch=NotOlderThan&resourceVersion=" + now:   isThere,
			"?limit=2": isThere,
		} {
			if got := r.places("/api/v1/configmaps" + path); !slices.Equal(got, want) {
				t.Errorf("%s %s: %s\nwant %s", user, path, got, want)
			}
		}
		if got := r.get("/api/v1/configmaps?resourceVersionMatch=Exact&resourceVersion=9000000000000000"); got.code == http.StatusOK {
			t.Errorf("%s: of a revision that is to come: %s", user, got.body)
		}
	}
	// A token of a page grants nothing: after the right to a namespace is gone, the next page lacks it.
	for _, user := range []string{"unp1", "unp2"} {
		r := newReader(t, s.as(user))
		var page corev1.ConfigMapList
		decode(t, r.get("/api/v1/configmaps?limit=1").body, &page)
		token := "?limit=5&continue=" + url.QueryEscape(page.Continue)
		if err := client.RbacV1().RoleBindings("unp-a").Delete(t.Context(), user, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		s.await("the right to be gone", func() (bool, error) {
			return !strings.Contains(r.get("/api/v1/configmaps").body, "unp-a"), nil
		})
		if got := r.places("/api/v1/configmaps" + token); !slices.Equal(got, []string{"unp-b/one", "unp-b/three"}) {
			t.Errorf("%s: the next page: %s", user, got)
		}
		if got := r.get("/api/v1/configmaps?watch=1&timeoutSeconds=5&resourceVersion=" + now); !strings.Contains(got.body, `"code":410`) || strings.Contains(got.body, "unp-a") {
			t.Errorf("%s: a watch from before: %s", user, got.body)
		}
	}
}

// RD-6, RD-11: of a revision that etcd has compacted, a union answers 410 as a list of everything does. The answer has
// no token to go on with, which would be about one namespace: clients list again.
func TestUnionExpires(t *testing.T) {
	var options *apiserver.Options
	s := start(t, func(o *apiserver.Options) {
		options = o
		o.SwitchOn(apiserver.UnionReads)
		o.Kube.Etcd.EnableWatchCache = false // which keeps old states for a while
	})
	etcd, err := clientv3.New(clientv3.Config{Endpoints: options.Kube.Etcd.StorageConfig.Transport.ServerList, Logger: zap.NewNop()}) // a unix socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	furnish(t, client, "unx-a", "unx-b")
	for _, user := range []string{"unx1", "unx2"} {
		grantRBAC(t, client, "unx-a", user, toUser(user), rbacReads("configmaps"))
		grantRBAC(t, client, "unx-b", user, toUser(user), rbacReads("configmaps"))
	}
	grantReads(t, admin, "unx2", "unx2", readRule(`resource.metadata.name.startsWith("unx-never")`, "configmaps"))
	paths := map[string][]string{}
	for _, user := range []string{"unx1", "unx2"} {
		r := newReader(t, s.as(user))
		var page corev1.ConfigMapList
		s.await("the rights of "+user, func() (bool, error) {
			got := r.get("/api/v1/configmaps")
			return got.code == http.StatusOK && len(got.names(t)) == 6, nil
		})
		decode(t, r.get("/api/v1/configmaps?limit=1").body, &page)
		paths[user] = []string{"?resourceVersionMatch=Exact&resourceVersion=" + page.ResourceVersion, "?limit=1&continue=" + url.QueryEscape(page.Continue), "?resourceVersionMatch=Exact&limit=2&resourceVersion=" + page.ResourceVersion}
	}
	if _, err := client.CoreV1().ConfigMaps("unx-a").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "zero"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	last, err := etcd.Get(t.Context(), "/none")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcd.Compact(t.Context(), last.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	for user, all := range paths {
		r := newReader(t, s.as(user))
		for _, path := range all {
			var status metav1.Status
			got := r.get("/api/v1/configmaps" + path)
			decode(t, got.body, &status)
			if got.code != http.StatusGone || status.Reason != metav1.StatusReasonExpired {
				t.Errorf("%s %s: %d %s", user, path, got.code, got.body)
			}
			if status.ListMeta.Continue != "" && user == "unx1" {
				t.Errorf("%s %s: a token in %s", user, path, got.body)
			}
		}
		if got := r.places("/api/v1/configmaps?limit=2"); len(got) != 7 {
			t.Errorf("%s lists again: %s", user, got)
		}
	}
}
