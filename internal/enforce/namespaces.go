package enforce

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/snapshot"
)

var (
	namespaceResource  = schema.GroupResource{Resource: "namespaces"}
	definitionResource = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
)

// namespace refuses to delete a namespace in which some delete is denied to the caller. What is in it is not looked at: it could be
// something else by the time it is deleted.
func (c *cause) namespace(ctx context.Context) error {
	rules, namespace := c.snapshot().Rules, c.name()
	if !rules.DeniesDelete(c.GetUserInfo(), namespace) {
		return nil
	}
	refuse := func(what, why string) error {
		return forbidden(c, "this would delete everything in the namespace, and a rule denies you delete on "+what+" in it: "+why)
	}
	for _, r := range c.snapshot().Resources {
		if !r.Deletable || !r.Namespaced {
			continue
		}
		request := c.deletes(r.GroupVersionResource, namespace, "")
		if hit, may := rules.MayDeny(request); may && c.MayBeDenied(ctx, request) {
			return refuse(r.GroupResource().String(), hit.Reason())
		}
	}
	if hit, found := rules.UnservedDeny(c.GetUserInfo(), namespace); found {
		return refuse("a kind of which it is not known whether it is served", hit.Reason())
	}
	return nil
}

// definition refuses to delete the definition of a custom resource if the caller is denied to delete one of its objects, or what one
// of them owns: all of them are deleted with it.
func (c *cause) definition(ctx context.Context) error {
	if !c.reached("") {
		return nil
	}
	plural, group, _ := strings.Cut(c.name(), ".")
	for _, r := range c.snapshot().Resources {
		if r.Resource == plural && r.Group == group {
			return c.objectsOf(ctx, r)
		}
	}
	// What is not served can have been served before.
	return forbidden(c, unknownObjects+"it is not served")
}

const unknownObjects = "rules deny you some deletes, and the server cannot tell what would be deleted with the definition: "

func (c *cause) objectsOf(ctx context.Context, r snapshot.Resource) error {
	w := &climb{cause: c, ctx: ctx}
	for _, namespace := range c.covered(r, "") {
		objects, err := w.fetch(r, namespace)
		if err != nil {
			return forbidden(c, unknownObjects+err.Error())
		}
		members := make([]member, len(objects))
		for i, o := range objects {
			members[i] = member{r, o.Namespace, o.Name}
		}
		if err := c.each(ctx, members, "", "all objects of the definition would be deleted, and a rule denies you delete on %s: %s"); err != nil {
			return err
		}
	}
	owners, err := w.fetch(r, "")
	if err != nil {
		return forbidden(c, unknownObjects+err.Error())
	}
	for _, owner := range owners {
		if err := c.dependents(ctx, owner.UID); err != nil {
			return err
		}
	}
	return nil
}
