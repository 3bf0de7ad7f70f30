package enforce

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
)

// OurGroups prevents other servers from serving the groups that this server serves, and users from removing them from
// discovery. A definition or an APIService for them could not take over the objects, but it could change the version
// that clients and controllers prefer; then deleting a namespace would leave its policy behind. If another server
// forwards requests for the groups to this one, the objects by which it does cannot be changed either: otherwise
// another server could answer.
type OurGroups struct {
	// Groups are our API groups, whether or not they are served at the moment.
	Groups []string
	// Serving knows the group versions that are served.
	Serving Serving
	// Service is where another server finds them; nil if the server that is asked serves them itself. It does not
	// matter here who created it.
	Service *apiregistration.ServiceReference
}

// Serving knows the group versions that this process serves.
type Serving interface {
	Serves(schema.GroupVersion) bool
}

var _ admission.ValidationInterface = OurGroups{}

// Handles implements admission.Interface.
func (OurGroups) Handles(op admission.Operation) bool { return op != admission.Connect }

// Validate applies to all users. Objects stored before this check existed can be deleted.
func (o OurGroups) Validate(_ context.Context, attrs admission.Attributes, _ admission.ObjectInterfaces) error {
	if attrs.GetSubresource() != "" {
		return nil
	}
	switch attrs.GetResource().GroupResource() {
	case apiextensions.Resource("customresourcedefinitions"):
		return o.definition(attrs)
	case apiregistration.Resource("apiservices"):
		return o.service(attrs)
	}
	if o.Service != nil && o.leadsHere(attrs) {
		return forbidden(attrs, "it leads to the server of our API groups: only members of system:masters can change it")
	}
	return nil
}

// leadsHere reports whether another server finds this one by the object.
func (o OurGroups) leadsHere(attrs admission.Attributes) bool {
	resource := attrs.GetResource().GroupResource()
	if resource == (schema.GroupResource{Resource: "namespaces"}) {
		return attrs.GetOperation() == admission.Delete && attrs.GetName() == o.Service.Namespace
	}
	if attrs.GetNamespace() != o.Service.Namespace || !slices.Contains(Leading, resource) {
		return false
	}
	// A deletecollection has no name.
	for _, object := range []runtime.Object{attrs.GetObject(), attrs.GetOldObject()} {
		if object == nil {
			continue
		}
		m, err := meta.Accessor(object)
		if err != nil || m.GetName() == o.Service.Name || m.GetLabels()[discovery.LabelServiceName] == o.Service.Name {
			return true // what cannot be read may be one
		}
	}
	return attrs.GetName() == o.Service.Name
}

// Leading are the resources that define where a Service leads.
var Leading = []schema.GroupResource{{Resource: "services"}, {Resource: "endpoints"}, {Group: discovery.GroupName, Resource: "endpointslices"}}

func (o OurGroups) definition(attrs admission.Attributes) error {
	if attrs.GetOperation() == admission.Delete {
		return nil
	}
	next, ok := attrs.GetObject().(*apiextensions.CustomResourceDefinition)
	if !ok {
		return forbidden(attrs, fmt.Sprintf("cannot tell the group of a definition from a %T", attrs.GetObject()))
	}
	old, _ := attrs.GetOldObject().(*apiextensions.CustomResourceDefinition)
	if !slices.Contains(o.Groups, next.Spec.Group) || old != nil && reflect.DeepEqual(old.Spec, next.Spec) {
		return nil
	}
	return forbidden(attrs, fmt.Sprintf("the API group %s belongs to this server: define the resource in a group of your own", next.Spec.Group))
}

func (o OurGroups) service(attrs admission.Attributes) error {
	next, _ := attrs.GetObject().(*apiregistration.APIService)
	old, _ := attrs.GetOldObject().(*apiregistration.APIService)
	if attrs.GetOperation() == admission.Delete {
		if old != nil && o.ours(old) {
			return forbidden(attrs, fmt.Sprintf("this server serves %s/%s: without its APIService, deleting a namespace would leave its policy behind", old.Spec.Group, old.Spec.Version))
		}
		return nil
	}
	switch {
	case next == nil:
		return forbidden(attrs, fmt.Sprintf("cannot tell the group of an APIService from a %T", attrs.GetObject()))
	case !slices.Contains(o.Groups, next.Spec.Group), o.Service == nil && o.ours(next), old != nil && reflect.DeepEqual(old.Spec, next.Spec):
		return nil
	case o.ours(next):
		return forbidden(attrs, fmt.Sprintf("the API group %s is served elsewhere: only members of system:masters can change where", next.Spec.Group))
	}
	return forbidden(attrs, fmt.Sprintf("the API group %s belongs to this server: no other server and no other version can be registered for it", next.Spec.Group))
}

// ours reports whether an APIService is correct: this server serves that version.
func (o OurGroups) ours(s *apiregistration.APIService) bool {
	return slices.Contains(o.Groups, s.Spec.Group) && o.here(s.Spec.Service) && o.Serving.Serves(schema.GroupVersion{Group: s.Spec.Group, Version: s.Spec.Version})
}

func (o OurGroups) here(service *apiregistration.ServiceReference) bool {
	if o.Service == nil || service == nil {
		return o.Service == nil && service == nil
	}
	return service.Namespace == o.Service.Namespace && service.Name == o.Service.Name
}
