package enforce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	access "proviso.dev/proviso/api/access/v1alpha1"
	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/denial"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/policycodec"
	"proviso.dev/proviso/internal/state/snapshot"
)

// ProtectedAttributes refuses writes that touch a protected label or annotation without membership in its role, and
// bindings by which a user would join such a role.
type ProtectedAttributes struct {
	// Chain is asked for the verb bind.
	Chain authorizer.UnconditionalAuthorizer
	// Everywhere knows which requests are granted for the whole cluster: denies due to unreadable policy yield to that.
	// Nil means that none are.
	Everywhere Everywhere
	// Behind knows what the body does not show; with nil, no pod and no differing version is known.
	Behind Behind
}

var _ admission.ValidationInterface = (*ProtectedAttributes)(nil)

// Handles: deleting or connecting sets nothing.
func (*ProtectedAttributes) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Validate compares the stored object with the final one, on the snapshot of the request.
func (p *ProtectedAttributes) Validate(ctx context.Context, attrs admission.Attributes, objects admission.ObjectInterfaces) error {
	holder := requestctx.From(ctx)
	if holder == nil || holder.Snapshot == nil {
		return forbidden(attrs, "this request has no authorization decision")
	}
	if !holder.Snapshot.Synced {
		// Before the sync only the server itself and system:masters get this far, and both may change everything.
		return nil
	}
	return p.check(ctx, holder, holder.Snapshot.Protect, attrs, objects)
}

// check checks the write against an index of protections.
func (p *ProtectedAttributes) check(ctx context.Context, holder *requestctx.State, index *protectedattr.Index, attrs admission.Attributes, objects admission.ObjectInterfaces) error {
	if index.Len() == 0 {
		return nil
	}
	req := ProtectRequest(holder.Snapshot, attrs.GetUserInfo(), attrs)
	req.Everywhere = func() bool {
		return p.Everywhere != nil && p.Everywhere.GrantedEverywhere(ctx, holder.Snapshot, holder.Attributes())
	}
	old, new, err := p.written(ctx, index, attrs, objects)
	if err != nil {
		var answer apierrors.APIStatus
		if isBinding(attrs) && errors.As(err, &answer) {
			return err // its pod does not exist, or has changed
		}
		if !index.Exempts(req) {
			return forbidden(attrs, "protected attributes could not be examined: "+err.Error())
		}
	} else if result := index.Check(req, old, new); !result.Allowed() {
		return &ruled{forbidden(attrs, result.Reason()), protecting(result), nil}
	}
	for _, other := range versionsBehind(p.Behind, attrs, objects) {
		// What a conversion adds or removes counts as set or removed by this write.
		if other.err != nil {
			if index.Exempts(req) {
				continue
			}
			return forbidden(attrs, fmt.Sprintf("protected attributes could not be examined in version %s: %v", other.version, other.err))
		}
		if result := index.Check(req, new, body(other.object)); !result.Allowed() {
			return &ruled{forbidden(attrs, fmt.Sprintf("converted to version %s: %s", other.version, result.Reason())), protecting(result), nil}
		}
	}
	return p.guardBinding(ctx, holder.Snapshot, index, attrs, objects)
}

// written returns the stored state and the new one: for a Binding those of its pod, for a ControllerRevision its
// decoded data.
func (p *ProtectedAttributes) written(ctx context.Context, index *protectedattr.Index, attrs admission.Attributes, objects admission.ObjectInterfaces) (old, new any, err error) {
	old, new = body(attrs.GetOldObject()), body(attrs.GetObject())
	switch {
	case isBinding(attrs):
		binding, err := meta.Accessor(attrs.GetObject())
		if err != nil || !index.Touches(binding.GetLabels(), binding.GetAnnotations()) {
			return old, new, err
		}
		stored, err := podBehind(ctx, p.Behind, attrs)
		return stored, new, err
	case isRevision(attrs) && attrs.GetSubresource() == "":
		var before, after runtime.Object
		kind := appsv1.SchemeGroupVersion.WithKind(attrs.GetKind().Kind)
		if after, err = admission.ConvertToGVK(attrs.GetObject(), kind, objects); err != nil {
			return nil, nil, err
		}
		if attrs.GetOldObject() != nil {
			if before, err = admission.ConvertToGVK(attrs.GetOldObject(), kind, objects); err != nil {
				return nil, nil, err
			}
		}
		was, is, err := revealed(before, after)
		if was == nil {
			return nil, is, err
		}
		return was, is, err
	}
	return old, new, nil
}

// body returns a nil interface for a nil object.
func body(object runtime.Object) any {
	if object == nil {
		return nil
	}
	return object
}

// target is what both an admission and a review know about the resource.
type target interface {
	GetName() string
	GetNamespace() string
	GetSubresource() string
}

// ProtectRequest builds the question to the index of protections, for an admission or for a review.
func ProtectRequest(snap *snapshot.Snapshot, u user.Info, t target) *protectedattr.Request {
	req := &protectedattr.Request{Name: t.GetName(), Namespace: t.GetNamespace(), Subresource: t.GetSubresource(), Kinds: snap.Served.Kinds()}
	switch a := t.(type) {
	case admission.Attributes:
		req.Group, req.Resource = a.GetResource().Group, a.GetResource().Resource
	case authorizer.Attributes:
		req.Group, req.Resource = a.GetAPIGroup(), a.GetResource()
	}
	if u == nil {
		return req
	}
	req.User, req.Groups = u.GetName(), u.GetGroups()
	rules := snap.Rules
	req.Member = func(namespace string, role protectedattr.Role) bool {
		return rules != nil && rules.Bound(u, RoleRef(role), namespace)
	}
	return req
}

// RoleRef returns the same role as the index of rules names it.
func RoleRef(r protectedattr.Role) ruleset.RoleRef {
	switch r.Kind {
	case protectedattr.KindClusterRole:
		return ruleset.RoleRef{Kind: ruleset.ClusterRole, Name: r.Name}
	case protectedattr.KindRole:
		return ruleset.RoleRef{Kind: ruleset.Role, Namespace: r.Namespace, Name: r.Name}
	case protectedattr.KindPolicyRole:
		return ruleset.RoleRef{Kind: ruleset.PolicyRole, Namespace: r.Namespace, Name: r.Name}
	}
	return ruleset.RoleRef{}
}

// guardBinding: a role that a protection names may be without rules; then the escalation check would let every user
// bind it. So binding it needs the verb bind on the role by name, or membership at the same or a wider scope (PA-12).
func (p *ProtectedAttributes) guardBinding(ctx context.Context, snap *snapshot.Snapshot, index *protectedattr.Index, attrs admission.Attributes, objects admission.ObjectInterfaces) error {
	b, err := boundRole(snap, attrs, objects)
	if err != nil {
		return forbidden(attrs, "the binding cannot be read: "+err.Error())
	}
	for _, namespace := range b.namespaces {
		if err := p.guardRole(ctx, snap, index, attrs, b, namespace); err != nil {
			return err
		}
	}
	return nil
}

// guardRole is guardBinding for one namespace; an empty one means everywhere.
func (p *ProtectedAttributes) guardRole(ctx context.Context, snap *snapshot.Snapshot, index *protectedattr.Index, attrs admission.Attributes, b binding, namespace string) error {
	role, span := b.role, b.span
	if role.Kind == "" || !index.GuardsRole(role, namespace) {
		return nil
	}
	caller := attrs.GetUserInfo()
	if caller == nil {
		return forbidden(attrs, "the caller is not known")
	}
	if now := requestctx.InstantOf(ctx); !now.IsZero() {
		span.From = max(span.From, now.Unix())
	}
	if snap.Rules != nil && snap.Rules.Throughout(span).Bound(caller, RoleRef(role), namespace) {
		return nil
	}
	bind := bindVerb(caller, role, namespace)
	decision, _, err := p.Chain.Authorize(ctx, bind)
	if decision == authorizer.DecisionAllow {
		return nil
	}
	reason := fmt.Sprintf("%s guards protected attributes: binding it requires the verb bind on %s %q, or being bound to it at the same or a wider scope; holding its rules is not enough", role, bind.Resource, bind.Name)
	if err != nil {
		reason = errors.Join(errors.New(reason), err).Error()
	}
	return &ruled{forbidden(attrs, reason), []string{"guarded " + role.String()}, &denial.Question{Attributes: bind}}
}

// bindVerb returns the request for the verb bind on a role, in the namespace in which it would be bound.
func bindVerb(caller user.Info, role protectedattr.Role, namespace string) authorizer.AttributesRecord {
	bind := authorizer.AttributesRecord{
		User: caller, Verb: "bind", Namespace: namespace, APIGroup: rbacv1.GroupName, APIVersion: rbacv1.SchemeGroupVersion.Version,
		Resource: "clusterroles", Name: role.Name, ResourceRequest: true,
	}
	switch role.Kind {
	case protectedattr.KindRole:
		bind.Resource = "roles"
	case protectedattr.KindPolicyRole:
		bind.APIGroup, bind.APIVersion, bind.Resource = authz.GroupName, authz.SchemeGroupVersion.Version, "roles"
	}
	return bind
}

// binding is a role that a request binds, or lets users ask for, with the places and the time for which that counts.
// The role has no kind if the request does not bind one. An empty namespace means everywhere.
type binding struct {
	role       protectedattr.Role
	namespaces []string
	span       ruleset.Span
}

// boundRole returns what a request binds. A role bound in the master namespace is bound everywhere.
func boundRole(snap *snapshot.Snapshot, attrs admission.Attributes, objects admission.ObjectInterfaces) (b binding, err error) {
	b = binding{namespaces: []string{attrs.GetNamespace()}, span: ruleset.SpanOf(nil, nil)}
	to := rbacv1.SchemeGroupVersion.WithKind(attrs.GetKind().Kind)
	switch attrs.GetResource().GroupResource() {
	case rbacv1.Resource("rolebindings"), rbacv1.Resource("clusterrolebindings"):
	case authz.Resource("rolebindings"):
		to = authz.SchemeGroupVersion.WithKind(attrs.GetKind().Kind)
	case access.Resource("accessrules"):
		to = access.SchemeGroupVersion.WithKind(attrs.GetKind().Kind)
	default:
		return b, nil
	}
	converted, err := admission.ConvertToGVK(attrs.GetObject(), to, objects)
	if err != nil {
		return b, err
	}
	master := ""
	if snap.Rules != nil {
		master = snap.Rules.MasterNamespace()
	}
	switch bound := converted.(type) {
	case *rbacv1.RoleBinding:
		b.role = ofRBAC(bound.RoleRef, attrs.GetNamespace())
	case *rbacv1.ClusterRoleBinding:
		b.role = ofRBAC(bound.RoleRef, "")
	case *authz.RoleBinding:
		settled := bound.DeepCopy()
		settled.Namespace = attrs.GetNamespace()
		policycodec.SettleRoleRef(settled, master)
		b.role = ofPolicy(settled.RoleRef)
		if b.span = ruleset.SpanOf(bound.NotBefore, bound.NotAfter); attrs.GetNamespace() == master {
			b.namespaces = []string{""}
		}
	case *access.AccessRule:
		ref := bound.Spec.RoleRef
		b.role = ofPolicy(authz.RoleRef{APIGroup: ref.APIGroup, Kind: ref.Kind, Namespace: cmp.Or(ref.Namespace, master), Name: ref.Name})
		b.namespaces = askedFor(bound, master)
	default:
		err = fmt.Errorf("%T", converted)
	}
	return b, err
}

// ofRBAC returns the role that a binding of RBAC names.
func ofRBAC(ref rbacv1.RoleRef, namespace string) protectedattr.Role {
	if ref.Kind == protectedattr.KindRole {
		return protectedattr.Role{Kind: ref.Kind, Namespace: namespace, Name: ref.Name}
	}
	return protectedattr.Role{Kind: ref.Kind, Name: ref.Name}
}

// ofPolicy returns the role that a binding of Policy names: a ClusterRole, or a role of Policy.
func ofPolicy(ref authz.RoleRef) protectedattr.Role {
	if ref.ClusterRole() {
		return protectedattr.Role{Kind: ref.Kind, Name: ref.Name}
	}
	return protectedattr.Role{Kind: protectedattr.KindPolicyRole, Namespace: ref.Namespace, Name: ref.Name}
}

// askedFor returns the namespaces in which a role can be asked for; a single empty one if that is everywhere, or where
// a selector decides.
func askedFor(r *access.AccessRule, master string) []string {
	if r.Spec.NamespaceSelector != nil || slices.Contains(r.Spec.Namespaces, "*") || slices.Contains(r.Spec.Namespaces, master) {
		return []string{""}
	}
	return r.Spec.Namespaces
}

// protecting returns the names of the protections that refused.
func protecting(result protectedattr.Result) (rules []string) {
	if refused := result.Refusal(); refused != nil {
		for _, p := range refused.Protections {
			rules = append(rules, p.Kind+" "+p.Name)
		}
	}
	return rules
}
