package authorize

import "proviso.dev/proviso/internal/expr"

// selectableFields are the fields that built-in resources can be listed by, beside metadata.name and metadata.namespace, which
// all resources can. A field that is missing here only makes a list under a condition need a label or a name.
var selectableFields = map[string][]expr.SelectableField{
	"pods": {
		{Key: "spec.nodeName"}, {Key: "spec.restartPolicy"}, {Key: "spec.schedulerName"}, {Key: "spec.serviceAccountName"},
		{Key: "status.phase"}, {Key: "status.podIP"}, {Key: "status.nominatedNodeName"},
	},
	"secrets":    {{Key: "type"}},
	"services":   {{Key: "spec.clusterIP"}, {Key: "spec.type"}},
	"namespaces": {{Key: "status.phase"}},
	"certificatesigningrequests.certificates.k8s.io": {{Key: "spec.signerName"}},
	"resourceslices.resource.k8s.io":                 {{Key: "spec.nodeName"}, {Key: "spec.driver"}},
}

func selectable(req *expr.Request) []expr.SelectableField {
	if req.APIGroup == "" {
		return selectableFields[req.Resource]
	}
	return selectableFields[req.Resource+"."+req.APIGroup]
}
