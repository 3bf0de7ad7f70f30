package authorize

import (
	"context"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/request/requestctx"
)

// witness keeps what it is told.
type witness []Observation

func (w *witness) Decided(_ context.Context, made Observation) { *w = append(*w, made) }

// An observer is told once of each decision: before its object is seen, with the pass, or afterwards, with the data.
func TestObserver(t *testing.T) {
	seen := &witness{}
	gate := gateOf(t, byVerb{allowed: []string{"update", "get"}, conditional: []string{"patch"}})
	gate.observer = seen
	last := func(what string, n int) Observation {
		t.Helper()
		if len(*seen) != n {
			t.Fatalf("%s: told %d times, want %d", what, len(*seen), n)
		}
		return (*seen)[n-1]
	}
	for i, c := range []struct {
		verb    string
		allowed bool
		pass    func(requestctx.Pass) bool
	}{
		{"update", true, requestctx.Pass.IsAllowed},
		{"patch", true, func(p requestctx.Pass) bool { return p.Pending() != nil }},
		{"delete", false, func(p requestctx.Pass) bool { return !p.IsAllowed() && p.Pending() == nil }},
	} {
		info, attrs := asked(c.verb)
		decision, _, _ := gate.AtFilter().Authorize(within(t, &info), attrs)
		made := last(c.verb, i+1)
		if made.Final || made.Allowed != c.allowed || made.Allowed != (decision == authorizer.DecisionAllow) || !c.pass(made.Pass) || made.Gate != gate || made.Attrs.GetVerb() != c.verb {
			t.Errorf("%s: told %+v", c.verb, made)
		}
	}
	info, attrs := asked("update")
	ctx := within(t, &info)
	holder := requestctx.From(ctx)
	holder.Put(requestctx.Request, attrs, requestctx.Allowed())
	data := created("yes")
	if out := gate.Ask(ctx, holder, "get", data); out.Decision != authorizer.DecisionAllow {
		t.Fatalf("get: %+v", out)
	}
	if made := last("a question in admission", 4); !made.Final || !made.Allowed || made.Data != data || made.Attrs.GetVerb() != "get" {
		t.Errorf("a question in admission: told %+v", made)
	}
	gate.AskAside(ctx, holder, "get", data)
	gate.Over(gate.Chain).Ask(ctx, holder, "get", data)
	last("a question aside, and one over another chain", 4)

	gate.ObserveAccess(ctx, attrs, gate.Decide(ctx, attrs))
	last("access to what admission follows", 4)
	_, read := asked("get")
	gate.ObserveAccess(ctx, read, gate.Decide(ctx, read))
	last("access to what no admission follows", 5)
	gate.ObserveAdmission(ctx, attrs, gate.Decide(ctx, attrs), requestctx.Allowed())
	if made := last("admission", 6); !made.Allowed || !made.Pass.IsAllowed() || made.Final {
		t.Errorf("admission: told %+v", made)
	}
}

// What is missing in a gate refuses.
func TestEmptyGateFailsClosed(t *testing.T) {
	info, attrs := asked("update")
	gate := NewGate(GateConfig{Conditional: true})
	if gate.Honours(attrs) == nil {
		t.Error("a condition is honoured that nobody is known to look at")
	}
	if gate.ConditionalReads() || gate.UniformConnect() {
		t.Error("a gate does what nobody asked for")
	}
	if _, err := gate.newer(within(t, &info), attrs)("token"); err == nil {
		t.Error("newer policy comes from nowhere")
	}
}
