package compare

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"proviso.dev/proviso/internal/engine/expr"
)

// evaluator is how the engine decides a condition or an atom.
type evaluator func(ctx context.Context, req *expr.Request, effect expr.Effect, data *expr.Data) (bool, error)

// world is one choice of values.
type world map[*node]any

// built makes the values of the variables from those of the nodes in it.
func (w world) built(vars map[string]*node) map[string]any {
	out := map[string]any{}
	for name, v := range vars {
		if value := w.value(v); value != absent {
			out[name] = value
		}
	}
	return out
}

func (w world) value(n *node) any {
	state, chosen := w[n]
	if !chosen {
		state = absent
		if len(n.kids) > 0 && n.structural() && n.parent == nil {
			state = inside
		}
	}
	if state != inside {
		return state
	}
	made := map[string]any{}
	for _, kid := range n.kids {
		if value := w.value(kid); value != absent {
			made[kid.name] = value
		}
	}
	return made
}

// witness is the world as a request with its objects.
func (s *search) witness(w world) *Witness {
	built := w.built(s.reader.vars)
	object := func(name string, exists bool) map[string]any {
		if !exists {
			return nil
		}
		m, _ := built[name].(map[string]any)
		if m == nil {
			m = map[string]any{}
		}
		return m
	}
	out := &Witness{
		Object: object("object", s.universe.Object != nil), OldObject: object("oldObject", s.universe.OldObject != nil),
		Options: object("options", true), Target: object("target", s.universe.Connects), Namespace: object("namespaceObject", s.universe.Namespaced),
	}
	request, _ := built["request"].(map[string]any)
	out.Request = s.request("request", request)
	out.align()
	if s.universe.Impersonated {
		impersonated, _ := built["impersonatedRequest"].(map[string]any)
		out.Impersonated = s.request("impersonatedRequest", impersonated)
	}
	return out
}

// align gives the request and both versions one name and namespace.
func (w *Witness) align() {
	object := w.Object
	if object == nil {
		object = w.OldObject
	}
	meta, _ := object["metadata"].(map[string]any)
	for _, field := range []string{"name", "namespace"} {
		value, _ := meta[field].(string)
		if value == "" {
			continue
		}
		if field == "name" {
			w.Request.Name = value
		}
		if w.Object != nil && w.OldObject != nil {
			old, _ := w.OldObject["metadata"].(map[string]any)
			if old == nil {
				old = map[string]any{}
				w.OldObject["metadata"] = old
			}
			old[field] = value
		}
	}
}

// request makes a request; what the world does not say is as it is known.
func (s *search) request(name string, values map[string]any) *expr.Request {
	text := func(field string) string {
		if v, ok := values[field].(string); ok {
			return v
		}
		v, _ := s.universe.Known[name+"."+field].(string)
		return v
	}
	texts := func(v any) (out []string) {
		list, _ := v.([]any)
		for _, e := range list {
			if t, ok := e.(string); ok {
				out = append(out, t)
			}
		}
		return out
	}
	r := &expr.Request{User: text("user"), UID: text("uid"), Verb: text("verb"), APIGroup: text("apiGroup"), APIVersion: text("apiVersion"), Resource: text("resource"),
		Subresource: text("subresource"), Namespace: text("namespace"), Name: text("name")}
	r.Time, _ = time.Parse(time.RFC3339, text("time"))
	groups, chosen := values["groups"]
	if !chosen {
		groups = s.universe.Known[name+".groups"]
	}
	r.Groups = texts(groups)
	extra, _ := values["extra"].(map[string]any)
	for k, v := range extra {
		if r.Extra == nil {
			r.Extra = map[string][]string{}
		}
		r.Extra[k] = texts(v)
	}
	return r
}

// Data is what admission would know about the witness.
func (w *Witness) Data(operation string, ownKind bool) *expr.Data {
	cfg := expr.DataConfig{Operation: operation, OwnKind: ownKind, Impersonated: w.Impersonated}
	objects := expr.Static{}
	if w.Object != nil {
		objects.New = &unstructured.Unstructured{Object: w.Object}
	}
	if w.OldObject != nil {
		objects.Old = &unstructured.Unstructured{Object: w.OldObject}
	}
	cfg.Objects = objects
	if w.Options != nil {
		cfg.Options = &unstructured.Unstructured{Object: w.Options}
	}
	if w.Target != nil {
		cfg.Target = expr.Reached{Object: &unstructured.Unstructured{Object: w.Target}}
	}
	if w.Namespace != nil {
		cfg.Namespace = func() (runtime.Object, error) { return &unstructured.Unstructured{Object: w.Namespace}, nil }
	}
	return expr.NewData(cfg)
}

// tried evaluates an atom in a world in which one path has a value and all that leads to it exists.
func (s *search) tried(a *atom, n *node, value any) ternary {
	w := world{n: value}
	for up := n.parent; up != nil; up = up.parent {
		w[up] = inside
	}
	return s.asked(a, w)
}

// asked evaluates an atom.
func (s *search) asked(a *atom, w world) ternary {
	s.steps++
	witness := s.witness(w)
	holds, err := a.holds(s.ctx, witness.Request, expr.Allow, witness.Data(s.universe.Operation, s.universe.OwnKind))
	switch {
	case err != nil:
		return fails
	case holds:
		return yes
	}
	return no
}

// allows decides a witness with the conditions themselves.
func (s *search) allows(a Access, w *Witness) bool {
	for _, step := range a.steps() {
		holds, err := true, error(nil)
		if step.Condition != nil {
			holds, err = step.Condition.Evaluate(s.ctx, w.Request, step.effect(), w.Data(s.universe.Operation, s.universe.OwnKind))
		}
		if holds || err != nil && step.Deny {
			return !step.Deny
		}
	}
	return false
}
