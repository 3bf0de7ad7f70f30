package base

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/kubernetes/scheme"

	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/request/turns"
	"proviso.dev/proviso/internal/state/journal"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/test/etcdtest"
)

// TestErasOfANamespace is what is known of when a namespace began.
func TestErasOfANamespace(t *testing.T) {
	at := time.Unix(1000, 500)
	for name, c := range map[string]struct {
		era  era
		want bool
	}{
		"no namespace":         {era{}, true},
		"none":                 {era{none: true}, false},
		"before the revision":  {era{revision: 8}, false},
		"at the revision":      {era{revision: 7}, true},
		"a revision, not time": {era{revision: 7, time: at.Add(time.Hour)}, true},
		"before the time":      {era{time: at.Add(time.Nanosecond)}, false},
		"at the time":          {era{time: at}, true},
	} {
		if got := c.era.has(&journal.Entry{Revision: 7, Time: at}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// roles is a storage of roles whose revisions are those of etcd.
type roles struct {
	storage.Interface
	next func() int64
}

func (s roles) Create(_ context.Context, _ string, obj, out runtime.Object, _ uint64) error {
	obj.(*rbacv1.Role).DeepCopyInto(out.(*rbacv1.Role))
	out.(*rbacv1.Role).ResourceVersion = strconv.FormatInt(s.next(), 10)
	return nil
}

// TR-15: readers of the policy of a namespace do not see the policy of an earlier namespace of that name.
func TestHistoryOfAnEarlierNamespace(t *testing.T) {
	etcd := etcdtest.Start(t)
	j := journal.New(journal.Config{Connect: func() (*clientv3.Client, error) { return clientv3.New(clientv3.Config{Endpoints: etcd.Endpoints()}) }, Prefix: "/registry", Entries: 100})
	t.Cleanup(j.Close)
	client, err := j.Client()
	if err != nil {
		t.Fatal(err)
	}
	put := func(key string) int64 {
		done, err := client.Put(t.Context(), key, "x")
		if err != nil {
			t.Fatal(err)
		}
		return done.Header.Revision
	}
	stored := j.Around(scheme.Scheme)(schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}, &storagebackend.ConfigForResource{}, roles{next: func() int64 { return put("/registry/roles/x") }})
	write := func(namespace, name string) {
		t.Helper()
		if err := stored.Create(t.Context(), "k", &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, &rbacv1.Role{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	put("/registry/namespaces/a")
	put("/registry/namespaces/other")
	write("a", "earlier")
	write("other", "other")
	write("gone", "gone")
	write("master", "master")
	if _, err := client.Delete(t.Context(), "/registry/namespaces/a"); err != nil {
		t.Fatal(err)
	}
	put("/registry/namespaces/a")
	write("a", "now")
	put("/registry/namespaces/a") // a change of the namespace does not make it another one

	everywhere := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		switch who := a.GetUser().GetName(); {
		case a.GetVerb() != "get":
		case who == "auditor", who == "admin" && a.GetNamespace() != "":
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	})
	chain, err := authorize.NewChain(authorize.Link{Name: "test", Authorizer: everywhere})
	if err != nil {
		t.Fatal(err)
	}
	h := &history{journal: j, turns: turns.Queue{Slots: 2}, kernel: &feature.Kernel{Codecs: scheme.Codecs, Master: "master", Gate: authorize.NewGate(authorize.GateConfig{Chain: chain})}}
	for who, want := range map[string][]string{"admin": {"master", "now", "other"}, "auditor": {"earlier", "gone", "master", "now", "other"}, "nobody": nil} {
		ctx := request.WithUser(requestctx.With(t.Context(), &snapshot.Snapshot{Synced: true}), &user.DefaultInfo{Name: who})
		out := httptest.NewRecorder()
		h.ServeHTTP(deadlines{out}, httptest.NewRequestWithContext(ctx, "GET", HistoryPath, nil))
		var got journal.History
		if err := json.Unmarshal(out.Body.Bytes(), &got); err != nil {
			t.Fatalf("%s: %v: %s", who, err, out.Body)
		}
		var names []string
		for i := range got.Entries {
			names = append(names, got.Entries[i].Name)
		}
		if slices.Sort(names); !slices.Equal(names, want) {
			t.Errorf("%s sees %v, want %v", who, names, want)
		}
	}
}

// deadlines is a recorder that takes deadlines.
type deadlines struct{ *httptest.ResponseRecorder }

func (deadlines) SetWriteDeadline(time.Time) error { return nil }
