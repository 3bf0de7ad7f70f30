package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	rbacv1 "k8s.io/api/rbac/v1"

	access "proviso.dev/proviso/api/access/v1alpha1"
	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/apis/registry/validate"
	engine "proviso.dev/proviso/internal/engine/access"
)

// accessDecisions is a subresource by which people decide about requests: approval or revocation.
type accessDecisions struct {
	requests   *accessRequests
	authorizer authorizer.Authorizer
	revokes    bool
}

var _ rest.NamedCreater = &accessDecisions{}

// New returns an empty decision.
func (*accessDecisions) New() runtime.Object { return &access.AccessDecision{} }

// Destroy does nothing: the main resource owns the store.
func (*accessDecisions) Destroy() {}

// Create decides.
func (d *accessDecisions) Create(ctx context.Context, name string, obj runtime.Object, validation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	said := cast[*access.AccessDecision](obj)
	caller, now, err := d.requests.caller(ctx, name)
	if err != nil {
		return nil, err
	}
	if errs := validate.AccessDecision(said, d.revokes); len(errs) > 0 {
		return nil, apierrors.NewInvalid(access.Kind("AccessDecision"), name, errs)
	}
	if validation != nil {
		if err := validation(ctx, obj.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	dry := dryrun.IsDryRun(options.DryRun)
	r, err := d.requests.decide(ctx, name, said.RequestUID, func(r *access.AccessRequest) error {
		if d.revokes {
			return d.revoke(ctx, r, said, caller, now)
		}
		return d.approve(ctx, r, said, caller, now)
	}, dry)
	if err != nil {
		return nil, err
	}
	if !dry {
		d.requests.desk.Tell(r, string(r.Status.State))
	}
	return d.requests.shown(r), nil
}

// decide changes the status of a request. A request that is over does not change any more.
func (s *accessRequests) decide(ctx context.Context, name string, uid types.UID, change func(*access.AccessRequest) error, dry bool) (*access.AccessRequest, error) {
	options := &metav1.UpdateOptions{}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	changed := func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		r := cast[*access.AccessRequest](old).DeepCopy()
		if uid != "" && r.UID != uid {
			return nil, apierrors.NewConflict(s.stored.kind.resource(), name, errors.New("requestUID: it is another request by now; look at it again"))
		}
		if err := change(r); err != nil {
			return nil, err
		}
		now, _ := s.desk.Now()
		r.Status.State = engine.StatusAt(r, now).State
		return r, nil
	}
	obj, _, err := s.status.store.Update(ctx, name, rest.DefaultUpdatedObjectInfo(nil, changed), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, options)
	if err != nil {
		return nil, err
	}
	return cast[*access.AccessRequest](obj), nil
}

// approve counts an approval, or denies.
func (d *accessDecisions) approve(ctx context.Context, r *access.AccessRequest, said *access.AccessDecision, caller user.Info, now time.Time) error {
	rule, err := d.rule(ctx, r)
	if err != nil {
		return err
	}
	if state := engine.StatusAt(r, now).State; state != access.AccessPending {
		return apierrors.NewConflict(d.requests.stored.kind.resource(), r.Name, fmt.Errorf("it is %s: only a request that is pending can be approved or denied", state))
	}
	if rule.Spec.BreakGlass {
		return d.requests.forbidden(r.Name, fmt.Sprintf("AccessRule %q is for break-glass: its requests need no approval", rule.Name))
	}
	if engine.IsRequester(rule, r, caller.GetName(), caller.GetExtra()) {
		return d.requests.forbidden(r.Name, "you cannot approve or deny your own request")
	}
	if !engine.IsKnown(rule, caller.GetExtra()) || !engine.IsKnown(rule, r.Spec.Requester.Extra) {
		return d.requests.forbidden(r.Name, fmt.Sprintf("AccessRule %q tells people apart by %q of their extra, and you or the requester have no value of it", rule.Name, rule.Spec.Approvals.IdentityExtra))
	}
	if err := d.mayApprove(ctx, rule, r, caller); err != nil {
		return err
	}
	if said.Decision == access.Deny {
		set(r, access.ConditionDenied, access.ReasonDenied, byWhom(caller, said.Comment), now)
		return nil
	}
	r.Status.Approvals = append(r.Status.Approvals, access.AccessApproval{
		By: caller.GetName(), Identity: engine.Identity(rule, caller.GetExtra()), Time: validate.WholeSecond(now), RuleGeneration: rule.Generation, Comment: said.Comment,
	})
	if engine.Approved(rule, r) >= int(rule.Spec.Approvals.Count) {
		grant(r, rule, access.ReasonApproved, "approved "+byWhom(caller, said.Comment), now)
	}
	return nil
}

// grant makes a request one that counts from its beginning on.
func grant(r *access.AccessRequest, rule *access.AccessRule, reason, message string, now time.Time) {
	set(r, access.ConditionApproved, reason, message, now)
	from, until := term(r, now)
	r.Status.From, r.Status.Until = &from, &until
	r.Status.Granted = &access.AccessGrant{RoleRef: rule.Spec.RoleRef, SpecialVerbs: rule.Spec.SpecialVerbs}
}

// term is when a request counts that is granted now.
func term(r *access.AccessRequest, now time.Time) (from, until metav1.Time) {
	from = validate.WholeSecond(now)
	if r.Spec.NotBefore != nil && r.Spec.NotBefore.After(from.Time) {
		from = *r.Spec.NotBefore
	}
	return from, metav1.NewTime(from.Add(time.Duration(r.Spec.DurationSeconds) * time.Second))
}

// broken makes a request by break-glass active once its sinks were told, and denies it if they were not.
func (s *accessRequests) broken(ctx context.Context, rule *access.AccessRule, made *access.AccessRequest, told bool) error {
	r, err := s.decide(ctx, made.Name, made.UID, func(r *access.AccessRequest) error {
		now, _ := s.desk.Now()
		if engine.StatusAt(r, now).State != access.AccessPending {
			return apierrors.NewConflict(s.stored.kind.resource(), r.Name, errors.New("it is not pending any more"))
		}
		if !told || len(s.unheard(rule, r, now)) > 0 {
			set(r, access.ConditionDenied, access.ReasonSinkUnavailable, "not every audit sink of the rule could be told, or one ends before the grant would", now)
			return nil
		}
		grant(r, rule, access.ReasonBreakGlass, "the audit sinks of the rule were told", now)
		return nil
	}, false)
	if err == nil {
		s.desk.Tell(r, string(r.Status.State))
	}
	return err
}

// Consume ends a grant that is for one write. Of two writes at the same time one is refused.
func (s *accessRequests) Consume(ctx context.Context, name string, uid types.UID) error {
	_, err := s.decide(ctx, name, uid, func(r *access.AccessRequest) error {
		now, known := s.desk.Now()
		if state := engine.StatusAt(r, now).State; !known || state != access.AccessActive {
			return apierrors.NewConflict(s.stored.kind.resource(), name, fmt.Errorf("it is %s, and was for one write only", state))
		}
		set(r, access.ConditionEnded, access.ReasonConsumed, "its one write was made", now)
		return nil
	}, false)
	return err
}

// Settle writes down what time has made of a request.
func (s *accessRequests) Settle(ctx context.Context, name string, uid types.UID) error {
	r, err := s.decide(ctx, name, uid, func(r *access.AccessRequest) error {
		now, known := s.desk.Now()
		status := engine.StatusAt(r, now)
		if !known || !engine.IsOver(status.State) || engine.IsOver(r.Status.State) {
			return apierrors.NewConflict(s.stored.kind.resource(), name, errors.New("nothing has changed"))
		}
		engine.Show(r, now)
		return nil
	}, false)
	if err == nil {
		s.desk.Tell(r, string(r.Status.State))
	}
	return err
}

// Forget deletes a request.
func (s *accessRequests) Forget(ctx context.Context, name string, uid types.UID) error {
	_, _, err := s.stored.Store.Delete(ctx, name, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	return err
}

// revoke ends a request.
func (d *accessDecisions) revoke(ctx context.Context, r *access.AccessRequest, said *access.AccessDecision, caller user.Info, now time.Time) error {
	if state := engine.StatusAt(r, now).State; engine.IsOver(state) {
		return apierrors.NewConflict(d.requests.stored.kind.resource(), r.Name, fmt.Errorf("it is %s already", state))
	}
	if caller.GetName() == r.Spec.Requester.Username {
		set(r, access.ConditionEnded, access.ReasonWithdrawn, byWhom(caller, said.Comment), now)
		return nil
	}
	rule, err := d.rule(ctx, r)
	if err != nil {
		return err
	}
	if refused := d.mayApprove(ctx, rule, r, caller); refused != nil && !d.mayBind(ctx, rule, r, caller) {
		return refused
	}
	set(r, access.ConditionEnded, access.ReasonRevoked, byWhom(caller, said.Comment), now)
	return nil
}

// rule is the rule that a request was made by. Another one of the same name is not.
func (d *accessDecisions) rule(ctx context.Context, r *access.AccessRequest) (*access.AccessRule, error) {
	rule, err := d.requests.rule(ctx, r.Spec.RuleRef.Name)
	if apierrors.IsNotFound(err) || err == nil && rule.UID != r.Spec.RuleRef.UID {
		return nil, apierrors.NewConflict(d.requests.stored.kind.resource(), r.Name, fmt.Errorf("its AccessRule %q is gone", r.Spec.RuleRef.Name))
	}
	return rule, err
}

// mayApprove refuses those whose word does not count: they must be listed by the rule, have the verb approve on it, and
// have the right to say so other than by a grant.
func (d *accessDecisions) mayApprove(ctx context.Context, rule *access.AccessRule, r *access.AccessRequest, caller user.Info) error {
	if rule.Spec.Approvals != nil && !engine.MayApprove(rule, caller) {
		return d.requests.forbidden(r.Name, fmt.Sprintf("AccessRule %q does not list %q among those whose approval counts", rule.Name, caller.GetName()))
	}
	if d.requests.desk.ByGrant(ctx) {
		return d.requests.forbidden(r.Name, "this request was made possible by a grant: rights from a grant cannot be used to approve requests")
	}
	if why := d.has(ctx, caller, engine.VerbApprove, access.GroupName, access.SchemeGroupVersion.Version, "accessrules", "", rule.Name); why != "" {
		return d.requests.forbidden(r.Name, fmt.Sprintf("%q needs the verb \"approve\" on accessrules.%s %q%s", caller.GetName(), access.GroupName, rule.Name, why))
	}
	return nil
}

// mayBind reports whether the caller could bind the role, and so may take it back.
func (d *accessDecisions) mayBind(ctx context.Context, rule *access.AccessRule, r *access.AccessRequest, caller user.Info) bool {
	ref := rule.Spec.RoleRef
	if ref.ClusterRole() {
		return d.has(ctx, caller, "bind", rbacv1.GroupName, rbacv1.SchemeGroupVersion.Version, "clusterroles", "", ref.Name) == ""
	}
	return d.has(ctx, caller, "bind", authz.GroupName, authz.SchemeGroupVersion.Version, "roles", ref.Namespace, ref.Name) == ""
}

// has is empty if the caller has a right, and otherwise what is known about why not.
func (d *accessDecisions) has(ctx context.Context, caller user.Info, verb, group, version, resource, namespace, name string) string {
	decision, reason, err := d.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: caller, Verb: verb, APIGroup: group, APIVersion: version, Resource: resource, Namespace: namespace, Name: name, ResourceRequest: true,
	})
	switch {
	case decision == authorizer.DecisionAllow:
		return ""
	case err != nil:
		return " (the authorizer failed)"
	case reason != "":
		return ": " + reason
	}
	return " "
}

func byWhom(caller user.Info, comment string) string {
	return strings.TrimSuffix("by "+caller.GetName()+": "+comment, ": ")
}

func set(r *access.AccessRequest, kind, reason, message string, now time.Time) {
	meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{
		Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: validate.WholeSecond(now), ObservedGeneration: r.Generation,
	})
}
