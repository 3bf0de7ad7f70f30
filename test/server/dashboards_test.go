package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/transport/websocket"
)

// member is one of a team with rights in three of four namespaces: to everything of one, under a condition in another,
// and by name in the third.
type member struct {
	t       *testing.T
	s       *instance
	prefix  string
	config  *rest.Config
	client  kubernetes.Interface
	read    *reader
	asAdmin kubernetes.Interface
	// namespaces and maps are what is theirs.
	namespaces, maps []string
}

func newMember(t *testing.T, prefix string) *member {
	t.Helper()
	s := united.get(t)
	m := &member{t: t, s: s, prefix: prefix, config: s.as(prefix), asAdmin: kubernetes.NewForConfigOrDie(s.admin)}
	m.client, m.read = kubernetes.NewForConfigOrDie(m.config), newReader(t, m.config)
	for _, end := range []string{"-all", "-named", "-some"} {
		m.namespaces = append(m.namespaces, prefix+end)
	}
	furnish(t, m.asAdmin, append(slices.Clone(m.namespaces), prefix+"-vault")...)
	grantRBAC(t, m.asAdmin, prefix+"-all", prefix, toUser(prefix), rbacReads("configmaps"), rbacReads("pods"))
	grantRBAC(t, m.asAdmin, prefix+"-named", prefix, toUser(prefix), rbacReads("configmaps", "two"))
	grantPolicy(t, dynamic.NewForConfigOrDie(s.admin), prefix+"-some", prefix, prefix, readRule(`resource.data.k.endsWith("-three")`, "configmaps"), readRule(`resource.metadata.labels.team == "a"`, "pods"))
	m.maps = []string{prefix + "-all/one", prefix + "-all/three", prefix + "-all/two", prefix + "-named/two", prefix + "-some/three"}
	s.await("the rights", func() (bool, error) {
		got := m.read.get("/api/v1/configmaps")
		return got.code == http.StatusOK && len(got.names(t)) == len(m.maps), nil
	})
	return m
}

// may asks as clients do before they list.
func (m *member) may(want bool, a authorizationv1.ResourceAttributes) {
	m.t.Helper()
	got, err := m.client.AuthorizationV1().SelfSubjectAccessReviews().Create(m.t.Context(), &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a}}, metav1.CreateOptions{})
	if err != nil || got.Status.Allowed != want {
		m.t.Errorf("%+v: %+v, %v", a, got, err)
	}
}

// adds creates config maps, of which the last is theirs.
func (m *member) adds(name string) string {
	m.t.Helper()
	for _, ns := range []string{m.prefix + "-vault", m.prefix + "-named", m.prefix + "-some", m.prefix + "-all"} {
		if _, err := m.asAdmin.CoreV1().ConfigMaps(ns).Create(m.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": "v"}}, metav1.CreateOptions{}); err != nil {
			m.t.Fatal(err)
		}
	}
	return m.prefix + "-all/" + name
}

// RD-15: the calls of k9s, in its order, show a team member exactly what is theirs. Its sources
// (github.com/derailed/k9s) say which: CanI and ValidNamespaces in internal/client/client.go ask a
// SelfSubjectAccessReview without a version for every verb of MonitorAccess (internal/client/types.go), and list
// namespaces; CanForResource and ensureFactory in internal/watch/factory.go start a dynamic informer for all
// namespaces; List in internal/dao/table.go asks for tables.
func TestK9s(t *testing.T) {
	t.Parallel()
	m := newMember(t, "k9s")
	access := []string{"list", "watch"}
	for _, resource := range []string{"namespaces", "pods", "configmaps"} {
		for _, verb := range access {
			m.may(true, authorizationv1.ResourceAttributes{Verb: verb, Resource: resource})
		}
	}
	m.may(false, authorizationv1.ResourceAttributes{Verb: "list", Resource: "secrets"})
	m.may(false, authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", Namespace: "k9s-vault"})
	m.may(true, authorizationv1.ResourceAttributes{Verb: "get", Resource: "configmaps", Namespace: "k9s-all"})
	namespaces, err := m.client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, ns := range namespaces.Items {
		names = append(names, ns.Name)
	}
	if !slices.Equal(names, m.namespaces) {
		t.Errorf("namespaces: %s", names)
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(m.config), 10*time.Minute, "", nil)
	stores := map[string]cache.Store{}
	for _, resource := range []string{"namespaces", "pods", "configmaps"} {
		stores[resource] = factory.ForResource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Informer().GetStore()
	}
	stop := make(chan struct{})
	defer factory.Shutdown()
	defer close(stop)
	factory.Start(stop)
	for of, synced := range factory.WaitForCacheSync(t.Context().Done()) {
		if !synced {
			t.Errorf("%v is not synced", of)
		}
	}
	holds := func(resource string, want []string) bool {
		keys := stores[resource].ListKeys()
		slices.Sort(keys)
		return slices.Equal(keys, want)
	}
	if !holds("namespaces", m.namespaces) || !holds("configmaps", m.maps) || !holds("pods", nil) {
		t.Errorf("informers hold %s, %s, %s", stores["namespaces"].ListKeys(), stores["configmaps"].ListKeys(), stores["pods"].ListKeys())
	}
	added := m.adds("four")
	m.s.await("the change", func() (bool, error) { _, found, err := stores["configmaps"].GetByKey(added); return found, err })
	if want := append([]string{added}, m.maps...); !holds("configmaps", want) {
		t.Errorf("after a change: %s, want %s", stores["configmaps"].ListKeys(), want)
	}
	for path, want := range map[string]int{"/api/v1/namespaces": 3, "/api/v1/configmaps": len(m.maps) + 1, "/api/v1/namespaces/k9s-all/configmaps": 4, "/api/v1/pods": 0} {
		var table metav1.Table
		got := m.read.get(path, "application/json;as=Table;v=v1;g=meta.k8s.io, application/json")
		decode(t, got.body, &table)
		if got.code != http.StatusOK || table.Kind != "Table" || len(table.Rows) != want || strings.Contains(got.body, "vault") {
			t.Errorf("%s: %d, %d rows: %s", path, got.code, len(table.Rows), got.body)
		}
	}
}

// RD-15: the calls of Headlamp, in its order, show a team member exactly what is theirs. Its sources
// (github.com/kubernetes-sigs/headlamp, frontend/src/lib/k8s) say which: testAuth, getClusterUserInfo and
// testClusterHealth in api/v1/clusterApi.ts, getAuthorization in KubeObject.ts, kubeObjectListQuery and
// useWatchKubeObjectLists in api/v2/useKubeObjectList.ts, and openWebSocket in api/v2/webSocket.ts.
func TestHeadlamp(t *testing.T) {
	t.Parallel()
	m := newMember(t, "headlamp")
	if got := m.read.get("/healthz"); got.code != http.StatusOK {
		t.Errorf("health: %d", got.code)
	}
	if _, err := m.client.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	me, err := m.client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || me.Status.UserInfo.Username != "headlamp" {
		t.Errorf("%+v, %v", me, err)
	}
	for _, resource := range []string{"namespaces", "pods", "configmaps"} {
		m.may(true, authorizationv1.ResourceAttributes{Verb: "list", Resource: resource, Version: "v1"})
	}
	m.may(false, authorizationv1.ResourceAttributes{Verb: "list", Resource: "deployments", Group: "apps", Version: "v1"})
	if got := m.read.get("/apis/apps/v1/deployments?limit=1000"); got.code != http.StatusForbidden {
		t.Errorf("what is not theirs: %d", got.code)
	}
	if got := m.read.places("/api/v1/namespaces?limit=1000"); !slices.Equal(got, m.namespaces) {
		t.Errorf("namespaces: %s", got)
	}
	for _, limit := range []string{"1000", "2"} {
		if got := m.read.places("/api/v1/configmaps?limit=" + limit); !slices.Equal(got, m.maps) {
			t.Errorf("config maps: %s", got)
		}
	}
	// The page of one namespace, when the user picks it; a 403 is shown as such.
	if got := m.read.places("/api/v1/namespaces/headlamp-some/configmaps?limit=1000"); !slices.Equal(got, []string{"headlamp-some/three"}) {
		t.Errorf("of one namespace: %s", got)
	}
	if _, err := m.client.CoreV1().ConfigMaps("headlamp-vault").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("of another: %v", err)
	}
	var list metav1.PartialObjectMetadataList
	decode(t, m.read.get("/api/v1/configmaps?limit=1000").body, &list)
	for _, open := range []func(string) <-chan string{m.socket, m.stream} {
		name := "five"
		events := open("/api/v1/configmaps?watch=1&resourceVersion=" + list.ResourceVersion)
		if _, err := m.asAdmin.CoreV1().ConfigMaps("headlamp-all").Get(t.Context(), name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			m.adds(name)
		}
		select {
		case got := <-events:
			if got != "ADDED headlamp-all/"+name {
				t.Errorf("the watch shows %s", got)
			}
		case <-time.After(20 * time.Second):
			t.Error("the watch shows nothing")
		}
	}
	names := m.socket("/api/v1/namespaces?watch=1&resourceVersion=" + list.ResourceVersion)
	if _, err := m.asAdmin.CoreV1().Namespaces().Patch(t.Context(), "headlamp-vault", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.asAdmin.CoreV1().Namespaces().Patch(t.Context(), "headlamp-some", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-names:
		if got != "MODIFIED /headlamp-some" {
			t.Errorf("the watch of namespaces shows %s", got)
		}
	case <-time.After(20 * time.Second):
		t.Error("the watch of namespaces shows nothing")
	}
}

type watched struct {
	Type   string
	Object metav1.PartialObjectMetadata
}

func (w watched) String() string { return w.Type + " " + w.Object.Namespace + "/" + w.Object.Name }

// socket opens a watch as a web socket, with an origin as browsers and proxies send it.
func (m *member) socket(path string) <-chan string {
	m.t.Helper()
	config := rest.CopyConfig(m.config)
	rt, holder, err := websocket.RoundTripperFor(config)
	if err != nil {
		m.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(m.t.Context(), http.MethodGet, m.config.Host+path, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	req.Header.Set("Origin", m.config.Host)
	conn, err := websocket.Negotiate(rt, holder, req, "base64.binary.k8s.io")
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = conn.Close() })
	events := make(chan string, 10)
	go func() {
		for {
			_, message, err := conn.ReadMessage()
			if err != nil {
				return
			}
			var e watched
			if err := json.Unmarshal(message, &e); err != nil {
				events <- string(message)
				return
			}
			events <- e.String()
		}
	}()
	return events
}

// stream opens a watch over HTTP.
func (m *member) stream(path string) <-chan string {
	m.t.Helper()
	req, err := http.NewRequestWithContext(m.t.Context(), http.MethodGet, m.config.Host+path, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	resp, err := m.read.client.Do(req)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = resp.Body.Close() })
	events := make(chan string, 10)
	go func() {
		for decoder := json.NewDecoder(resp.Body); ; {
			var e watched
			if decoder.Decode(&e) != nil {
				return
			}
			events <- e.String()
		}
	}()
	return events
}
