package replicas

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"proviso.dev/proviso/test/etcdtest"
)

// patient bounds what must happen; no test waits for it to pass.
const patient = 4 * time.Minute

type replica struct {
	*Member
	joined error
	leave  func()
}

// join starts a replica with its own prefix in the shared etcd.
func join(t *testing.T, client *clientv3.Client, prefix string, cfg Config, trust Trust) *replica {
	t.Helper()
	if cfg.Trust == nil {
		cfg.Trust = func() (Trust, error) { return trust, nil }
	}
	cfg.Host = "host-" + cfg.ID
	r := &replica{Member: New(cfg)}
	if r.Agreed() == nil {
		t.Fatal("a replica that has read nothing agrees")
	}
	if r.joined = r.Join(context.Background(), client, prefix); r.joined != nil {
		return r
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.Run(ctx)
	}()
	left := false
	r.leave = func() {
		if !left {
			cancel()
			<-over
			r.Leave()
			left = true
		}
	}
	t.Cleanup(r.leave)
	return r
}

func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for begin := time.Now(); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > patient {
			t.Fatalf("waiting for %s: too long", what)
		}
	}
}

func cas(names ...string) Trust {
	t := Trust{ClientCAs: map[string]string{}}
	for _, n := range names {
		t.ClientCAs[strings.Repeat(n, 64)] = "CN=" + n
	}
	return t
}

func keys(signing string, accepted ...string) Trust {
	return Trust{SigningKey: signing, AcceptedKeys: accepted}
}

// SV-14: gates and the master namespace are agreed on in a record.
func TestSettingsAreAgreedOn(t *testing.T) {
	client := etcdtest.Client(t)
	gates := map[string]bool{"A": true, "B": true}
	first := join(t, client, "/registry", Config{ID: "first", Settings: Settings{MasterNamespace: "master", Gates: gates}}, Trust{})
	if first.joined != nil || first.Agreed() != nil {
		t.Fatalf("the first replica: %v, %v", first.joined, first.Agreed())
	}
	same := join(t, client, "registry", Config{ID: "same", Settings: Settings{MasterNamespace: "master", Gates: maps.Clone(gates)}}, Trust{})
	if same.joined != nil || same.Agreed() != nil || same.Others() != 1 {
		t.Errorf("a replica with the same settings: %v, %v, %d others", same.joined, same.Agreed(), same.Others())
	}
	for _, differs := range []struct {
		name  string
		with  Settings
		names string
	}{
		{"master", Settings{MasterNamespace: "ops", Gates: gates}, `--policy-master-namespace is "ops" here and "master" in the record`},
		{"gate", Settings{MasterNamespace: "master", Gates: map[string]bool{"A": true, "B": false}}, "feature gate B is false here and true in the record"},
	} {
		other := join(t, client, "/registry", Config{ID: differs.name, Settings: differs.with}, Trust{})
		var why *DifferError
		if other.joined != nil || !errors.As(other.Agreed(), &why) || !strings.Contains(why.Error(), differs.names) || !strings.Contains(why.Error(), "--agree") {
			t.Errorf("%s: joined %v, agreed: %v", differs.name, other.joined, other.Agreed())
		}
		if first.Agreed() != nil {
			t.Errorf("%s: one that differs makes another not ready: %v", differs.name, first.Agreed())
		}
		other.leave()
	}

	// A newer release knows one gate more, an older one fewer; the first to know it decides it.
	newer := join(t, client, "/registry", Config{ID: "newer", Settings: Settings{MasterNamespace: "master", Gates: map[string]bool{"A": true, "B": true, "C": false}}}, Trust{})
	if newer.Agreed() != nil || first.Agreed() != nil {
		t.Errorf("a newer release beside an older one: %v, %v", newer.Agreed(), first.Agreed())
	}
	odd := join(t, client, "/registry", Config{ID: "odd", Settings: Settings{MasterNamespace: "master", Gates: map[string]bool{"A": true, "B": true, "C": true}}}, Trust{})
	if odd.Agreed() == nil {
		t.Error("a gate of the newer release is not agreed on")
	}

	// --agree changes the record, and with it who may serve.
	changed := join(t, client, "/registry", Config{ID: "changed", Agree: true, Settings: Settings{MasterNamespace: "ops", Gates: map[string]bool{"A": true, "B": true, "C": true}}}, Trust{})
	if changed.joined != nil || changed.Agreed() != nil || len(changed.Changed()) != 2 {
		t.Errorf("--agree: %v, %v, changed %q", changed.joined, changed.Agreed(), changed.Changed())
	}
	await(t, "the first replica to notice", func() bool { return first.Agreed() != nil })
	if odd.Agreed() == nil {
		t.Error("a replica with another master namespace agrees")
	}
	back := join(t, client, "/registry", Config{ID: "back", Agree: true, Settings: Settings{MasterNamespace: "master", Gates: gates}}, Trust{})
	await(t, "the first replica to agree again", func() bool { return first.Agreed() == nil })
	if back.Agreed() != nil {
		t.Error(back.Agreed())
	}
	if other := join(t, client, "/elsewhere", Config{ID: "else", Settings: Settings{MasterNamespace: "mine"}}, Trust{}); other.Agreed() != nil || other.Others() != 0 {
		t.Errorf("another prefix is another cluster: %v, %d others", other.Agreed(), other.Others())
	}
}

// SV-14: a replica that nobody else's users could log in to does not start; rotation step by step stays possible.
func TestTrustIsShared(t *testing.T) {
	client := etcdtest.Client(t)
	for _, test := range []struct {
		name   string
		others []Trust
		own    Trust
		refuse string
	}{
		{"alone", nil, cas("a"), ""},
		{"the same authority", []Trust{cas("a")}, cas("a"), ""},
		{"another authority", []Trust{cas("a")}, cas("b"), "shares no client CA"},
		{"rotation: the new one is added", []Trust{cas("a"), cas("a")}, cas("a", "b"), ""},
		{"rotation: the old one goes", []Trust{cas("a", "b"), cas("a", "b")}, cas("b"), ""},
		{"rotation: one of them is behind", []Trust{cas("a", "b"), cas("a")}, cas("b"), ""},
		{"nobody accepts it", []Trust{cas("a", "b"), cas("a")}, cas("c"), "shares no client CA"},
		{"authorities are introduced", []Trust{{}}, cas("a"), ""},
		{"the same key", []Trust{keys("k", "k")}, keys("k", "k"), ""},
		{"another key", []Trust{keys("k", "k")}, keys("l", "l"), "signing key"},
		{"another key, which accepts theirs", []Trust{keys("k", "k")}, keys("l", "l", "k"), "signing key"},
		{"rotation: the new key is accepted", []Trust{keys("k", "k")}, keys("k", "k", "l"), ""},
		{"rotation: the new key signs", []Trust{keys("k", "k", "l")}, keys("l", "k", "l"), ""},
		{"somebody else signs", []Trust{{}}, keys("l", "l"), ""},
	} {
		prefix := "/" + strings.ReplaceAll(test.name, " ", "-")
		for i, trust := range test.others {
			if r := join(t, client, prefix, Config{ID: string(rune('a' + i))}, trust); r.joined != nil {
				t.Fatalf("%s: %v", test.name, r.joined)
			}
		}
		r := join(t, client, prefix, Config{ID: "own"}, test.own)
		if (test.refuse == "") != (r.joined == nil) || r.joined != nil && !strings.Contains(r.joined.Error(), test.refuse) {
			t.Errorf("%s: %v, want %q", test.name, r.joined, test.refuse)
		}
		if r.joined == nil {
			continue
		}
		if !strings.Contains(r.joined.Error(), "host-a") || !strings.Contains(r.joined.Error(), "Copy the pki directory") || r.Agreed() == nil {
			t.Errorf("%s: %v", test.name, r.joined)
		}
		// One that was refused is none of them.
		if left, err := client.Get(context.Background(), prefix+"/proviso.dev/replicas/own"); err != nil || left.Count != 0 {
			t.Errorf("%s: it stays registered: %v, %v", test.name, left, err)
		}
	}
}

// A replica that leaves is no longer asked, one whose file changes shows what it accepts now, one that is its own
// successor is not held up by itself.
func TestTrustFollows(t *testing.T) {
	client := etcdtest.Client(t)
	first := join(t, client, "/r", Config{ID: "first"}, cas("a"))
	first.leave()
	path := filepath.Join(t.TempDir(), "ca")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("b")
	second := join(t, client, "/r", Config{ID: "second", Trust: func() (Trust, error) {
		data, err := os.ReadFile(path)
		return cas(strings.Split(string(data), ",")...), err
	}}, Trust{})
	if second.joined != nil {
		t.Fatalf("a replica that has left counts: %v", second.joined)
	}
	write("b,c")
	await(t, "the new authority", func() bool {
		third := join(t, client, "/r", Config{ID: "third"}, cas("c"))
		if third.joined == nil {
			third.leave()
		}
		return third.joined == nil
	})

	abandoned := join(t, client, "/alone", Config{ID: "same"}, cas("a"))
	if successor := join(t, client, "/alone", Config{ID: "same"}, cas("b")); abandoned.joined != nil || successor.joined != nil {
		t.Errorf("held up by itself: %v, %v", abandoned.joined, successor.joined)
	}
}
