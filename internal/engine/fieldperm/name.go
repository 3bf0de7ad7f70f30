package fieldperm

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// VerbPrefix turns a permission's name into the verb that authorizers see.
const VerbPrefix = "granular:"

// Verb is the verb that stands for reaching admission at all without the general one.
const Verb = "granular"

const maxNameLength = 63

var lowerCamelCase = regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`)

// ValidateName checks a permission's name (FP-1). The error names the broken rule. A program cannot check that a name
// is a noun, and about the concept rather than the field.
func ValidateName(name string) error {
	if name == "" {
		return fmt.Errorf("permission must have a name, such as example.com/selfDestruct")
	}
	if strings.ContainsAny(name, "()") {
		return fmt.Errorf("permission %q must not contain parentheses: they enclose the parameter, which parameter.from declares", name)
	}
	if strings.Contains(name, ":") {
		return fmt.Errorf("permission %q must not contain a colon: the verb is %s followed by the name alone", name, VerbPrefix)
	}
	domain, concept, prefixed := strings.Cut(name, "/")
	if !prefixed {
		domain, concept = "", name
	}
	if prefixed {
		if errs := validation.IsDNS1123Subdomain(domain); len(errs) > 0 {
			return fmt.Errorf("permission %q must have a domain name before the slash: %s", name, errs[0])
		}
		if !strings.Contains(domain, ".") {
			return fmt.Errorf("permission %q must have a full domain name before the slash, such as example.com", name)
		}
	}
	switch {
	case strings.Contains(concept, "/"):
		return fmt.Errorf("permission %q must have one slash at most, between domain and name", name)
	case strings.Contains(concept, "."):
		return fmt.Errorf("permission %q must not contain dots in the name itself: it is about a concept and does not name a field's ancestors (nodeAssignment, not pod.nodeAssignment)", name)
	case !lowerCamelCase.MatchString(concept):
		return fmt.Errorf("permission %q must be in lowerCamelCase: letters and digits that start with a small letter", name)
	case len(concept) > maxNameLength:
		return fmt.Errorf("permission %q must be at most %d characters long", name, maxNameLength)
	case !prefixed && !slices.Contains(shippedNames(), concept):
		return fmt.Errorf("permission %q must have a domain prefix, such as example.com/%s: names without one are those that are shipped (%s)",
			name, concept, strings.Join(shippedNames(), ", "))
	}
	return nil
}

// verb is what the authorizer is asked about.
func verb(name, parameter string, parameterized bool) string {
	if parameterized {
		return VerbPrefix + name + "(" + parameter + ")"
	}
	return VerbPrefix + name
}
