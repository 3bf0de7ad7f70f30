package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

func next(t testing.TB, tail *Tail) (ids []string, levels string, dropped uint64) {
	t.Helper()
	events, dropped, err := tail.Next(within(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range events {
		var ev auditv1.Event
		if err := json.Unmarshal(text, &ev); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, string(ev.AuditID))
		levels += string(ev.Level) + " "
	}
	return ids, levels, dropped
}

// DA-13: a subscription has rules of its own or uses the cluster's classes, sees events live, and leaves nothing
// behind: requests that only it wanted are not audited any more.
func TestTail(t *testing.T) {
	dir := quickDir(t)
	r := startRouter(t, Config{Dir: dir})
	verb := func(name, verb string) *v1alpha1.AuditClass {
		return &v1alpha1.AuditClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.AuditClassSpec{Rules: []v1alpha1.Rule{{Verbs: []string{verb}}}}}
	}
	r.Update(nil, []*v1alpha1.AuditClass{verb("creates", "create")})
	if got := r.Evaluator().EvaluatePolicyRule(attributesOf(testEvent(""))).Level; got != auditinternal.LevelNone {
		t.Fatalf("nobody listens, but requests are audited at %s", got)
	}
	classes, err := r.Tail(TailOptions{Policy: v1alpha1.Policy{Rules: []v1alpha1.PolicyRule{{Level: "Metadata", WithAuditClass: "creates"}}}})
	if err != nil {
		t.Fatal(err)
	}
	own, err := r.Tail(TailOptions{Policy: v1alpha1.Policy{Rules: []v1alpha1.PolicyRule{{Level: "Request", WithAuditClass: "mine"}}}, Classes: []*v1alpha1.AuditClass{verb("mine", "delete")}})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Evaluator().EvaluatePolicyRule(attributesOf(testEvent(""))).Level; got != auditinternal.LevelMetadata {
		t.Errorf("a subscription listens, but requests are audited at %s", got)
	}
	deleted := testEvent("deleted")
	deleted.Verb = "delete"
	r.ProcessEvents(testEvent("created"), deleted)
	if ids, levels, _ := next(t, classes); fmt.Sprint(ids, levels) != "[created]Metadata " {
		t.Error(ids, levels)
	}
	if ids, levels, _ := next(t, own); fmt.Sprint(ids, levels) != "[deleted]Request " {
		t.Error(ids, levels)
	}
	r.Update(nil, []*v1alpha1.AuditClass{verb("creates", "patch")}) // subscriptions follow
	r.ProcessEvents(testEvent("not any more"))
	if len(r.Status()) != 0 {
		t.Errorf("subscriptions are not sinks: %+v", r.Status())
	}
	classes.Close()
	own.Close()
	own.Close()
	if _, _, err := classes.Next(within(t)); !errors.Is(err, ErrTailClosed) {
		t.Error(err)
	}
	if got := r.Evaluator().EvaluatePolicyRule(attributesOf(deleted)).Level; got != auditinternal.LevelNone {
		t.Errorf("after the subscription requests are audited at %s", got)
	}
	for _, bad := range []v1alpha1.Policy{{Level: "Loud"}, {Rules: []v1alpha1.PolicyRule{{Level: "Metadata", WithAuditClass: "gone"}}}} {
		if _, err := r.Tail(TailOptions{Policy: bad}); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// DA-13: a reader that is too slow loses the oldest events and is told how many; memory stays bounded; Next ends with
// its context, with Close and with the server.
func TestTailIsBounded(t *testing.T) {
	r := startRouter(t, Config{MaxTails: 2})
	r.Update(nil, nil)
	tail, err := r.Tail(TailOptions{Policy: v1alpha1.Policy{Level: "RequestResponse"}, Buffer: 10})
	if err != nil {
		t.Fatal(err)
	}
	process(t, r, 0, 25)
	if ids, _, dropped := next(t, tail); dropped != 15 || len(ids) != 10 || ids[0] != "id-15" {
		t.Error(ids, dropped)
	}
	large := testEvent("large")
	large.ResponseObject.Raw = []byte(`"` + strings.Repeat("x", 7<<20) + `"`)
	for range 4 {
		r.ProcessEvents(large)
	}
	if tail.bytes > bufferBytes {
		t.Errorf("%d bytes wait", tail.bytes)
	}
	if ids, _, dropped := next(t, tail); dropped != 2 || len(ids) != 2 {
		t.Error(ids, dropped)
	}
	second, err := r.Tail(TailOptions{Policy: v1alpha1.Policy{Level: "Metadata"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Tail(TailOptions{Policy: v1alpha1.Policy{Level: "Metadata"}}); err == nil || !strings.Contains(err.Error(), "2 subscriptions") {
		t.Errorf("one subscription too many: %v", err)
	}
	second.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, _, err := tail.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	done := make(chan error)
	go func() {
		_, _, err := tail.Next(within(t))
		done <- err
	}()
	r.Shutdown()
	if err := <-done; !errors.Is(err, ErrTailClosed) {
		t.Error(err)
	}
}
