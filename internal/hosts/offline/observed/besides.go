package observed

import (
	"net/http"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/auditlog"
	"proviso.dev/proviso/internal/analysis/suggest"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/state/snapshot"
)

// besides are what a request needs beside its own verb: the other verb of a connection, and create if an update or
// patch made the object.
func besides(host *offline.Host, r *auditlog.Request, u suggest.Use) (uses []suggest.Use) {
	if !r.IsResource() {
		return nil
	}
	attrs := r.Attributes()
	if also := host.AlsoNeeds(&attrs); also != "" {
		other := u
		other.Verb = also
		uses = append(uses, other)
	}
	if verbs.Updates(r.Verb) && r.Code == http.StatusCreated && r.Subresource == "" {
		other := u
		other.Verb = verbs.Create
		uses = append(uses, other)
	}
	return uses
}

// lifts are the verbs on roles that let a writer of roles and bindings hand out what they do not hold. Without the body
// it is not known which role a binding binds: then they are those of every role, and of all at once.
func lifts(host *offline.Host, r *auditlog.Request) (uses []suggest.Use) {
	if !r.IsResource() || r.Subresource != "" || r.Verb != verbs.Create && !verbs.Updates(r.Verb) {
		return nil
	}
	namespace := r.Namespace
	if r.Group != rbacv1.GroupName && namespace == host.Master() {
		namespace = "" // the policy of the master namespace holds everywhere
	}
	role := func(verb, group, resource, name string) {
		uses = append(uses, suggest.Use{Verb: verb, Group: group, Resource: resource, Namespace: namespace, Name: name})
	}
	switch name := bound(r); {
	case r.Group == rbacv1.GroupName && (r.Resource == "roles" || r.Resource == "clusterroles"):
		asked := r.Name
		if r.Verb == verbs.Create {
			asked = ""
		}
		role("escalate", r.Group, r.Resource, asked)
	case r.Group == rbacv1.GroupName && (r.Resource == "rolebindings" || r.Resource == "clusterrolebindings"):
		if name.Name != "" {
			resource := "clusterroles"
			if name.Kind == "Role" {
				resource = "roles"
			}
			role("bind", r.Group, resource, name.Name)
			break
		}
		for _, resource := range []string{"clusterroles", "roles"} {
			role("bind", r.Group, resource, "")
		}
		for _, known := range roleNames(host, r.Namespace) {
			role("bind", r.Group, known.Kind, known.Name)
		}
	case r.Group == authz.GroupName && r.Resource == "roles", r.Group == policyv1alpha1.GroupName && r.Resource == "policies":
		role("escalate", authz.GroupName, "roles", "")
		role("deny", authz.GroupName, "roles", "")
	case r.Group == authz.GroupName && r.Resource == "rolebindings", r.Group == policyv1alpha1.GroupName && r.Resource == "policybindings":
		role("bind", authz.GroupName, "roles", name.Name)
		role("deny", authz.GroupName, "roles", name.Name)
	}
	return uses
}

// bound is the role that a binding in a body binds.
func bound(r *auditlog.Request) (ref rbacv1.RoleRef) {
	for _, body := range [][]byte{r.Object, r.Answer} {
		object := parsed(body)
		ref.Kind, _, _ = unstructured.NestedString(object, "roleRef", "kind")
		if ref.Name, _, _ = unstructured.NestedString(object, "roleRef", "name"); ref.Name != "" {
			return ref
		}
	}
	return ref
}

// roleNames are the roles that a binding in a namespace can bind; Kind is the resource.
func roleNames(host *offline.Host, namespace string) (refs []rbacv1.RoleRef) {
	if global, err := host.Files().Objects(snapshot.ClusterRoles); err == nil {
		for _, r := range snapshot.Of[*rbacv1.ClusterRole](global) {
			refs = append(refs, rbacv1.RoleRef{Kind: "clusterroles", Name: r.Name})
		}
	}
	if local, err := host.Files().Objects(snapshot.Roles); err == nil && namespace != "" {
		for _, r := range snapshot.Of[*rbacv1.Role](local) {
			if r.Namespace == namespace {
				refs = append(refs, rbacv1.RoleRef{Kind: "roles", Name: r.Name})
			}
		}
	}
	return refs
}

// addLifts notes lifts once.
func (d *Doing) addLifts(u suggest.Use, lifts []suggest.Use) {
	if len(lifts) > 0 && d.lifts == nil {
		d.lifts = map[suggest.Use][]suggest.Use{}
	}
	for _, l := range lifts {
		if !slices.Contains(d.lifts[u], l) {
			d.lifts[u] = append(d.lifts[u], l)
		}
	}
}
