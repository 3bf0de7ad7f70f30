package policyreview

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/analysis/compare"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// maxTries is how many changed objects one remedy decides about: some milliseconds.
const maxTries = 2000

// change is the smallest change of the object with which the request is allowed. What could be changed is what the
// conditions look at, found as a plan finds its witnesses; whether it helps, the decision itself says. Of an update
// only the new object can be changed.
func (q *inquiry) change(ctx context.Context, steps []*traced) []authz.FieldChange {
	if q.Comparer == nil || q.content == nil || !q.content.own {
		return nil
	}
	walk := compare.Access{}
	for _, t := range steps {
		for _, rule := range t.rules {
			if rule.Condition != nil && rule.Known == expr.Unresolved {
				walk.Walk = append(walk.Walk, compare.Step{Condition: rulecondition.Of(rule.Hit).Condition, Deny: rule.Hit.Effect() == ruleset.Denies})
			}
		}
	}
	guarded := slices.ContainsFunc(steps, func(t *traced) bool {
		return t.Link.Authorizer == nil && t.shown.Answer == authz.AnswerDeny
	})
	if len(walk.Walk) == 0 && !guarded {
		return nil // nothing looks at the object
	}
	edits, whole, err := q.Comparer.Edits(ctx, walk, q.universe(), q.witness())
	if err != nil {
		return nil
	}
	if guarded {
		edits = append(edits, q.withoutAttributes()...)
	}
	var out []authz.FieldChange
	allowed := func(edits []compare.Edit) bool { return q.allowedWith(ctx, edits) }
	for _, e := range compare.Smallest(edits, whole, maxTries, allowed) {
		shown := authz.FieldChange{Path: e.String()}
		if !e.Remove {
			value, err := json.Marshal(e.Value)
			if err != nil {
				return nil
			}
			shown.Value = string(value)
		}
		out = append(out, shown)
	}
	return out
}

// universe is the requests among which a change is looked for: this one.
func (q *inquiry) universe() compare.Universe {
	operation, shape := string(q.content.operation), compare.Unknown()
	u := compare.Of(operation, shape)
	if q.content.operation == operationGet {
		u.Object, u.OldObject = shape, shape
	}
	a := q.attrs
	u.OwnKind, u.Namespaced = true, a.Namespace != ""
	groups := make([]any, 0, len(a.User.GetGroups()))
	for _, g := range a.User.GetGroups() {
		groups = append(groups, g)
	}
	u.Known = map[string]any{"request.user": a.User.GetName(), "request.uid": a.User.GetUID(), "request.groups": groups, "request.verb": a.Verb,
		"request.apiGroup": a.APIGroup, "request.apiVersion": a.APIVersion, "request.resource": a.Resource, "request.subresource": a.Subresource,
		"request.namespace": a.Namespace, "request.name": a.Name}
	return u
}

// witness is the request as it was asked about.
func (q *inquiry) witness() *compare.Witness {
	w := &compare.Witness{}
	if q.content.operation != admission.Delete {
		w.Object = q.content.object.Object
	}
	switch {
	case q.content.operation == admission.Create:
	case q.content.old != nil:
		w.OldObject = q.content.old.object.Object
	default:
		w.OldObject = q.content.object.Object
	}
	return w
}

// withoutAttributes are the edits that undo what guards refuse: labels and annotations as they are stored.
func (q *inquiry) withoutAttributes() (groups [][]compare.Edit) {
	for _, kept := range []struct {
		field string
		of    func(*unstructured.Unstructured) map[string]string
	}{{"labels", (*unstructured.Unstructured).GetLabels}, {"annotations", (*unstructured.Unstructured).GetAnnotations}} {
		var before map[string]string
		if q.content.old != nil {
			before = kept.of(q.content.old.object)
		}
		now := kept.of(q.content.object)
		for _, name := range slices.Sorted(maps.Keys(now)) {
			if old, had := before[name]; !had || old != now[name] {
				groups = append(groups, []compare.Edit{{Path: []any{"metadata", kept.field, name}, Value: old, Remove: !had}})
			}
		}
		for _, name := range slices.Sorted(maps.Keys(before)) {
			if _, has := now[name]; !has {
				groups = append(groups, []compare.Edit{{Path: []any{"metadata", kept.field, name}, Value: before[name]}})
			}
		}
	}
	return groups
}

// allowedWith decides the request with a changed object.
func (q *inquiry) allowedWith(ctx context.Context, edits []compare.Edit) bool {
	changed := *q.content
	changed.object = &unstructured.Unstructured{Object: compare.Apply(q.content.object.Object, edits)}
	if changed.operation == admission.Update && changed.old == nil {
		changed.old = q.content // what is stored stays
	}
	if _, err := changed.convert(""); err != nil {
		return false
	}
	for _, verb := range append([]string{q.attrs.Verb}, q.besides...) {
		other := *q
		other.content, other.attrs.Verb = &changed, verb
		if decision, _, err := other.decide(ctx); err != nil || decision != authorizer.DecisionAllow {
			return false
		}
	}
	return ctx.Err() == nil
}

// hasGuards reports whether a trace shows what the enforcer refuses, whose rules have no role that could be seen.
func hasGuards(trace *authz.DecisionTrace) bool {
	return slices.ContainsFunc(trace.Authorizers, func(a authz.AuthorizerTrace) bool { return len(a.Conditions) > 0 })
}
