package suggest

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/ruleset/escalation"
)

const accountPrefix = "system:serviceaccount:"

// subjects are the subject as RBAC names it.
func (in Input) subjects() []rbacv1.Subject {
	if in.Subject.Group {
		return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: in.Subject.Name}}
	}
	if account, ok := strings.CutPrefix(in.Subject.Name, accountPrefix); ok {
		if namespace, name, whole := strings.Cut(account, ":"); whole {
			return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}
		}
	}
	return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: in.Subject.Name}}
}

// Objects are a suggestion as it is applied, in order: roles before bindings.
type Objects struct {
	Roles               []*rbacv1.Role
	RoleBindings        []*rbacv1.RoleBinding
	ClusterRoles        []*rbacv1.ClusterRole
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
	// Policy are the rules of Policy roles by namespace, which are bound in the same.
	Policy map[string][]policyv1alpha1.PolicyRule
}

// Objects makes the objects of the parts.
func (in Input) Objects(parts []Part) Objects {
	out := Objects{Policy: map[string][]policyv1alpha1.PolicyRule{}}
	for _, p := range parts {
		if len(p.Policy) > 0 {
			namespace := p.Namespace
			if namespace == "" {
				namespace = in.Index.MasterNamespace()
			}
			out.Policy[namespace] = append(out.Policy[namespace], p.Policy...)
		}
		if len(p.RBAC) == 0 {
			continue
		}
		meta := metav1.ObjectMeta{Namespace: p.Namespace, Name: in.Name}
		if p.Namespace == "" {
			out.ClusterRoles = append(out.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: p.RBAC})
			out.ClusterRoleBindings = append(out.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: in.Name}, Subjects: in.subjects()})
			continue
		}
		out.Roles = append(out.Roles, &rbacv1.Role{ObjectMeta: meta, Rules: p.RBAC})
		out.RoleBindings = append(out.RoleBindings, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: in.Name}, Subjects: in.subjects()})
	}
	return out
}

// writes reports whether a binding is one of the objects, which overwrite what a former suggestion left.
func (o Objects) writes(ref ruleset.BindingRef, name string) bool {
	if ref.Name != name {
		return false
	}
	switch ref.Kind {
	case ruleset.ClusterRoleBinding:
		return len(o.ClusterRoleBindings) > 0
	case ruleset.RoleBinding:
		return slices.ContainsFunc(o.RoleBindings, func(b *rbacv1.RoleBinding) bool { return b.Namespace == ref.Namespace })
	}
	return ref.Container == ref.Namespace && len(o.Policy[ref.Namespace]) > 0
}

// IsOpen reports whether a namespace can hold and bind roles of Policy.
func (in Input) IsOpen(namespace string) bool {
	return slices.ContainsFunc(in.Policies, func(p *policyv1alpha1.Policy) bool { return p.Namespace == namespace }) &&
		slices.ContainsFunc(in.PolicyBindings, func(b *policyv1alpha1.PolicyBinding) bool {
			return b.Namespace == namespace && b.Name == namespace
		})
}

// replace is the index in which the subject has the suggestion instead of the bindings that name it.
func (s *suggester) replace(out *Result) *ruleset.Index {
	var changes []ruleset.Change
	objects := s.Objects(out.Parts)
	policies, containers := map[string]*policyv1alpha1.Policy{}, map[string]*policyv1alpha1.PolicyBinding{}
	for _, p := range s.Policies {
		policies[p.Namespace] = p.DeepCopy()
	}
	for _, b := range s.PolicyBindings {
		next := b.DeepCopy()
		if b.Name == b.Namespace {
			containers[b.Namespace] = next
		}
		home := b.PolicyRef.Namespace
		if home == "" {
			home = b.Name
		}
		for name, e := range next.RoleBindings {
			list := &e.UserNames
			if s.Subject.Group {
				list = &e.GroupNames
			}
			ref := ruleset.BindingRef{Kind: ruleset.PolicyRoleBinding, Namespace: b.Namespace, Container: b.Name, Name: name}
			if !slices.Contains(*list, s.Subject.Name) {
				continue
			}
			role := ruleset.RoleRef{Kind: ruleset.PolicyRole, Namespace: home, Name: e.RoleName}
			// Denies are not suggested, and a rule that asks who the caller is cannot be copied.
			stays := policies[home] != nil && slices.ContainsFunc(policies[home].Roles[e.RoleName].Rules, func(r policyv1alpha1.PolicyRule) bool { return r.Deny || escalation.Personal(&r) })
			if e.RoleRef != nil {
				role, stays = ruleset.RoleRef{Kind: ruleset.ClusterRole, Name: e.RoleRef.Name}, false
			}
			// A time-limited binding is not replaced with a permanent one.
			if stays || ruleset.SpanOf(e.NotBefore, e.NotAfter).Bounded() {
				out.Kept = append(out.Kept, ref)
				continue
			}
			if s.Guards[role] {
				out.Guarding = append(out.Guarding, ref)
				continue
			}
			out.Replaced = append(out.Replaced, ref)
			*list = slices.DeleteFunc(slices.Clone(*list), func(n string) bool { return n == s.Subject.Name })
			next.RoleBindings[name] = e
		}
		changes = append(changes, ruleset.Put(next))
	}
	taken := func(subjects []rbacv1.Subject, namespace string) ([]rbacv1.Subject, bool) {
		left := slices.DeleteFunc(slices.Clone(subjects), func(sub rbacv1.Subject) bool {
			switch sub.Kind {
			case rbacv1.GroupKind:
				return s.Subject.Group && sub.Name == s.Subject.Name
			case rbacv1.UserKind:
				return !s.Subject.Group && sub.Name == s.Subject.Name
			}
			if sub.Namespace == "" {
				sub.Namespace = namespace
			}
			return !s.Subject.Group && accountPrefix+sub.Namespace+":"+sub.Name == s.Subject.Name
		})
		return left, len(left) < len(subjects)
	}
	for _, b := range s.RoleBindings {
		if left, some := taken(b.Subjects, b.Namespace); some {
			if s.Guards[rbacRole(b.RoleRef, b.Namespace)] {
				out.Guarding = append(out.Guarding, ruleset.BindingRef{Kind: ruleset.RoleBinding, Namespace: b.Namespace, Name: b.Name})
				continue
			}
			next := b.DeepCopy()
			next.Subjects = left
			changes, out.Replaced = append(changes, ruleset.Put(next)), append(out.Replaced, ruleset.BindingRef{Kind: ruleset.RoleBinding, Namespace: b.Namespace, Name: b.Name})
		}
	}
	for _, b := range s.ClusterRoleBindings {
		if left, some := taken(b.Subjects, ""); some {
			if s.Guards[rbacRole(b.RoleRef, "")] {
				out.Guarding = append(out.Guarding, ruleset.BindingRef{Kind: ruleset.ClusterRoleBinding, Name: b.Name})
				continue
			}
			next := b.DeepCopy()
			next.Subjects = left
			changes, out.Replaced = append(changes, ruleset.Put(next)), append(out.Replaced, ruleset.BindingRef{Kind: ruleset.ClusterRoleBinding, Name: b.Name})
		}
	}
	for namespace, rules := range objects.Policy {
		p, b := policies[namespace], containers[namespace]
		if p == nil {
			p = &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: policyv1alpha1.PolicyName}}
		}
		if b == nil {
			b = &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: namespace}}
		}
		if p.Roles == nil {
			p.Roles = map[string]policyv1alpha1.PolicyRole{}
		}
		if b.RoleBindings == nil {
			b.RoleBindings = map[string]policyv1alpha1.PolicyRoleBinding{}
		}
		p.Roles[s.Name] = policyv1alpha1.PolicyRole{Rules: rules}
		e := policyv1alpha1.PolicyRoleBinding{RoleName: s.Name}
		if s.Subject.Group {
			e.GroupNames = []string{s.Subject.Name}
		} else {
			e.UserNames = []string{s.Subject.Name}
		}
		b.RoleBindings[s.Name] = e
		changes = append(changes, ruleset.Put(p), ruleset.Put(b))
	}
	for _, o := range objects.Roles {
		changes = append(changes, ruleset.Put(o))
	}
	for _, o := range objects.RoleBindings {
		changes = append(changes, ruleset.Put(o))
	}
	for _, o := range objects.ClusterRoles {
		changes = append(changes, ruleset.Put(o))
	}
	for _, o := range objects.ClusterRoleBindings {
		changes = append(changes, ruleset.Put(o))
	}
	out.Replaced = slices.DeleteFunc(out.Replaced, func(ref ruleset.BindingRef) bool { return objects.writes(ref, s.Name) })
	for _, list := range [][]ruleset.BindingRef{out.Replaced, out.Kept, out.Guarding} {
		slices.SortFunc(list, func(a, b ruleset.BindingRef) int { return strings.Compare(a.String(), b.String()) })
	}
	return s.Index.Apply(changes...)
}

// rbacRole is the role that a binding of RBAC in a namespace binds.
func rbacRole(ref rbacv1.RoleRef, namespace string) ruleset.RoleRef {
	if ref.Kind == "Role" {
		return ruleset.RoleRef{Kind: ruleset.Role, Namespace: namespace, Name: ref.Name}
	}
	return ruleset.RoleRef{Kind: ruleset.ClusterRole, Name: ref.Name}
}
