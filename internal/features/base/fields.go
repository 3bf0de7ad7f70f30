package base

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/state/policycodec"
	"proviso.dev/proviso/internal/state/snapshot"
)

// fields tells the replicas which stored fields an older release does not know. A restored backup may have added them,
// and an older release can serve again once no object has them.
type fields struct {
	kernel *feature.Kernel
	stored map[string]snapshot.Objects // by kind; those of systems that are off are missing
}

func newFields(k *feature.Kernel, from snapshot.Source) (*fields, error) {
	f := &fields{kernel: k, stored: map[string]snapshot.Objects{}}
	for _, kind := range []snapshot.Kind{snapshot.Policies, snapshot.PolicyBindings, snapshot.FieldPermissions, snapshot.ProtectedAttributes,
		snapshot.ClusterProtectedAttributes, snapshot.AuditSinks, snapshot.AuditClasses, snapshot.NamespaceAuditSinks, snapshot.TokenRevocations} {
		objects, err := from.Objects(kind)
		if err != nil {
			return nil, err
		}
		if objects != nil {
			f.stored[reflect.TypeOf(kind.Example).Elem().Name()] = objects
		}
	}
	return f, nil
}

// Run implements feature.Runner. The first look is after the snapshot has everything: what is not known yet is not
// missing.
func (f *fields) Run(ctx context.Context) {
	if f.kernel.Needs == nil {
		return
	}
	again := time.NewTicker(time.Minute)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		if !f.kernel.Store.Current().Synced {
			continue
		}
		if err := f.tell(ctx); err != nil && ctx.Err() == nil {
			klog.V(2).InfoS("The replicas were not told which fields are stored; the server tries again", "err", err)
		}
	}
}

// tell reports which fields are needed, and which are not. For a kind that is not read, it is not known what is stored.
func (f *fields) tell(ctx context.Context) error {
	used := map[string]bool{}
	for _, objects := range f.stored {
		for _, obj := range objects.GetIndexer().List() {
			if o, ok := obj.(runtime.Object); ok {
				for _, field := range policycodec.FieldsInUse(o) {
					used[field] = true
				}
			}
		}
	}
	known := slices.DeleteFunc(policycodec.KnownFields(), func(field string) bool {
		kind, _, _ := strings.Cut(field, ".")
		return f.stored[kind] == nil
	})
	needed := slices.DeleteFunc(slices.Clone(known), func(field string) bool { return !used[field] })
	if err := f.kernel.Needs.NeedFields(ctx, needed); err != nil {
		return err
	}
	return f.kernel.Needs.NoNeedOfFields(ctx, slices.DeleteFunc(known, func(field string) bool { return used[field] }))
}
