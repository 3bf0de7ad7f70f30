package inquire

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/authorize"
	"proviso.dev/proviso/internal/snapshot"
	"proviso.dev/proviso/internal/whocan"
)

// Reviewer answers the reviews.
type Reviewer struct {
	Store *snapshot.Store
	// Chain is the whole authorizer chain.
	Chain *authorize.Chain
	// Indexed is the part of the chain that the index can enumerate: the tiers of Policy and RBAC.
	Indexed *authorize.Chain
}

// enumerable are the links whose grants the index knows, or that grant nothing it does not know.
var enumerable = []string{"system-masters", "policy-sync", "node-restriction", "policy-master", "policy-namespace", "rbac"}

// WhoCan is exact for Policy and RBAC together (PO-14). Conditions are decided as far as the subject decides them.
func (r *Reviewer) WhoCan(ctx context.Context, namespace string, spec authz.ResourceAccessReviewSpec) (authz.ResourceAccessReviewStatus, error) {
	var status authz.ResourceAccessReviewStatus
	snap := authorize.SnapshotOf(ctx, r.Store)
	if snap.Rules == nil {
		return status, apierrors.NewServiceUnavailable("the server has not read its policy yet")
	}
	attrs, err := question(snap.Served, &user.DefaultInfo{}, namespace, spec.Verb, spec.ResourceKind, spec.ResourceName)
	if err != nil {
		status.EvaluationError = err.Error()
		return status, nil
	}
	answer := whocan.Ask(snap.Rules, whocan.Question{Request: attrs, IncludeBlocked: spec.IncludeBlocked})
	status.UserNames, status.GroupNames = answer.Users, answer.Groups
	for _, c := range answer.Conditional {
		asked := attrs
		asked.User = userOf(c.Subject)
		d := r.Indexed.ConditionsAwareAuthorize(ctx, asked)
		switch {
		case d.IsAllow() && c.Subject.Group:
			status.GroupNames = append(status.GroupNames, c.Subject.Name)
		case d.IsAllow():
			status.UserNames = append(status.UserNames, c.Subject.Name)
		case d.PossibleDecisions().Has(authorizer.DecisionAllow):
			entry := authz.ConditionalSubject{Conditions: conditionsOf(d)}
			if c.Subject.Group {
				entry.GroupName = c.Subject.Name
			} else {
				entry.UserName = c.Subject.Name
			}
			status.Conditional = append(status.Conditional, entry)
		}
	}
	slices.Sort(status.UserNames)
	slices.Sort(status.GroupNames)
	for _, b := range answer.Blocked {
		entry := authz.BlockedSubject{
			Binding: b.Deny.Binding().String(),
			Rule:    fmt.Sprintf("rule %d of %s: %s", b.Deny.RuleIndex(), b.Deny.Role(), b.Deny.Describe()),
		}
		if b.Subject.Group {
			entry.GroupName = b.Subject.Name
		} else {
			entry.UserName = b.Subject.Name
		}
		if b.Deny.Condition() != nil || b.Deny.Names() != nil {
			asked := attrs
			asked.User = userOf(b.Subject)
			entry.Conditions = []authz.Condition{denyCondition(b.Deny, asked)}
		}
		status.BlockedBy = append(status.BlockedBy, entry)
	}
	if answer.Err != nil {
		status.EvaluationError = answer.Err.Error()
	}
	status.Incomplete, status.IncompleteReason = r.incomplete()
	return status, nil
}

// incomplete names what in the chain may allow somebody that the index does not know.
func (r *Reviewer) incomplete() (bool, string) {
	var others []string
	for _, l := range r.Chain.Links() {
		if !slices.Contains(enumerable, l.Name) && l.Name != "node" {
			others = append(others, l.Name)
		}
	}
	if len(others) == 0 {
		return false, ""
	}
	return true, "not asked, since they cannot list whom they allow: " + strings.Join(others, ", ")
}
