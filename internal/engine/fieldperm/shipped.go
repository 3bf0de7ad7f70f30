package fieldperm

// The shipped permissions (FP-2), and Proviso's knowledge of the shape of built-in resources.

var (
	pods           = Resource{"", "pods"}
	bindings       = Resource{"", "bindings"}
	replicasPath   = Path{Field("spec"), Field("replicas")}
	nodeNamePath   = Path{Field("spec"), Field("nodeName")}
	schedulingPath = Path{Field("spec"), Field("schedulingGates")}
	specPath       = Path{Field("spec")}
	metadataPath   = Path{Field("metadata")}
	bindTargetPath = Path{Field("target")}
)

// scaled are the built-in resources with a scale field, and where it is.
var scaled = map[Resource][]Path{
	{"", "replicationcontrollers"}: {replicasPath},
	{"apps", "deployments"}:        {replicasPath},
	{"apps", "replicasets"}:        {replicasPath},
	{"apps", "statefulsets"}:       {replicasPath},
}

// statusSet are the built-in resources whose endpoint sets the status of a new object itself, whatever the caller
// sends. For all others the status of a new object counts: many endpoints clear it, some, such as that of nodes, keep
// what the caller sends, and custom resources differ from version to version.
var statusSet = map[Resource]bool{
	pods:                      true,
	{"", "namespaces"}:        true,
	{"", "persistentvolumes"}: true,
	{"apiextensions.k8s.io", "customresourcedefinitions"}: true,
	{"apiregistration.k8s.io", "apiservices"}:             true,
}

// ResetsStatus reports whether the caller can never set the status of a new object.
func ResetsStatus(r Resource) bool { return statusSet[r] }

// shipped are the declarations for all resources, in the order of a reference page.
var shipped = []Declaration{
	everywhere("metadata", nil, Field("metadata")),
	everywhere("labels", nil, Field("metadata"), Field("labels")),
	everywhere("label", prefix(FromKey), Field("metadata"), Field("labels"), Any()),
	everywhere("annotations", nil, Field("metadata"), Field("annotations")),
	everywhere("annotation", prefix(FromKey), Field("metadata"), Field("annotations"), Any()),
	everywhere("finalizers", nil, Field("metadata"), Field("finalizers")),
	everywhere("finalizer", prefix(FromElement), Field("metadata"), Field("finalizers"), Any()),
	everywhere("ownerReferences", nil, Field("metadata"), Field("ownerReferences")),
	everywhere("specification", nil, Field("spec")),
	everywhere("status", nil, Field("status")),
	everywhere("conditions", nil, Field("status"), Field("conditions")),
	everywhere("condition", &Parameter{From: fromElementType}, Field("status"), Field("conditions"), Any()),
	{Source: shippedSource, Permission: "nodeAssignment", Resources: []Resource{pods}, Field: nodeNamePath},
	{Source: shippedSource, Permission: "schedulingGates", Resources: []Resource{pods}, Field: schedulingPath},
}

// replicas is shipped for every resource with a scale field, including those that CRDs define.
const replicasPermission = "replicas"

func everywhere(name string, parameter *Parameter, path ...Element) Declaration {
	return Declaration{Source: shippedSource, Resources: []Resource{{}}, Permission: name, Parameter: parameter, Field: path}
}

func prefix(from string) *Parameter { return &Parameter{From: from, Treatment: TreatSlashPrefix} }

func shippedNames() []string {
	names := make([]string, 0, len(shipped)+1)
	for i := range shipped {
		names = append(names, shipped[i].Permission)
	}
	return append(names, replicasPermission)
}

// shippedByName finds the declaration that fixes what a name without a domain means.
func shippedByName(name string) (Declaration, bool) {
	for i := range shipped {
		if shipped[i].Permission == name {
			return shipped[i], true
		}
	}
	if name == replicasPermission {
		return Declaration{Permission: name, Field: replicasPath}, true
	}
	return Declaration{}, false
}

// identity are the fields of metadata that identify the object or belong to the server (FP-7); none needs a permission.
var identity = map[string]bool{
	"name": true, "namespace": true, "uid": true, "resourceVersion": true, "generation": true, "creationTimestamp": true,
	"managedFields": true, "deletionTimestamp": true, "deletionGracePeriodSeconds": true, "selfLink": true,
}

// generateName is part of an object's identity while it is created, and a field like others afterwards.
const generateName = "generateName"

// neverCounts reports whether a path is an identity or server-owned field, or lies in one.
func neverCounts(p Path) bool {
	switch {
	case len(p) == 0:
		return false
	case p[0].Name == "apiVersion" || p[0].Name == "kind":
		return true
	}
	return len(p) > 1 && p[0].Name == "metadata" && identity[p[1].Name]
}
