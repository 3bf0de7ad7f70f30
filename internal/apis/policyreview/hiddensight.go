package policyreview

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/state/snapshot"
)

// confirmSight refuses rules whose expressions may read a field that is hidden from their writer: what such a rule
// allows would reveal the field (HF-5). The right to escalate makes up for it.
func (e *Escalation) confirmSight(ctx context.Context, w write) error {
	snap := authorize.SnapshotOf(ctx, e.Store)
	caller, ok := request.UserFrom(ctx)
	if !snap.Fields.HidesAny() || !ok || slices.Contains(caller.GetGroups(), user.SystemPrivilegedGroup) {
		return nil // who is not known is refused later
	}
	for i, rule := range w.policy {
		unseen, r, found := e.unseen(ctx, snap, w, caller, rule)
		if !found {
			continue
		}
		asked := w.role
		asked.User, asked.Verb = caller, w.verb
		if e.may(ctx, asked) {
			return nil
		}
		return apierrors.NewForbidden(w.resource, w.name, fmt.Errorf("rules[%d] may read the field %s of %s, which is hidden: user %q needs %s on it, or the verb %s on %s (%s)",
			i, unseen.Field, r, caller.GetName(), unseen.Verb(), w.verb, e.target(w), unseen.Source))
	}
	return nil
}

// unseen finds a hidden field that a rule may read and its writer may not.
func (e *Escalation) unseen(ctx context.Context, snap *snapshot.Snapshot, w write, caller user.Info, rule policyv1alpha1.PolicyRule) (fieldperm.Hidden, fieldperm.Resource, bool) {
	for _, r := range snap.Fields.HidingResources() {
		concerns, places := mayConcern(snap.Served, rule, r), r == authorize.HiddenPlaces || r == fieldperm.Resource{}
		for _, h := range snap.Fields.Hidden(r) {
			attrs := authorizer.AttributesRecord{User: caller, Verb: h.Verb(), Namespace: w.namespace, APIGroup: r.Group, APIVersion: "*", Resource: r.Resource, ResourceRequest: true}
			may := concerns && authorize.MayRead(&rule, h) || places && authorize.MayReadNamespace(&rule, h)
			if may && !e.may(ctx, attrs) {
				return h, r, true
			}
		}
	}
	return fieldperm.Hidden{}, fieldperm.Resource{}, false
}

// mayConcern reports whether a rule may be about a resource. It errs towards yes.
func mayConcern(served *snapshot.Served, rule policyv1alpha1.PolicyRule, r fieldperm.Resource) bool {
	if r.All() || r.Resource == "" {
		return true
	}
	kind := strings.ToLower(served.OwnKind(schema.GroupResource{Group: r.Group, Resource: r.Resource}))
	named := false
	for _, entry := range rule.ResourceKinds {
		if strings.HasPrefix(entry, "-") {
			continue
		}
		named = true
		name := strings.ToLower(entry)
		if i := strings.IndexAny(name, "./"); i >= 0 {
			name = name[:i]
		}
		if name == "*" || name == "" || name == r.Resource || name == kind {
			return true
		}
	}
	return !named
}
