package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/protectedattr"
)

// protections is what the two kinds of protection ask about others.
type protections struct {
	roles      Roles
	authorizer authorizer.Authorizer
	master     string
	// local and cluster are the stores, once they are open.
	local   *storage[*policy.ProtectedAttribute]
	cluster *storage[*policy.ClusterProtectedAttribute]
}

// warnings are about a protection that is written; old is nil if it is new.
func (p *protections) warnings(ctx context.Context, a protectedattr.Protection, old *protectedattr.Protection) (all []string) {
	if old == nil || len(old.Values) == 0 || old.Closed != a.Closed {
		all = freeValues(a)
	}
	if old != nil && a.Role == old.Role {
		return all
	}
	all = append(all, p.missingRole(ctx, a.Role)...)
	return append(all, p.overlaps(ctx, a)...)
}

// freeValues warns that values which are not listed are not protected.
func freeValues(a protectedattr.Protection) []string {
	if len(a.Values) == 0 || a.Closed {
		return nil
	}
	return []string{"protectedValues: everybody who may write an object can set values that are not listed; to forbid them, write unlistedValues: Forbidden"}
}

// missingRole warns about a role that does not exist. The protection is in force nevertheless: the role has no members
// yet.
func (p *protections) missingRole(ctx context.Context, role protectedattr.Role) []string {
	ok, err := p.roles.RoleExists(ctx, role.Kind, role.Namespace, role.Name)
	switch {
	case err != nil:
		return []string{fmt.Sprintf("roleRef: cannot tell whether %s exists; until it does, only system:masters can set the attribute", role)}
	case !ok:
		return []string{fmt.Sprintf("roleRef: %s does not exist; until it does, only system:masters can set the attribute", role)}
	}
	return nil
}

// maxOverlaps is how many other protections a warning names.
const maxOverlaps = 5

// overlaps warns the writer of a protection for all keys of a domain about protections of single keys: the members of
// its role can set them, too.
func (p *protections) overlaps(ctx context.Context, a protectedattr.Protection) []string {
	domain, ok := strings.CutSuffix(a.Key, "*")
	if !ok || domain == "" {
		return nil
	}
	others, err := p.others(ctx, a.Namespace)
	if err != nil {
		return []string{fmt.Sprintf("attributeName: cannot tell which keys of %s have other protections: members of %s can set these keys, too", a.Key, a.Role)}
	}
	var found []string
	for _, o := range others {
		if o.Attribute == a.Attribute && o.Role != a.Role && o.Key != a.Key && strings.HasPrefix(o.Key, domain) {
			found = append(found, fmt.Sprintf("%s (%q, for %s)", o.Key, o.Name, o.Role))
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	if more := len(found) - maxOverlaps; more > 0 {
		found = append(found[:maxOverlaps], fmt.Sprintf("%d more", more))
	}
	return []string{fmt.Sprintf("attributeName: members of %s can now also set keys that have protections for other roles: %s", a.Role, strings.Join(found, ", "))}
}

// others are the protections of the same level: of the namespace, or of the cluster.
func (p *protections) others(ctx context.Context, namespace string) (all []protectedattr.Protection, err error) {
	if namespace == "" {
		list, err := p.cluster.List(ctx, &metainternalversion.ListOptions{})
		if err != nil {
			return nil, err
		}
		for i := range cast[*policy.ClusterProtectedAttributeList](list).Items {
			all = append(all, protectedattr.FromCluster(&cast[*policy.ClusterProtectedAttributeList](list).Items[i]))
		}
		return all, nil
	}
	list, err := p.local.List(ctx, &metainternalversion.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range cast[*policy.ProtectedAttributeList](list).Items {
		all = append(all, protectedattr.FromNamespaced(&cast[*policy.ProtectedAttributeList](list).Items[i]))
	}
	return all, nil
}

// caller is who sent a request.
func (p *protections) caller(ctx context.Context) Caller { return caller{ctx, p} }

type caller struct {
	ctx context.Context
	all *protections
}

// MayAsk implements Caller.
func (c caller) MayAsk(namespace string) bool { return mayAsk(c.ctx, c.all.authorizer, namespace) }

// Protections implements Caller. What cannot be listed is left out: a warning too many.
func (c caller) Protections(namespace string) []protectedattr.Protection {
	ctx := genericapirequest.WithNamespace(c.ctx, namespace)
	found, _ := c.all.others(ctx, "")
	if namespace != "" {
		local, _ := c.all.others(ctx, namespace)
		found = append(found, local...)
	}
	return found
}

// mayAsk reports whether the sender of a request may ask who can do something: in a namespace, or anywhere if it is
// empty.
func mayAsk(ctx context.Context, a authorizer.Authorizer, namespace string) bool {
	sender, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return false
	}
	decision, _, _ := a.Authorize(ctx, authorizer.AttributesRecord{
		User: sender, Verb: "create", Namespace: namespace, APIGroup: authz.GroupName, APIVersion: authz.SchemeGroupVersion.Version, Resource: "resourceaccessreviews", ResourceRequest: true,
	})
	return decision == authorizer.DecisionAllow
}
