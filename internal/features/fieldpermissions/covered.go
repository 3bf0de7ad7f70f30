package fieldpermissions

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"proviso.dev/proviso/internal/apis/policyreview"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/request/enforce"
)

var _ policyreview.FieldRights = (*rights)(nil)

// Covered implements policyreview.FieldRights: it decides a write in a question as the enforcer decides it
// when it is made.
func (f *rights) Covered(ctx context.Context, w policyreview.FieldWrite) fieldperm.Result {
	table, served := w.Snapshot.Fields, w.Snapshot.Served
	if table == nil || w.New == nil {
		return fieldperm.Result{Err: errors.New("there is nothing to compare")}
	}
	r := fieldperm.Resource{Group: w.Attrs.GetAPIGroup(), Resource: w.Attrs.GetResource()}
	if source := table.Unreadable(r); source != "" && !f.gate.Chain.GrantedEverywhere(ctx, w.Snapshot, w.Attrs) {
		return fieldperm.Result{Err: errors.New(enforce.UnreadableReason(source))}
	}
	if served.LostInStorage(schema.GroupResource{Group: r.Group, Resource: r.Resource}, w.Attrs.GetAPIVersion()) {
		return fieldperm.Result{Err: fmt.Errorf("version %s of the resource has another schema than the one in which objects are stored", w.Attrs.GetAPIVersion())}
	}
	kind, _ := servedKind(served, r)
	req := fieldperm.Request{
		Context: ctx, Target: fieldperm.Target{Resource: r, Subresource: w.Attrs.GetSubresource(), Version: kind.Version},
		Mode: fieldperm.Granular, Check: w.Asker.Check,
		Objects: func() (old, new *typed.TypedValue, err error) {
			schemas, err := f.schemas.For(w.New.GetObjectKind().GroupVersionKind())
			if err != nil {
				return nil, nil, err
			}
			if new, err = schemas.ObjectToTyped(w.New); err == nil && w.Old != nil {
				old, err = schemas.ObjectToTyped(w.Old)
			}
			return old, new, err
		},
	}
	if w.Old == nil && w.Attrs.GetSubresource() == "" {
		if req.Default = w.Asker.Default; fieldperm.ResetsStatus(r) {
			req.Reset = statusFields
		}
	}
	return table.Decide(req)
}

// statusFields are set by the endpoint itself, whatever the caller sends.
var statusFields = fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
