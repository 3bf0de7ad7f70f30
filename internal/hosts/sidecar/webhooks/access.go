package webhooks

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/apis/accessreview"
	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/denial"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/discovery"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Config is what both calls decide by.
type Config struct {
	Gate  *authorize.Gate
	Store *snapshot.Store
	// Served knows what the stock server serves.
	Served *discovery.Directory
	// Enforcer is the enforcer that a Proviso server runs first in validating admission.
	Enforcer admission.ValidationInterface
	// Objects reads what is admitted.
	Objects *Objects
	// Interlock proves that the stock server calls admission.
	Interlock Interlock
	// Own is the sidecar's name, and Canary that of its proof.
	Own, Canary string
	// Guards list what the enforcer refuses whatever the chain says: fields and attributes.
	Guards accessreview.Guards
	// Age knows when the policy is too old to decide by.
	Age authorize.Age
	// Grants checks what objects of RBAC grant.
	Grants Grants
	// Granted remembers what was allowed under a condition.
	Granted *Granted
	// Home is the namespace of the Service by which the stock server finds our API groups.
	Home string
	// Ours are our API groups. Their enforcer runs where they are served, so nothing has to be proven for them.
	Ours []string
}

// Interlock knows whether the admission webhook is called (SC-7).
type Interlock interface {
	// Asked notes that authorization was asked on a connection about a nonce.
	Asked(connection, nonce string)
	// Admitted notes that admission was asked about a nonce, and gives the words to refuse it with.
	Admitted(nonce string) string
	// Proven returns nil if conditions can be honoured for the caller on a connection. It may wait a little for that.
	Proven(ctx context.Context, connection string) error
	// Watched is nil if the server that asks on a connection was proven to call admission, and nothing has changed
	// since. It lasts as long as the connection.
	Watched(connection string) error
}

// Decider answers both calls.
type Decider struct{ cfg Config }

// New makes one.
func New(cfg Config) (*Decider, error) {
	if cfg.Gate == nil || cfg.Store == nil || cfg.Served == nil || cfg.Enforcer == nil || cfg.Objects == nil || cfg.Interlock == nil || cfg.Guards == nil || cfg.Age == nil || cfg.Granted == nil || cfg.Grants == nil || cfg.Own == "" || cfg.Canary == "" {
		return nil, errors.New("a decider needs all of its parts")
	}
	return &Decider{cfg}, nil
}

// ErrUnsynced means that there is no policy to decide by yet. Nothing is allowed (SC-8).
var ErrUnsynced = errors.New("the sidecar has not read its policy yet")

// pin gives a call the policy of this moment.
func (d *Decider) pin(ctx context.Context) (context.Context, *snapshot.Snapshot, error) {
	snap, instant := d.cfg.Store.Now()
	if !snap.Synced {
		return ctx, nil, ErrUnsynced
	}
	return requestctx.At(ctx, snap, instant), snap, nil
}

// stale returns why the policy is too old to decide by. A user may have lost a right in the meantime.
func (d *Decider) stale() string { return d.cfg.Age.Stale() }

// Answer is the answer of the authorization webhook. The zero value denies.
type Answer struct {
	Decision authorizer.Decision
	Reason   string
}

var silence = Answer{Decision: authorizer.DecisionNoOpinion}

// Access answers authorization (SC-5): Deny where the decision is Deny, Allow where it is Allow, Allow where it can
// become Allow in an admission that is proven to come, and no opinion otherwise.
func (d *Decider) Access(ctx context.Context, connection string, attrs authorizer.Attributes) (Answer, error) {
	ctx, snap, err := d.pin(ctx)
	if err != nil {
		return Answer{}, err
	}
	switch name := attrs.GetUser().GetName(); {
	case name == d.cfg.Canary:
		d.cfg.Interlock.Asked(connection, attrs.GetName())
		return silence, nil // RBAC says what it may try, and admission refuses it
	case name == d.cfg.Own && attrs.GetSubresource() != "":
		return Answer{Reason: "the sidecar uses no subresources: another process uses its certificate"}, nil
	}
	if why := d.stale(); why != "" {
		return Answer{Reason: why}, nil
	}
	if err := d.cfg.Served.Unknown(snap, attrs); err != nil {
		return Answer{Reason: err.Error()}, nil //nolint:nilerr // the answer is no, and says why
	}
	if attrs.GetVerb() == authorize.VerbUnsafeDelete {
		if why := d.cfg.Gate.DeniesUnsafe(ctx, attrs); why != "" {
			return Answer{Reason: why}, nil
		}
	}
	v := d.cfg.Gate.Decide(ctx, attrs)
	v.Report(ctx)
	if v.Hangs() && !slices.Contains(d.cfg.Ours, attrs.GetAPIGroup()) {
		if err := d.cfg.Interlock.Proven(ctx, connection); err != nil {
			v = v.Folded(ctx)
			v.Reason = joined(v.Reason, err)
		}
	}
	if err := d.unwatched(connection, attrs); err != nil && v.Answer != authorize.Denied && d.checked(ctx, snap, attrs) {
		return Answer{Reason: err.Error()}, nil
	}
	d.cfg.Gate.ObserveAccess(ctx, attrs, v)
	if v.Hangs() {
		on := allowed
		if v.Answer == authorize.Unanswered {
			on = undenied
		}
		d.cfg.Granted.note(attrs, on)
	}
	switch {
	case v.Answer == authorize.Denied:
		return Answer{Reason: (&denial.Question{Attributes: attrs}).Advise(joined(v.Reason, v.Err))}, nil
	case v.Answer == authorize.Unanswered, v.By == links.RBAC: // the stock server has that link as well, and answers for itself
		return Answer{Decision: authorizer.DecisionNoOpinion, Reason: joined(v.Reason, v.Err)}, nil
	}
	return Answer{Decision: authorizer.DecisionAllow, Reason: v.Reason}, nil
}

// unwatched returns why admission may not be called for a request, although it writes.
func (d *Decider) unwatched(connection string, attrs authorizer.Attributes) error {
	if !attrs.IsResourceRequest() || slices.Contains(d.cfg.Ours, attrs.GetAPIGroup()) || !verbs.IsWrite(attrs.GetVerb()) {
		return nil
	}
	return d.cfg.Interlock.Watched(connection)
}

// checked reports whether admission may refuse a request that is allowed, without any condition: for the sake of a
// field or an attribute, of what else would be deleted, of what RBAC hands out, or of our own groups and the master
// namespace.
func (d *Decider) checked(ctx context.Context, snap *snapshot.Snapshot, attrs authorizer.Attributes) bool {
	u, namespace := attrs.GetUser(), attrs.GetNamespace()
	deletes := attrs.GetVerb() != "create" || attrs.GetSubresource() != "" // an object that is made deletes nothing yet
	resource := schema.GroupResource{Group: attrs.GetAPIGroup(), Resource: attrs.GetResource()}
	return slices.Contains(guarded, resource) || namespace != "" && namespace == d.cfg.Home && slices.Contains(enforce.Leading, resource) ||
		d.granting(ctx, attrs) || len(d.cfg.Guards.Before(ctx, attrs)) > 0 ||
		deletes && snap.Rules != nil && u != nil && (snap.Rules.DeniesDelete(u, namespace) || namespace == "" && len(snap.Rules.DeniesDeleteIn(u)) > 0)
}

// guarded are where our own groups, and the namespace whose policy holds everywhere, could be taken away.
var guarded = []schema.GroupResource{{Resource: "namespaces"}, {Group: "apiregistration.k8s.io", Resource: "apiservices"}, {Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}}

func joined(reason string, err error) string {
	switch {
	case err == nil:
		return reason
	case reason == "":
		return err.Error()
	}
	return reason + "; " + err.Error()
}

// named is a caller whose name is given, for comparing.
func named(u user.Info, name string) bool { return u != nil && u.GetName() == name }
