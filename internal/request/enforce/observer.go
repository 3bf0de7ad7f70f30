package enforce

import (
	"context"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/request/requestctx"
)

// Observer is told about every admission after it is decided. It cannot change the decision.
type Observer interface {
	Admitted(ctx context.Context, over Observation)
}

// Observation is a finished admission.
type Observation struct {
	// Allowed reports whether it was allowed.
	Allowed bool
	// Slots are the passes that it needed.
	Slots []requestctx.Slot
	// Namespace is the namespace of the object.
	Namespace string
	Trial
}

// Trial is what it takes to decide an admission again under other rules.
type Trial interface {
	// Aside returns what conditions see of it, with a budget that no decision uses.
	Aside() authorizer.ConditionsData
	// Written returns the resource whose fields it writes; false if they were not looked at.
	Written() (fieldperm.Resource, bool)
	// TryFields reports whether it would be allowed with another table of field permissions.
	TryFields(ctx context.Context, table *fieldperm.Table) bool
	// TryProtected reports whether other protected attributes would let it pass.
	TryProtected(ctx context.Context, index *protectedattr.Index) bool
}

// Unobserved is an observer that ignores everything.
type Unobserved struct{}

// Admitted implements Observer.
func (Unobserved) Admitted(context.Context, Observation) {}

// trial is stored in the facts of the admission, so it costs nothing if nothing is tried.
type trial struct {
	plugin  *Plugin
	holder  *requestctx.State
	known   *facts
	objects admission.ObjectInterfaces
	allowed bool
}

var _ Trial = (*trial)(nil)

// Aside implements Trial.
func (t *trial) Aside() authorizer.ConditionsData { return t.known.Aside() }

// Written implements Trial.
func (t *trial) Written() (fieldperm.Resource, bool) {
	if t.plugin.cfg.Fields == nil || !t.known.reached {
		return fieldperm.Resource{}, false
	}
	return fieldTarget(t.holder.Snapshot.Served, t.known).Resource, true
}

// TryFields implements Trial. Its questions are not observed.
func (t *trial) TryFields(ctx context.Context, table *fieldperm.Table) bool {
	if !t.allowed && t.known.mode == fieldperm.General {
		return false // something else refuses it
	}
	aside := t.known.besides()
	aside.mode = t.known.mode
	w := &fieldWrite{Fields: t.plugin.cfg.Fields, ctx: ctx, holder: t.holder, known: aside, objects: t.objects, aside: true}
	result, looked, err := w.decide(table)
	return err == nil && (!looked || result.Allowed())
}

// TryProtected implements Trial.
func (t *trial) TryProtected(ctx context.Context, index *protectedattr.Index) bool {
	p := t.plugin.cfg.Protected
	return p == nil || !p.Handles(t.known.GetOperation()) || p.check(ctx, t.holder, index, t.known.Attributes, t.objects) == nil
}
