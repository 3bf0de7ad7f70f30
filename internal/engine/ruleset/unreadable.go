package ruleset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// Unreadable policy denies (SV-8): it may have been a deny rule. A role denies its subjects, a binding without a
// readable role denies its subjects, a container denies its namespace; cluster-wide grants override all of them. Here
// they become rules, roles and bindings like all others, so every question to the index takes them into account.

// containerRef names a container.
type containerRef struct{ kind, namespace, name string }

func (c containerRef) String() string { return fmt.Sprintf("%s %q", c.kind, c.namespace+"/"+c.name) }

// role returns the role that stands for the unreadable parts of the container. No name in the API can begin like this.
func (c containerRef) role() RoleRef {
	return RoleRef{PolicyRole, c.namespace, "\x00unreadable/" + c.kind + "/" + c.name}
}

// binding binds it to all users.
func (c containerRef) binding() BindingRef {
	return BindingRef{Kind: PolicyRoleBinding, Namespace: c.namespace, Container: c.name, Name: "\x00unreadable/" + c.kind}
}

// Unreadable returns the rule that stands for something unreadable; description says what that is.
func Unreadable(description string) policyv1alpha1.PolicyRule {
	all := []string{"*"}
	return policyv1alpha1.PolicyRule{Deny: true, Verbs: all, ResourceKinds: all, NonResourceURLs: all, Description: description,
		Unrecognized: map[string]runtime.RawExtension{policyv1alpha1.UnreadableField: {Raw: []byte("true")}}}
}

// effective returns the rules of a role as they take effect. A rule with an unknown field may have been a deny rule,
// with or without the condition that can be read: it denies its extent, yields, and is never only a shadow rule. A part
// of its extent that is missing may be in the unknown field, so it counts as everything.
func effective(ref RoleRef, rules []policyv1alpha1.PolicyRule) []policyv1alpha1.PolicyRule {
	var out []policyv1alpha1.PolicyRule
	for i := range rules {
		unknown := rules[i].UnknownFields()
		if len(unknown) == 0 {
			continue
		}
		if out == nil {
			out = slices.Clone(rules)
		}
		r, all := &out[i], []string{"*"}
		r.Deny, r.Enforcement = true, ""
		r.Unrecognized = maps.Clone(r.Unrecognized)
		if r.Unrecognized == nil {
			r.Unrecognized = map[string]runtime.RawExtension{}
		}
		r.Unrecognized[policyv1alpha1.UnreadableField] = runtime.RawExtension{Raw: []byte("true")}
		if len(r.Verbs) == 0 {
			r.Verbs = all
		}
		if len(r.ResourceKinds) == 0 && len(r.NonResourceURLs) == 0 {
			r.ResourceKinds, r.NonResourceURLs = all, all
		}
		r.Description = fmt.Sprintf("rule %d of %s has fields that are not known: %s", i, ref, strings.Join(unknown, ", "))
	}
	if out == nil {
		return rules
	}
	return out
}

// source returns the source of a role of Policy; nil if there is no such role. A role that is missing from a container
// with unreadable parts may be in those parts: it counts as unreadable.
func (ix *Index) source(p *policyv1alpha1.Policy, ref RoleRef) *roleSource {
	role, ok := p.Roles[ref.Name]
	switch {
	case ok:
		return &roleSource{policy: effective(ref, role.Rules), over: ix.limits.policy(p, ix.master, ix.part)}
	case p.Annotations[policyv1alpha1.AnnotationQuarantined] != "" && !strings.ContainsRune(ref.Name, 0):
		return &roleSource{policy: []policyv1alpha1.PolicyRule{Unreadable(fmt.Sprintf("%s may be in what cannot be read of its policy", ref))}}
	}
	return nil
}

// absent adds stand-ins for bound roles that may be in the unreadable parts of a container, and removes them once the
// container is readable.
func (e *edit) absent() {
	stand := func(ref RoleRef) {
		p, ok := e.next.policies.Get(e.next.hash(ref.Namespace), ref.Namespace)
		if !ok || ref.Kind != PolicyRole || strings.ContainsRune(ref.Name, 0) {
			return
		}
		if _, there := p.Roles[ref.Name]; !there {
			e.roles[ref] = e.next.source(p, ref)
		}
	}
	for _, b := range e.bindings {
		if b != nil {
			stand(b.named.plain())
		}
	}
	if len(e.doubted) == 0 {
		return // nearly always
	}
	e.next.ids.Each(func(ref RoleRef, _ uint32) bool {
		if ref = ref.plain(); e.doubted[ref.Namespace] && ref.Kind == PolicyRole && e.roles[ref] == nil && !strings.ContainsRune(ref.Name, 0) {
			e.roles[ref] = nil
			stand(ref)
		}
		return true
	})
}

// unreadable adds stand-ins for the unreadable parts of a container, or removes them.
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

// roleUnreadable reports whether it is unknown which role a binding binds.
func roleUnreadable(b *policyv1alpha1.PolicyRoleBinding) bool {
	return b.Annotations[policyv1alpha1.AnnotationUnreadable] == policyv1alpha1.UnreadableRole || b.RoleRef != nil && clusterRole(b.RoleRef).Kind == 0
}

// subjectsUnreadable reports whether it is unknown whom a binding binds; then it binds all users.
func subjectsUnreadable(b *policyv1alpha1.PolicyRoleBinding) bool {
	return b.Annotations[policyv1alpha1.AnnotationUnreadable] == policyv1alpha1.UnreadableSubjects
}

func everybody() []boundSubject {
	return []boundSubject{{name: user.AllAuthenticated, kind: boundGroup}, {name: user.AllUnauthenticated, kind: boundGroup}}
}
