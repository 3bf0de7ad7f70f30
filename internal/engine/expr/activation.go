package expr

import (
	"errors"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// unknown stands for everything that only admission knows. cel-go carries it through every operation that cannot be
// decided without it; which variable it was does not matter, so one value serves for all.
var unknown = types.NewUnknown(0, nil)

var errNoVersion = errors.New("the request has no version of the object that is of the resource's own kind")

// activation gives an expression its variables. The same planned program serves both steps: without data, the later
// variables are unknown, and reading one is recorded.
type activation struct {
	req      *Request
	data     *Data
	version  string
	resource *loaded      // the version that a where is about
	touched  bool         // a later variable was read while it is unknown
	loadErr  error        // why a variable could not be had
	meter    *meter       // of this evaluation, if its cost is tracked or its turns are counted
	field    *FieldValues // instead of data, for a field permission
	limit    uint64       // of this evaluation, if it is lower than the planner's; 0 if it is not
}

// within returns the limit of an evaluation.
func (a *activation) within(limit uint64) uint64 {
	if a.limit != 0 {
		return min(a.limit, limit)
	}
	return limit
}

// ResolveName implements interpreter.Activation.
func (a *activation) ResolveName(name string) (any, bool) {
	if name == varRequest {
		a.touched = a.touched || a.req.Unidentified()
		return (*requestValue)(a.req), true
	}
	if name == meterVar {
		return a.meter, true
	}
	if a.field != nil {
		return a.field.resolve(name)
	}
	if a.data == nil {
		switch name {
		case varObject, varOldObject, varOptions, varTarget, varOperation, varNamespace, varImpersonated, varResource:
			a.touched = true
			return unknown, true
		}
		return nil, false
	}
	switch name {
	case varResource:
		if a.resource == nil {
			return nil, false
		}
		return a.loaded(a.resource)
	case varObject:
		return a.loaded(a.data.loadObject(a.version))
	case varOldObject:
		return a.loaded(a.data.loadOldObject(a.version))
	case varOptions:
		return a.data.loadOptions(), true
	case varTarget:
		return a.loaded(a.data.loadTarget(a.version))
	case varOperation:
		return a.data.loadOperation(), true
	case varNamespace:
		ns, err := a.data.loadNamespace()
		if err != nil {
			return a.unavailable(err), true
		}
		return ns, true
	case varImpersonated:
		if a.data.cfg.Impersonated == nil {
			return types.NullValue, true
		}
		return (*impersonatedValue)(a.data.cfg.Impersonated), true
	case sourceObject:
		return source(a.data.loadObject(a.version))
	case sourceOldObject:
		return source(a.data.loadOldObject(a.version))
	case sourceResource:
		return source(a.resource)
	}
	return nil, false
}

// source returns an object in its original form, for code that can read it; see path.
func source(l *loaded) (any, bool) {
	if l == nil || l.obj == nil {
		return nil, false
	}
	return l.obj, true
}

func (a *activation) loaded(l *loaded) (any, bool) {
	if l.err != nil {
		return a.unavailable(l.err), true
	}
	return l.value(), true
}

// unavailable makes reading the variable an error, which fails the condition
// unless the expression is decided without it.
func (a *activation) unavailable(err error) ref.Val {
	a.loadErr = err
	a.data.unavailable(err)
	return types.WrapErr(err)
}

// Parent implements interpreter.Activation.
func (a *activation) Parent() interpreter.Activation { return nil }
