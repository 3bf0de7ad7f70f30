package cli

import (
	"slices"
	"strings"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
)

// singleFieldsText is for a caller who may not write an object as a whole (FP-6).
const singleFieldsText = "\nThat is the right to write the whole object. The verb granular is there, so that it can be done if a permission\n" +
	"covers every field that changes: `proviso permissions %s` lists them.\n"

// writesFields tells whether a question, a verb and a resource, is about a write that field permissions could cover.
func (c *client) writesFields(question []string) bool {
	_, subresource, _ := strings.Cut(question[1], "/")
	if !slices.Contains([]string{"create", "update", "patch"}, question[0]) || !slices.Contains([]string{"", "status", "scale"}, subresource) {
		return false
	}
	mapper, err := c.config.ToRESTMapper()
	if err != nil {
		return false
	}
	_, err = mapper.ResourceFor(authz.SchemeGroupVersion.WithResource("permissions"))
	return err == nil // otherwise field permissions are off
}
