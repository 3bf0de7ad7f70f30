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

// effective returns the rules of a role as they count. A rule with a field that is not known may have been a deny rule,
// with or without the condition that can be read: it denies its extent, yields, and is never only shadowed. What is
// missing of its extent may be in that field, and is everything.
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

// source is what a role of Policy is compiled from; nil if there is no such role. A role that is missing from a
// container that is not understood may be in what was not understood: it cannot be read, either.
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

// absent adds what stands for roles that are bound and that a container may hold which is not understood, and removes
// it once the container is.
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

// roleUnreadable reports whether a binding does not say which role it is of.
func roleUnreadable(b *policyv1alpha1.PolicyRoleBinding) bool {
	return b.Annotations[policyv1alpha1.AnnotationUnreadable] == policyv1alpha1.UnreadableRole || b.RoleRef != nil && clusterRole(b.RoleRef).Kind == 0
}

// subjectsUnreadable reports whether a binding does not say whom it binds; it then binds everybody.
func subjectsUnreadable(b *policyv1alpha1.PolicyRoleBinding) bool {
	return b.Annotations[policyv1alpha1.AnnotationUnreadable] == policyv1alpha1.UnreadableSubjects
}

func everybody() []boundSubject {
	return []boundSubject{{name: user.AllAuthenticated, kind: boundGroup}, {name: user.AllUnauthenticated, kind: boundGroup}}
}
