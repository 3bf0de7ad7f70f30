package enforce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/denial"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/selfclient"
)

// Name is the name of the plugin in metrics and in the list of plugins.
const Name = "AuthorizationConditionsEnforcer"

// Audit annotations of the final decision. Upstream's own decision annotation was written before the object was seen.
const (
	AnnotationDecision   = "authorization.proviso.dev/decision"
	AnnotationAuthorizer = "authorization.proviso.dev/authorizer"
	AnnotationConditions = "authorization.proviso.dev/conditions"
	AnnotationDetail     = "authorization.proviso.dev/detail"
)

// Config configures the enforcer.
type Config struct {
	// Namespaces finds a namespace for conditions that look at it; nil lets those conditions fail.
	Namespaces authorize.Namespaces
	// Connect decides whether a connect request may create its connection; nil leaves that to the request's own verb,
	// as upstream does.
	Connect Connector
	// Targets reads the targets of connections, for conditions on them. The storage asks again when the handler reads
	// the target. Without Targets, such conditions fail.
	Targets Targets
	// Fields looks at the fields that a write changes; nil while that system is off.
	Fields *Fields
	// Effects checks what controllers would do because of the request; nil while no rule can deny.
	Effects *Effects
	// Protected checks protected attributes that are not enforced; enforced ones are checked in After.
	Protected *ProtectedAttributes
	// Grants is told about requests that a grant made possible; nil if there are none.
	Grants Grants
	// Later decides a request again if the time passed could change the decision; nil keeps the first decision.
	Later Later
	// Explain adds to refusals the command that explains them. Set it where that command is served (TR-12).
	Explain bool
	// After runs in order once the conditions are met; each can only refuse.
	After []admission.ValidationInterface
	// Observer is told what was decided; may be nil.
	Observer Observer
}

// Connector decides whether a connect request may create its connection.
type Connector interface {
	// Foresee asks like Connect, but records nothing.
	Foresee(ctx context.Context, holder *requestctx.State, data authorizer.ConditionsData)
	Connect(ctx context.Context, holder *requestctx.State, data authorizer.ConditionsData) requestctx.Outcome
}

// Grants is told what grants are used for.
type Grants interface {
	// Use records a request that the Access link has allowed, when it is about to be stored. The context has the
	// instant for which it was decided; a request that is decided for two instants may use grants of both. An error
	// refuses it.
	Use(ctx context.Context, holder *requestctx.State, attrs admission.Attributes) error
}

// Later decides requests again.
type Later interface {
	// Again returns the state of the request as decided at this instant, by the same policy; nil if that cannot differ.
	Again(ctx context.Context, holder *requestctx.State) (context.Context, *requestctx.State)
}

// Plugin resolves the passes that travelled with a request.
type Plugin struct{ cfg Config }

// New returns the enforcer.
func New(cfg Config) *Plugin {
	if cfg.Observer == nil {
		cfg.Observer = Unobserved{}
	}
	return &Plugin{cfg}
}

var _ admission.ValidationInterface = (*Plugin)(nil)

// Handles is true for every operation: connect requests carry conditions too.
func (p *Plugin) Handles(admission.Operation) bool { return true }

// Validate refuses unless every pass the request needs is, or resolves to, Allow.
func (p *Plugin) Validate(ctx context.Context, attrs admission.Attributes, objects admission.ObjectInterfaces) error {
	holder := requestctx.From(ctx)
	if holder == nil || holder.Snapshot == nil {
		return forbidden(attrs, "this request has no authorization decision")
	}
	if p.waits(ctx, holder, attrs, objects) {
		err := p.reach(ctx, holder, attrs, objects)
		admitted(requestctx.NotesOf(ctx).Ledger(), holder.Attributes(), attrs) // no response shows the target
		return err
	}
	by, err := p.validate(ctx, holder, attrs, objects)
	ledger := requestctx.NotesOf(ctx).Ledger()
	if err != nil {
		denial.Note(holder.Attributes(), by)
		ledger.Refuse()
		return nameless(holder.Attributes(), p.advise(by, err))
	}
	admitted(ledger, holder.Attributes(), attrs)
	return nil
}

// admitted records what was admitted: the state that is changed or, for a request without a stored object, everything.
func admitted(ledger *requestctx.Ledger, decided authorizer.Attributes, attrs admission.Attributes) {
	if decided != nil && verbs.Changes(decided.GetVerb()) && attrs.GetOperation() != admission.Connect {
		ledger.Admit(attrs.GetOldObject())
		return
	}
	ledger.AdmitWhole(attrs.GetOperation() == admission.Connect)
}

// nameless removes the name of an object from a refusal to delete a collection: the caller has not named it.
func nameless(decided authorizer.Attributes, err error) error {
	var refused *apierrors.StatusError
	if decided == nil || decided.GetVerb() != verbs.DeleteCollection || !errors.As(err, &refused) || refused.ErrStatus.Details == nil || refused.ErrStatus.Details.Name == "" {
		return err
	}
	status := *refused.ErrStatus.DeepCopy()
	status.Message = strings.Replace(status.Message, fmt.Sprintf(" %q is forbidden", status.Details.Name), " is forbidden", 1)
	status.Details.Name = ""
	return &apierrors.StatusError{ErrStatus: status}
}

// Refusal returns the error for a request with this outcome.
func Refusal(decided authorizer.Attributes, out requestctx.Outcome, explain bool) error {
	err := apierrors.NewForbidden(schema.GroupResource{Group: decided.GetAPIGroup(), Resource: decided.GetResource()}, decided.GetName(), errors.New(reasonOf(out)))
	return New(Config{Explain: explain}).advise(denial.By{Ask: &denial.Question{Attributes: decided, Object: true}}, err)
}

// reasonOf returns why an outcome is not Allow.
func reasonOf(out requestctx.Outcome) string {
	if out.Reason != "" && errors.Is(out.Detail, selfclient.ErrMayNotRead) {
		return out.Reason + ": " + selfclient.ErrMayNotRead.Error()
	}
	if out.Reason != "" {
		return out.Reason
	}
	return "no condition under which this is allowed is met"
}

// advise adds the remedy to a refusal. Other errors are unchanged.
func (p *Plugin) advise(by denial.By, err error) error {
	var refused *apierrors.StatusError
	if !p.cfg.Explain || !apierrors.IsForbidden(err) || !errors.As(err, &refused) {
		return err
	}
	status := refused.ErrStatus
	status.Message = by.Ask.Advise(status.Message)
	return &apierrors.StatusError{ErrStatus: status}
}

// validate also returns the stage at which a request was refused, and what refused it.
func (p *Plugin) validate(ctx context.Context, holder *requestctx.State, attrs admission.Attributes, objects admission.ObjectInterfaces) (denial.By, error) {
	known := p.facts(holder, attrs, objects)
	by, err := p.admit(ctx, holder, known, objects)
	then, later := ctx, (*requestctx.State)(nil)
	if err == nil && p.cfg.Later != nil {
		// A slow body must not outlive the right to send it.
		if then, later = p.cfg.Later.Again(ctx, holder); later != nil {
			by, err = p.admit(then, later, p.facts(later, attrs, objects), objects)
		}
	}
	if err == nil && p.granted(holder, attrs) {
		err = p.cfg.Grants.Use(ctx, holder, attrs)
	}
	if err == nil && later != nil && p.granted(later, attrs) {
		err = p.cfg.Grants.Use(then, holder, attrs) // it may be another grant by now
	}
	known.trial.allowed = err == nil
	p.cfg.Observer.Admitted(ctx, Observation{Allowed: err == nil, Slots: slotsOf(holder, attrs), Namespace: attrs.GetNamespace(), Trial: &known.trial})
	return by, err
}

// granted reports whether grants made the request possible, as it was decided in a state.
func (p *Plugin) granted(decided *requestctx.State, attrs admission.Attributes) bool {
	return p.cfg.Grants != nil && slices.ContainsFunc(slotsOf(decided, attrs), func(slot requestctx.Slot) bool { return decided.By(slot) == links.Access })
}

// admit decides.
func (p *Plugin) admit(ctx context.Context, holder *requestctx.State, known *facts, objects admission.ObjectInterfaces) (denial.By, error) {
	attrs := known.Attributes
	mode := fieldperm.General
	for _, slot := range slotsOf(holder, attrs) {
		granular, out, err := p.resolve(ctx, holder, slot, known)
		if err != nil {
			return denial.By{Stage: denial.Conditions, Authorizer: out.Authorizer, Rules: out.Conditions, Ask: &denial.Question{Attributes: holder.Attributes(), Object: true}}, err
		}
		if granular {
			mode = fieldperm.Granular
			requestctx.NotesOf(ctx).Granular()
		}
	}
	if attrs.GetOperation() == admission.Connect {
		if err := p.connect(ctx, holder, known); err != nil {
			return denial.By{Stage: denial.Connection, Ask: &denial.Question{Attributes: holder.Attributes(), Verb: connect.Verb}}, err
		}
	}
	if by, err := p.cfg.Fields.check(ctx, holder, mode, known, objects); err != nil {
		return by, err
	}
	for _, next := range p.cfg.After {
		if !next.Handles(attrs.GetOperation()) {
			continue
		}
		if err := next.Validate(ctx, attrs, objects); err != nil {
			return byGuard(err)
		}
	}
	if by, err := p.cfg.Effects.check(ctx, holder, known, objects); err != nil {
		return by, err
	}
	return denial.By{}, nil
}

// slotsOf lists the passes an admission needs. An update or apply that creates needs its own pass and that of the
// create.
func slotsOf(holder *requestctx.State, attrs admission.Attributes) []requestctx.Slot {
	if attrs.GetOperation() == admission.Create {
		if decided := holder.Attributes(); decided != nil && (decided.GetVerb() == "update" || decided.GetVerb() == "patch") {
			return []requestctx.Slot{requestctx.Request, requestctx.Create}
		}
	}
	return []requestctx.Slot{requestctx.Request}
}

// resolve returns the outcome of a slot. If the outcome is NoOpinion on the request itself, the caller may still have
// the right to the fields they change: then granular is true.
func (p *Plugin) resolve(ctx context.Context, holder *requestctx.State, slot requestctx.Slot, known *facts) (granular bool, out requestctx.Outcome, err error) {
	d := holder.Get(slot)
	pending := d.Pending()
	switch {
	case d.IsAllowed():
		return false, out, nil
	case pending == nil && !d.IsGranular():
		return false, out, forbidden(known, "this request has no authorization decision")
	}
	out = requestctx.Outcome{Decision: authorizer.DecisionNoOpinion}
	if pending != nil {
		out = authorize.Enforce(ctx, pending, known)
	}
	if out.Decision == authorizer.DecisionNoOpinion {
		reach := p.cfg.Fields.reach(ctx, holder, d.Fields(), known)
		if reach.Decision == authorizer.DecisionAllow {
			authorize.RecordDecision(ctx, &reviewv1.AuthorizationDecision{Decision: "allow", Authorizer: reach.Authorizer})
			return true, out, nil
		}
		if d.IsGranular() {
			out = reach
		}
	}
	holder.NoteBy(slot, out.Authorizer)
	return false, out, settle(ctx, known, out)
}

// settle turns an outcome into the result of admission and records it.
func settle(ctx context.Context, attrs admission.Attributes, out requestctx.Outcome) error {
	annotate(ctx, out)
	if out.Decision == authorizer.DecisionNoOpinion {
		authorize.RecordDecision(ctx, &reviewv1.AuthorizationDecision{Decision: "deny"})
	}
	if out.Decision == authorizer.DecisionAllow {
		return nil
	}
	if out.Detail != nil {
		// The caller only learns that a condition failed; the log says why.
		klog.FromContext(ctx).V(2).Info("Condition failed to evaluate", "authorizer", out.Authorizer, "conditions", out.Conditions, "err", out.Detail)
	}
	return forbidden(attrs, reasonOf(out))
}

func annotate(ctx context.Context, out requestctx.Outcome) {
	decision := "forbid"
	if out.Decision == authorizer.DecisionAllow {
		decision = "allow"
	}
	audit.AddAuditAnnotations(ctx, authorize.AnnotationOutcome, authorize.Spell(out.Decision), AnnotationDecision, decision, AnnotationAuthorizer, out.Authorizer,
		AnnotationConditions, strings.Join(out.Conditions, ","))
	if out.Detail != nil {
		audit.AddAuditAnnotation(ctx, AnnotationDetail, out.Detail.Error())
	}
}

// ruled is a refusal with the rules behind it, and what to ask next, on its way to the code that counts, logs and
// advises (OP-7, TR-12).
type ruled struct {
	error
	rules []string
	ask   *denial.Question
}

func (r *ruled) Unwrap() error { return r.error }

// byGuard unwraps the rules from a refusal.
func byGuard(err error) (denial.By, error) {
	by := denial.By{Stage: denial.Attributes}
	var r *ruled
	if errors.As(err, &r) {
		by.Rules, by.Ask, err = r.rules, r.ask, r.error
	}
	return by, err
}

func forbidden(attrs admission.Attributes, reason string) error {
	return apierrors.NewForbidden(attrs.GetResource().GroupResource(), attrs.GetName(), fmt.Errorf("%s", reason))
}
