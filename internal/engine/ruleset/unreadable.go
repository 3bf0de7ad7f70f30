package ruleset

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// What cannot be read denies (SV-8): it may have been a deny rule. A role denies to its subjects, a binding without a
// readable role to its subjects, a container to its namespace; all of them yield to cluster-wide grants. Here they
// become rules, roles and bindings like all others, so that every question about the index takes them into account.

// containerRef names a container.
type containerRef struct{ kind, namespace, name string }

func (c containerRef) String() string { return fmt.Sprintf("%s %q", c.kind, c.namespace+"/"+c.name) }

// role is the role that stands for what cannot be read in the container. No name in the API can begin so.
func (c containerRef) role() RoleRef {
	return RoleRef{PolicyRole, c.namespace, "\x00unreadable/" + c.kind + "/" + c.name}
}

// binding binds it to everybody.
func (c containerRef) binding() BindingRef {
	return BindingRef{Kind: PolicyRoleBinding, Namespace: c.namespace, Container: c.name, Name: "\x00unreadable/" + c.kind}
}

// Unreadable is the rule that stands for what cannot be read; description says what that is.
func Unreadable(description string) policyv1alpha1.PolicyRule {
	all := []string{"*"}
	return policyv1alpha1.PolicyRule{Deny: true, Verbs: all, ResourceKinds: all, NonResourceURLs: all, Description: description,
		Unrecognized: map[string]runtime.RawExtension{policyv1alpha1.UnreadableField: {Raw: []byte("true")}}}
}

// unreadable adds what stands for the parts of a container that cannot be read, or removes it.
func (e *edit) unreadable(c containerRef, annotations map[string]string, entries map[string]policyv1alpha1.PolicyRoleBinding, deleted bool) {
	whole, needed := annotations[policyv1alpha1.AnnotationUnreadable]
	if deleted {
		needed = false
	}
	wanted := needed
	for _, b := range entries {
		wanted = wanted || !deleted && roleUnreadable(&b)
	}
	role, ref := c.role(), c.binding()
	if _, known := e.next.ids.Get(e.next.hashRole(role), role); !wanted && !known && e.roles[role] == nil {
		return // nearly always
	}
	e.roles[role], e.bindings[ref] = nil, nil
	if wanted {
		text := c.String() + " cannot be read"
		if whole != "" {
			text += ": " + whole
		}
		e.roles[role] = &roleSource{policy: []policyv1alpha1.PolicyRule{Unreadable(text)}}
	}
	if needed {
		e.bindings[ref] = &binding{ref: ref, named: &role, subjects: everybody()}
	}
}

// roleUnreadable tells whether a binding does not say which role it is of.
func roleUnreadable(b *policyv1alpha1.PolicyRoleBinding) bool {
	return b.Annotations[policyv1alpha1.AnnotationUnreadable] == policyv1alpha1.UnreadableRole
}

// subjectsUnreadable tells whether a binding does not say whom it binds; it then binds everybody.
func subjectsUnreadable(b *policyv1alpha1.PolicyRoleBinding) bool {
	return b.Annotations[policyv1alpha1.AnnotationUnreadable] == policyv1alpha1.UnreadableSubjects
}

func everybody() []boundSubject {
	return []boundSubject{{name: user.AllAuthenticated, kind: boundGroup}, {name: user.AllUnauthenticated, kind: boundGroup}}
}
