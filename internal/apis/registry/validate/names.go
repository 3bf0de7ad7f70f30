package validate

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var metadata = field.NewPath("metadata")

// segmentName checks a name that may hold anything that fits into a path, as those of RBAC roles do.
func segmentName(name string) (errs field.ErrorList) {
	if name == "" {
		return field.ErrorList{field.Required(metadata.Child("name"), "name the object")}
	}
	for _, msg := range path.IsValidPathSegmentName(name) {
		errs = append(errs, field.Invalid(metadata.Child("name"), name, msg))
	}
	return errs
}

// subdomainName checks a name in lower case, with dots.
func subdomainName(name string) (errs field.ErrorList) {
	if name == "" {
		return field.ErrorList{field.Required(metadata.Child("name"), "name the object")}
	}
	for _, msg := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(metadata.Child("name"), name, msg))
	}
	return errs
}

// entryMeta checks the metadata of an entry of a container. It refuses finalizers, which would never run.
func entryMeta(m metav1.ObjectMeta, container string) (errs field.ErrorList) {
	errs = segmentName(m.Name)
	if len(m.Finalizers) > 0 {
		errs = append(errs, field.Forbidden(metadata.Child("finalizers"), "are not supported: the object is an entry of its "+container+"; put the finalizer on that"))
	}
	return errs
}

// names checks a list of names without order: none empty, none twice.
func names(list []string, p *field.Path, what string) (errs field.ErrorList) {
	seen := make(map[string]bool, len(list))
	for i, n := range list {
		switch {
		case strings.TrimSpace(n) == "":
			errs = append(errs, field.Invalid(p.Index(i), n, "must name a "+what))
		case seen[n]:
			errs = append(errs, field.Duplicate(p.Index(i), n))
		}
		seen[n] = true
	}
	return errs
}
