package policies

import (
	"slices"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/state/journal"
)

// DefaultRoles are the roles of the master namespace, with the meanings of the original design: viewers see everything
// in a namespace but policy, editors change everything but policy and membership, admins write roles and role bindings
// as well, but not their containers, and cluster admins everything. What that design could not know stands in the lists
// below (PO-10).
//
// A test holds view, edit and admin against the roles of the same name that RBAC has, right by right.
func DefaultRoles() map[string][]policyv1alpha1.PolicyRule {
	read := verbs.Reads()
	// What a refusal names can be read by those who meet it.
	protections := policyv1alpha1.PolicyRule{
		Verbs: read, ResourceKinds: []string{"protectedattributes.policy.proviso.dev"},
		Description: "read which labels and annotations are protected in the namespace",
	}
	const changes = "change what runs in the namespace"
	return map[string][]policyv1alpha1.PolicyRule{
		"view": {{
			Verbs: read, ResourceKinds: allBut(withheld, elsewhere, membership, []string{"-secrets"}),
			Description: "read everything but secrets and policy",
		}, protections},
		"edit": {
			{Verbs: read, ResourceKinds: allBut(withheld, elsewhere, membership), Description: "read everything but policy"},
			{Verbs: []string{"*"}, ResourceKinds: allBut(withheld, elsewhere, membership, readOnly), Description: changes},
			{Verbs: []string{"impersonate"}, ResourceKinds: []string{"serviceaccounts."}, Description: "act as service accounts, as their tokens allow as well"},
			protections,
		},
		"admin": {
			{Verbs: read, ResourceKinds: allBut(withheld, elsewhere), Description: "read everything"},
			{Verbs: []string{"*"}, ResourceKinds: allBut(withheld, elsewhere, membership, readOnly), Description: changes},
			{Verbs: []string{"impersonate"}, ResourceKinds: []string{"serviceaccounts."}, Description: "act as service accounts, as their tokens allow as well"},
			{
				Verbs: []string{"*", "deny"}, ResourceKinds: []string{"roles.authorization.proviso.dev"},
				Description: "write and bind roles, also such that deny",
			},
			{
				Verbs: []string{"*"}, ResourceKinds: []string{"rolebindings.authorization.proviso.dev", "roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io"},
				Description: "write roles of RBAC, and bind roles",
			},
			{
				Verbs: []string{"create"}, ResourceKinds: []string{"resourceaccessreviews.authorization.proviso.dev", "subjectaccessreviews.authorization.proviso.dev", "localsubjectaccessreviews.authorization.k8s.io"},
				Description: "ask who can do what in the namespace",
			},
			protections,
		},
		"cluster-admin": {
			{Verbs: append([]string{"*"}, specialVerbs...), ResourceKinds: []string{"*"}, Description: "everything"},
			{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}, Description: "every path"},
		},
		"basic-user": {
			{
				Verbs: []string{"create"}, ResourceKinds: []string{"subjectaccessreviews.authorization.proviso.dev"},
				Where: "!has(resource.spec.userName) && !has(resource.spec.groupName)", Description: "ask only about yourself",
			},
			{Verbs: []string{"get"}, NonResourceURLs: []string{journal.Path}, Description: "see who changed the policy that you may read"},
			{
				Verbs: read, ResourceKinds: []string{"clusterprotectedattributes.policy.proviso.dev"},
				Description: "read which labels and annotations are protected everywhere",
			},
		},
	}
}

// specialVerbs are never covered by a wildcard and have to be named (PO-9).
var specialVerbs = []string{"escalate", "bind", "deny", "approve", "impersonate*", "granular:*", "unsafe-delete-ignore-read-errors"}

var (
	// withheld is power over policy, over what is recorded, and over the API itself. All names in these lists but the
	// one for cluster-scoped custom resources have a group, one of Kubernetes' or ours: then nothing custom can get
	// such a name, and an admin holds every custom kind that they may grant.
	withheld = append([]string{"-clusterroles.rbac.authorization.k8s.io", "-clusterrolebindings.rbac.authorization.k8s.io"}, wholly(ruleset.Guarded)...)
	// elsewhere is what belongs to the cluster and to no namespace. The roles can be bound in the master namespace.
	elsewhere = []string{
		"-nodes.", "-persistentvolumes.", "-componentstatuses.", "-*.authentication.k8s.io", "-*.flowcontrol.apiserver.k8s.io", "-*.internal.apiserver.k8s.io",
		"-ingressclasses.networking.k8s.io", "-ipaddresses.networking.k8s.io", "-servicecidrs.networking.k8s.io", "-*.node.k8s.io",
		"-deviceclasses.resource.k8s.io", "-devicetaintrules.resource.k8s.io", "-resourceslices.resource.k8s.io", "-resourcepoolstatusrequests.resource.k8s.io",
		"-priorityclasses.scheduling.k8s.io", "-*.storage.k8s.io", "-*.storagemigration.k8s.io", "-permissions.authorization.proviso.dev",
		"-" + ruleset.ClusterScoped,
	}
	// membership is who has which role, and the questions about it.
	membership = []string{"-roles.rbac.authorization.k8s.io", "-rolebindings.rbac.authorization.k8s.io", "-*.authorization.proviso.dev", "-*.authorization.k8s.io"}
	// readOnly is what others set for those who work in the namespace: the namespace itself, with its labels and its
	// end, what limits it, what controllers and the scheduler report and decide, and where a service's traffic goes.
	readOnly = []string{
		"-namespaces.", "-resourcequotas.", "-limitranges.", "-*/status", "-bindings.", "-pods./binding", "-pods./ephemeralcontainers", "-pods./resize",
		"-podtemplates.", "-endpoints.", "-endpointslices.discovery.k8s.io", "-controllerrevisions.apps", "-resourceclaims.resource.k8s.io/binding",
		"-resourceclaims.resource.k8s.io/driver", "-evictions.lifecycle.k8s.io",
	}
)

// wholly takes out everything of some groups.
func wholly(groups []string) (out []string) {
	for _, g := range groups {
		out = append(out, "-*."+g)
	}
	return out
}

// allBut is everything but what the lists take out.
func allBut(lists ...[]string) []string { return slices.Concat(append([][]string{{"*"}}, lists...)...) }
