package manifests

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"proviso.dev/proviso/internal/engine/revision"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/hosts/offline"
)

// answering serves role bindings, and says how new they are.
type answering struct {
	mu       sync.Mutex
	versions map[string]string // of the bindings, by name
	dated    bool
	refuses  bool
	pages    []string // the limits of the lists that were asked for
}

func (a *answering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	const rbac = "/apis/rbac.authorization.k8s.io/v1"
	switch r.URL.Path {
	case "/api":
		fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
	case "/api/v1":
		fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","kind":"Pod","namespaced":true,"verbs":["get"]}]}`)
	case "/apis":
		fmt.Fprint(w, `{"kind":"APIGroupList","groups":[
			{"name":"rbac.authorization.k8s.io","versions":[{"groupVersion":"rbac.authorization.k8s.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"rbac.authorization.k8s.io/v1","version":"v1"}},
			{"name":"authorization.proviso.dev","versions":[{"groupVersion":"authorization.proviso.dev/v1alpha1","version":"v1alpha1"}],"preferredVersion":{"groupVersion":"authorization.proviso.dev/v1alpha1","version":"v1alpha1"}}]}`)
	case rbac:
		fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"rbac.authorization.k8s.io/v1","resources":[{"name":"rolebindings","kind":"RoleBinding","namespaced":true,"verbs":["list"]}]}`)
	case "/apis/authorization.proviso.dev/v1alpha1":
		fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"authorization.proviso.dev/v1alpha1","resources":[{"name":"subjectaccessreviews","kind":"SubjectAccessReview","verbs":["create"]}]}`)
	case "/apis/authorization.proviso.dev/v1alpha1/subjectaccessreviews":
		var sum uint64
		for name, version := range a.versions {
			sum += revision.Mark(name, version)
		}
		token := ""
		if a.dated {
			token = revision.Of(revision.Entry{Source: "rolebindings.rbac.authorization.k8s.io", At: 5, State: revision.State(sum)}).Token()
		}
		fmt.Fprintf(w, `{"kind":"SubjectAccessReview","apiVersion":"authorization.proviso.dev/v1alpha1","status":{"policyRevision":%q}}`, token)
	case rbac + "/rolebindings":
		a.pages = append(a.pages, r.URL.Query().Get("limit"))
		if a.refuses {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
			return
		}
		items := []string{}
		for _, name := range slices.Sorted(maps.Keys(a.versions)) {
			version := a.versions[name]
			items = append(items, fmt.Sprintf(`{"metadata":{"name":%[1]q,"namespace":"a","uid":%[1]q,"resourceVersion":%[2]q},"roleRef":{"kind":"ClusterRole","name":"view"},"subjects":[{"kind":"User","name":%[1]q}]}`, name, version))
		}
		fmt.Fprintf(w, `{"kind":"RoleBindingList","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"resourceVersion":"5"},"items":[%s]}`, strings.Join(items, ","))
	default:
		http.NotFound(w, r)
	}
}

// EX-3: who asks again gets what is kept as long as the server says that it is the same, and never anything else: after
// a change it is read again, a server that does not say is read every time, and whoever may not read it any more gets
// nothing.
func TestKeeping(t *testing.T) {
	a := &answering{versions: map[string]string{"x": "1", "y": "1"}, dated: true}
	server := httptest.NewServer(a)
	defer server.Close()
	k := NewKept()
	ask := func(want string) *offline.Host {
		t.Helper()
		documents, _, err := k.Read(t.Context(), &rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		host, err := k.Host(t.Context(), documents, "master")
		a.mu.Lock()
		defer a.mu.Unlock()
		if got := strings.Join(a.pages, ","); err != nil || got != want {
			t.Fatalf("asked for %s, want %s (%v)", got, want, err)
		}
		a.pages = nil
		return host
	}
	set := func(change func()) {
		a.mu.Lock()
		defer a.mu.Unlock()
		change()
	}
	first := ask("5000")
	count := func(h *offline.Host) (n int) {
		h.Snapshot().Rules.Subjects(func(s ruleset.Subject) {
			if len(s.Name) == 1 {
				n++
			}
		})
		return n
	}
	if n := count(first); n != 2 {
		t.Errorf("%d bindings", n)
	}
	if ask("1") != first {
		t.Error("the same policy was compiled again")
	}
	set(func() { a.versions["z"] = "2" })
	third := ask("5000")
	if third == first || count(third) != 3 {
		t.Errorf("%d bindings after a third", count(third))
	}
	set(func() { delete(a.versions, "x"); a.versions["y"] = "3" })
	if n := count(ask("5000")); n != 2 {
		t.Errorf("%d bindings after one was deleted", n)
	}
	set(func() { a.dated = false })
	last := ask("5000")
	if ask("5000") != last {
		t.Error("the same objects were compiled again")
	}
	set(func() { a.dated, a.refuses = true, true })
	if _, _, err := k.Read(t.Context(), &rest.Config{Host: server.URL}); err == nil || !strings.Contains(err.Error(), "you may not list rolebindings") {
		t.Errorf("what was kept is shown to somebody who may not read it: %v", err)
	}
	set(func() { a.refuses = false })
	if _, _, err := k.Read(t.Context(), &rest.Config{Host: server.URL, Impersonate: rest.ImpersonationConfig{UserName: "else"}}); err != nil || k.host != nil || strings.Join(a.pages, ",") != "1,5000" {
		t.Errorf("somebody else gets what the first has read: %v", a.pages)
	}
}

// EX-3: what one has read is not shown to another, however he proves who he is.
func TestKeptForWhoAsks(t *testing.T) {
	seen := map[string]string{}
	for name, c := range map[string]*rest.Config{
		"nobody": {}, "a token": {BearerToken: "a"}, "another token": {BearerToken: "b"}, "a token in a file": {BearerTokenFile: "a"}, "a password": {Username: "a", Password: "b"},
		"another password": {Username: "a", Password: "c"}, "a certificate": {TLSClientConfig: rest.TLSClientConfig{CertData: []byte("a")}}, "somebody else": {Impersonate: rest.ImpersonationConfig{UserName: "a"}},
		"a group": {Impersonate: rest.ImpersonationConfig{Groups: []string{"a"}}}, "a program": {ExecProvider: &clientcmdapi.ExecConfig{Command: "a"}}, "another program": {ExecProvider: &clientcmdapi.ExecConfig{Command: "b"}},
	} {
		who := asking(c)
		if other, same := seen[who]; same {
			t.Errorf("%s is taken for %s", name, other)
		}
		seen[who] = name
		if asking(rest.CopyConfig(c)) != who {
			t.Errorf("%s is taken for somebody else", name)
		}
	}
}
