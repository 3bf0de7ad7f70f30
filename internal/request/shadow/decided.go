package shadow

import (
	"context"
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
)

var _ authorize.Observer = (*Recorder)(nil)

// Decided implements authorize.Observer: after the decision, it evaluates how rules that are not enforced would have
// decided the request. It never changes the decision, and does not use the decision's budget (TR-6).
func (r *Recorder) Decided(ctx context.Context, made authorize.Observation) {
	holder := requestctx.From(ctx)
	if holder == nil || holder.Snapshot == nil {
		return
	}
	if len(holder.Snapshot.Shadow.Fields) > 0 && made.Allowed && authorize.IsRead(made.Attrs) {
		r.supposeSight(ctx, holder, made)
	}
	if holder.Snapshot.Shadow.Rules == nil {
		return
	}
	ctx = expr.WithBudget(ctx, expr.NewBudget(0))
	if made.Final {
		r.suppose(ctx, holder.Snapshot.Shadow.Rules, made)
		return
	}
	r.supposeBefore(ctx, holder, made)
}

// supposeBefore is for a request whose object is not known yet. If the object decides, admission settles it; a request
// that is refused before its body is read is undecided.
func (r *Recorder) supposeBefore(ctx context.Context, holder *requestctx.State, made authorize.Observation) {
	g, attrs, passed := made.Gate, made.Attrs, made.Allowed
	waits := passed && !made.Pass.IsAllowed()
	was := AnswerOf(passed)
	all, more := suppositions(g.Chain, holder.Snapshot.Shadow.Rules, attrs, lastAskedOf(made.Known))
	for _, rule := range more {
		r.Count(rule, attrs, was, Undecided)
	}
	for _, s := range all {
		supposed := s.chain.Decide(ctx, attrs)
		decision, open := supposed.Decision, left(supposed) != nil
		if open && (!g.Conditional() || g.Honours(attrs) != nil || passed && s.rule.Denies && authorize.IsRead(attrs)) {
			decision, _, _ = supposed.Fold(ctx)
			open = false
		}
		would := s.would(was, decision)
		switch {
		case passed && (open || waits) && !authorize.IsRead(attrs):
			holder.Suppose(made.Slot, &waiting{supposition: s, recorder: r, attrs: attrs, known: supposed, decision: decision, open: open})
			continue
		case !s.rule.Denies && (!passed && supposed.Pending != nil && open || waits):
			would = Undecided // by objects that are not known here
		case open:
			would = was
		}
		r.Note(ctx, s.rule, attrs, was, would)
	}
	if !passed {
		r.supposeFields(ctx, g, holder, attrs)
	}
}

// supposeFields: a rule that would grant permissions for single fields could have let the request in. Which fields it
// changes is not known.
func (r *Recorder) supposeFields(ctx context.Context, g *authorize.Gate, holder *requestctx.State, attrs authorizer.Attributes) {
	if !authorize.HasFields(holder.Snapshot, attrs) {
		return
	}
	asked := authorize.WithVerb(attrs, fieldperm.Verb)
	all, _ := suppositions(g.Chain, holder.Snapshot.Shadow.Rules, asked, lastAsked{unknown: true})
	for _, s := range all {
		if !s.rule.Denies {
			r.Note(ctx, s.rule, attrs, Deny, Undecided)
		}
	}
}

// supposeSight: a field permission that would hide a field shows less to callers without the verb that reveals it
// (HF-1). What a condition would reveal depends on objects that are not known here.
func (r *Recorder) supposeSight(ctx context.Context, holder *requestctx.State, made authorize.Observation) {
	resource := fieldperm.Resource{Group: made.Attrs.GetAPIGroup(), Resource: made.Attrs.GetResource()}
	hidden := holder.Snapshot.Fields.Hidden(resource)
	for _, one := range holder.Snapshot.Shadow.Fields {
		if !one.Hides || !one.Concerns(resource) || made.Gate.SeesAll(ctx, made.Attrs) {
			continue
		}
		would := Allow
		for _, h := range one.Table().Hidden(resource) {
			if slices.ContainsFunc(hidden, func(now fieldperm.Hidden) bool {
				return now.Permission == h.Permission && now.Field.String() == h.Field.String()
			}) {
				continue
			}
			switch v := made.Gate.Decide(ctx, authorize.WithVerb(made.Attrs, h.Verb())); {
			case v.Answer == authorize.Allowed:
			case v.Answer == authorize.Open && would == Allow:
				would = Undecided
			case v.Answer != authorize.Open:
				would = Deny
			}
		}
		r.Note(ctx, one.Rule, made.Attrs, Allow, would)
	}
}

// aside is data of a decision that returns the same data for rules that are not enforced, with a separate budget.
type aside interface {
	Aside() authorizer.ConditionsData
}

// suppose is for a request about which everything is known that a condition can look at.
func (r *Recorder) suppose(ctx context.Context, shadows *ruleset.Index, made authorize.Observation) {
	data := made.Data
	if a, ok := data.(aside); ok {
		data = a.Aside()
	}
	was := AnswerOf(made.Allowed)
	all, _ := suppositions(made.Gate.Chain, shadows, made.Attrs, lastAskedOf(made.Known))
	for _, s := range all {
		supposed := s.chain.Decide(ctx, made.Attrs)
		decision, rest := supposed.Decision, left(supposed)
		switch {
		case rest != nil && data != nil && made.Gate.Conditional():
			decision = rest.Resolve(ctx, data).Decision
		case rest != nil:
			decision, _, _ = supposed.Fold(ctx)
		}
		r.Note(ctx, s.rule, made.Attrs, was, s.would(was, decision))
	}
}

// left returns the part of the chain that waits for the object; nil if there is none.
func left(p authorize.Partial) requestctx.Pending {
	if p.Pending != nil {
		return p.Pending
	}
	return p.Denies
}

// waiting is a supposition that waits for the object.
type waiting struct {
	supposition
	recorder *Recorder
	attrs    authorizer.Attributes
	known    authorize.Partial
	decision authorizer.Decision
	open     bool
}

// Settle implements requestctx.Supposition.
func (w *waiting) Settle(ctx context.Context, data authorizer.ConditionsData, allowed bool) {
	decision := w.decision
	if w.open {
		decision = left(w.known).Resolve(ctx, data).Decision
	}
	was := AnswerOf(allowed)
	w.recorder.Note(ctx, w.rule, w.attrs, was, w.would(was, decision))
}
