package accessreview

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/verbs"
)

// HonoursWrites tells the requests that are admitted with an object, and on which a condition is therefore evaluated
// (CA-6): writes of one resource in one version, and connections. The error says why a request is not one of them.
func HonoursWrites(attrs authorizer.Attributes) error {
	if !attrs.IsResourceRequest() {
		return errors.New("a path has no object")
	}
	switch verb := attrs.GetVerb(); {
	case verbs.IsWrite(verb):
	case verb == verbs.Get:
		if connect.Of(attrs.GetAPIGroup(), attrs.GetResource(), attrs.GetSubresource()) == connect.None {
			return errors.New("a read is not checked against an object")
		}
	default:
		return fmt.Errorf("verb %q is not checked against an object", verb)
	}
	return nil
}

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
