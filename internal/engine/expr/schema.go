package expr

import (
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Names of the variables of an expression.
const (
	varRequest      = "request"
	varObject       = "object"
	varOldObject    = "oldObject"
	varOptions      = "options"
	varTarget       = "target"
	varOperation    = "operation"
	varNamespace    = "namespaceObject"
	varImpersonated = "impersonatedRequest"
	varResource     = "resource"
)

// Type is the declared type of a kind. Compile checks expressions against it;
// evaluation does not need it.
type Type struct {
	decl *apiservercel.DeclType
}

// NewType builds a Type from the OpenAPI schema of a kind; name must be unique among the types given to one Compile. It
// returns nil for an empty schema, which disables the check.
func NewType(name string, schema *spec.Schema) *Type {
	if schema == nil {
		return nil
	}
	decl := common.SchemaDeclType(&openapi.Schema{Schema: schema}, true)
	if decl == nil {
		return nil
	}
	return &Type{decl: decl.MaybeAssignTypeName(name)}
}

// RequestType returns the declared type of `request`, for those who ask which fields an expression can name.
func RequestType() *apiservercel.DeclType { return requestType() }

// ImpersonatedType returns the declared type of `impersonatedRequest`.
func ImpersonatedType() *apiservercel.DeclType { return impersonatedType() }

// NamespaceType returns the declared type of `namespaceObject`.
func NamespaceType() *apiservercel.DeclType { return namespaceType() }

func field(name string, t *apiservercel.DeclType) *apiservercel.DeclField {
	return apiservercel.NewDeclField(name, t, true, nil, nil)
}

func object(name string, fields ...*apiservercel.DeclField) *apiservercel.DeclType {
	byName := make(map[string]*apiservercel.DeclField, len(fields))
	for _, f := range fields {
		byName[f.Name] = f
	}
	return apiservercel.NewObjectType(name, byName)
}

func listOf(t *apiservercel.DeclType) *apiservercel.DeclType { return apiservercel.NewListType(t, -1) }

func mapOf(t *apiservercel.DeclType) *apiservercel.DeclType {
	return apiservercel.NewMapType(apiservercel.StringType, t, -1)
}

// requestType declares `request`. Every field is always present, so an expression needs no has(): what the request
// lacks is empty.
func requestType() *apiservercel.DeclType {
	str := apiservercel.StringType
	requirement := object("proviso.Requirement",
		field("key", str), field("operator", str), field("values", listOf(str)))
	selector := object("proviso.Selector", field("requirements", listOf(requirement)))
	// The spelling of ValidatingAdmissionPolicy and of the design of conditions (CA-23).
	userInfo := object("proviso.UserInfo",
		field("username", str), field("uid", str), field("groups", listOf(str)), field("extra", mapOf(listOf(str))))
	return object("proviso.Request",
		field("user", str),
		field("uid", str),
		field("groups", listOf(str)),
		field("extra", mapOf(listOf(str))),
		field("userInfo", userInfo),
		field("verb", str),
		field("apiGroup", str),
		field("apiVersion", str),
		field("resource", str),
		field("subresource", str),
		field("namespace", str),
		field("name", str),
		field("time", apiservercel.TimestampType),
		field("fieldSelector", selector),
		field("labelSelector", selector),
	)
}

// impersonatedType declares `impersonatedRequest` (CA-19): what the impersonator is going to do as the other user.
func impersonatedType() *apiservercel.DeclType {
	str := apiservercel.StringType
	return object("proviso.ImpersonatedRequest",
		field("verb", str),
		field("apiGroup", str),
		field("apiVersion", str),
		field("resource", str),
		field("subresource", str),
		field("namespace", str),
		field("name", str),
	)
}

// namespaceType declares `namespaceObject` with the fields that make sense in
// a condition; ownerReferences and managedFields are left out as in
// ValidatingAdmissionPolicy.
func namespaceType() *apiservercel.DeclType {
	str := apiservercel.StringType
	condition := object("proviso.NamespaceCondition",
		field("type", str), field("status", str), field("reason", str),
		field("message", str), field("lastTransitionTime", str))
	return object("proviso.Namespace",
		field("metadata", object("proviso.NamespaceMetadata",
			field("name", str),
			field("generateName", str),
			field("namespace", str),
			field("uid", str),
			field("resourceVersion", str),
			field("generation", apiservercel.IntType),
			field("creationTimestamp", str),
			field("deletionTimestamp", str),
			field("deletionGracePeriodSeconds", apiservercel.IntType),
			field("labels", mapOf(str)),
			field("annotations", mapOf(str)),
			field("finalizers", listOf(str)),
		)),
		field("spec", object("proviso.NamespaceSpec", field("finalizers", listOf(str)))),
		field("status", object("proviso.NamespaceStatus",
			field("phase", str), field("conditions", listOf(condition)))),
	)
}
