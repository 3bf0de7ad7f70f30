package enforce

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// facts is one admission as conditions see it. Objects are converted at most once per version, and only if a condition
// asks.
type facts struct {
	admission.Attributes
	data *expr.Data
	// own and converted back data, unless another component supplied it.
	own       expr.Data
	converted versions
	// path is the path of the URL, as the caller wrote it.
	path string
	// unreadable says why the options of a connection cannot be shown to conditions.
	unreadable error
	// evicted returns the deletion that an eviction stands for; nil for other requests.
	evicted func(context.Context) *expr.Data
	// aside are the same facts for rules that are not enforced, once they are asked for.
	aside *facts
	// reached is true if the fields were looked at, in this mode.
	reached bool
	mode    fieldperm.Mode
	// trial decides the request again for observers.
	trial trial
}

// Aside returns the same data for rules that are not enforced: all of them share one budget, which decisions do not
// use.
func (f *facts) Aside() authorizer.ConditionsData { return f.besides() }

func (f *facts) besides() *facts {
	if f.aside == nil {
		f.aside = &facts{Attributes: f.Attributes, path: f.path, unreadable: f.unreadable, evicted: f.evicted, reached: f.reached, mode: f.mode}
		f.aside.data = f.aside.own.InitAside(f.data)
	}
	return f.aside
}

var _ authorize.Facts = (*facts)(nil)

// Expr returns the data for CEL.
func (f *facts) Expr() *expr.Data { return f.data }

// GetObject and GetOperationOptions are for conditions of other authorizers. Admission has the options of a connection
// as its object; a condition sees them as options, and no object (CA-9).
func (f *facts) GetObject() runtime.Object {
	if f.GetOperation() == admission.Connect {
		return nil
	}
	return f.Attributes.GetObject()
}

// GetOperationOptions implements authorizer.ConditionsData.
func (f *facts) GetOperationOptions() runtime.Object { return f.data.Options() }

var _ authorize.Evicting = (*facts)(nil)

// Evicted is the deletion of the pod. Without an object, every condition about it fails, and a deny that fails denies.
func (f *facts) Evicted(ctx context.Context) *expr.Data {
	if f.evicted == nil {
		return expr.NewData(expr.DataConfig{Operation: string(admission.Delete), Objects: onlyOld{func(string) (runtime.Object, error) {
			return nil, errors.New("the pod is not known")
		}}, OwnKind: true})
	}
	return f.evicted(ctx)
}

func (p *Plugin) facts(holder *requestctx.State, attrs admission.Attributes, objects admission.ObjectInterfaces) *facts {
	served := holder.Snapshot.Served
	resource := attrs.GetResource().GroupResource()
	f := &facts{Attributes: attrs, converted: versions{attrs: attrs, objects: objects, served: served}}
	f.trial = trial{plugin: p, holder: holder, known: f, objects: objects}
	cfg := expr.DataConfig{
		Operation: string(attrs.GetOperation()),
		Objects:   &f.converted,
		Options:   attrs.GetOperationOptions(),
		OwnKind: attrs.GetKind().Kind == served.OwnKind(resource) && attrs.GetKind().Group == resource.Group &&
			attrs.GetOperation() != admission.Connect,
	}
	if attrs.GetOperation() == admission.Connect {
		// Connect admission has its options as the object, in the internal version, whose fields no expression can
		// name. Options that cannot be converted are missing; Trusted then does not let any condition decide.
		cfg.Options, f.unreadable = f.converted.Object("")
		cfg.Objects = nil
		cfg.Target = p.target(attrs, objects, served)
	}
	if name := attrs.GetNamespace(); name != "" && p.cfg.Namespaces != nil {
		cfg.Namespace = func() (runtime.Object, error) { return p.cfg.Namespaces.Namespace(name) }
	}
	f.data = f.own.Init(&cfg)
	if decided := holder.Attributes(); decided != nil {
		f.path = decided.GetPath()
	}
	if p.cfg.Effects != nil && evicts(attrs) {
		c := &cause{Effects: p.cfg.Effects, facts: f, holder: holder, objects: objects}
		f.evicted = func(ctx context.Context) *expr.Data {
			return c.deletion(ctx, c.GetNamespace(), c.read(ctx, pods, c.GetNamespace(), c.GetName()))
		}
	}
	return f
}

// lostError says that the version of a request does not show everything that a rule may look at. This fails closed.
func lostError(request, rule string) error {
	return fmt.Errorf("version %s of the resource does not show all that the rule about version %s may look at: send the request in the version in which objects are stored", request, rule)
}

// versions converts the objects of an admission to the version that a condition is written for: its own, or the
// preferred one of the group, whatever version the request uses. If the conversion fails, so does the condition.
type versions struct {
	attrs   admission.Attributes
	objects admission.ObjectInterfaces
	served  *snapshot.Served
}

func (v *versions) Object(apiVersion string) (runtime.Object, error) {
	return v.convert(v.attrs.GetObject(), apiVersion)
}

func (v *versions) OldObject(apiVersion string) (runtime.Object, error) {
	return v.convert(v.attrs.GetOldObject(), apiVersion)
}

func (v *versions) convert(object runtime.Object, apiVersion string) (runtime.Object, error) {
	if object == nil {
		return nil, nil
	}
	kind, err := v.served.Seen(v.attrs.GetKind(), apiVersion)
	if err != nil {
		return nil, err
	}
	if resource := v.attrs.GetResource(); kind.Group == resource.Group && v.served.Hides(resource.GroupResource(), v.attrs.GetKind().Version, kind.Version, apiVersion) {
		return nil, lostError(v.attrs.GetKind().Version, kind.Version)
	}
	return admission.ConvertToGVK(object, kind, v.objects)
}
