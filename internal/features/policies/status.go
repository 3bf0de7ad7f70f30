package policies

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/internal/state/statuswriter"
)

// shownKinds bounds how many covered kinds a rule's status lists.
const shownKinds = 40

// reporter writes into policies and policy bindings what they mean at the moment: which kinds a wildcard covers, which
// names nothing serves, which rules are quarantined, which bindings have no role (PO-1, PO-2, PO-5, SV-8).
type reporter struct {
	store      *snapshot.Store
	policies   statuswriter.Kind[*policyv1alpha1.Policy, policyv1alpha1.PolicyStatus]
	bindings   statuswriter.Kind[*policyv1alpha1.PolicyBinding, policyv1alpha1.PolicyBindingStatus]
	quarantine quarantineReporter
	// views reaches the roles themselves.
	views *rest.RESTClient
}

func newReporter(k *feature.Kernel, from snapshot.Source) (*reporter, error) {
	client, err := k.Clients.Group(policyv1alpha1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	views, err := k.Clients.Group(authz.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	policies, err := from.Objects(snapshot.Policies)
	if err != nil {
		return nil, err
	}
	bindings, err := from.Objects(snapshot.PolicyBindings)
	if err != nil {
		return nil, err
	}
	return &reporter{
		store: k.Store,
		views: views,
		quarantine: quarantineReporter{tell: func(namespace, reason, message string) {
			if p, ok, err := policies.GetIndexer().GetByKey(namespace + "/" + policyv1alpha1.PolicyName); ok && err == nil {
				if obj, ok := p.(*policyv1alpha1.Policy); ok {
					k.Warner.Warn(obj, reason, message)
				}
			}
		}},
		policies: statuswriter.Kind[*policyv1alpha1.Policy, policyv1alpha1.PolicyStatus]{
			Resource: "policies", Objects: policies, Client: client,
			Stored: func(p *policyv1alpha1.Policy) policyv1alpha1.PolicyStatus { return p.Status },
		},
		bindings: statuswriter.Kind[*policyv1alpha1.PolicyBinding, policyv1alpha1.PolicyBindingStatus]{
			Resource: "policybindings", Objects: bindings, Client: client,
			Stored: func(b *policyv1alpha1.PolicyBinding) policyv1alpha1.PolicyBindingStatus { return b.Status },
		},
	}, nil
}

// Run implements feature.Runner.
func (r *reporter) Run(ctx context.Context) {
	statuswriter.Keep(ctx, "policies", statuswriter.PerSnapshot(r.store, r.report))
}

func (r *reporter) report(ctx context.Context, snap *snapshot.Snapshot) error {
	broken, orphans := map[string][]string{}, map[string][]string{}
	for _, p := range snap.Rules.Problems() {
		switch {
		case p.Role.Kind == ruleset.PolicyRole:
			broken[p.Role.Namespace] = append(broken[p.Role.Namespace], p.Error())
		case p.Binding.Kind == ruleset.PolicyRoleBinding:
			key := p.Binding.Namespace + "/" + p.Binding.Container
			orphans[key] = append(orphans[key], p.Binding.Name)
		}
	}
	r.quarantine.report(snap.Rules.Problems())
	return errors.Join(
		r.policies.Update(ctx, func(p *policyv1alpha1.Policy) policyv1alpha1.PolicyStatus {
			return policyStatus(p, snap.Served.Kinds(), broken[p.Namespace])
		}),
		r.bindings.Update(ctx, func(b *policyv1alpha1.PolicyBinding) policyv1alpha1.PolicyBindingStatus {
			return bindingStatus(b, orphans[b.Namespace+"/"+b.Name])
		}),
		r.finishDeletions(ctx),
	)
}

// finishDeletions deletes again what is marked as being deleted: a role goes with its last binding, and the server that
// removed that may have died before it removed the role (PO-5). What is still bound stays.
func (r *reporter) finishDeletions(ctx context.Context) error {
	var failed []error
	for _, p := range statuswriter.Sorted[*policyv1alpha1.Policy](r.policies.Objects) {
		for name, role := range p.Roles {
			if role.DeletionTimestamp == nil {
				continue
			}
			options := fmt.Sprintf(`{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background","preconditions":{"uid":%q}}`, role.UID)
			err := r.views.Delete().Namespace(p.Namespace).Resource("roles").Name(name).SetHeader("Content-Type", "application/json").Body([]byte(options)).Do(ctx).Error()
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				failed = append(failed, fmt.Errorf("role %s/%s: %w", p.Namespace, name, err))
			}
		}
	}
	return errors.Join(failed...)
}

func policyStatus(p *policyv1alpha1.Policy, kinds *ruleset.Kinds, broken []string) policyv1alpha1.PolicyStatus {
	status := *p.Status.DeepCopy()
	status.ObservedGeneration = p.Generation
	status.Roles, status.UnresolvedKinds = nil, nil
	for name, role := range p.Roles {
		var covered []policyv1alpha1.RuleCoverage
		for i := range role.Rules {
			c := ruleset.Coverage(&role.Rules[i], kinds)
			if !c.Wildcard && len(c.Unserved) == 0 {
				continue // what it covers stands in the rule itself
			}
			entry := policyv1alpha1.RuleCoverage{Rule: int32(i), CoveredCount: int32(len(c.Resources)), UnresolvedKinds: c.Unserved}
			for _, resource := range c.Resources[:min(len(c.Resources), shownKinds)] {
				entry.CoveredKinds = append(entry.CoveredKinds, resource.String())
			}
			covered = append(covered, entry)
			status.UnresolvedKinds = append(status.UnresolvedKinds, c.Unserved...)
		}
		if covered != nil {
			if status.Roles == nil {
				status.Roles = map[string]policyv1alpha1.RoleStatus{}
			}
			status.Roles[name] = policyv1alpha1.RoleStatus{Rules: covered}
		}
	}
	slices.Sort(status.UnresolvedKinds)
	status.UnresolvedKinds = slices.Compact(status.UnresolvedKinds)
	statuswriter.SetCondition(&status.Conditions, p.Generation, policyv1alpha1.ConditionKindsResolved, "NotServed", "no served resource has these names, guarded API groups left out: ", status.UnresolvedKinds)
	statuswriter.SetCondition(&status.Conditions, p.Generation, policyv1alpha1.ConditionRulesCompiled, "NotCompiled", "", broken)
	return status
}

func bindingStatus(b *policyv1alpha1.PolicyBinding, orphans []string) policyv1alpha1.PolicyBindingStatus {
	status := *b.Status.DeepCopy()
	status.ObservedGeneration = b.Generation
	slices.Sort(orphans)
	status.Unresolved = orphans
	statuswriter.SetCondition(&status.Conditions, b.Generation, policyv1alpha1.ConditionRolesResolved, "RoleMissing", "the role of these role bindings does not exist, so they grant nothing: ", orphans)
	return status
}
