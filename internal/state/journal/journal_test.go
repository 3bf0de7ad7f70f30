package journal

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/kubernetes/scheme"

	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/test/etcdtest"
)

// stored is a storage of one object, which does as the test says.
type stored struct {
	storage.Interface
	fail    error
	version int
	object  *rbacv1.Role
	writes  int
	// again lets an update be tried twice, as if somebody else had been faster.
	again bool
}

func (s *stored) answer(obj, out runtime.Object) error {
	if s.fail != nil {
		return s.fail
	}
	s.writes++
	s.version++
	(obj.(*rbacv1.Role)).DeepCopyInto(out.(*rbacv1.Role))
	out.(*rbacv1.Role).ResourceVersion = strconv.Itoa(s.version)
	s.object = out.(*rbacv1.Role).DeepCopy()
	return nil
}

func (s *stored) Create(_ context.Context, _ string, obj, out runtime.Object, _ uint64) error {
	return s.answer(obj, out)
}

func (s *stored) Delete(ctx context.Context, _ string, out runtime.Object, _ *storage.Preconditions, validate storage.ValidateObjectFunc, _ runtime.Object, _ storage.DeleteOptions) error {
	if err := validate(ctx, s.object); err != nil {
		return err
	}
	return s.answer(s.object, out)
}

func (s *stored) GuaranteedUpdate(_ context.Context, _ string, out runtime.Object, _ bool, _ *storage.Preconditions, try storage.UpdateFunc, _ runtime.Object) error {
	for {
		next, _, err := try(s.object.DeepCopy(), storage.ResponseMeta{ResourceVersion: uint64(s.version)})
		if err != nil {
			return err
		}
		if s.again {
			s.again = false
			continue
		}
		return s.answer(next, out)
	}
}

func role(verbs ...string) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "r", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}}}, Rules: []rbacv1.PolicyRule{{Verbs: verbs}}}
}

func update(verbs ...string) storage.UpdateFunc {
	return func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		r := input.(*rbacv1.Role)
		r.Rules = []rbacv1.PolicyRule{{Verbs: verbs}}
		return r, nil, nil
	}
}

// TR-15: every change that is acknowledged is in the journal, with who made it and what was before; one that is refused
// is not; one of which nobody knows whether it was made is, without a revision; and what cannot be written to the
// journal is not made.
func TestJournal(t *testing.T) {
	etcd := etcdtest.Start(t)
	connect := func() (*clientv3.Client, error) { return clientv3.New(clientv3.Config{Endpoints: etcd.Endpoints()}) }
	j := New(Config{Connect: connect, Prefix: "/registry", Entries: 6})
	t.Cleanup(j.Close)
	inner := &stored{version: 100}
	resource := schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}
	s := j.Around(scheme.Scheme)(resource, &storagebackend.ConfigForResource{}, inner)
	ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: "mona", Groups: []string{"admins"}})
	entries := func() []Entry {
		t.Helper()
		records, unreadable, err := j.Records(ctx)
		if err != nil || unreadable != 0 {
			t.Fatalf("%d unreadable: %v", unreadable, err)
		}
		var all []Entry
		for _, r := range records {
			e, err := r.Open()
			if err != nil || e.At() != r.At() || r.After != nil {
				t.Fatalf("%+v, and unpacked %+v: %v", r.Entry, e, err)
			}
			all = append(all, e)
		}
		return all
	}
	last := func(n int) Entry {
		t.Helper()
		all := entries()
		if len(all) != n {
			t.Fatalf("%d entries, want %d: %+v", len(all), n, all)
		}
		return all[n-1]
	}

	if err := s.Create(ctx, "k", role("get"), &rbacv1.Role{}, 0); err != nil {
		t.Fatal(err)
	}
	if e := last(1); e.Verb != Create || e.User != "mona" || e.Groups[0] != "admins" || e.Revision != 101 || e.Before != nil || !strings.Contains(string(e.After), `"verbs":["get"]`) || strings.Contains(string(e.After), "managedFields") {
		t.Errorf("create: %+v %s", e, e.After)
	}
	inner.again = true
	if err := s.GuaranteedUpdate(ctx, "k", &rbacv1.Role{}, false, nil, update("list"), nil); err != nil {
		t.Fatal(err)
	}
	if e := last(2); e.Verb != Update || e.Revision != 102 || e.Namespace != "a" || e.Name != "r" || !strings.Contains(string(e.Before), `"get"`) || !strings.Contains(string(e.After), `"list"`) {
		t.Errorf("update: %+v", e)
	}
	if err := s.GuaranteedUpdate(ctx, "k", &rbacv1.Role{}, false, nil, update("list"), nil); err != nil {
		t.Fatal(err)
	}
	last(2) // nothing has changed
	if err := s.Delete(ctx, "k", &rbacv1.Role{}, nil, nil, nil, storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if e := last(3); e.Verb != Delete || e.Revision != 104 || e.After != nil || !strings.Contains(string(e.Before), `"list"`) {
		t.Errorf("delete: %+v", e)
	}

	inner.fail = storage.NewKeyExistsError("k", 0)
	if err := s.Create(ctx, "k", role("get"), &rbacv1.Role{}, 0); err == nil {
		t.Error("it exists")
	}
	refuse := func(context.Context, runtime.Object) error { return errors.New("no") }
	if err := s.Delete(ctx, "k", &rbacv1.Role{}, nil, refuse, nil, storage.DeleteOptions{}); err == nil {
		t.Error("it is refused")
	}
	last(3) // what is refused leaves nothing
	inner.fail = context.DeadlineExceeded
	if err := s.Create(ctx, "k", role("watch"), &rbacv1.Role{}, 0); err == nil {
		t.Error("nobody knows")
	}
	last(4)
	if e := entries()[0]; e.Revision != 0 || e.At() == 0 || !strings.Contains(string(e.After), "watch") {
		t.Errorf("a change of which nobody knows: %+v", e)
	}
	inner.fail = nil

	// What cannot be compressed and is large is named, and not kept; the change is made.
	large := role("get")
	large.Annotations = map[string]string{"noise": noise(1 << 20)}
	if err := s.Create(ctx, "k", large, &rbacv1.Role{}, 0); err != nil {
		t.Fatal(err)
	}
	if all := entries(); !all[len(all)-1].TooLarge && !all[len(all)-2].TooLarge {
		t.Errorf("it was kept: %d bytes", len(all[len(all)-1].After))
	}

	inner.object = role("get")
	for i := range 2 * trimEvery {
		if err := s.GuaranteedUpdate(ctx, "k", &rbacv1.Role{}, false, nil, update(strconv.Itoa(i)), nil); err != nil {
			t.Fatal(err)
		}
	}
	if all := entries(); len(all) != 6 || !strings.Contains(string(all[5].After), `"31"`) {
		t.Errorf("%d entries, the last %s", len(all), all[len(all)-1].After)
	}
	client, err := j.Client()
	if err != nil {
		t.Fatal(err)
	}
	if counted, err := client.Get(ctx, "/registry/proviso.dev/journal/", clientv3.WithPrefix(), clientv3.WithCountOnly()); err != nil || counted.Count > 6+trimEvery {
		t.Errorf("%d keys: %v", counted.Count, err)
	}

	t.Run("no space", func(t *testing.T) { noSpace(t, ctx, client, s, inner, entries) })

	// The server itself, and somebody who says to be it (TR-15).
	server := request.WithUser(t.Context(), &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}})
	for _, test := range []struct {
		name string
		ctx  context.Context
		want string
	}{
		{"the server", server, "mona"},
		{"somebody who impersonates it", Impersonated(server), user.APIServerUser},
		{"somebody of its name", request.WithUser(t.Context(), &user.DefaultInfo{Name: user.APIServerUser}), user.APIServerUser},
	} {
		if err := s.GuaranteedUpdate(ctx, "k", &rbacv1.Role{}, false, nil, update(test.name), nil); err != nil {
			t.Fatal(err)
		}
		if err := s.Create(test.ctx, "k", role("get"), &rbacv1.Role{}, 0); err != nil {
			t.Fatal(err)
		}
		if all := entries(); all[len(all)-1].User != test.want {
			t.Errorf("%s: the last entry is %+v", test.name, all[len(all)-1])
		}
	}

	// Without a journal nothing is changed.
	dead := New(Config{Connect: func() (*clientv3.Client, error) { return nil, errors.New("no etcd") }, Entries: 20})
	before := inner.writes
	s = dead.Around(scheme.Scheme)(resource, &storagebackend.ConfigForResource{}, inner)
	for what, err := range map[string]error{
		"create": s.Create(ctx, "k", role("get"), &rbacv1.Role{}, 0),
		"update": s.GuaranteedUpdate(ctx, "k", &rbacv1.Role{}, false, nil, update("x"), nil),
		"delete": s.Delete(ctx, "k", &rbacv1.Role{}, nil, nil, nil, storage.DeleteOptions{}),
	} {
		if err == nil || !strings.Contains(err.Error(), "policy journal, and is not made") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if inner.writes != before {
		t.Error("a change was made that is not in the journal")
	}
	if got := New(Config{}).Around(scheme.Scheme)(resource, &storagebackend.ConfigForResource{}, inner); got != storage.Interface(inner) {
		t.Error("a journal of nothing is kept")
	}
}

// noSpace: an etcd that is full takes no entries; rights can still be revoked, and nothing else is changed (TR-15).
func noSpace(t *testing.T, ctx context.Context, client *clientv3.Client, s storage.Interface, inner *stored, entries func() []Entry) {
	status, err := client.Status(ctx, client.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	alarm := &etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_ACTIVATE, Alarm: etcdserverpb.AlarmType_NOSPACE, MemberID: status.Header.MemberId}
	if _, err := etcdserverpb.NewMaintenanceClient(client.ActiveConnection()).Alarm(ctx, alarm); err != nil {
		t.Fatal(err)
	}
	before, writes := entries(), inner.writes
	for what, err := range map[string]error{
		"create": s.Create(ctx, "k", role("full"), &rbacv1.Role{}, 0),
		"update": s.GuaranteedUpdate(ctx, "k", &rbacv1.Role{}, false, nil, update("full"), nil),
	} {
		if err == nil || !strings.Contains(err.Error(), "database space exceeded") || inner.writes != writes {
			t.Errorf("%s: %v, %d writes", what, err, inner.writes-writes)
		}
	}
	if err := s.Delete(ctx, "k", &rbacv1.Role{}, nil, nil, nil, storage.DeleteOptions{}); err != nil || inner.writes != writes+1 {
		t.Errorf("delete: %v", err)
	}
	if after := entries(); len(after) != len(before) {
		t.Errorf("%d entries, and %d before", len(after), len(before))
	}
	if _, err := client.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(ctx, "k", &rbacv1.Role{}, nil, nil, nil, storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if all := entries(); all[len(all)-1].Verb != Delete {
		t.Errorf("with space again: %+v", all[len(all)-1])
	}
}

// noise is text that cannot be compressed.
func noise(n int) string {
	var out strings.Builder
	for x := uint64(1); out.Len() < n; {
		x = x*6364136223846793005 + 1442695040888963407
		out.WriteByte(byte(33 + (x>>33)%90))
	}
	return out.String()
}

// asIs is a converter of objects that have their version.
type asIs struct{}

func (asIs) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

// TR-15, TK-6: what a user can do to revocations without any right does not push the policy out of the journal; what
// others do is in it, and so is what only looks like it.
func TestRevocationsDisplaceNothing(t *testing.T) {
	client := etcdtest.Client(t)
	j := New(Config{Connect: func() (*clientv3.Client, error) { return client, nil }, Prefix: "/registry", Entries: 100})
	mona := request.WithUser(t.Context(), &user.DefaultInfo{Name: "mona"})
	server := request.WithUser(t.Context(), &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}})
	want := 0
	for _, test := range []struct {
		name             string
		resource         schema.GroupResource
		ctx              context.Context
		created, deleted int
	}{
		{"an admin revokes", revocations, mona, 1, 1},
		{"a token revokes itself", revocations, OwnToken(mona), 0, 0},
		{"the server", revocations, server, 0, 0},
		{"who impersonates it", revocations, Impersonated(server), 1, 1},
		{"another kind", schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}, OwnToken(mona), 1, 1},
		{"another kind, the server", schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}, server, 0, 1},
	} {
		inner := &stored{version: 100}
		s := j.Around(asIs{})(test.resource, &storagebackend.ConfigForResource{}, inner)
		count := func(what string, more int) {
			t.Helper()
			want += more
			if records, unreadable, err := j.Records(t.Context()); err != nil || unreadable > 0 || len(records) != want {
				t.Errorf("%s: %s: %d entries, want %d: %v", test.name, what, len(records), want, err)
				want = len(records)
			}
		}
		if err := s.Create(test.ctx, "k", role("get"), &rbacv1.Role{}, 0); err != nil {
			t.Fatal(err)
		}
		count("create", test.created)
		checked := false
		check := func(context.Context, runtime.Object) error { checked = true; return nil }
		if err := s.Delete(test.ctx, "k", &rbacv1.Role{}, nil, check, nil, storage.DeleteOptions{}); err != nil || !checked {
			t.Fatal(err, checked)
		}
		count("delete", test.deleted)
	}
}

// TR-15, TM-9: every kind that policy is made of is journaled, in the version in which it is read.
func TestEveryKindOfPolicyIsKept(t *testing.T) {
	for _, kind := range snapshot.Kinds() {
		version, is := kept[kind.GroupResource()]
		switch kind {
		case snapshot.Namespaces, snapshot.Definitions, snapshot.AccessRequests: // not policy (TM-10)
			if is {
				t.Errorf("%s are journaled", kind.GroupResource())
			}
		default:
			if version != kind.Version {
				t.Errorf("%s: version %q, want %q", kind.GroupResource(), version, kind.Version)
			}
		}
	}
}
