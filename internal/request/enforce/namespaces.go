package enforce

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"proviso.dev/proviso/internal/request/denial"
	"proviso.dev/proviso/internal/state/snapshot"
)

var (
	namespaceResource  = schema.GroupResource{Resource: "namespaces"}
	definitionResource = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
)

// namespace refuses to delete a namespace in which some delete is denied to the caller. It does not look at the
// content, which could change until it is deleted.
func (c *cause) namespace(ctx context.Context) error {
	within := DeniedWithin(ctx, c.Denials, c.snapshot(), c.GetUserInfo(), c.name())
	if within == nil {
		return nil
	}
	c.by.Rules, c.by.Ask = []string{within.Why}, within.Ask
	return forbidden(c, within.String()+": "+within.Why)
}

// Within is a deny that stops a caller from deleting a namespace.
type Within struct {
	// What may not be deleted in it, and Why names the rule.
	What, Why string
	// Ask is a question about it; nil if there is none.
	Ask *denial.Question
}

// String says why the namespace cannot be deleted, without the rule.
func (w *Within) String() string {
	return "this would delete everything in the namespace, and a rule denies you delete on " + w.What + " in it"
}

// DeniedWithin finds a deny of delete that applies to a user in a namespace; nil if there is none. It needs only the
// policy, so a review can give the same answer as the request.
func DeniedWithin(ctx context.Context, denials Denials, snap *snapshot.Snapshot, u user.Info, namespace string) *Within {
	rules := snap.Rules
	if rules == nil || u == nil || slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup) || !rules.DeniesDelete(u, namespace) {
		return nil
	}
	for _, r := range snap.Resources {
		if !r.Deletable || !r.Namespaced {
			continue
		}
		request := deletes(u, r.GroupVersionResource, namespace, "")
		if hit, may := rules.MayDeny(request); may && denials.MayBeDenied(ctx, request) {
			return &Within{What: r.GroupResource().String(), Why: hit.Reason(), Ask: &denial.Question{Attributes: request}}
		}
	}
	if hit, found := rules.UnservedDeny(u, namespace); found {
		return &Within{What: "a kind that may not be served", Why: hit.Reason()}
	}
	return nil
}

// definition refuses to delete a custom resource definition if the caller is denied `delete` on one of its objects or
// on a dependent of one: all of them are deleted with it.
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
	// A resource that is not served now may have been served before.
	return forbidden(c, unknownObjects+"it is not served")
}

const unknownObjects = "rules deny you some deletes, and the server cannot tell what would be deleted because of the definition: "

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
	return c.ownedBy(ctx, w, r)
}

// unserves refuses to stop serving a version if the caller is denied `delete` on dependents of the definition's
// objects: the garbage collector treats an owner that it cannot get as deleted.
func (c *cause) unserves(ctx context.Context) error {
	if !c.reached("") {
		return nil
	}
	was, ok := c.GetOldObject().(*apiextensions.CustomResourceDefinition)
	is, too := c.GetObject().(*apiextensions.CustomResourceDefinition)
	if !ok || !too {
		return forbidden(c, unknownObjects+"it cannot be read")
	}
	gone := slices.ContainsFunc(was.Spec.Versions, func(v apiextensions.CustomResourceDefinitionVersion) bool {
		return v.Served && !slices.ContainsFunc(is.Spec.Versions, func(n apiextensions.CustomResourceDefinitionVersion) bool { return n.Name == v.Name && n.Served })
	})
	if !gone && !withdraws(was, is) {
		return nil
	}
	for _, r := range c.snapshot().Resources {
		if r.Resource == was.Spec.Names.Plural && r.Group == was.Spec.Group {
			return c.ownedBy(ctx, &climb{cause: c, ctx: ctx}, r)
		}
	}
	return forbidden(c, unknownObjects+"it is not known yet; try again")
}

// withdraws reports whether a status stops serving the objects, or serves and stores others under their name.
func withdraws(was, is *apiextensions.CustomResourceDefinition) bool {
	for _, condition := range []apiextensions.CustomResourceDefinitionConditionType{apiextensions.Established, apiextensions.NamesAccepted} {
		if apiextensions.IsCRDConditionTrue(was, condition) && !apiextensions.IsCRDConditionTrue(is, condition) {
			return true
		}
	}
	old, now := was.Status.AcceptedNames, is.Status.AcceptedNames
	return old.Plural != now.Plural || old.Kind != now.Kind
}

// ownedBy refuses if the caller is denied `delete` on a dependent of some object of a resource.
func (c *cause) ownedBy(ctx context.Context, w *climb, r snapshot.Resource) error {
	owners, err := w.fetch(r, "")
	if err != nil {
		return forbidden(c, unknownObjects+err.Error())
	}
	for _, owner := range owners {
		if err := c.dependents(ctx, "", owner.UID); err != nil {
			return err
		}
	}
	return nil
}
