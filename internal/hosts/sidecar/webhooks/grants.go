package webhooks

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Grants refuses objects of RBAC that grant what a deny takes from their writer.
type Grants interface {
	// Reach reports whether a deny applies to a caller who grants rights in a namespace; empty means everywhere.
	Reach(ctx context.Context, u user.Info, namespace string) bool
	// Confirm is nil if the caller and the request in the context may write an object of RBAC.
	Confirm(ctx context.Context, namespace string, obj, old runtime.Object) error
}

// aggregator writes into cluster roles what other cluster roles hold. The authors of those were checked.
const aggregator = "system:serviceaccount:kube-system:clusterrole-aggregation-controller"

// grantKinds are the resources that grant rights, each with an empty object.
var grantKinds = map[string]func() runtime.Object{
	"roles":               func() runtime.Object { return &rbacv1.Role{} },
	"clusterroles":        func() runtime.Object { return &rbacv1.ClusterRole{} },
	"rolebindings":        func() runtime.Object { return &rbacv1.RoleBinding{} },
	"clusterrolebindings": func() runtime.Object { return &rbacv1.ClusterRoleBinding{} },
}

// grants reports whether writes of a resource grant rights. Deletes do not: RBAC has no denies.
func grants(resource schema.GroupResource) bool {
	return resource.Group == rbacv1.GroupName && grantKinds[resource.Resource] != nil
}

// gathers reports whether the aggregation controller does its work.
func gathers(u user.Info, resource string) bool {
	return named(u, aggregator) && resource == "clusterroles"
}

// granting reports whether a request may grant what is denied to its caller, so admission has to check it.
func (d *Decider) granting(ctx context.Context, attrs authorizer.Attributes) bool {
	return grants(schema.GroupResource{Group: attrs.GetAPIGroup(), Resource: attrs.GetResource()}) && verbs.Stores(attrs.GetVerb()) &&
		!gathers(attrs.GetUser(), attrs.GetResource()) && d.cfg.Grants.Reach(ctx, attrs.GetUser(), attrs.GetNamespace())
}

// confirm refuses what hands out more than a deny leaves the caller, as a server does when RBAC is written. The verb
// escalate is asked for the name in the path: where a review does not say whether the path had one, both have to pass.
func (d *Decider) confirm(ctx context.Context, snap *snapshot.Snapshot, r *admissionv1.AdmissionRequest, all []authorizer.Attributes) error {
	resource := schema.GroupResource{Group: r.Resource.Group, Resource: r.Resource.Resource}
	if !grants(resource) || r.Operation != admissionv1.Create && r.Operation != admissionv1.Update {
		return nil
	}
	if r.SubResource != "" || r.Resource.Version != rbacv1.SchemeGroupVersion.Version {
		return fmt.Errorf("what %s/%s in version %q hands out is not known", resource, r.SubResource, r.Resource.Version)
	}
	if gathers(all[0].GetUser(), r.Resource.Resource) || !d.cfg.Grants.Reach(requestctx.With(ctx, snap), all[0].GetUser(), r.Namespace) {
		return nil
	}
	obj, old := grantKinds[resource.Resource](), runtime.Object(nil)
	if err := json.Unmarshal(r.Object.Raw, obj); err != nil {
		return fmt.Errorf("the object cannot be read: %w", err)
	}
	if r.Operation == admissionv1.Update {
		old = grantKinds[resource.Resource]()
		if err := json.Unmarshal(r.OldObject.Raw, old); err != nil {
			return fmt.Errorf("the old object cannot be read: %w", err)
		}
	}
	asked := map[string]bool{}
	for _, a := range all {
		if asked[a.GetName()] {
			continue
		}
		asked[a.GetName()] = true
		ctx := request.WithUser(requestctx.With(ctx, snap), a.GetUser())
		ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, Verb: a.GetVerb(), APIGroup: a.GetAPIGroup(), APIVersion: a.GetAPIVersion(),
			Resource: a.GetResource(), Namespace: a.GetNamespace(), Name: a.GetName()})
		if err := d.cfg.Grants.Confirm(ctx, r.Namespace, obj, old); err != nil {
			return err
		}
	}
	return nil
}
