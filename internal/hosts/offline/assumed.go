package offline

import (
	"cmp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/internal/state/source"
)

// assumed is what a server serves of the kinds in schemes, for files that do not say it: every kind that has a list,
// under its plural, and the subresources that rules name. A dump of a server's own lists is exact and comes before it.
func assumed(schemes ...*runtime.Scheme) (lists []*metav1.APIResourceList) {
	for _, scheme := range schemes {
		for _, gv := range preferred(scheme.PrioritizedVersionsAllGroups()) {
			list := &metav1.APIResourceList{GroupVersion: gv.String()}
			for kind := range scheme.KnownTypes(gv) {
				if kind == "APIGroup" { // what is served is not an object
					continue
				}
				if scheme.Recognizes(gv.WithKind(kind+"List")) || isCreatedOnly(kind) {
					list.APIResources = append(list.APIResources, resourcesOf(gv, kind)...)
				}
			}
			slices.SortFunc(list.APIResources, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
			if len(list.APIResources) > 0 {
				lists = append(lists, list)
			}
		}
	}
	return append(lists, elsewhere()...)
}

// isCreatedOnly tells kinds that are sent and never stored.
func isCreatedOnly(kind string) bool {
	return strings.HasSuffix(kind, "Review") || kind == "Binding" || kind == "NarrowedToken"
}

// elsewhere is what a server serves by itself whose types are in neither scheme.
func elsewhere() []*metav1.APIResourceList {
	var lists []*metav1.APIResourceList
	for _, kind := range []schema.GroupVersionKind{
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, {Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"},
		{Group: "authorization.k8s.io", Version: "v1alpha1", Kind: "AuthorizationConditionsReview"},
	} {
		gv := kind.GroupVersion()
		lists = append(lists, &metav1.APIResourceList{GroupVersion: gv.String(), APIResources: resourcesOf(gv, kind.Kind)})
	}
	return lists
}

// preferred are versions in the order in which a server prefers them: stable ones first. A client's scheme has them
// in any.
func preferred(versions []schema.GroupVersion) []schema.GroupVersion {
	slices.SortStableFunc(versions, func(a, b schema.GroupVersion) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), version.CompareKubeAwareVersionStrings(b.Version, a.Version))
	})
	return versions
}

// resourcesOf are a resource and its subresources.
func resourcesOf(gv schema.GroupVersion, kind string) []metav1.APIResource {
	plural, _ := meta.UnsafeGuessKindToResource(gv.WithKind(kind))
	serves, sent := metav1.Verbs(verbs.Served()), isCreatedOnly(kind)
	if sent {
		serves = metav1.Verbs{verbs.Create}
	}
	all := []metav1.APIResource{{Name: plural.Resource, Kind: kind, Namespaced: isNamespaced(gv.Group, kind), Verbs: serves}}
	for sub, of := range subresources[schema.GroupKind{Group: gv.Group, Kind: kind}] {
		r := metav1.APIResource{Name: plural.Resource + "/" + sub, Kind: of.Kind, Group: of.Group, Version: of.Version}
		if r.Kind == "" {
			r.Kind = kind
		}
		all = append(all, r)
	}
	if !sent {
		all = append(all, metav1.APIResource{Name: plural.Resource + "/status", Kind: kind})
	}
	return all
}

func isNamespaced(group, kind string) bool {
	return group == authz.GroupName && kind == "SubjectAccessReview" || !slices.Contains(clusterScoped, kind)
}

// clusterScoped are the built-in kinds that belong to no namespace. TestToolsAssumeWhatIsServed compares them with a
// server.
var clusterScoped = []string{"Namespace", "Node", "PersistentVolume", "ComponentStatus", "ClusterRole", "ClusterRoleBinding", "StorageClass", "CSIDriver", "CSINode",
	"VolumeAttachment", "PriorityClass", "RuntimeClass", "IngressClass", "CertificateSigningRequest", "FlowSchema", "PriorityLevelConfiguration",
	"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "DeviceClass", "ResourceSlice", "IPAddress", "ServiceCIDR", "ClusterTrustBundle",
	"ClusterProtectedAttribute", "FieldPermission", "AuditSink", "AuditClass", "TokenReview", "SubjectAccessReview", "SelfSubjectAccessReview", "SelfSubjectReview",
	"SelfSubjectRulesReview", "AuthorizationConditionsReview", "AccessRule", "NarrowedToken", "TokenRevocation", "Permission", "CustomResourceDefinition", "APIService", "DeviceTaintRule",
	"StorageVersionMigration", "VolumeAttributesClass"}

// subresources are those of the built-in kinds, with the kind of their body where it is another.
var subresources = map[schema.GroupKind]map[string]schema.GroupVersionKind{
	{Kind: "Pod"}: {
		"log": {}, "ephemeralcontainers": {}, "resize": {}, "exec": {Kind: "PodExecOptions"}, "attach": {Kind: "PodAttachOptions"},
		"portforward": {Kind: "PodPortForwardOptions"}, "proxy": {Kind: "PodProxyOptions"}, "binding": {Kind: "Binding"},
		"eviction": {Group: "policy", Version: "v1", Kind: "Eviction"},
	},
	{Kind: "Service"}:                    {"proxy": {Kind: "ServiceProxyOptions"}},
	{Kind: "Node"}:                       {"proxy": {Kind: "NodeProxyOptions"}},
	{Kind: "Namespace"}:                  {"finalize": {}},
	{Kind: "ServiceAccount"}:             {"token": {Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}},
	{Kind: "ReplicationController"}:      {"scale": scale},
	{Group: "apps", Kind: "Deployment"}:  {"scale": scale},
	{Group: "apps", Kind: "ReplicaSet"}:  {"scale": scale},
	{Group: "apps", Kind: "StatefulSet"}: {"scale": scale},
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}: {"approval": {}},
	{Group: accessv1alpha1.GroupName, Kind: "AccessRequest"}: {"approval": {Group: accessv1alpha1.GroupName, Version: "v1alpha1", Kind: "AccessDecision"},
		"revocation": {Group: accessv1alpha1.GroupName, Version: "v1alpha1", Kind: "AccessDecision"}},
}

var scale = schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}

// told is what a dump says is served: built in, or by another server. What is served because of definitions is in the
// definitions.
func told(files *source.Files, reserved []string) (local, remote []*metav1.APIResourceList) {
	custom := map[schema.GroupResource]bool{}
	definitions, _ := files.Objects(snapshot.Definitions)
	for _, d := range snapshot.Of[*apiextensionsv1.CustomResourceDefinition](definitions) {
		custom[schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural}] = true
	}
	for _, list := range files.Served {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		if slices.Contains(reserved, gv.Group) || gv.Group == apiextensionsv1.GroupName || gv.Group == "apiregistration.k8s.io" {
			local = append(local, list)
			continue
		}
		others := &metav1.APIResourceList{GroupVersion: list.GroupVersion}
		for _, r := range list.APIResources {
			main, _, _ := strings.Cut(r.Name, "/")
			if !custom[schema.GroupResource{Group: gv.Group, Resource: main}] {
				others.APIResources = append(others.APIResources, r)
			}
		}
		if len(others.APIResources) > 0 {
			remote = append(remote, others)
		}
	}
	return local, remote
}

// groupsOf are the groups of schemes.
func groupsOf(schemes ...*runtime.Scheme) (groups []string) {
	for _, scheme := range schemes {
		for _, gv := range scheme.PrioritizedVersionsAllGroups() {
			groups = append(groups, gv.Group)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}
