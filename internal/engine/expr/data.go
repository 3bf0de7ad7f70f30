package expr

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/cel/common"
)

// Objects provides the versions of the object that a request touches. Each method is called at most once per apiVersion
// and request, and only if a condition asks for it.
type Objects interface {
	// Object returns the new object converted to apiVersion of its group, or
	// to the preferred served version if apiVersion is empty; nil if the
	// request has none. It must fail rather than return another version.
	Object(apiVersion string) (runtime.Object, error)
	// OldObject does the same for the stored object.
	OldObject(apiVersion string) (runtime.Object, error)
}

// Target returns the target of a connection.
type Target interface {
	// Target returns the target, converted like Objects.
	Target(apiVersion string) (runtime.Object, error)
}

// Reached is a Target that returns the same object for every version.
type Reached struct {
	Object runtime.Object
	Err    error
}

// Target returns the object or the error.
func (r Reached) Target(string) (runtime.Object, error) { return r.Object, r.Err }

// DataConfig describes what admission knows about a request.
type DataConfig struct {
	// Operation is CREATE, UPDATE, DELETE or CONNECT.
	Operation string
	// Objects provides object and oldObject; nil means that there are none, as in a CONNECT.
	Objects Objects
	// OwnKind is true if the bodies are of the resource's own kind, and not a Scale, Eviction, Binding, TokenRequest or
	// connect options. Only then can a where be about them.
	OwnKind bool
	// Options are the options of the operation.
	Options runtime.Object
	// Target provides the target of a connection, converted like Objects; nil for other requests. It fails with
	// ErrNotKnown until the target was read.
	Target Target
	// Namespace returns the namespace of the object; nil for cluster-scoped ones. It is called at most once, and only
	// if a condition asks for it.
	Namespace func() (runtime.Object, error)
	// Impersonated is the impersonated request (CA-19); nil outside the impersonation filter.
	Impersonated *Request
	// Budget is the runtime cost that all conditions together may spend; 0
	// means Kubernetes' budget per policy.
	Budget int64
	// Shared is the budget to spend from instead, if the request has one.
	Shared *Budget
}

// ErrNotKnown is the error of Objects for an object that exists, or will exist, but is not known yet.
var ErrNotKnown = errors.New("the object is not known yet")

// Data is what admission knows, in the form that conditions read. Make one per request and evaluate all its conditions
// with it: loaded and converted objects are kept. It is not safe for concurrent use.
type Data struct {
	cfg       DataConfig
	object    versions
	oldObject *versions // fewer conditions ask for it
	target    *versions
	options   ref.Val
	namespace *loaded
	budget    *Budget
	own       Budget // unless it is shared
	failures  []*EvalError
	// room is memory for the condition that is being evaluated: conditions are evaluated one after the other.
	room activation
	busy bool
	// needed is set when a condition read an object that is not known.
	needed bool
}

// NewData makes the Data of one request.
func NewData(cfg DataConfig) *Data {
	return new(Data).Init(&cfg)
}

// Init initializes a zero Data for one request, for callers that have allocated it.
func (d *Data) Init(cfg *DataConfig) *Data {
	d.cfg, d.budget = *cfg, cfg.Shared
	if d.budget == nil {
		d.budget = d.own.fill(cfg.Budget)
	}
	return d
}

// InitAside initializes a zero Data for the same request with a separate budget, for evaluations that decide nothing:
// they must not spend what a decision needs.
func (d *Data) InitAside(of *Data) *Data {
	cfg := of.cfg
	cfg.Shared = nil
	return d.Init(&cfg)
}

// Budget returns the budget that all expressions of one request share.
func (d *Data) Budget() *Budget { return d.budget }

// OwnKind reports whether the bodies are of the resource's own kind.
func (d *Data) OwnKind() bool { return d.cfg.OwnKind }

// Operation returns the operation.
func (d *Data) Operation() string { return d.cfg.Operation }

// Object returns the new object in a version, for conditions written in Go; it
// is nil when there is none.
func (d *Data) Object(apiVersion string) (runtime.Object, error) {
	l := d.loadObject(apiVersion)
	d.unavailable(l.err)
	return l.obj, l.err
}

func (d *Data) unavailable(err error) { d.needed = d.needed || errors.Is(err, ErrNotKnown) }

// NeededUnknown reports whether a condition read an unknown object: another object might have led to another result.
func (d *Data) NeededUnknown() bool { return d.needed }

// OldObject does the same for the stored object.
func (d *Data) OldObject(apiVersion string) (runtime.Object, error) {
	l := d.loadOldObject(apiVersion)
	return l.obj, l.err
}

// Impersonated returns the impersonated request; nil outside the impersonation filter.
func (d *Data) Impersonated() *Request { return d.cfg.Impersonated }

// Target returns the target of a connection; nil for other requests.
func (d *Data) Target(apiVersion string) (runtime.Object, error) {
	l := d.loadTarget(apiVersion)
	d.unavailable(l.err)
	return l.obj, l.err
}

// Options returns the options of the operation; nil when there are none.
func (d *Data) Options() runtime.Object { return d.cfg.Options }

// Failures returns the failures that counted as a match on the way to a result, as in the where of a Deny: they belong
// in audit and metrics although no error was returned.
func (d *Data) Failures() []*EvalError { return d.failures }

// loaded is one version of one object.
type loaded struct {
	version string
	obj     runtime.Object
	val     ref.Val // for CEL, once it is asked for; see value
	err     error
}

// versions keeps the versions that were asked for: nearly always one, which is stored inline.
type versions struct {
	first loaded
	asked bool
	more  map[string]*loaded
}

// find returns the entry of a version, and whether it has to be loaded.
func (vs *versions) find(version string) (_ *loaded, fresh bool) {
	if !vs.asked {
		vs.asked, vs.first = true, loaded{version: version}
		return &vs.first, true
	}
	if vs.first.version == version {
		return &vs.first, false
	}
	if l := vs.more[version]; l != nil {
		return l, false
	}
	if vs.more == nil {
		vs.more = map[string]*loaded{}
	}
	l := &loaded{version: version}
	vs.more[version] = l
	return l, true
}

func (l *loaded) fill(obj runtime.Object, err error) {
	switch {
	case err != nil:
		l.err = err
	case !isNil(obj):
		l.obj = obj
	}
}

// value returns the object for CEL; null if there is none.
func (l *loaded) value() ref.Val {
	if l.val == nil {
		l.val = toValue(l.obj)
	}
	return l.val
}

func (d *Data) loadObject(version string) *loaded {
	l, fresh := d.object.find(version)
	if fresh && d.cfg.Objects != nil {
		l.fill(d.cfg.Objects.Object(version))
	}
	return l
}

func (d *Data) loadOldObject(version string) *loaded {
	if d.oldObject == nil {
		d.oldObject = new(versions)
	}
	l, fresh := d.oldObject.find(version)
	if fresh && d.cfg.Objects != nil {
		l.fill(d.cfg.Objects.OldObject(version))
	}
	return l
}

func (d *Data) loadTarget(version string) *loaded {
	if d.target == nil {
		d.target = new(versions)
	}
	l, fresh := d.target.find(version)
	if fresh && d.cfg.Target != nil {
		l.fill(d.cfg.Target.Target(version))
	}
	return l
}

func (d *Data) loadOptions() ref.Val {
	if d.options == nil {
		d.options = toValue(d.cfg.Options)
	}
	return d.options
}

func (d *Data) loadOperation() ref.Val { return types.String(d.cfg.Operation) }

func (d *Data) loadNamespace() (ref.Val, error) {
	if d.namespace == nil {
		d.namespace = &loaded{val: types.NullValue}
		if d.cfg.Namespace != nil {
			obj, err := d.cfg.Namespace()
			if err != nil {
				d.namespace.err = fmt.Errorf("namespace of the object: %w", err)
			} else {
				d.namespace.val = toValue(obj)
			}
		}
	}
	return d.namespace.val, d.namespace.err
}

// toValue wraps an object for CEL without copying it.
func toValue(obj runtime.Object) ref.Val {
	if isNil(obj) {
		return types.NullValue
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return types.DefaultTypeAdapter.NativeToValue(u.Object)
	}
	return common.SchemalessTypedToVal(obj)
}

// isNil also catches a nil pointer of a concrete type, which is how an absent
// object often arrives.
func isNil(obj runtime.Object) bool {
	if obj == nil {
		return true
	}
	v := reflect.ValueOf(obj)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// Static is an Objects that returns the same objects for every version: for bodies of reviews, and for tests.
type Static struct {
	New, Old runtime.Object
}

// Object returns New.
func (s Static) Object(string) (runtime.Object, error) { return s.New, nil }

// OldObject returns Old.
func (s Static) OldObject(string) (runtime.Object, error) { return s.Old, nil }
