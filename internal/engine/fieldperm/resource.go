package fieldperm

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Resource is a resource by group and plural name, without version or subresource. The zero value stands for all.
type Resource struct{ Group, Resource string }

// All reports whether it stands for every resource.
func (r Resource) All() bool { return r.Resource == "" }

// String returns resource or resource.group, or * for all.
func (r Resource) String() string {
	switch {
	case r.All():
		return "*"
	case r.Group == "":
		return r.Resource
	}
	return r.Resource + "." + r.Group
}

// ParseResource reads "pods", "deployments.apps" or "*".
func ParseResource(text string) (Resource, error) {
	if text == "*" {
		return Resource{}, nil
	}
	if strings.Contains(text, "/") {
		return Resource{}, fmt.Errorf("resource %q must be named without a subresource: a permission covers the field in all of them", text)
	}
	name, group, hasGroup := strings.Cut(text, ".")
	if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
		return Resource{}, fmt.Errorf("resource %q must be a plural such as pods, resource.group such as deployments.apps, or *: %s", text, errs[0])
	}
	if hasGroup {
		if errs := validation.IsDNS1123Subdomain(group); len(errs) > 0 {
			return Resource{}, fmt.Errorf("resource %q must have a group after the first dot, such as deployments.apps: %s", text, errs[0])
		}
	}
	return Resource{Group: group, Resource: name}, nil
}

// Target is what a request writes.
type Target struct {
	Resource
	// Subresource of the request, if any.
	Subresource string
	// Version of the objects that are compared, which is the same whatever version the request uses (FP-10). It matters
	// only where a CRD declares a permission at different places in different versions.
	Version string
	// Copied is set if the caller is a controller that creates the object from a template that was checked already
	// (FP-16).
	Copied bool
}
