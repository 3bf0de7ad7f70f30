package expr

import (
	"context"
	"errors"
)

// whereFinding concludes from a partial evaluation of a where.
//
// An allow needs a version of the object that is of the resource's own kind, so
// it is never True before admission. A deny applies where the expression is
// true or fails, so skipping a part that may fail does not invalidate True.
func (p *Program) whereFinding(r partial, req *Request, effect Effect) Finding {
	if effect == Allow {
		switch {
		case r.truth == False:
			return Decided(false)
		case r.truth == Failed && !r.touched:
			return DecidedError(r.err)
		default:
			return Undecided(p, req, effect)
		}
	}
	switch {
	case r.truth == True:
		return Decided(true)
	case r.truth == False && !r.touched:
		return Decided(false)
	case r.truth == Failed && !r.touched:
		return Finding{truth: True, err: r.err}
	default:
		return Undecided(p, req, effect)
	}
}

// evaluateWhere evaluates the expression for the stored and for the new object, whichever exist. On a connection that
// the rule names, the only version is the target; on other connections there is none.
func (p *Program) evaluateWhere(ctx context.Context, req *Request, effect Effect, data *Data) (bool, error) {
	var existing [2]*loaded
	n := 0
	if p.AimsAt(req) {
		if l := data.loadTarget(p.apiVersion); l.obj != nil || l.err != nil {
			existing[0], n = l, 1
		}
	} else if data.OwnKind() {
		for _, l := range [2]*loaded{data.loadOldObject(p.apiVersion), data.loadObject(p.apiVersion)} {
			if l.obj != nil || l.err != nil {
				existing[n] = l
				n++
			}
		}
	}
	if effect == Allow {
		return p.everyVersion(ctx, req, data, existing[:n])
	}
	return p.anyVersion(ctx, req, data, existing[:n])
}

// everyVersion is the where of an allow: old && new, and at least one of them. As with &&, a false version outweighs
// one that fails. An unknown version, whatever it is, cannot undo the failure of the other.
func (p *Program) everyVersion(ctx context.Context, req *Request, data *Data, vs []*loaded) (bool, error) {
	var failure error
	for _, v := range vs {
		if failure != nil && errors.Is(v.err, ErrNotKnown) {
			break
		}
		ok, err := p.version(ctx, req, data, v)
		if err != nil {
			failure = err
		} else if !ok {
			return false, nil
		}
	}
	return len(vs) > 0 && failure == nil, failure
}

// anyVersion is the where of a deny: it applies if any version matches or fails. It must not be possible to evade a
// deny because its object is not available, so having no version at all counts as one that cannot be read.
func (p *Program) anyVersion(ctx context.Context, req *Request, data *Data, vs []*loaded) (bool, error) {
	if len(vs) == 0 {
		vs = []*loaded{{err: errNoVersion}}
	}
	for _, v := range vs {
		ok, err := p.version(ctx, req, data, v)
		if err != nil {
			if e, ok := errors.AsType[*EvalError](err); ok {
				data.failures = append(data.failures, e)
			}
			return true, nil
		}
		if ok {
			return true, nil
		}
	}
	return false, nil
}

// version evaluates the expression for one version.
func (p *Program) version(ctx context.Context, req *Request, data *Data, v *loaded) (bool, error) {
	return p.run(ctx, &activation{req: req, data: data, version: p.apiVersion, resource: v, loadErr: v.err})
}
