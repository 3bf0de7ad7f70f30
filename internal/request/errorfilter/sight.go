package errorfilter

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/request/readfilter"
	"proviso.dev/proviso/internal/request/requestctx"
)

var errUnadmitted = errors.New("the permission depends on the object, and the request ended before that was decided; why is not shown, because it would tell what is stored")

// mayLeave reports whether every state that a response may be derived from is admitted, or may be read anyway.
func (f *Filter) mayLeave(ctx context.Context, holder *requestctx.State, ledger *requestctx.Ledger, code int) bool {
	states, complete := ledger.Open()
	if !complete {
		return false
	}
	for _, state := range states {
		if !f.maySee(ctx, holder, state) {
			return false
		}
	}
	return code >= http.StatusBadRequest || len(states) > 0 || ledger.Admitted()
}

// maySee reports whether the caller may get a state or, if the request is a deletion, delete it: upstream answers the
// deletion of an object that is already being deleted without asking admission.
func (f *Filter) maySee(ctx context.Context, holder *requestctx.State, state runtime.Object) bool {
	s, ok := f.stateOf(holder, state)
	if !ok {
		return false
	}
	if s.Object == nil {
		return true // nothing is stored yet
	}
	s.Attributes, s.Operation = as{s.Attributes, verbs.Get, nameOf(s.Object)}, readfilter.Operation
	if f.cfg.Gate.Decide(ctx, s.Attributes).Resolve(ctx, readfilter.Facts(ctx, s)).Decision == authorizer.DecisionAllow {
		return true
	}
	return verbs.Deletes(holder.Attributes().GetVerb()) && f.deletion(ctx, holder, state).Decision == authorizer.DecisionAllow
}

// deletion returns the enforcer's decision on the deletion of a state. It has no options, so a condition that looks at
// them fails.
func (f *Filter) deletion(ctx context.Context, holder *requestctx.State, state runtime.Object) requestctx.Outcome {
	s, ok := f.stateOf(holder, state)
	pending := holder.Get(requestctx.Request).Pending()
	if !ok || pending == nil || s.Object == nil {
		return requestctx.Outcome{}
	}
	s.Operation = admission.Delete
	return pending.Resolve(ctx, readfilter.Facts(ctx, s))
}

// stateOf returns a state as one that the request is about; false if the request cannot be about it.
func (f *Filter) stateOf(holder *requestctx.State, state runtime.Object) (readfilter.State, bool) {
	if holder == nil || holder.Attributes() == nil {
		return readfilter.State{}, false
	}
	attrs := holder.Attributes()
	s := readfilter.State{Holder: holder, Attributes: attrs, Namespaces: f.cfg.Namespaces, Convert: f.converter(resourceOf(attrs))}
	m, err := meta.Accessor(state)
	if err != nil || holder.Snapshot == nil || holder.Snapshot.Served == nil {
		return s, false
	}
	if m.GetName() == "" && m.GetResourceVersion() == "" && m.GetUID() == "" {
		return s, true
	}
	namespace := attrs.GetNamespace()
	if attrs.GetAPIGroup() == "" && attrs.GetResource() == "namespaces" {
		namespace = "" // only authorization treats a namespace as being in itself
	}
	s.Object = state
	return s, m.GetNamespace() == namespace && (attrs.GetName() == "" || m.GetName() == attrs.GetName())
}

// instead returns the error that replaces a response that may not leave.
func (f *Filter) instead(ctx context.Context, holder *requestctx.State, ledger *requestctx.Ledger, code int) error {
	attrs := holder.Attributes()
	if code == http.StatusNotFound {
		return unsaid(attrs, code)
	}
	unfit := code == http.StatusConflict || code == http.StatusUnprocessableEntity
	if unfit || code >= http.StatusBadRequest && verbs.Updates(attrs.GetVerb()) {
		if out, sure := f.refusedAnyway(ctx, holder, ledger); sure {
			return enforce.Refusal(attrs, out, f.cfg.Gate.Explains())
		}
	}
	if unfit {
		return unsaid(attrs, code)
	}
	if states, _ := ledger.Open(); verbs.Deletes(attrs.GetVerb()) && code < http.StatusBadRequest {
		for _, state := range states {
			if out := f.deletion(ctx, holder, state); !f.maySee(ctx, holder, state) {
				return enforce.Refusal(attrs, out, f.cfg.Gate.Explains())
			}
		}
	}
	return apierrors.NewForbidden(resourceOf(attrs), attrs.GetName(), errUnadmitted)
}

// refusedAnyway returns the enforcer's decision if it would refuse any change of the stored state. A change that fails
// earlier then gets the same answer: whether it conflicts, is invalid, or would remove what is hidden from the caller
// would reveal what is stored.
func (f *Filter) refusedAnyway(ctx context.Context, holder *requestctx.State, ledger *requestctx.Ledger) (out requestctx.Outcome, sure bool) {
	states, complete := ledger.Open()
	if !complete || len(states) != 1 {
		return out, false
	}
	s, ok := f.stateOf(holder, states[0])
	if !ok || s.Object == nil {
		return out, false
	}
	s.Operation, s.Changes = admission.Update, true
	ask := func(p requestctx.Pending) (requestctx.Outcome, bool) {
		data := readfilter.Facts(ctx, s)
		out := p.Resolve(ctx, data)
		return out, out.Decision != authorizer.DecisionAllow && readfilter.Certain(data)
	}
	pass := holder.Get(requestctx.Request)
	if pending := pass.Pending(); pending != nil {
		if out, sure = ask(pending); !sure || out.Decision == authorizer.DecisionDeny {
			return out, sure
		}
	}
	// A caller without the right to the whole object may have a right to the fields that change.
	fields := pass.Fields()
	if fields == nil {
		fields = f.cfg.Gate.Decide(ctx, authorize.WithVerb(holder.Attributes(), fieldperm.Verb))
	}
	reach, sure := ask(fields)
	if pass.IsGranular() {
		out = reach
	}
	return out, sure
}

// as is the same request with a different verb, about one whole object.
type as struct {
	authorizer.Attributes
	verb, name string
}

func (a as) GetVerb() string        { return a.verb }
func (a as) GetName() string        { return a.name }
func (a as) GetSubresource() string { return "" }
func (a as) IsReadOnly() bool       { return true }

func nameOf(o runtime.Object) string {
	m, err := meta.Accessor(o)
	if err != nil {
		return ""
	}
	return m.GetName()
}
