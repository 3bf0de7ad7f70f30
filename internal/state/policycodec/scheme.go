package policycodec

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	access "proviso.dev/proviso/api/access/v1alpha1"
	audit "proviso.dev/proviso/api/auditregistration/v1alpha1"
	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

var (
	// Scheme knows our groups. Each Go type is registered as its external version and as the internal one, so
	// converting between them changes nothing.
	Scheme = newScheme()

	// Codecs encode and decode the groups.
	Codecs = serializer.NewCodecFactory(Scheme, serializer.WithStreamingCollectionEncodingToJSON())

	// ParameterCodec decodes query parameters.
	ParameterCodec = runtime.NewParameterCodec(Scheme)
)

// apiGroup is one group: its version, its registration and its types.
type apiGroup struct {
	version     schema.GroupVersion
	addToScheme func(*runtime.Scheme) error
	types       func() []runtime.Object
}

var apiGroups = []apiGroup{
	{policy.SchemeGroupVersion, policy.AddToScheme, policy.KnownTypes},
	{authz.SchemeGroupVersion, authz.AddToScheme, authz.KnownTypes},
	{audit.SchemeGroupVersion, audit.AddToScheme, audit.KnownTypes},
	{access.SchemeGroupVersion, access.AddToScheme, access.KnownTypes},
}

// GroupVersions returns the served versions, in the order in which APIGroupInfos returns them.
func GroupVersions() []schema.GroupVersion {
	var all []schema.GroupVersion
	for _, g := range apiGroups {
		all = append(all, g.version)
	}
	return all
}

// Groups returns our API groups.
func Groups() []string {
	var all []string
	for _, g := range apiGroups {
		all = append(all, g.version.Group)
	}
	return all
}

func newScheme() *runtime.Scheme {
	scheme := VersionedScheme()
	for _, g := range apiGroups {
		scheme.AddKnownTypes(schema.GroupVersion{Group: g.version.Group, Version: runtime.APIVersionInternal}, g.types()...)
	}
	utilruntime.Must(scheme.AddFieldLabelConversionFunc(authz.SchemeGroupVersion.WithKind("Permission"), permissionSelectors))
	return scheme
}

// VersionedScheme knows the external versions only. It is what names OpenAPI definitions: with Scheme, every definition
// would claim to be of version __internal as well.
func VersionedScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, g := range apiGroups {
		utilruntime.Must(g.addToScheme(scheme))
		utilruntime.Must(scheme.SetVersionPriority(g.version))
	}
	// What every API server needs: options, and the types of discovery and of errors.
	v1 := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(scheme, v1)
	scheme.AddUnversionedTypes(v1,
		&metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return scheme
}

// Negotiated leaves protobuf and CBOR out of the negotiation: our types have neither. A client that lists JSON after
// them, as all of Kubernetes' own do, gets JSON instead of an error.
type Negotiated struct {
	runtime.NegotiatedSerializer
}

func (n Negotiated) SupportedMediaTypes() []runtime.SerializerInfo {
	var text []runtime.SerializerInfo
	for _, info := range n.NegotiatedSerializer.SupportedMediaTypes() {
		if info.EncodesAsText {
			text = append(text, info)
		}
	}
	return text
}

// The fields that permissions are selected by.
const (
	SelectName     = "metadata.name"
	SelectResource = "resource"
)

// permissionSelectors accepts the supported field selectors; every other one is a mistake of the caller.
func permissionSelectors(label, value string) (string, string, error) {
	switch label {
	case SelectName, SelectResource:
		return label, value, nil
	}
	return "", "", fmt.Errorf("field selector %q: permissions are selected by %s or %s, such as resource=deployments.apps", label, SelectResource, SelectName)
}
