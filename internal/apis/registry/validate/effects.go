package validate

import (
	"slices"
	"strings"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// unstopped are kinds whose objects controllers delete for reasons that no deny of delete can see, with what to deny as
// well (PO-20). docs/explanation/effects.md has the whole list.
var unstopped = []struct {
	names  []string
	effect string
}{
	{[]string{"pods", "pod"}, "scaling or changing their workload, taints and deletion of their node, and pods of higher priority"},
	{[]string{"replicasets", "replicaset"}, "the revision history of their deployment"},
	{[]string{"jobs", "job"}, "their ttlSecondsAfterFinished and the history limits of their cron job"},
	{[]string{"persistentvolumeclaims", "persistentvolumeclaim"}, "the retention policy of their stateful set"},
	{[]string{"persistentvolumes", "persistentvolume"}, "the deletion of their claim, if they are reclaimed by Delete"},
	{[]string{"secrets", "secret"}, "the deletion of the service account whose token they hold"},
}

// effects says how objects that a rule denies to delete can still be deleted.
func effects(rule policy.PolicyRule) string {
	deletes := func(v string) bool { return v == "*" || v == "delete" }
	if !rule.Deny || !slices.ContainsFunc(rule.Verbs, deletes) || slices.Contains(rule.Verbs, "-delete") {
		return ""
	}
	var found []string
	for _, u := range unstopped {
		if slices.ContainsFunc(rule.ResourceKinds, func(k string) bool {
			name, _, _ := strings.Cut(strings.ToLower(k), ".")
			return slices.Contains(u.names, name)
		}) {
			found = append(found, u.names[0]+" by "+u.effect)
		}
	}
	return strings.Join(found, "; ")
}
