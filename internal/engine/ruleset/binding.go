package ruleset

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	rbacv1 "k8s.io/api/rbac/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// binding is one binding as the index keeps it. It holds only what decisions and reasons need, so a million of them are
// cheap.
type binding struct {
	ref BindingRef
	// named is the role; in the index, all bindings of a role share the value.
	named    *RoleRef
	subjects []boundSubject
	// problem says why the binding can never grant anything, if that is the case; its role then has kind 0 and never
	// exists, or is the twin that only denies.
	problem *string
	id      uint32 // of the role; set when the binding enters the index
	// reason is the last reason: most bindings have one subject, so an authorizer that has to return a reason every
	// time need not build it every time.
	reason atomic.Pointer[reason]
}

// HasKey implements persist.Member.
func (b *binding) HasKey(ref BindingRef) bool { return b.ref == ref }

// bind rebinds it to another role, with a problem.
func (b *binding) bind(role RoleRef, problem string) { b.named, b.problem = &role, &problem }

// reason is the text for one subject and, in Policy, one rule.
type reason struct {
	subject Subject
	rule    *matching.Rule
	text    string
}

// boundSubject is a subject of a binding, as spelled there.
type boundSubject struct {
	name string // of a service account, the name of the user that it is
	kind boundKind
}

type boundKind uint8

const (
	boundUser boundKind = iota
	boundGroup
	boundAccount
)

// subject returns the subject. A service account is the same subject, whether spelled as a user or as a service
// account.
func (s boundSubject) subject() Subject { return Subject{Group: s.kind == boundGroup, Name: s.name} }

// account returns the name and the namespace of a service account. Its name has no colon.
func (s boundSubject) account() (name, namespace string) {
	full := strings.TrimPrefix(s.name, accountPrefix)
	at := strings.LastIndexByte(full, ':')
	return full[at+1:], full[:max(at, 0)]
}

// describe returns upstream's wording for a subject in a reason.
func (s boundSubject) describe() string {
	if s.kind == boundAccount {
		name, namespace := s.account()
		return fmt.Sprintf("%s %q", rbacv1.ServiceAccountKind, name+"/"+namespace)
	}
	return s.subject().String()
}

// accountPrefix is the prefix of the user name of a service account.
const accountPrefix = "system:serviceaccount:"

// scope returns where the binding applies.
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
	return b.ref == o.ref && *b.named == *o.named && sameText(b.problem, o.problem) && slices.Equal(b.subjects, o.subjects)
}

// unique lists the subjects without repetition.
func (b *binding) unique() []Subject {
	out := make([]Subject, 0, len(b.subjects))
	seen := map[Subject]bool{}
	for _, s := range b.subjects {
		if len(b.subjects) > 1 {
			if seen[s.subject()] {
				continue
			}
			seen[s.subject()] = true
		}
		out = append(out, s.subject())
	}
	return out
}

// rbacBinding converts a binding of RBAC. As upstream does, it ignores the API group of roleRef, takes a service
// account without a namespace from the binding's own, and ignores subjects of unknown kinds.
func rbacBinding(ref BindingRef, roleRef rbacv1.RoleRef, subjects []rbacv1.Subject) *binding {
	b := &binding{ref: ref}
	switch roleRef.Kind {
	case "ClusterRole":
		b.named = &RoleRef{Kind: ClusterRole, Name: roleRef.Name}
	case "Role":
		b.named = &RoleRef{Kind: Role, Namespace: ref.Namespace, Name: roleRef.Name}
	default:
		b.bind(RoleRef{Name: roleRef.Name}, fmt.Sprintf("unsupported role reference kind: %q", roleRef.Kind))
	}
	b.subjects = make([]boundSubject, 0, len(subjects))
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.UserKind:
			b.subjects = append(b.subjects, boundSubject{s.Name, boundUser})
		case rbacv1.GroupKind:
			b.subjects = append(b.subjects, boundSubject{s.Name, boundGroup})
		case rbacv1.ServiceAccountKind:
			ns := s.Namespace
			if ns == "" {
				ns = ref.Namespace
			}
			if ns != "" {
				b.subjects = append(b.subjects, boundSubject{accountPrefix + ns + ":" + s.Name, boundAccount})
			}
		}
	}
	return b
}

// policyBinding converts one entry of a PolicyBinding. A reference to a third namespace grants nothing. A quarantined
// entry grants nothing either, and is bound to the deny rules of the role that it names, wherever that role is (SV-8).
func policyBinding(c *policyv1alpha1.PolicyBinding, name string, e *policyv1alpha1.PolicyRoleBinding, master string) *binding {
	b := &binding{ref: BindingRef{Kind: PolicyRoleBinding, Namespace: c.Namespace, Container: c.Name, Name: name}}
	from := c.PolicyRef.Namespace
	if from == "" {
		from = c.Name
	}
	role := RoleRef{Kind: PolicyRole, Namespace: from, Name: e.RoleName}
	if e.RoleRef != nil {
		role = clusterRole(e.RoleRef)
	}
	b.named = &role
	if from != c.Namespace && from != master {
		b.bind(RoleRef{Namespace: from, Name: e.RoleName}, fmt.Sprintf("a role of namespace %q cannot be bound here: bind one of the own namespace or of %q", from, master))
	}
	if why, bad := e.Annotations[policyv1alpha1.AnnotationQuarantined]; bad {
		denies := role.twin()
		if subjectsUnreadable(e) {
			denies = role.softTwin()
		}
		b.bind(denies, "it is quarantined: "+why)
	}
	if roleUnreadable(e) {
		unreadable := containerRef{"PolicyBinding", c.Namespace, c.Name}.role()
		b.named, b.problem = &unreadable, nil
	}
	b.subjects = make([]boundSubject, 0, len(e.UserNames)+len(e.GroupNames))
	for _, u := range e.UserNames {
		b.subjects = append(b.subjects, boundSubject{u, boundUser})
	}
	for _, g := range e.GroupNames {
		b.subjects = append(b.subjects, boundSubject{g, boundGroup})
	}
	return b
}

// clusterRole returns the RBAC role that a binding of Policy names. Such a reference cannot name anything else.
func clusterRole(ref *policyv1alpha1.PolicyRoleReference) RoleRef {
	if ref.APIGroup != rbacv1.GroupName || ref.Kind != "ClusterRole" {
		return RoleRef{Name: ref.Name}
	}
	return RoleRef{Kind: ClusterRole, Name: ref.Name}
}

func sameText(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }
