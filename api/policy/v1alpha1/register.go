package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of the stored policy kinds.
const GroupName = "policy.proviso.dev"

// SchemeGroupVersion is the only version of the group.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

var (
	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes, addDefaults)

	// AddToScheme registers the kinds of this group, their list and option types and their defaults.
	AddToScheme = schemeBuilder.AddToScheme
)

// Kind returns the group-qualified kind.
func Kind(kind string) schema.GroupKind { return SchemeGroupVersion.WithKind(kind).GroupKind() }

// Resource returns the group-qualified resource.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

// KnownTypes lists every object of the group, for schemes that register the types under another version as well.
func KnownTypes() []runtime.Object {
	return []runtime.Object{
		&Policy{}, &PolicyList{},
		&PolicyBinding{}, &PolicyBindingList{},
		&FieldPermission{}, &FieldPermissionList{},
		&ProtectedAttribute{}, &ProtectedAttributeList{},
		&ClusterProtectedAttribute{}, &ClusterProtectedAttributeList{},
		&NamespaceAuditSink{}, &NamespaceAuditSinkList{},
	}
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, KnownTypes()...)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
