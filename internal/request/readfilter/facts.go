package readfilter

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Operation is what conditions see as the operation of a get. A get changes nothing: object and oldObject are both the
// state that is read.
const Operation authorizer.AdmissionOperation = "GET"

// State is a stored state on which conditions are evaluated, and where it comes from.
type State struct {
	Holder *requestctx.State
	// Attributes are the request that is decided, which may differ from the request that is served.
	Attributes authorizer.Attributes
	// Operation is what conditions see. A deletion has no new object.
	Operation authorizer.AdmissionOperation
	Object    runtime.Object
	// Changes is true if an unknown new object replaces the state: conditions that look at the new object fail.
	Changes bool
	// Convert is nil for custom resources.
	Convert Converter
	// Namespaces finds a namespace for conditions that look at it; nil lets those conditions fail.
	Namespaces authorize.Namespaces
}

// Facts is a stored state as conditions see it: the resource itself, whichever subresource the request is about.
func Facts(ctx context.Context, s State) authorizer.ConditionsData {
	return newFacts(s, expr.BudgetOf(ctx))
}

func newFacts(s State, shared *expr.Budget) *facts {
	served := s.Holder.Snapshot.Served
	asked := schema.GroupResource{Group: s.Attributes.GetAPIGroup(), Resource: s.Attributes.GetResource()}
	f := &facts{State: s, kind: schema.GroupVersionKind{Group: asked.Group, Version: s.Attributes.GetAPIVersion(), Kind: served.OwnKind(asked)}}
	objects := &versions{object: s.Object, kind: f.kind, resource: asked.Resource, served: served, converted: served.Converted(asked), convert: s.Convert, gone: f.gone(), changes: s.Changes}
	cfg := expr.DataConfig{Operation: string(s.Operation), OwnKind: f.kind.Kind != "", Shared: shared, Objects: objects}
	if name := s.place(); name != "" && s.Namespaces != nil {
		cfg.Namespace = func() (runtime.Object, error) { return s.Namespaces.Namespace(name) }
	}
	f.data = expr.NewData(cfg)
	return f
}

// place is the namespace of the object. A list over all namespaces does not name it.
func (s *State) place() string {
	if name := s.Attributes.GetNamespace(); name != "" {
		return name
	}
	m, err := meta.Accessor(s.Object)
	if err != nil {
		return ""
	}
	if s.Attributes.GetAPIGroup() == "" && s.Attributes.GetResource() == "namespaces" {
		return m.GetName() // as for a request about one of them
	}
	return m.GetNamespace()
}

type facts struct {
	State
	kind schema.GroupVersionKind
	data *expr.Data
	// guessed is set if an unknown new object was treated as missing.
	guessed bool
}

// Certain reports whether a decision with these facts holds for every new object: no condition of our rules needed the
// object, and no other evaluator of conditions treated it as missing.
func Certain(data authorizer.ConditionsData) bool {
	f, ok := data.(*facts)
	return ok && !f.guessed && !f.data.NeededUnknown()
}

var _ authorize.Facts = (*facts)(nil)

func (s *store) facts(ctx context.Context, r *reading, object runtime.Object) authorizer.ConditionsData {
	return Facts(ctx, State{Holder: r.holder, Attributes: r.attrs, Operation: Operation, Object: object, Convert: s.convert, Namespaces: s.stores.cfg.Namespaces})
}

// member returns the state of one object of a list or watch. It has its own budget, as in a get.
func (s *store) member(r *reading, object runtime.Object) authorizer.ConditionsData {
	return newFacts(State{Holder: r.holder, Attributes: r.attrs, Operation: Operation, Object: object, Convert: s.shared, Namespaces: s.stores.places}, nil)
}

// gone reports whether the state is one that is deleted.
func (f *facts) gone() bool { return f.Operation == admission.Delete }

// Trusted implements authorize.Facts.
func (f *facts) Trusted() error { return nil }

// Expr implements authorize.Facts.
func (f *facts) Expr() *expr.Data { return f.data }

func (f *facts) GetName() string        { return f.Attributes.GetName() }
func (f *facts) GetNamespace() string   { return f.Attributes.GetNamespace() }
func (f *facts) GetSubresource() string { return f.Attributes.GetSubresource() }
func (f *facts) GetUserInfo() user.Info { return f.Attributes.GetUser() }
func (f *facts) GetObject() runtime.Object {
	if f.Changes {
		f.guessed = true
	}
	if f.gone() || f.Changes {
		return nil
	}
	return f.Object
}
func (f *facts) GetOldObject() runtime.Object                { return f.Object }
func (f *facts) IsDryRun() bool                              { return false }
func (f *facts) GetKind() schema.GroupVersionKind            { return f.kind }
func (f *facts) GetOperation() authorizer.AdmissionOperation { return f.Operation }
func (f *facts) GetOperationOptions() runtime.Object         { return nil }
func (f *facts) GetResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: f.Attributes.GetAPIGroup(), Version: f.Attributes.GetAPIVersion(), Resource: f.Attributes.GetResource()}
}

// versions provides the object in the version that a condition is written for. A failed conversion is an error.
type versions struct {
	object    runtime.Object
	kind      schema.GroupVersionKind
	resource  string
	served    *snapshot.Served
	converted bool
	convert   Converter
	// gone is set for a deletion: there is an old object only.
	gone bool
	// changes is set for a change: the new object is not known.
	changes bool
}

// Object implements expr.Objects.
func (v *versions) Object(apiVersion string) (runtime.Object, error) {
	switch {
	case v.gone:
		return nil, nil
	case v.changes:
		return nil, expr.ErrNotKnown
	}
	return v.OldObject(apiVersion)
}

// OldObject implements expr.Objects.
func (v *versions) OldObject(apiVersion string) (runtime.Object, error) {
	seen, err := v.served.Seen(v.kind, apiVersion)
	if err != nil {
		return nil, err
	}
	if v.convert != nil {
		return v.convert.ConvertToVersion(v.object, seen.GroupVersion())
	}
	u, ok := v.object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("a custom resource is read as %T", v.object)
	}
	if v.served.Hides(schema.GroupResource{Group: v.kind.Group, Resource: v.resource}, v.kind.Version, seen.Version, apiVersion) {
		return nil, fmt.Errorf("version %s of the resource does not show all that the condition about version %s may look at", v.kind.Version, seen.Version)
	}
	if seen.Version != v.kind.Version {
		if v.converted {
			return nil, fmt.Errorf("a webhook converts the versions of the resource: the condition is about %s, and the request about %s", seen.Version, v.kind.Version)
		}
		renamed := &unstructured.Unstructured{Object: make(map[string]any, len(u.Object))}
		for name, value := range u.Object {
			renamed.Object[name] = value
		}
		renamed.SetAPIVersion(seen.GroupVersion().String())
		return renamed, nil
	}
	return u, nil
}
