package readfilter

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Operation is what conditions see as the operation of a get. It changes nothing: object and oldObject are the state
// that is read.
const Operation authorizer.AdmissionOperation = "GET"

// facts is the object that was read, as conditions see it: the resource itself, whichever subresource the request is
// about.
type facts struct {
	attrs  authorizer.Attributes
	kind   schema.GroupVersionKind
	object runtime.Object
	data   *expr.Data
}

var _ authorize.Facts = (*facts)(nil)

func (s *store) facts(ctx context.Context, r *reading, object runtime.Object) *facts {
	served := r.holder.Snapshot.Served
	asked := schema.GroupResource{Group: r.attrs.GetAPIGroup(), Resource: r.attrs.GetResource()}
	f := &facts{attrs: r.attrs, object: object, kind: schema.GroupVersionKind{Group: asked.Group, Version: r.attrs.GetAPIVersion(), Kind: served.OwnKind(asked)}}
	cfg := expr.DataConfig{
		Operation: string(Operation), OwnKind: f.kind.Kind != "", Shared: expr.BudgetOf(ctx),
		Objects: &versions{object: object, kind: f.kind, served: served, converted: served.Converted(asked), convert: s.convert},
	}
	if name := r.attrs.GetNamespace(); name != "" && s.stores.cfg.Namespaces != nil {
		cfg.Namespace = func() (runtime.Object, error) { return s.stores.cfg.Namespaces.Namespace(name) }
	}
	f.data = expr.NewData(cfg)
	return f
}

// Trusted implements authorize.Facts.
func (f *facts) Trusted() error { return nil }

// Expr implements authorize.Facts.
func (f *facts) Expr() *expr.Data { return f.data }

func (f *facts) GetName() string                             { return f.attrs.GetName() }
func (f *facts) GetNamespace() string                        { return f.attrs.GetNamespace() }
func (f *facts) GetSubresource() string                      { return f.attrs.GetSubresource() }
func (f *facts) GetUserInfo() user.Info                      { return f.attrs.GetUser() }
func (f *facts) GetObject() runtime.Object                   { return f.object }
func (f *facts) GetOldObject() runtime.Object                { return f.object }
func (f *facts) IsDryRun() bool                              { return false }
func (f *facts) GetKind() schema.GroupVersionKind            { return f.kind }
func (f *facts) GetOperation() authorizer.AdmissionOperation { return Operation }
func (f *facts) GetOperationOptions() runtime.Object         { return nil }
func (f *facts) GetResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: f.attrs.GetAPIGroup(), Version: f.attrs.GetAPIVersion(), Resource: f.attrs.GetResource()}
}

// versions gives the object in the version that a condition is written for. What cannot be converted fails.
type versions struct {
	object    runtime.Object
	kind      schema.GroupVersionKind
	served    *snapshot.Served
	converted bool
	convert   Converter
}

// Object implements expr.Objects.
func (v *versions) Object(apiVersion string) (runtime.Object, error) {
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

// OldObject implements expr.Objects: nothing changes.
func (v *versions) OldObject(apiVersion string) (runtime.Object, error) { return v.Object(apiVersion) }
