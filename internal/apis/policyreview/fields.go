package policyreview

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// FieldRights decides by rights to single fields, as the enforcer does (FP-21).
type FieldRights interface {
	// Covered decides whether a caller without the verb of a write may change all that it changes.
	Covered(ctx context.Context, w FieldWrite) fieldperm.Result
}

// FieldWrite is a write in a question.
type FieldWrite struct {
	Snapshot *snapshot.Snapshot
	Attrs    authorizer.Attributes
	// Old is the stored object, nil on create, and New what it becomes, in the version that conditions see.
	Old, New runtime.Object
	Asker    FieldAsker
}

// FieldAsker answers what the decision asks.
type FieldAsker interface {
	// Default fills in what an object does not say.
	Default(object map[string]any) (map[string]any, error)
	// Check asks about the same request with another verb.
	Check(verb string) (bool, error)
}

// fieldAsker asks the chain, as if some verbs were granted.
type fieldAsker struct {
	*inquiry
	ctx     context.Context
	snap    *snapshot.Snapshot
	granted map[string]bool
}

// Check implements FieldAsker.
func (a *fieldAsker) Check(verb string) (bool, error) {
	if a.granted[verb] {
		return true, nil
	}
	return a.holds(a.ctx, a.snap, verb)
}

// Default implements FieldAsker with the defaults of the converter, if there is one.
func (a *fieldAsker) Default(object map[string]any) (map[string]any, error) {
	if a.Converter == nil {
		return object, nil
	}
	content := &unstructured.Unstructured{Object: object}
	to, err := a.content.served.Seen(a.content.kind, "")
	if err != nil {
		return nil, err
	}
	content.SetGroupVersionKind(to)
	filled, err := a.Converter.ConvertContent(content, to.GroupVersion())
	if err != nil {
		return nil, err
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(filled)
}

// fieldsName stands where the name of an authorizer stands, for rights to single fields.
const fieldsName = "field-permissions"

// singleFields is what a right to single fields is, if it is not known which fields are changed.
func singleFields() authz.Condition {
	return authz.Condition{ID: expr.IDDomain + "/single-fields", Effect: authz.EffectAllow, Type: expr.IDDomain + "/field-permissions",
		Description: "only single fields: every field that changes must be covered by a field permission"}
}

// byFields decides a write whose verb nobody grants by rights to single fields. asked is false if they have no say.
func (q *inquiry) byFields(ctx context.Context, snap *snapshot.Snapshot) (result fieldperm.Result, asked bool) {
	if !q.reachesFields(ctx, snap) {
		return result, false
	}
	return q.covered(ctx, snap, nil), true
}

// reachesFields reports whether the write gets as far as its fields: the caller has the verb granular.
func (q *inquiry) reachesFields(ctx context.Context, snap *snapshot.Snapshot) bool {
	if q.Fields == nil || q.content == nil || !authorize.HasFields(snap, q.attrs) || q.Gate.Unseen(q.attrs) != nil {
		return false
	}
	allowed, _ := q.holds(ctx, snap, fieldperm.Verb)
	return allowed
}

// holds asks the chain about the request with another verb.
func (q *inquiry) holds(ctx context.Context, snap *snapshot.Snapshot, verb string) (bool, error) {
	out := q.Gate.Decide(requestctx.With(ctx, snap), authorize.WithVerb(q.attrs, verb)).Resolve(ctx, q.content.data())
	if out.Decision == authorizer.DecisionAllow {
		return true, nil
	}
	return false, out.Detail
}

// covered decides by the permissions that the caller holds, and as if some verbs were granted besides.
func (q *inquiry) covered(ctx context.Context, snap *snapshot.Snapshot, granted map[string]bool) fieldperm.Result {
	w := FieldWrite{Snapshot: snap, Attrs: q.attrs, Asker: &fieldAsker{inquiry: q, ctx: ctx, snap: snap, granted: granted}}
	var err error
	if w.New, err = q.content.Object(""); err != nil {
		return fieldperm.Result{Err: err}
	}
	switch {
	case q.content.operation == admission.Update && q.content.old == nil:
		return fieldperm.Result{Err: errors.New("the stored object is not known: give oldContent")}
	case q.content.operation == admission.Update:
		if w.Old, err = q.content.OldObject(""); err != nil {
			return fieldperm.Result{Err: err}
		}
	}
	return q.Fields.Covered(ctx, w)
}

// fieldGrant are the verbs that would let the caller change what an update changes, and nothing else; nil if no field
// permissions cover it.
func (q *inquiry) fieldGrant(ctx context.Context) (verbs []string) {
	snap := authorize.SnapshotOf(ctx, q.Store)
	if q.Fields == nil || q.content == nil || q.content.old == nil || !authorize.HasFields(snap, q.attrs) || q.Gate.Unseen(q.attrs) != nil {
		return nil
	}
	if allowed, _ := q.holds(ctx, snap, fieldperm.Verb); !allowed {
		verbs = append(verbs, fieldperm.Verb)
	}
	granted := map[string]bool{}
	for range fieldperm.MaxChecks {
		result := q.covered(ctx, snap, granted)
		switch {
		case result.Allowed():
			return verbs
		case result.Missing == nil || result.Missing.Permission == "" || granted[result.Missing.Permission]:
			return nil
		}
		granted[result.Missing.Permission] = true
		verbs = append(verbs, result.Missing.Permission)
	}
	return nil
}

// fieldStep is what rights to single fields add to a trace: they are asked if nobody has an opinion.
func (q *inquiry) fieldStep(ctx context.Context) (authorize.Step, bool) {
	snap := authorize.SnapshotOf(ctx, q.Store)
	step := authorize.Step{Link: authorize.Link{Name: fieldsName}, Asked: true, Decision: authorizer.DecisionNoOpinion}
	if q.content == nil {
		if !q.Gate.Decide(requestctx.With(ctx, snap), q.attrs).Pass.IsGranular() {
			return step, false
		}
		c := singleFields()
		step.Open = true
		step.Answer = authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, []authorizer.Condition{
			authorizer.GenericCondition{ID: c.ID, Type: c.Type, Condition: "true", Description: c.Description}})
		return step, true
	}
	result, asked := q.byFields(ctx, snap)
	if !asked {
		return step, false
	}
	if step.Reason = result.Reason(); result.Allowed() {
		step.Decision, step.Reason = authorizer.DecisionAllow, fieldsReason
	}
	if result.Err != nil {
		step.Err = fmt.Errorf("fields: %w", result.Err)
	}
	return step, true
}

const fieldsReason = "field permissions cover every field that changes"
