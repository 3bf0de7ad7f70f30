package enforce

import (
	"context"
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/request/denial"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Targets reads the targets of connections.
type Targets interface {
	Target(ctx context.Context, resource schema.GroupResource, namespace, name string) (runtime.Object, error)
}

// errNoTarget is the failure of conditions on a target whose storage does not decide them.
var errNoTarget = errors.New("the target of the connection is not known: its storage does not evaluate conditions")

// target returns the target of a connection.
func (p *Plugin) target(attrs admission.Attributes, objects admission.ObjectInterfaces, served *snapshot.Served) expr.Target {
	c, read := attrs.(*connection)
	switch {
	case p.cfg.Targets == nil:
		return expr.Reached{Err: errNoTarget}
	case !read:
		return expr.Reached{Err: expr.ErrNotKnown}
	}
	return &reached{c, objects, served}
}

// reached is the target that was read, in the version that a condition is written for.
type reached struct {
	*connection
	objects admission.ObjectInterfaces
	served  *snapshot.Served
}

// Target implements expr.Target.
func (r *reached) Target(apiVersion string) (runtime.Object, error) {
	resource := r.GetResource()
	own := schema.GroupVersionKind{Group: resource.Group, Version: resource.Version, Kind: r.served.OwnKind(resource.GroupResource())}
	seen, err := r.served.Seen(own, apiVersion)
	if err != nil {
		return nil, err
	}
	return admission.ConvertToGVK(r.target, seen, r.objects)
}

// waits reports whether the decision on a connection depends on its target, which was not read yet: a condition asked
// for it. The outcome without the target is ignored. Nothing is recorded.
func (p *Plugin) waits(ctx context.Context, holder *requestctx.State, attrs admission.Attributes, objects admission.ObjectInterfaces) bool {
	if attrs.GetOperation() != admission.Connect || p.cfg.Targets == nil {
		return false
	}
	known := p.facts(holder, attrs, objects)
	if pending := holder.Get(requestctx.Request).Pending(); pending != nil {
		pending.Resolve(ctx, known)
	}
	if p.creates(holder) {
		p.cfg.Connect.Foresee(ctx, holder, known)
	}
	return known.data.NeededUnknown()
}

// reach decides a connection with its target. A target that does not meet the conditions, cannot be read or does not
// exist gets the same answer.
func (p *Plugin) reach(ctx context.Context, holder *requestctx.State, attrs admission.Attributes, objects admission.ObjectInterfaces) error {
	resource := attrs.GetResource().GroupResource()
	name := connect.Name(connect.Of(resource.Group, resource.Resource, attrs.GetSubresource()), attrs.GetName())
	c := &connection{Attributes: attrs, plugin: p, holder: holder, objects: objects}
	target, err := p.cfg.Targets.Target(ctx, resource, attrs.GetNamespace(), name)
	if err == nil {
		err = c.Decide(ctx, target)
	} else {
		annotate(ctx, requestctx.Outcome{Decision: authorizer.DecisionNoOpinion, Detail: err})
	}
	if err != nil {
		return apierrors.NewNotFound(resource, name)
	}
	holder.Connects(c)
	return nil
}

// connection is the admission of a connection together with its target.
type connection struct {
	admission.Attributes
	plugin  *Plugin
	holder  *requestctx.State
	objects admission.ObjectInterfaces

	mu     sync.Mutex
	target runtime.Object
	err    error // of that state
}

var _ requestctx.Connection = (*connection)(nil)

// Resource implements requestctx.Connection.
func (c *connection) Resource() schema.GroupResource { return c.GetResource().GroupResource() }

// Decide admits the connection completely on the first state, and decides again on each other state that is read.
func (c *connection) Decide(ctx context.Context, target runtime.Object) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.target == nil
	if !first && same(c.target, target) {
		return c.err
	}
	c.target = target
	var by denial.By
	if first {
		by, c.err = c.plugin.validate(ctx, c.holder, c, c.objects)
	} else {
		by, c.err = c.plugin.admit(ctx, c.holder, c.plugin.facts(c.holder, c, c.objects), c.objects)
	}
	if c.err != nil {
		denial.Note(c.holder.Attributes(), by)
	}
	return c.err
}

func same(a, b runtime.Object) bool {
	x, err := meta.Accessor(a)
	if err != nil {
		return false
	}
	y, err := meta.Accessor(b)
	return err == nil && x.GetUID() == y.GetUID() && x.GetResourceVersion() == y.GetResourceVersion()
}
