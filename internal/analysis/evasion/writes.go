package evasion

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/verbs"
)

// write is a kind of request by which labels, annotations or fields of an object change.
type write struct {
	schema.GroupResource
	sub   string
	verbs []string
}

// subresource names what is written as rules do: deployments.apps/status.
func (w write) subresource() string {
	return strings.TrimSuffix(w.GroupResource.String()+"/"+w.sub, "/")
}

func (w write) String() string {
	if w.verbs[0] == verbs.Create {
		return "creating " + w.subresource()
	}
	return "updating " + w.subresource()
}

// keeping are the subresources whose endpoints store the labels and annotations that they are sent. All others of
// Kubernetes, and those of custom resources, leave them as they were.
var keeping = map[schema.GroupResource][]string{
	{Resource: "namespaces"}:             {"status", "finalize"},
	{Resource: "nodes"}:                  {"status"},
	{Resource: "persistentvolumeclaims"}: {"status"},
	{Resource: "persistentvolumes"}:      {"status"},
	pods:                                 {"status"},
	{Resource: "replicationcontrollers"}: {"status"},
	{Resource: "resourcequotas"}:         {"status"},
	{Resource: "services"}:               {"status"},
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}: {"status"},
	{Group: "apps", Resource: "daemonsets"}:                                {"status"},
	deployments:                                                            {"status"},
	{Group: "apps", Resource: "replicasets"}:                               {"status"},
	{Group: "apps", Resource: "statefulsets"}:                              {"status"},
	{Group: "autoscaling", Resource: "horizontalpodautoscalers"}:           {"status"},
	{Group: "batch", Resource: "cronjobs"}:                                 {"status"},
	{Group: "batch", Resource: "jobs"}:                                     {"status"},
	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}: {"status", "approval"},
	{Group: "networking.k8s.io", Resource: "ingresses"}:                    {"status"},
	{Group: "policy", Resource: "poddisruptionbudgets"}:                    {"status"},
}

var (
	pods = schema.GroupResource{Resource: "pods"}
	// deployments keep their annotations through the status, and not their labels.
	deployments = schema.GroupResource{Group: "apps", Resource: "deployments"}
)

// writes are all that can change a mark on objects of a resource. A binding sets labels and annotations of a pod that
// is not scheduled yet; it takes none off.
func writes(rule *policyv1alpha1.PolicyRule, r schema.GroupResource, m Mark) []write {
	update := []string{verbs.Update, verbs.Patch}
	all := []write{{r, "", update}}
	if m.Of == Field {
		if within(m.Name, ".status") {
			all = append(all, write{r, "status", update})
		}
		return all
	}
	for _, sub := range keeping[r] {
		if r != deployments || m.Of == Annotation {
			all = append(all, write{r, sub, update})
		}
	}
	if r == pods && !m.onlyContained(rule) {
		create := []string{verbs.Create}
		all = append(all, write{r, "binding", create}, write{schema.GroupResource{Resource: "bindings"}, "", create})
	}
	return all
}

// denying says which denies would stop all writes.
func denying(all []write) string {
	if len(all) == 1 {
		return verbs.Update
	}
	var updates, creates []string
	for _, w := range all {
		if slices.Contains(w.verbs, verbs.Create) {
			creates = append(creates, w.subresource())
		} else {
			updates = append(updates, w.subresource())
		}
	}
	text := "update of " + strings.Join(updates, " and ")
	if len(creates) > 0 {
		text += ", and create of " + strings.Join(creates, " and ")
	}
	return text
}
