package ruleset

import (
	"fmt"
	"slices"
	"sync/atomic"

	rbacv1 "k8s.io/api/rbac/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/ruleset/matching"
)

// binding is one binding as the index keeps it. It holds no more than decisions and reasons need, so that a hundred
// thousand of them are cheap.
type binding struct {
	ref      BindingRef
	role     RoleRef
	subjects []boundSubject
	// problem says why the binding can never grant anything; its role then has kind 0 and never exists, or is the twin
	// that only denies.
	problem string
	id      uint32 // of the role; set when the binding enters the index
	// reason is the last one that was given: most bindings have one subject, so that an authorizer that has to give a
	// reason every time does not have to word it every time.
	reason atomic.Pointer[reason]
}

// reason is the text for one subject and, in Policy, one rule.
type reason struct {
	subject Subject
	rule    *matching.Rule
	text    string
}

// boundSubject is a subject of a binding and how the binding spells it.
type boundSubject struct {
	Subject
	// account is the service account as reasons show it, name/namespace; empty for others.
	account string
}

// describe is upstream's wording for a subject in a reason.
func (s boundSubject) describe() string {
	if s.account != "" {
		return fmt.Sprintf("%s %q", rbacv1.ServiceAccountKind, s.account)
	}
	return s.String()
}

// accountPrefix begins the user name of a service account.
const accountPrefix = "system:serviceaccount:"

// scope is where the binding holds.
func (b *binding) scope(master string) scope {
	switch b.ref.Kind {
	case ClusterRoleBinding:
		return scope{kind: ScopeCluster}
	case RoleBinding:
		return scope{ScopeRBAC, b.ref.Namespace}
	}
	if b.ref.Namespace == master {
		return scope{kind: ScopeMaster}
	}
	return scope{ScopePolicy, b.ref.Namespace}
}

func (b *binding) equal(o *binding) bool {
	return b.ref == o.ref && b.role == o.role && b.problem == o.problem && slices.Equal(b.subjects, o.subjects)
}

// unique lists the subjects without repetition.
func (b *binding) unique() []Subject {
	out := make([]Subject, 0, len(b.subjects))
	seen := map[Subject]bool{}
	for _, s := range b.subjects {
		if len(b.subjects) > 1 {
			if seen[s.Subject] {
				continue
			}
			seen[s.Subject] = true
		}
		out = append(out, s.Subject)
	}
	return out
}

// rbacBinding converts a binding of RBAC. As upstream has it, the API group of roleRef is not looked at, a service
// account without a namespace is one of the binding's own, and subjects of unknown kinds are nobody.
func rbacBinding(ref BindingRef, roleRef rbacv1.RoleRef, subjects []rbacv1.Subject) *binding {
	b := &binding{ref: ref}
	switch roleRef.Kind {
	case "ClusterRole":
		b.role = RoleRef{Kind: ClusterRole, Name: roleRef.Name}
	case "Role":
		b.role = RoleRef{Kind: Role, Namespace: ref.Namespace, Name: roleRef.Name}
	default:
		b.problem = fmt.Sprintf("unsupported role reference kind: %q", roleRef.Kind)
		b.role = RoleRef{Name: roleRef.Name}
	}
	b.subjects = make([]boundSubject, 0, len(subjects))
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.UserKind:
			b.subjects = append(b.subjects, boundSubject{Subject: Subject{Name: s.Name}})
		case rbacv1.GroupKind:
			b.subjects = append(b.subjects, boundSubject{Subject: Subject{Group: true, Name: s.Name}})
		case rbacv1.ServiceAccountKind:
			ns := s.Namespace
			if ns == "" {
				ns = ref.Namespace
			}
			if ns != "" {
				b.subjects = append(b.subjects, boundSubject{
					Subject: Subject{Name: accountPrefix + ns + ":" + s.Name}, account: s.Name + "/" + ns})
			}
		}
	}
	return b
}

// policyBinding converts one entry of a PolicyBinding. A reference to a third namespace grants nothing. A quarantined
// entry grants nothing either, and is bound to the deny rules of the role that it names, wherever that is (SV-8).
func policyBinding(c *policyv1alpha1.PolicyBinding, name string, e *policyv1alpha1.PolicyRoleBinding, master string) *binding {
	b := &binding{ref: BindingRef{Kind: PolicyRoleBinding, Namespace: c.Namespace, Container: c.Name, Name: name}}
	from := c.PolicyRef.Namespace
	if from == "" {
		from = c.Name
	}
	b.role = RoleRef{Kind: PolicyRole, Namespace: from, Name: e.RoleName}
	if from != c.Namespace && from != master {
		b.problem = fmt.Sprintf("a role of namespace %q cannot be bound here: bind one of the own namespace or of %q", from, master)
		b.role.Kind = 0
	}
	if why, bad := e.Annotations[policyv1alpha1.AnnotationQuarantined]; bad {
		b.problem, b.role.Kind = "it is quarantined: "+why, PolicyRole
		if subjectsUnreadable(e) {
			b.role = b.role.softTwin()
		} else {
			b.role = b.role.twin()
		}
	}
	if roleUnreadable(e) {
		b.problem, b.role = "", containerRef{"PolicyBinding", c.Namespace, c.Name}.role()
	}
	b.subjects = make([]boundSubject, 0, len(e.UserNames)+len(e.GroupNames))
	for _, u := range e.UserNames {
		b.subjects = append(b.subjects, boundSubject{Subject: Subject{Name: u}})
	}
	for _, g := range e.GroupNames {
		b.subjects = append(b.subjects, boundSubject{Subject: Subject{Group: true, Name: g}})
	}
	return b
}
