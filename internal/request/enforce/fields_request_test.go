package enforce

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// PO-21, SV-7: what field permissions evaluate spends from the budget of the request's conditions, and ends with the
// request.
func TestFieldExpressionsBelongToTheRequest(t *testing.T) {
	known := &facts{data: expr.NewData(expr.DataConfig{}), Attributes: admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "",
		schema.GroupVersionResource{Resource: "pods"}, "", admission.Update, runtime.Object(nil), false, nil)}
	ctx, leave := context.WithCancel(t.Context())
	w := &fieldWrite{Fields: &Fields{}, ctx: ctx, holder: &requestctx.State{Snapshot: &snapshot.Snapshot{}}, known: known}
	req := w.request(fieldperm.Target{}, fieldperm.General)
	if req.Context == nil || expr.BudgetOf(req.Context) != known.data.Budget() {
		t.Fatal("they have a budget of their own")
	}
	leave()
	if req.Context.Err() == nil {
		t.Error("they outlive the request")
	}
}

// FP-8: an Allow is an Allow, whatever failed beside it; anything else is none, and says what failed.
func TestAnAllowIsAnAllow(t *testing.T) {
	failure := errors.New("a webhook did not answer")
	known := &facts{data: expr.NewData(expr.DataConfig{}), Attributes: admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "",
		schema.GroupVersionResource{Resource: "pods"}, "", admission.Update, runtime.Object(nil), false, nil)}
	for _, tt := range []struct {
		out  requestctx.Outcome
		want bool
		err  error
	}{
		{requestctx.Outcome{Decision: authorizer.DecisionAllow}, true, nil},
		{requestctx.Outcome{Decision: authorizer.DecisionAllow, Detail: failure}, true, nil},
		{requestctx.Outcome{Decision: authorizer.DecisionNoOpinion}, false, nil},
		{requestctx.Outcome{Decision: authorizer.DecisionNoOpinion, Detail: failure}, false, failure},
		{requestctx.Outcome{Decision: authorizer.DecisionDeny, Detail: failure}, false, failure},
		{requestctx.Outcome{}, false, nil},
	} {
		asked := ""
		fields := &Fields{Asker: askerFunc(func(_ context.Context, _ *requestctx.State, verb string, _ authorizer.ConditionsData) requestctx.Outcome {
			asked = verb
			return tt.out
		})}
		w := &fieldWrite{Fields: fields, ctx: t.Context(), holder: &requestctx.State{Snapshot: &snapshot.Snapshot{}}, known: known}
		got, err := w.request(fieldperm.Target{}, fieldperm.General).Check("granular:labels")
		if got != tt.want || !errors.Is(err, tt.err) || asked != "granular:labels" {
			t.Errorf("%+v: asked %q, got %v, %v", tt.out, asked, got, err)
		}
	}
}
