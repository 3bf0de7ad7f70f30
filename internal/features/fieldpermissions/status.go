package fieldpermissions

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/state/selfclient"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/internal/state/statuswriter"
)

// reporter writes into field permissions where they take effect: which served resources have the field, embedded pod
// templates included, which of the named ones do not, and whether their expressions compile (FP-4).
type reporter struct {
	rights      *rights
	permissions statuswriter.Kind[*policyv1alpha1.FieldPermission, policyv1alpha1.FieldPermissionStatus]
}

func newReporter(rights *rights, from snapshot.Source, clients *selfclient.Clients) (*reporter, error) {
	client, err := clients.Group(policyv1alpha1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	permissions, err := from.Objects(snapshot.FieldPermissions)
	if err != nil {
		return nil, err
	}
	return &reporter{rights: rights, permissions: statuswriter.Kind[*policyv1alpha1.FieldPermission, policyv1alpha1.FieldPermissionStatus]{
		Resource: "fieldpermissions", Objects: permissions, Client: client,
		Stored: func(p *policyv1alpha1.FieldPermission) policyv1alpha1.FieldPermissionStatus { return p.Status },
	}}, nil
}

// Run implements feature.Runner.
func (r *reporter) Run(ctx context.Context) {
	statuswriter.Keep(ctx, "field permissions", statuswriter.PerSnapshot(r.rights.store, r.report))
}

func (r *reporter) report(ctx context.Context, snap *snapshot.Snapshot) error {
	return r.permissions.Update(ctx, r.rights.statuses(snap))
}

// statuses computes the status of any declaration.
func (f *rights) statuses(snap *snapshot.Snapshot) func(*policyv1alpha1.FieldPermission) policyv1alpha1.FieldPermissionStatus {
	// Only if there is a declaration at all: it takes the schemas of everything that is served.
	covered := sync.OnceValue(func() map[string][]string { return f.covered(snap) })
	broken := map[string][]string{}
	for _, issue := range snap.Fields.Issues() {
		broken[issue.Source] = append(broken[issue.Source], strings.TrimPrefix(issue.Message, issue.Source+": "))
	}
	return func(p *policyv1alpha1.FieldPermission) policyv1alpha1.FieldPermissionStatus {
		source := fieldperm.SourceOf(p)
		return f.status(snap.Served, p, covered()[source], broken[source])
	}
}

// covered lists for each declaration the served resources that have its field, in order.
func (f *rights) covered(snap *snapshot.Snapshot) map[string][]string {
	all := map[string][]string{}
	for _, gr := range snap.Served.Kinds().Resources() {
		r := fieldperm.Resource{Group: gr.Group, Resource: gr.Resource}
		for _, e := range snap.Fields.For(r) {
			if names := all[e.Source]; e.Stored && !slices.Contains(names, e.Resource) && f.HasField(snap.Served, r, e.Field) {
				all[e.Source] = append(names, e.Resource)
			}
		}
	}
	for _, names := range all {
		slices.Sort(names)
	}
	return all
}

// status says where one declaration takes effect.
func (f *rights) status(served *snapshot.Served, p *policyv1alpha1.FieldPermission, covered, broken []string) policyv1alpha1.FieldPermissionStatus {
	status := *p.Status.DeepCopy()
	status.ObservedGeneration = p.Generation
	status.CoveredResources, status.UnresolvedResources = covered, nil
	var reasons []string
	for _, name := range slices.Sorted(slices.Values(p.Spec.Resources)) {
		if reason := f.unresolved(served, p, name, covered); reason != "" {
			status.UnresolvedResources = append(status.UnresolvedResources, name)
			reasons = append(reasons, reason)
		}
	}
	statuswriter.SetCondition(&status.Conditions, p.Generation, policyv1alpha1.ConditionKindsResolved, "NotResolved", "", reasons)
	statuswriter.SetCondition(&status.Conditions, p.Generation, policyv1alpha1.ConditionRulesCompiled, "NotCompiled", "", broken)
	return status
}

// unresolved says why a named resource is not covered, or nothing if it is.
func (f *rights) unresolved(served *snapshot.Served, p *policyv1alpha1.FieldPermission, name string, covered []string) string {
	r, err := fieldperm.ParseResource(name)
	switch {
	case err != nil:
		return err.Error()
	case r.All() && len(covered) > 0, slices.Contains(covered, r.String()):
		return ""
	case r.All():
		return "no served resource has the field " + p.Spec.Field
	}
	at, err := fieldperm.ParsePath(p.Spec.Field)
	if err == nil {
		err = f.fieldIn(served, r, at)
	}
	if err == nil {
		return fmt.Sprintf("%s: the declaration has not taken effect yet", r)
	}
	return fmt.Sprintf("%s: %v", r, err)
}
