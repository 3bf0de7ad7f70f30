package enforce

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"proviso.dev/proviso/internal/expr"
	"proviso.dev/proviso/internal/fieldperm"
	"proviso.dev/proviso/internal/handoff"
	"proviso.dev/proviso/internal/snapshot"
)

// PO-21, SV-7: what field permissions evaluate spends from the budget of the request's conditions, and ends with the request.
func TestFieldExpressionsBelongToTheRequest(t *testing.T) {
	known := &facts{data: expr.NewData(expr.DataConfig{}), Attributes: admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "",
		schema.GroupVersionResource{Resource: "pods"}, "", admission.Update, runtime.Object(nil), false, nil)}
	ctx, leave := context.WithCancel(t.Context())
	w := &fieldWrite{Fields: &Fields{}, ctx: ctx, holder: &handoff.Holder{Snapshot: &snapshot.Snapshot{}}, known: known}
	req := w.request(fieldperm.Target{}, fieldperm.General)
	if req.Context == nil || expr.BudgetOf(req.Context) != known.data.Budget() {
		t.Fatal("they have a budget of their own")
	}
	leave()
	if req.Context.Err() == nil {
		t.Error("they outlive the request")
	}
}
