package authorize

import (
	"context"
	"errors"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/denial"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// AnnotationPending marks, in the audit event, a request that was let through on a condition. By then upstream's filter
// has written decision=allow, which cannot be undone: the enforcer's annotation has the final decision.
const AnnotationPending = "authorization.proviso.dev/pending"

// AnnotationOutcome is the final decision of the authorizers: Allow, Deny or NoOpinion. Upstream's annotation does not
// distinguish the last two. A request that was allowed without a condition does not have the annotation.
const AnnotationOutcome = "authorization.proviso.dev/outcome"

// AnnotationRevision is the revision of the policy that the request was decided with (TR-13).
const AnnotationRevision = "authorization.proviso.dev/policy-revision"

// GateConfig configures a gate.
type GateConfig struct {
	Chain *Chain
	// Conditional lets conditions pass to admission; otherwise they fold, as everywhere else.
	Conditional bool
	// Local knows which resources are served in this process. Requests that are proxied to another server are not
	// admitted here, so nothing conditional may pass. Nil means that nothing is local.
	Local Local
	// UniformConnect requires create of every connection, whatever its verb (CA-9).
	UniformConnect bool
	// Limit knows further requests on which no condition will be evaluated; nil means none beyond Local.
	Limit Limit
	// Reads lets reads pass on a condition; nil if they do not.
	Reads Reads
	// Unions lets a list or watch that is not allowed as a whole show what is allowed in single namespaces, or by name
	// (RD-11). It needs Reads.
	Unions bool
	// Observer is told what was decided; may be nil.
	Observer Observer
	// Explain adds to refusals the command that explains them. Set it where that command is served (TR-12).
	Explain bool
	// Newer gets policy that is at least as new as a token says; nil refuses all requests that ask for it (TR-14).
	Newer Newer
}

// Local knows which resources are served in this process.
type Local interface {
	Local(group, version string) bool
}

// LocalFunc is a function that implements Local.
type LocalFunc func(group, version string) bool

// Local implements Local.
func (f LocalFunc) Local(group, version string) bool { return f(group, version) }

// Limit knows requests on which no condition will be evaluated.
type Limit interface {
	// Check returns why none will be evaluated; nil if conditions will be.
	Check(authorizer.Attributes) error
}

// Newer gets policy that is at least as new as a token says.
type Newer interface {
	Reach(ctx context.Context, user, token string) (*snapshot.Snapshot, error)
}

// Gate connects the chain to the two places of the server where a condition can be honoured because admission follows:
// the authorization filter and the create check inside the update and patch handlers.
type Gate struct {
	Chain *Chain

	conditional, uniformConnect, explain, unions bool

	local    Local
	limit    Limit
	reading  Reads
	observer Observer
	newest   Newer
}

// Explains reports whether refusals name the command that explains them.
func (g *Gate) Explains() bool { return g.explain }

// NewGate returns a gate. A missing part refuses, or limits and observes nothing.
func NewGate(cfg GateConfig) *Gate {
	g := &Gate{
		Chain: cfg.Chain, conditional: cfg.Conditional, uniformConnect: cfg.UniformConnect, explain: cfg.Explain, unions: cfg.Unions && cfg.Reads != nil && cfg.Conditional,
		local: nowhere{}, limit: unlimited{}, reading: cfg.Reads, observer: Unobserved{}, newest: undated{},
	}
	if cfg.Local != nil {
		g.local = cfg.Local
	}
	if cfg.Limit != nil {
		g.limit = cfg.Limit
	}
	if cfg.Observer != nil {
		g.observer = cfg.Observer
	}
	if cfg.Newer != nil {
		g.newest = cfg.Newer
	}
	return g
}

type (
	nowhere   struct{}
	unlimited struct{}
	undated   struct{}
)

func (nowhere) Local(string, string) bool { return false }

func (unlimited) Check(authorizer.Attributes) error { return nil }

func (undated) Reach(context.Context, string, string) (*snapshot.Snapshot, error) {
	return nil, errNotDated
}

// Conditional reports whether conditions pass to admission.
func (g *Gate) Conditional() bool { return g.conditional }

// UniformConnect reports whether every connection requires create.
func (g *Gate) UniformConnect() bool { return g.uniformConnect }

// ConditionalReads reports whether reads pass on a condition.
func (g *Gate) ConditionalReads() bool { return g.reading != nil }

// AtFilter is the authorizer of the authorization and impersonation filters.
func (g *Gate) AtFilter() authorizer.Authorizer { return filterGate{g.Chain, g} }

// InHandlers is the authorizer that the endpoint handlers use for their second checks.
func (g *Gate) InHandlers() authorizer.Authorizer { return handlerGate{g.Chain, g} }

// filterGate is a real type, not an AuthorizerFunc: those silently drop conditions.
type filterGate struct {
	*Chain
	gate *Gate
}

func (f filterGate) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	holder := requestctx.From(ctx)
	attrs = carrying(ctx, attrs)
	switch {
	case holder == nil:
		return f.Chain.Authorize(ctx, attrs)
	case holder.Waits() && holder.Renew(f.gate.newer(ctx, attrs)) != nil:
		return authorizer.DecisionDeny, holder.Refused().Error(), nil //nolint:nilerr // the reason says why
	case isRequestItself(ctx, attrs):
		if isRemembered(ctx) && !f.gate.impersonatesStill(ctx) {
			return authorizer.DecisionDeny, notAnyMore, nil
		}
		return f.gate.admit(ctx, holder, requestctx.Request, attrs)
	case isImpersonation(attrs.GetVerb()):
		decision, reason, err := f.gate.impersonate(ctx, attrs)
		requestctx.ImpersonationOf(ctx).Asked(attrs.GetVerb(), decision == authorizer.DecisionAllow)
		return decision, f.gate.advise(decision, reason, attrs), err
	default:
		return f.Chain.Authorize(ctx, attrs)
	}
}

// newer gets the policy that a request asks for. Nothing is decided by older policy.
func (g *Gate) newer(ctx context.Context, attrs authorizer.Attributes) func(token string) (*snapshot.Snapshot, error) {
	return func(token string) (*snapshot.Snapshot, error) {
		return g.newest.Reach(ctx, attrs.GetUser().GetName(), token)
	}
}

type handlerGate struct {
	*Chain
	gate *Gate
}

func (h handlerGate) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	holder := requestctx.From(ctx)
	switch {
	case holder == nil:
		return h.Chain.Authorize(ctx, attrs)
	case attrs.GetVerb() == VerbUnsafeDelete:
		if why := h.gate.DeniesUnsafe(ctx, attrs); why != "" {
			return authorizer.DecisionDeny, why, nil
		}
		return h.Chain.Authorize(ctx, attrs)
	case isConnect(attrs) && attrs.GetVerb() == "create" && holder.Get(requestctx.Connect).IsAllowed() && isThisConnect(ctx, attrs):
		// exec, attach and port-forward by GET ask for create once more; the enforcer has already decided that.
		return authorizer.DecisionAllow, "create was decided in admission", nil
	case isCreateOfUpdate(ctx, attrs):
		return h.gate.admit(ctx, holder, requestctx.Create, attrs)
	default:
		return h.gate.onTheSide(ctx, attrs)
	}
}

// admit fills a slot of the holder. A request that can become allowed passes; the enforcer decides finally.
func (g *Gate) admit(ctx context.Context, holder *requestctx.State, slot requestctx.Slot, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	decision, reason, err := g.fill(ctx, holder, slot, attrs)
	if decision != authorizer.DecisionAllow {
		by := denial.By{Stage: denial.Authorization}
		if decision == authorizer.DecisionDeny {
			by.Rules = []string{reason}
		}
		denial.Note(attrs, by)
	}
	if decision == authorizer.DecisionNoOpinion && g.explain {
		if advice := holder.Snapshot.Access.Advice(attrs); advice != "" {
			reason = strings.TrimPrefix(reason+"; "+advice, "; ")
		}
	}
	return decision, g.advise(decision, reason, attrs), err
}

// advise adds the remedy to the reason of a refusal.
func (g *Gate) advise(decision authorizer.Decision, reason string, attrs authorizer.Attributes) string {
	if decision == authorizer.DecisionAllow || !g.explain {
		return reason
	}
	return (&denial.Question{Attributes: attrs}).Advise(reason)
}

// fill gets the verdict, hands its pass to admission, and records what was decided.
func (g *Gate) fill(ctx context.Context, holder *requestctx.State, slot requestctx.Slot, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	ctx, span := startSpan(ctx, "proviso.authorize")
	v := g.Decide(ctx, attrs)
	decision := v.AtAuthorization()
	v.Report(ctx)
	if token := holder.Snapshot.Revision.Token(); token != "" && IsAudited(ctx) {
		audit.AddAuditAnnotation(ctx, AnnotationRevision, token)
	}
	if span != nil {
		span.SetAttributes(attribute.String("authorizer", v.By), attribute.String("decision", decision.String()), attribute.Bool("conditional", v.Answer == Open))
		span.End()
	}
	if decision == authorizer.DecisionAllow {
		holder.Put(slot, attrs, v.Pass)
		holder.NoteBy(slot, v.By)
		if IsRead(attrs) {
			g.AnnotateRead(ctx, attrs, v)
		} else {
			g.annotateGrant(ctx, attrs, v.By)
		}
	} else {
		audit.AddAuditAnnotation(ctx, AnnotationOutcome, Spell(decision))
	}
	if v.Answer == Open {
		v.annotate(ctx)
	} else {
		g.record(ctx, slot, attrs, requestctx.Outcome{Decision: decision, Reason: v.Reason, Detail: v.Err, Authorizer: v.By})
	}
	g.observer.Decided(ctx, Observation{Gate: g, Attrs: attrs, Known: v.known, Allowed: decision == authorizer.DecisionAllow, Slot: slot, Pass: v.Pass})
	return decision, v.Reason, v.Err
}

// annotate records in the audit event and in metrics which condition the request was let through on.
func (v Verdict) annotate(ctx context.Context) {
	if v.Pass.IsGranular() {
		audit.AddAuditAnnotation(ctx, AnnotationPending, fieldperm.Verb)
		return
	}
	if n := v.Pass.Narrowing(); n != nil && !n.IsEverything() { // the caller's own selectors are not narrow enough
		audit.AddAuditAnnotation(ctx, AnnotationNarrowed, spell(n))
	}
	by := v.By
	if v.known.Authorizer == by { // not a union, which names its own
		by = v.known.Waits
	}
	countConditional(by, v.known.Types)
	audit.AddAuditAnnotation(ctx, AnnotationPending, by)
}

// Spell returns the value of AnnotationOutcome: a decision as audit classes spell it.
func Spell(d authorizer.Decision) string {
	switch d {
	case authorizer.DecisionAllow:
		return "Allow"
	case authorizer.DecisionNoOpinion:
		return "NoOpinion"
	}
	return "Deny"
}

func joinReasons(reason string, err error) string {
	switch {
	case err == nil:
		return reason
	case reason == "":
		return err.Error()
	}
	return reason + "; " + err.Error()
}

// Connect decides, in admission, whether a connect request may create a connection: exec, attach, port-forward and
// proxy give power over their target, whichever HTTP verb they use, so create is required uniformly (CA-9).
func (g *Gate) Connect(ctx context.Context, holder *requestctx.State, data authorizer.ConditionsData) requestctx.Outcome {
	out := g.Ask(ctx, holder, connect.Verb, data)
	if out.Decision == authorizer.DecisionAllow {
		holder.Put(requestctx.Connect, holder.Attributes(), requestctx.Allowed())
	}
	return out
}

// Foresee does what Connect does only to find out which conditions are asked. It records nothing.
func (g *Gate) Foresee(ctx context.Context, holder *requestctx.State, data authorizer.ConditionsData) {
	g.AskAside(ctx, holder, connect.Verb, data)
}

// AlsoNeeds returns the verb that a caller needs on the same target in addition to the verb of the request; empty if
// there is none. A review of a request asks about both, so it does not promise what the request would be refused.
func (g *Gate) AlsoNeeds(attrs authorizer.Attributes) string {
	if g.uniformConnect && attrs.IsResourceRequest() && attrs.GetVerb() != connect.Verb && isConnect(attrs) {
		return connect.Verb
	}
	return ""
}

// Ask asks the whole chain, in admission, about the request with another verb. A condition is resolved at once.
func (g *Gate) Ask(ctx context.Context, holder *requestctx.State, verb string, data authorizer.ConditionsData) requestctx.Outcome {
	attrs := holder.Attributes()
	if attrs == nil {
		return requestctx.Outcome{}
	}
	asked := withVerb{attrs, verb}
	v := g.Decide(ctx, asked)
	v.Report(ctx)
	out := v.Resolve(ctx, data)
	if out.Decision == authorizer.DecisionAllow {
		g.annotateGrant(ctx, asked, out.Authorizer)
	}
	g.final(ctx, asked, v, out.Decision == authorizer.DecisionAllow, data)
	return out
}

// AskAside is Ask for a rule that is not enforced: it is not observed.
func (g *Gate) AskAside(ctx context.Context, holder *requestctx.State, verb string, data authorizer.ConditionsData) requestctx.Outcome {
	attrs := holder.Attributes()
	if attrs == nil {
		return requestctx.Outcome{}
	}
	return g.Decide(ctx, withVerb{attrs, verb}).Resolve(ctx, data)
}

// withVerb is a request with a different verb.
type withVerb struct {
	authorizer.Attributes
	verb string
}

// WithVerb returns the same request with a different verb.
func WithVerb(attrs authorizer.Attributes, verb string) authorizer.Attributes {
	return withVerb{attrs, verb}
}

func (w withVerb) GetVerb() string  { return w.verb }
func (w withVerb) IsReadOnly() bool { return false }

var (
	errNotDated = apierrors.NewBadRequest("atLeastRevision: the policy of this server has no revisions")
	errOff      = errors.New("a conditional permission cannot be used here: conditional authorization is off")
	errNoObject = errors.New("a conditional permission cannot be used here: the request has no object to check")
	errGet      = errors.New("a conditional permission cannot be used for get: list with a field selector on metadata.name and on what the condition asks for, or have get granted without a condition")
	errSelect   = errors.New("a conditional permission cannot be used here: a list or watch needs a label or field selector that implies the condition")
	errProxied  = errors.New("a conditional permission cannot be used here: another API server serves the resource, and conditions cannot be enforced there")
)

// Honours reports whether a condition on this request will be evaluated, or why not: only where admission sees an
// object.
func (g *Gate) Honours(attrs authorizer.Attributes) error {
	if !attrs.IsResourceRequest() || attrs.GetResource() == "" || attrs.GetAPIVersion() == "" {
		return errNoObject
	}
	if !g.local.Local(attrs.GetAPIGroup(), attrs.GetAPIVersion()) {
		return errProxied
	}
	if err := g.limit.Check(attrs); err != nil {
		return err
	}
	switch verb := attrs.GetVerb(); {
	case verbs.IsWrite(verb), verb == fieldperm.Verb, strings.HasPrefix(verb, fieldperm.VerbPrefix), strings.HasPrefix(verb, fieldperm.RevealPrefix):
		return nil
	case verb == verbs.Get && isConnect(attrs):
		return nil
	case verb == verbs.Get:
		return g.reads(attrs, errGet)
	case isList(verb):
		return g.reads(attrs, errSelect)
	}
	return errNoObject
}

// isConnect reports whether requests for the subresource are admitted with operation CONNECT, whatever their HTTP verb.
func isConnect(attrs authorizer.Attributes) bool {
	return connect.Of(attrs.GetAPIGroup(), attrs.GetResource(), attrs.GetSubresource()) != connect.None
}

// isRequestItself reports whether this is the filter's own check. Impersonation checks leave the path empty and ask
// about other resources.
func isRequestItself(ctx context.Context, attrs authorizer.Attributes) bool {
	info, ok := request.RequestInfoFrom(ctx)
	return ok && info.Path != "" && attrs.GetPath() == info.Path && attrs.GetVerb() == info.Verb && sameTarget(info, attrs)
}

// isCreateOfUpdate reports whether this is the create check that the update and patch handlers make when the object
// does not exist.
func isCreateOfUpdate(ctx context.Context, attrs authorizer.Attributes) bool {
	info, ok := request.RequestInfoFrom(ctx)
	return ok && (info.Verb == "update" || info.Verb == "patch") && attrs.GetVerb() == "create" &&
		attrs.GetPath() != "" && sameTarget(info, attrs)
}

// isThisConnect reports whether this is the second check of this connect request, and not a question about another one.
func isThisConnect(ctx context.Context, attrs authorizer.Attributes) bool {
	info, ok := request.RequestInfoFrom(ctx)
	return ok && info.Path != "" && attrs.GetPath() == info.Path && sameTarget(info, attrs)
}

func sameTarget(info *request.RequestInfo, attrs authorizer.Attributes) bool {
	return attrs.IsResourceRequest() == info.IsResourceRequest &&
		attrs.GetAPIGroup() == info.APIGroup && attrs.GetAPIVersion() == info.APIVersion &&
		attrs.GetResource() == info.Resource && attrs.GetSubresource() == info.Subresource &&
		attrs.GetNamespace() == info.Namespace && attrs.GetName() == info.Name
}
