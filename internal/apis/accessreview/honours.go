package accessreview

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// concrete refuses what only a review can ask about: everything at once, or no resource. A residual has the request's
// own data filled in, and would be filled in with the asterisk.
func concrete(attrs authorizer.Attributes) error {
	if !attrs.IsResourceRequest() {
		return nil
	}
	for _, part := range []struct{ name, value string }{
		{"group", attrs.GetAPIGroup()}, {"version", attrs.GetAPIVersion()}, {"resource", attrs.GetResource()},
		{"subresource", attrs.GetSubresource()}, {"verb", attrs.GetVerb()},
	} {
		// Nobody says in which version the user is whom they impersonate.
		if part.value == "*" && !(part.name == "version" && strings.HasPrefix(attrs.GetVerb(), "impersonate")) {
			return fmt.Errorf("the question must be about one %[1]s, set spec.resourceAttributes.%[1]s", part.name)
		}
	}
	if attrs.GetResource() == "" {
		return errors.New("the question must be about one resource, set spec.resourceAttributes.resource")
	}
	return nil
}
