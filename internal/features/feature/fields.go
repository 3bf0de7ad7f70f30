package feature

import (
	"context"
	"errors"

	"proviso.dev/proviso/internal/apis/policyreview"
	"proviso.dev/proviso/internal/engine/fieldperm"
)

var _ policyreview.FieldRights = (*Kernel)(nil)

// Covered implements policyreview.FieldRights by the system that knows fields. Without one nothing is covered.
func (k *Kernel) Covered(ctx context.Context, w policyreview.FieldWrite) fieldperm.Result {
	systems, _ := k.Systems.Get() // no request comes before they are made
	for _, s := range systems {
		if s.Fields != nil {
			return s.Fields.Covered(ctx, w)
		}
	}
	return fieldperm.Result{Err: errors.New("field permissions are off")}
}
