package authorize

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/state/snapshot"
)

// builtinFields are the fields that built-in resources can be listed by, beside metadata.name and metadata.namespace,
// which all resources can. Fields that stand for more than one are left out: the source of an event, all addresses of a
// pod. If a field is missing here, a list under a condition only needs a label or a name instead. A test compares it
// with what every resource is stored by.
var builtinFields = typed(map[schema.GroupResource][]expr.SelectableField{
	{Resource: "pods"}: {
		{Key: "spec.nodeName"}, {Key: "spec.restartPolicy"}, {Key: "spec.schedulerName"}, {Key: "spec.serviceAccountName"}, {Key: "spec.hostNetwork", Type: expr.BoolField},
		{Key: "status.phase"}, {Key: "status.podIP"}, {Key: "status.nominatedNodeName"},
	},
	{Resource: "nodes"}:                          {{Key: "spec.unschedulable", Type: expr.BoolField}},
	{Resource: "replicationcontrollers"}:         {{Key: "status.replicas", Type: expr.IntField}},
	{Resource: "events"}:                         append(eventFields("involvedObject"), expr.SelectableField{Key: "reportingComponent"}),
	{Resource: "secrets"}:                        {{Key: "type"}},
	{Resource: "services"}:                       {{Key: "spec.clusterIP"}, {Key: "spec.type"}},
	{Resource: "namespaces"}:                     {{Key: "status.phase"}},
	{Group: "events.k8s.io", Resource: "events"}: append(eventFields("regarding"), expr.SelectableField{Key: "reportingController"}),
	{Group: "batch", Resource: "jobs"}:           {{Key: "status.successful", Path: "status.succeeded", Type: expr.IntField}},
	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}: {{Key: "spec.signerName"}},
	{Group: "certificates.k8s.io", Resource: "clustertrustbundles"}:        {{Key: "spec.signerName"}},
	{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}:     {{Key: "spec.signerName"}, {Key: "spec.podName"}, {Key: "spec.nodeName"}},
	{Group: "resource.k8s.io", Resource: "resourceslices"}:                 {{Key: "spec.nodeName"}, {Key: "spec.driver"}, {Key: "spec.pool.name"}},
})

func typed(table map[schema.GroupResource][]expr.SelectableField) map[schema.GroupResource][]expr.SelectableField {
	for _, fields := range table {
		for i := range fields {
			fields[i].Typed = true
		}
	}
	return table
}

// eventFields are the fields of an event. Its two API groups have different names for the object that it is about.
func eventFields(about string) []expr.SelectableField {
	fields := []expr.SelectableField{{Key: "reason"}, {Key: "type"}}
	for _, f := range []string{"kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"} {
		fields = append(fields, expr.SelectableField{Key: about + "." + f})
	}
	return fields
}

// SelectedField returns the field that a key of field selectors stands for; false if it is not known. Keys of custom
// resources are paths; those of built-in ones may be other names.
func SelectedField(resource schema.GroupResource, key string, custom bool) (fieldperm.Path, bool) {
	if custom || key == "metadata.name" || key == "metadata.namespace" {
		return pathOf(key), true
	}
	for _, f := range builtinFields[resource] {
		if f.Key == key {
			return pathOf(cmp.Or(f.Path, f.Key)), true
		}
	}
	return nil, false
}

func pathOf(names string) (path fieldperm.Path) {
	for name := range strings.SplitSeq(strings.TrimPrefix(names, "."), ".") {
		path = append(path, fieldperm.Field(name))
	}
	return path
}

// seenAsSelected returns an error if the selectors of a request may be about another version of the object than the
// condition. Versions differ in their labels only if a webhook converts them.
func seenAsSelected(c *ruleCondition, req *expr.Request, served *snapshot.Served) error {
	resource := schema.GroupResource{Group: req.APIGroup, Resource: req.Resource}
	version := ""
	if rule := c.hit.PolicyRule(); rule != nil {
		version = rule.APIVersion
	}
	if !served.Converted(resource) && !served.Differs(resource) {
		return nil
	}
	seen, err := served.Seen(schema.GroupVersionKind{Group: req.APIGroup, Kind: served.OwnKind(resource)}, version)
	if err != nil {
		return err
	}
	if served.Hides(resource, req.APIVersion, seen.Version, version) {
		return fmt.Errorf("version %s of the resource has another schema: read it in version %s, which the condition is about", req.APIVersion, seen.Version)
	}
	if served.Converted(resource) && seen.Version != req.APIVersion {
		return fmt.Errorf("the resource is converted by a webhook: read it in version %s, which the condition is about", seen.Version)
	}
	return nil
}

// selectable returns the fields by which the resource of a request can be listed in its version (CA-16).
func selectable(served *snapshot.Served, req *expr.Request) []expr.SelectableField {
	resource := schema.GroupResource{Group: req.APIGroup, Resource: req.Resource}
	if fields := builtinFields[resource]; fields != nil {
		return fields
	}
	return served.Selectable(resource.WithVersion(req.APIVersion))
}
