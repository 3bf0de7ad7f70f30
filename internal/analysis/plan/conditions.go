package plan

import (
	"context"
	"slices"
	"strings"

	"proviso.dev/proviso/internal/analysis/compare"
	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// operations are what admission calls the verbs that have an object.
var operations = map[string]string{"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE", "deletecollection": "DELETE"}

// compare compares what depends on conditions. An update or patch of an object that does not exist creates it: then its
// conditions see a CREATE without a stored object.
func (p *planner) compare(ctx context.Context, r Resource, a Action, subject ruleset.Subject, x, y compare.Access) compare.Result {
	operation := operations[a.Verb]
	if connects(a) {
		operation = "CONNECT"
	}
	if operation == "" || a.Path != "" {
		// A read sends no object: it depends on selectors, which are not among what is compared.
		return compare.Result{Relation: compare.Unclear, Why: "a request without an object is decided by its selectors or options"}
	}
	result := p.compareIn(ctx, operation, r, a, subject, x, y)
	if operation != "UPDATE" || a.Subresource != "" || !p.creates(r, a, subject) {
		return result
	}
	return both(result, func() compare.Result { return p.compareIn(ctx, "CREATE", r, a, subject, x, y) })
}

// connects reports whether an action opens a connection, whose conditions see options and a target and no object.
func connects(a Action) bool {
	return connect.StandsIn(a.Verb) || connect.Of(a.Group, a.Resource, a.Subresource) != connect.None
}

// Target is the shape of what connections to a resource go to: an object of it; nil if nothing is known of that.
func Target(resources []Resource, group, resource string) *compare.Shape {
	i := slices.IndexFunc(resources, func(r Resource) bool { return r.Group == group && r.Resource == resource && r.Subresource == "" })
	if i < 0 || resources[i].Shape == nil {
		return nil
	}
	shape := resources[i].Shape.Stored()
	if resources[i].Namespaced {
		shape = shape.Placed()
	}
	return shape
}

// creates reports whether a subject may create such objects before or after, or may be a subject that does: a member of
// a group who may.
func (p *planner) creates(r Resource, a Action, subject ruleset.Subject) bool {
	a.Verb = "create"
	attrs := p.asked(a, r)
	for _, ix := range []*ruleset.Index{p.Before, p.After} {
		if standing(ix, attrs, subject).Certainty != ruleset.Never {
			return true
		}
		some := false
		ix.Everyone(attrs, func(h ruleset.Hit) {
			other := h.Subject()
			some = some || h.Effect() == ruleset.Allows && (other.Group || subject.Group) && !strings.HasPrefix(other.Name, "system:")
		})
		if some {
			return true
		}
	}
	return false
}

// both puts together what is so of two kinds of requests.
func both(first compare.Result, other func() compare.Result) compare.Result {
	if first.Relation == compare.Neither {
		return first
	}
	second := other()
	switch {
	case second.Relation == first.Relation || second.Relation == compare.Equivalent:
		return first
	case first.Relation == compare.Equivalent || second.Relation == compare.Neither:
		return second
	case first.Relation == compare.Unclear:
		return first
	case second.Relation == compare.Unclear:
		return second
	}
	first.Relation = compare.Neither // wider for one and narrower for the other
	if first.Gained == nil {
		first.Gained = second.Gained
	}
	if first.Lost == nil {
		first.Lost = second.Lost
	}
	return first
}

// compareIn compares for one operation. What is not known of the subject stays open: the other groups of a user, and
// who the members of a group are.
func (p *planner) compareIn(ctx context.Context, operation string, r Resource, a Action, subject ruleset.Subject, x, y compare.Access) compare.Result {
	shape := r.Shape
	if shape == nil {
		shape = compare.Unknown()
	}
	if r.Own && operation != "CREATE" {
		shape = shape.Stored()
	}
	u := compare.Of(operation, shape)
	namespace := a.target().InNamespace()
	u.Connects, u.Target = connects(a), Target(p.Resources, a.Group, a.Resource)
	u.OwnKind, u.Namespaced = r.Own, namespace != "" || a.target().IsNamespace()
	u.Known = map[string]any{"request.verb": a.Verb, "request.apiGroup": a.Group, "request.apiVersion": r.Version, "request.resource": a.Resource, "request.subresource": a.Subresource}
	versions := map[string][]string{"CREATE": {"object"}, "UPDATE": {"object", "oldObject"}, "DELETE": {"oldObject"}}[operation]
	if namespace != Other && (namespace != "" || !a.target().IsNamespace()) { // else it is some namespace
		u.Known["request.namespace"] = p.asked(a, r).Namespace
	}
	for _, version := range versions { // a write changes neither the name nor the namespace
		if a.Namespace != Other && a.Namespace != "" && r.Own {
			u.Known[version+".metadata.namespace"] = a.Namespace
		}
		if a.Name != "" && r.Own {
			u.Known[version+".metadata.name"] = a.Name
		}
	}
	if !subject.Group {
		u.Known["request.user"] = subject.Name
	}
	return p.Comparer.Compare(ctx, x, y, u)
}

// access returns the conditions of a standing, as a walk.
func access(s ruleset.Standing) compare.Access {
	walk := []compare.Step{}
	for _, h := range s.Conditions {
		condition := rulecondition.Of(h).Condition
		if names := h.Names(); names != nil {
			condition = rulecondition.Named(names, condition)
		}
		walk = append(walk, compare.Step{Condition: condition, Deny: h.Effect() == ruleset.Denies})
	}
	if s.Certainty == ruleset.Always || s.Certainty == ruleset.Sometimes && s.Allow.Found() && !s.Deny.Found() {
		walk = append(walk, compare.Step{})
	}
	return compare.Access{Walk: walk}
}

// looks is what the conditions of a comparison look at in addition to the object. In doubt, a condition looks at
// everything.
type looks struct{ atUser, atNamespace bool }

func (l *looks) note(accesses ...compare.Access) {
	for _, a := range accesses {
		for _, step := range a.Walk {
			for _, part := range expr.Parts(step.Condition) {
				effect := expr.Allow
				if step.Deny {
					effect = expr.Deny
				}
				source := ""
				switch c := part.(type) {
				case *expr.Program:
					source = c.Source()
				case interface {
					Twin(effect expr.Effect) (source string, kind expr.Kind)
				}:
					source, _ = c.Twin(effect)
				}
				user, namespace := mentions(source)
				l.atUser, l.atNamespace = l.atUser || user, l.atNamespace || namespace
			}
		}
	}
}

// mentions reports whether an expression can look at who asks, and at a namespace. Of a request it is known by the
// field that is named; a request or metadata as a whole is everything.
func mentions(source string) (user, namespace bool) {
	source = strings.ToLower(source)
	if source == "" || strings.Contains(source, "authorizer") {
		return true, true
	}
	namespace = strings.Contains(source, "namespace")
	for _, whole := range []string{"request", "metadata"} {
		for rest := source; ; {
			_, behind, more := strings.Cut(rest, whole)
			if !more {
				break
			}
			rest = behind
			field := strings.TrimPrefix(strings.TrimPrefix(behind, "."), "?")
			end := strings.IndexFunc(field, func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' })
			if end >= 0 {
				field = field[:end]
			}
			switch {
			case !strings.HasPrefix(behind, ".") || field == "":
				user, namespace = user || whole == "request", true
			case whole == "request" && !known[field]:
				user = true
			}
		}
	}
	return user, namespace
}

// known are the fields of a request that say nothing about the caller, in lower case.
var known = map[string]bool{"verb": true, "apigroup": true, "apiversion": true, "resource": true, "subresource": true, "namespace": true, "name": true}
