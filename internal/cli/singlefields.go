package cli

import (
	"slices"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/engine/verbs"
)

// singleFieldsText is for a caller who may not write an object as a whole (FP-6).
const singleFieldsText = "\nThis is about writing the whole object. You have the verb granular: you can change fields that your permissions\n" +
	"cover. `proviso permissions %s` lists the permissions.\n"

// writesFields reports whether a question is about a write that field permissions could cover.
func (c *client) writesFields(verb string, t target) bool {
	if t.path != "" || !verbs.Stores(verb) || !slices.Contains([]string{"", "status", "scale"}, t.subresource) {
		return false
	}
	mapper, err := c.config.ToRESTMapper()
	if err != nil {
		return false
	}
	_, err = mapper.ResourceFor(authz.SchemeGroupVersion.WithResource("permissions"))
	return err == nil // otherwise field permissions are off
}
