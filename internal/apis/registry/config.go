package registry

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"

	audit "proviso.dev/proviso/api/auditregistration/v1alpha1"
	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/auditrule"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/request/freshness"
	"proviso.dev/proviso/internal/request/turns"
	"proviso.dev/proviso/internal/state/namespacegc"
)

// Config is what the registry depends on. Every field is needed that does not say what nil means.
type Config struct {
	// MasterNamespace is the namespace whose roles can be bound everywhere and whose bindings apply everywhere.
	MasterNamespace string

	// MaxAuditSinks is how many audit sinks there can be.
	MaxAuditSinks int

	// AllowInsecureSinks accepts sinks that are not https or that point to this machine.
	AllowInsecureSinks bool

	// NamespaceSinks limits the sinks of namespaces; the zero value allows none.
	NamespaceSinks NamespaceSinks

	// Authorizer is asked what callers may do besides writing: escalate field permissions, ask who can do something.
	Authorizer authorizer.Authorizer

	// Escalation refuses roles and role bindings that give more than the caller has.
	Escalation Escalation

	// Turns gives turns to those whose conditions are compiled, which takes long.
	Turns *turns.Queue

	// Namespaces says which namespaces there are.
	Namespaces namespacegc.Namespaces

	// Roles says which RBAC roles exist.
	Roles Roles

	// Reviewer answers the reviews.
	Reviewer Reviewer

	// Fresh lets reviews be answered by policy that is at least as new as they ask for; nil refuses to.
	Fresh *freshness.Waiting

	// Storage goes around what the resources are stored in; nil leaves it as it is.
	Storage func(generic.RESTOptionsGetter) generic.RESTOptionsGetter

	// Permissions says which field permissions are in effect.
	Permissions Permissions

	// ShadowRules says what rules that are not enforced would have changed.
	ShadowRules ShadowRules

	// Rules checks rules by the engine.
	Rules Rules

	// Tokens issues narrowed tokens; nil issues none.
	Tokens Tokens

	// Reads reports whether reads are decided under a condition, for warnings.
	Reads bool

	// FieldPermissions checks field permissions by the engine.
	FieldPermissions FieldPermissions

	// Audit knows what audit sinks and classes are about; nil if this server has no sinks.
	Audit AuditKnowledge

	// Access connects access requests with the rest of the server; nil if users cannot ask for access.
	Access AccessDesk
}

// Rules checks what takes the engine to check in rules.
type Rules interface {
	// CheckRule checks expressions, field paths and label requirements. The path is that of the rule.
	CheckRule(rule policy.PolicyRule, path *field.Path) field.ErrorList
	// Unserved names the kinds of a rule that nothing serves at the moment, and those that only resources of guarded
	// API groups have, for warnings.
	Unserved(rule policy.PolicyRule) (unserved, guarded []string)
	// Evadable finds deny rules whose subjects can change what the rule looks at, for warnings: those to whom a role is
	// bound, and if subjects are given, only these.
	Evadable(of EvadableRole) []string
}

// EvadableRole is a role with deny rules.
type EvadableRole struct {
	Role  authz.RoleRef
	Rules []policy.PolicyRule
	// Namespace, UserNames and GroupNames are those of a binding that is written; empty if a role is.
	Namespace             string
	UserNames, GroupNames []string
	// Caller is who writes.
	Caller Caller
}

// Caller is who writes, with what is warned of.
type Caller interface {
	// MayAsk reports whether the caller may ask who can do something in a namespace, or anywhere if it is empty: only
	// then may a warning mention what other users can do (NI-1).
	MayAsk(namespace string) bool
	// Protections lists what is protected in a namespace, or everywhere if it is empty.
	Protections(namespace string) []protectedattr.Protection
}

// AuditKnowledge knows what audit sinks and classes are about.
type AuditKnowledge interface {
	// Hiding lists the resources of which a permission hides a field now; none if it hides none, or one of all.
	Hiding(permission string) []schema.GroupResource
	// IsDeclared reports whether a field permission is declared.
	IsDeclared(permission string) bool
	// Unserved lists the places in a class that select nothing which is served now.
	Unserved(*audit.AuditClass) []auditrule.Unserved
}

// FieldPermissions checks what takes the engine to check in field permissions.
type FieldPermissions interface {
	// CheckFieldPermission checks the field path and the expressions. The path is that of the spec.
	CheckFieldPermission(spec policy.FieldPermissionSpec, path *field.Path) field.ErrorList
	// WarnOfHidden says from whom a field is hidden that they may read now.
	WarnOfHidden(ctx context.Context, spec policy.FieldPermissionSpec) []string
}

// Escalation refuses what would give the caller, found in the context, more than the caller has. An error refuses the
// write; one that is not an API status becomes a 403.
type Escalation interface {
	// ConfirmRole is asked before a role with new rules is written. old is nil when it is created.
	ConfirmRole(ctx context.Context, role, old *authz.Role) error
	// ConfirmRoleBinding is asked before a role binding with new subjects is written. old is nil when it is created;
	// role is what is bound.
	ConfirmRoleBinding(ctx context.Context, binding, old *authz.RoleBinding, role policy.PolicyRole) error
	// ConfirmUnbinding is asked before a role binding is deleted; role is what was bound.
	ConfirmUnbinding(ctx context.Context, binding *authz.RoleBinding, role policy.PolicyRole) error
}

// Roles says which roles exist.
type Roles interface {
	// RoleExists looks for a Role of RBAC in the namespace, for a ClusterRole, or for a "Policy role" in the namespace.
	RoleExists(ctx context.Context, kind, namespace, name string) (bool, error)
}

// Reviewer answers the reviews. The namespace is "" for a question about the whole cluster. An error is the server's;
// what is wrong with the question or its evaluation belongs into the status.
type Reviewer interface {
	// WhoCan says who can use the verb.
	WhoCan(ctx context.Context, namespace string, spec authz.ResourceAccessReviewSpec) (authz.ResourceAccessReviewStatus, error)
	// SubjectCan says whether the subject can. The caller is the subject if the spec names none.
	SubjectCan(ctx context.Context, caller user.Info, namespace string, spec authz.SubjectAccessReviewSpec) (authz.SubjectAccessReviewStatus, error)
}

// validate refuses a configuration in which a check would be skipped.
func (c Config) validate() error {
	if msgs := validation.IsDNS1123Label(c.MasterNamespace); len(msgs) > 0 {
		return fmt.Errorf("registry: master namespace %q: %s", c.MasterNamespace, msgs[0])
	}
	if c.MaxAuditSinks < 0 {
		return fmt.Errorf("registry: maximum of audit sinks is %d: it must not be negative", c.MaxAuditSinks)
	}
	for _, need := range []struct {
		missing bool
		what    string
	}{
		{c.Authorizer == nil, "authorizer"},
		{c.Escalation == nil, "escalation check"},
		{c.Turns == nil, "turns of those who write conditions"},
		{c.Namespaces == nil, "namespaces"},
		{c.Roles == nil, "roles"},
		{c.Reviewer == nil, "reviewer"},
		{c.Permissions == nil, "permissions"},
		{c.ShadowRules == nil, "list of rules that are not enforced"},
		{c.Rules == nil, "rule check"},
		{c.FieldPermissions == nil, "field permission check"},
	} {
		if need.missing {
			return errors.New("registry: no " + need.what + " configured")
		}
	}
	return nil
}
