package replicas

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"proviso.dev/proviso/test/etcdtest"
)

// TR-6: while a replica runs that does not know rules which are not enforced, none can be stored; while there are any,
// a release that does not know them does not serve, whether it knows of needs or not.
func TestNeeds(t *testing.T) {
	client := etcdtest.Client(t)
	ctx := context.Background()
	settings := Settings{MasterNamespace: "master", Gates: map[string]bool{"A": true}}
	record := func() (text string) {
		answer, err := client.Get(ctx, "/needs/proviso.dev/agreement")
		if err != nil || len(answer.Kvs) != 1 {
			t.Fatalf("%v, %v", answer, err)
		}
		return string(answer.Kvs[0].Value)
	}
	a := join(t, client, "/needs", Config{ID: "a", Settings: settings, Knows: Known()}, Trust{})
	old := join(t, client, "/needs", Config{ID: "old", Settings: settings}, Trust{})
	if a.Agreed() != nil || old.Agreed() != nil {
		t.Fatalf("they agree: %v, %v", a.Agreed(), old.Agreed())
	}
	before := record()
	for _, dryRun := range []bool{true, false} {
		var unknowing *UnknowingError
		if err := a.Need(ctx, ShadowRules, dryRun); !errors.As(err, &unknowing) || !strings.Contains(err.Error(), "host-old") || strings.Contains(err.Error(), "host-a") {
			t.Errorf("dry run %t: %v", dryRun, err)
		}
	}
	if record() != before {
		t.Errorf("the record was changed: %s", record())
	}
	old.leave()
	if err := a.Need(ctx, ShadowRules, true); err != nil || record() != before {
		t.Errorf("a dry run: %v, %s", err, record())
	}
	if err := a.Need(ctx, ShadowRules, false); err != nil {
		t.Fatal(err)
	}
	if a.Agreed() != nil {
		t.Error(a.Agreed())
	}
	// A release that knows of needs says what it does not know.
	late := join(t, client, "/needs", Config{ID: "late", Settings: settings}, Trust{})
	if err := late.Agreed(); err == nil || !strings.Contains(err.Error(), ShadowRules) {
		t.Errorf("a release that does not know them: %v", err)
	}
	late.leave()
	// One from before reads these two fields, and compares them.
	var before1 struct {
		MasterNamespace string          `json:"masterNamespace"`
		Gates           map[string]bool `json:"gates"`
	}
	if err := json.Unmarshal([]byte(record()), &before1); err != nil || before1.MasterNamespace == "master" || !before1.Gates["A"] {
		t.Errorf("a release from before would serve: %+v, %v", before1, err)
	}
	// One that knows them agrees, with the same master namespace as ever.
	b := join(t, client, "/needs", Config{ID: "b", Settings: settings, Knows: Known()}, Trust{})
	if b.Agreed() != nil {
		t.Error(b.Agreed())
	}
	// It stays needed for some minutes, and then no longer.
	if err := a.NoNeed(ctx, ShadowRules); err != nil || !strings.Contains(record(), ShadowRules) {
		t.Errorf("%v, %s", err, record())
	}
	aged := settings
	aged.Needs = map[string]int64{ShadowRules: time.Now().Add(-2 * kept).Unix()}
	text, err := json.Marshal(aged)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(ctx, "/needs/proviso.dev/agreement", string(text)); err != nil {
		t.Fatal(err)
	}
	if err := a.NoNeed(ctx, ShadowRules); err != nil || record() != before {
		t.Errorf("%v, %s, want %s", err, record(), before)
	}
	// A replica that dies is forgotten with its lease; one whose entry cannot be read knows nothing.
	if _, err := client.Put(ctx, "/needs/proviso.dev/replicas/broken", "{"); err != nil {
		t.Fatal(err)
	}
	if err := a.Need(ctx, ShadowRules, true); err == nil {
		t.Error("a replica that cannot be read was taken for one that knows")
	}
	if _, err := client.Delete(ctx, "/needs/proviso.dev/replicas/broken", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
}

// PO-25: while a replica runs that does not know a field, the field is not needed, so it is not stored. While it is
// stored, a release that does not know it does not serve. An entry from before fields were named knows none of them.
func TestFieldsAreNeeded(t *testing.T) {
	client := etcdtest.Client(t)
	ctx := context.Background()
	settings := Settings{MasterNamespace: "master", Gates: map[string]bool{}}
	a := join(t, client, "/fields", Config{ID: "a", Settings: settings, Knows: Known("Policy.note", "Policy.other")}, Trust{})
	for _, knows := range [][]string{nil, Known(), Known("Policy.other")} {
		old := join(t, client, "/fields", Config{ID: "old", Settings: settings, Knows: knows}, Trust{})
		if err := a.Need(ctx, Field("Policy.note"), false); err == nil || !strings.Contains(err.Error(), "Policy.note") || !strings.Contains(err.Error(), "host-old") {
			t.Errorf("beside one that knows %v: %v", knows, err)
		}
		if err := old.Agreed(); err != nil {
			t.Errorf("nothing is stored, and it does not serve: %v", err)
		}
		old.leave()
	}
	if err := a.Need(ctx, Field("Policy.note"), false); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		knows  []string
		serves bool
	}{{nil, false}, {Known(), false}, {Known("Policy.other"), false}, {Known("Policy.note"), true}} {
		late := join(t, client, "/fields", Config{ID: "late", Settings: settings, Knows: tt.knows}, Trust{})
		if err := late.Agreed(); (err == nil) != tt.serves || err != nil && !strings.Contains(err.Error(), "the field Policy.note") {
			t.Errorf("one that knows %v: %v", tt.knows, err)
		}
		late.leave()
	}
}
