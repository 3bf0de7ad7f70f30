package ruleset

import (
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/ruleset/matching"
)

// proof is an escalation check in progress: an index that has nothing but the writer's own roles, compiled so that it
// can tell about resources that do not exist yet, and the names that the rules mention.
type proof struct {
	grant  Grant
	ix     *Index
	user   user.Info
	wanted []*matching.Rule
	rules  []*matching.Rule // the writer's and the wanted ones
	names  universe
	// lens and negations find the patterns of the rules by place.
	lens, negations lens
	// verbs and objectNames are the names of the universe as the rules see them.
	verbs, objectNames sights
	budget             budget
}

// maxRoles limits the check: who has more roles in one place than that is asked to have them put together.
const maxRoles = 5000

// writer is what the writer of a grant has where the grant will hold.
type writer struct {
	roles map[scopeKind][]writerRole
	// local are roles with deny rules that the writer has in any namespace. Only a grant that holds everywhere, and
	// that the writer need not hold, has to ask about them.
	local []writerRole
}

type writerRole struct {
	id uint32
	*role
}

// writerOf collects the writer's roles. Tiers that are not in the chain do not count.
func (ix *Index) writerOf(g Grant) (*writer, error) {
	var q Query
	q.Reset(ix, authorizer.AttributesRecord{User: g.User, Namespace: g.Namespace, ResourceRequest: true})
	w := &writer{roles: map[scopeKind][]writerRole{}}
	n := 0
	for _, tier := range g.Tiers {
		for _, kind := range q.scopes(tier) {
			for s, i := q.next(0); s != nil && kind != 0; s, i = q.next(i) {
				for _, rg := range q.grants(s, kind) {
					r := ix.slots.Get(rg.id)
					if r == nil || slices.ContainsFunc(w.roles[kind], func(has writerRole) bool { return has.id == rg.id }) {
						continue
					}
					if n++; n > maxRoles {
						return nil, &NotHeld{Reason: fmt.Sprintf("the writer has more than %d roles", maxRoles)}
					}
					w.roles[kind] = append(w.roles[kind], writerRole{rg.id, r})
				}
			}
		}
	}
	if g.Lifted && g.Namespace == "" && slices.Contains(g.Tiers, TierNamespace) {
		for s, i := q.next(0); s != nil; s, i = q.next(i) {
			s.local.Each(func(_ string, l *local) bool {
				for _, rg := range l.policy {
					if r := ix.slots.Get(rg.id); r != nil && !r.deny.Empty() {
						w.local = append(w.local, writerRole{rg.id, r})
					}
				}
				return len(w.local) <= maxRoles
			})
		}
		if len(w.local) > maxRoles {
			return nil, &NotHeld{Reason: fmt.Sprintf("more than %d roles deny something to the writer", maxRoles)}
		}
	}
	return w, nil
}

// anywhere is the writer in a namespace in which all denies of all namespaces hold.
func (w *writer) anywhere() *writer {
	out := &writer{roles: maps.Clone(w.roles)}
	out.roles[scopePolicy] = nil
	for _, r := range w.local {
		moved := *r.role
		moved.ref = RoleRef{Kind: PolicyRole, Namespace: anyNamespace, Name: r.ref.Namespace + "/" + r.ref.Name}
		out.roles[scopePolicy] = append(out.roles[scopePolicy], writerRole{r.id, &moved})
	}
	return out
}

// anyNamespace is the name of that namespace. No namespace can have it.
const anyNamespace = "any namespace"

// denied tells whether any deny rule reaches the writer but those that are shared.
func (w *writer) denied(shared sharedDenies) bool {
	for _, kind := range []scopeKind{scopeMaster, scopePolicy} {
		for _, r := range w.roles[kind] {
			for i, ru := range r.compiled {
				if ru != nil && ru.Deny && !(kind == scopeMaster && shared.has(r.role, i)) {
					return true
				}
			}
		}
	}
	return false
}

// rbac lists the rules that RBAC gives the writer.
func (w *writer) rbac() (rules []rbacv1.PolicyRule) {
	for _, kind := range []scopeKind{scopeCluster, scopeRBAC} {
		for _, r := range w.roles[kind] {
			rules = append(rules, r.role.rbac...)
		}
	}
	return rules
}

// proofOf prepares the comparison of what is wanted with what the writer holds.
func (ix *Index) proofOf(g Grant, w *writer, wanted *role, shared sharedDenies) (*proof, error) {
	h := &proof{grant: g, user: &user.DefaultInfo{Name: "writer"}}
	in := writerInput(ix, g.Namespace, w.roles)
	in.Kinds, in.future = ix.kinds, true
	in.skip = func(ref RoleRef, i int) bool { return shared.has(ix.role(ref), i) }
	h.ix = Build(in)
	h.take(wanted)
	h.wanted = slices.DeleteFunc(slices.Clone(h.rules), func(r *matching.Rule) bool { return r.Deny })
	h.ix.ids.Each(func(_ RoleRef, id uint32) bool {
		if r := h.ix.slots.Get(id); r != nil {
			h.take(r)
		}
		return true
	})
	h.names = universeOf(h.rules)
	named := 0
	for _, r := range h.rules {
		named += len(r.Verbs.Named) + len(r.Verbs.Negated) + 1
	}
	if named*len(h.names.verbs) > maxSteps || len(h.rules)*len(h.names.names) > maxSteps {
		return nil, errTooMuch()
	}
	h.lens = newLens(h.rules, func(r *matching.Rule) []matching.Pattern { return r.Patterns })
	h.negations = newLens(h.rules, func(r *matching.Rule) []matching.Pattern { return r.Negs })
	h.verbs = newSights(h.rules, h.names.verbs, seesVerb)
	h.objectNames = newSights(h.rules, h.names.names, seesName)
	return h, nil
}

func (h *proof) take(r *role) {
	for _, ru := range r.compiled {
		if ru != nil {
			h.rules = append(h.rules, ru)
		}
	}
}

// writerInput is the world with nobody in it but the writer. Conditions are taken over as they were compiled; a
// quarantined rule stays so.
func writerInput(ix *Index, namespace string, roles map[scopeKind][]writerRole) Input {
	in := Input{MasterNamespace: ix.master}
	in.CompileRule = func(ref RoleRef, i int, r *policyv1alpha1.PolicyRule) (matching.Condition, error) {
		if old := ix.role(ref); old != nil && i < len(old.compiled) && old.compiled[i] != nil && old.compiled[i].Cond != nil {
			return asWritten{r}, nil
		}
		return nil, fmt.Errorf("the condition of %s, rule %d, was not compiled", ref, i)
	}
	policies := map[string]*policyv1alpha1.Policy{}
	bindings := map[nsName]*policyv1alpha1.PolicyBinding{}
	users := []string{"writer"}
	bindPolicy := func(ns string, r *role) {
		p := policies[r.ref.Namespace]
		if p == nil {
			p = &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: r.ref.Namespace, Name: policyv1alpha1.PolicyName}, Roles: map[string]policyv1alpha1.PolicyRole{}}
			policies[r.ref.Namespace] = p
			in.Policies = append(in.Policies, p)
		}
		p.Roles[r.ref.Name] = policyv1alpha1.PolicyRole{Rules: r.policy}
		key := nsName{ns, r.ref.Namespace}
		b := bindings[key]
		if b == nil {
			b = &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: key.ns, Name: key.name}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{}}
			bindings[key] = b
			in.PolicyBindings = append(in.PolicyBindings, b)
		}
		b.RoleBindings[r.ref.Name] = policyv1alpha1.PolicyRoleBinding{RoleName: r.ref.Name, UserNames: users}
	}
	for _, r := range roles[scopeMaster] {
		bindPolicy(ix.master, r.role)
	}
	for _, r := range roles[scopePolicy] {
		bindPolicy(namespace, r.role)
	}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "writer"}}
	define := func(r *role) rbacv1.RoleRef {
		if r.ref.Kind == ClusterRole {
			in.ClusterRoles = append(in.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: r.ref.Name}, Rules: r.rbac})
			return rbacv1.RoleRef{Kind: "ClusterRole", Name: r.ref.Name}
		}
		in.Roles = append(in.Roles, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: r.ref.Namespace, Name: r.ref.Name}, Rules: r.rbac})
		return rbacv1.RoleRef{Kind: "Role", Name: r.ref.Name}
	}
	for i, r := range roles[scopeCluster] {
		in.ClusterRoleBindings = append(in.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}, RoleRef: define(r.role), Subjects: subjects})
	}
	for i, r := range roles[scopeRBAC] {
		in.RoleBindings = append(in.RoleBindings, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(i)}, RoleRef: define(r.role), Subjects: subjects})
	}
	return in
}

// why tells why a request does not count as held by the writer for a wanted rule, or "" if it does.
func (h *proof) why(w *matching.Rule, a authorizer.AttributesRecord, at *place) string {
	a.User = h.user
	var q Query
	q.Reset(h.ix, a)
	q.req.Kind = at.kind
	if h.grant.Lifted {
		return q.whyDenied()
	}
	v := q.Decide(nil)
	switch {
	case v.Certainty == Always:
		return ""
	case v.Certainty == Never && v.Deny.Found():
		return deniedBy(v.Deny)
	case v.Certainty == Never:
		return "no rule allows it"
	}
	for _, c := range v.Conditions {
		if c.Effect() == Denies {
			return deniedBy(c)
		}
	}
	first := fmt.Sprintf("held only under the condition of %s, rule %d", v.Conditions[0].Role(), v.Conditions[0].RuleIndex())
	if w.RBAC {
		return first + ", and RBAC has no conditions: grant it by a role of Policy"
	}
	for _, c := range v.Conditions {
		if written, ok := w.Cond.(asWritten); ok && h.grant.Implies(written.PolicyRule, c.PolicyRule()) {
			return ""
		}
	}
	return first + ", and the condition of the new rule is not known to imply it: repeat that condition word for word, without asking who the caller is"
}

// whyDenied tells which deny rule reaches the request, under a condition or not, or "". Nothing has to allow it.
func (q *Query) whyDenied() string {
	m, tier := q.PolicyMaster(), TierMaster
	if !m.Denies() && !m.Allow.Found() {
		if m, tier = q.PolicyNamespace(), TierNamespace; m.Denies() && q.ClusterGrant().Found() {
			return ""
		}
	}
	switch {
	case m.Deny.Found():
		return deniedBy(m.Deny)
	case m.ConditionalDeny:
		return deniedBy(q.AppendConditional(nil, tier, Denies)[0])
	}
	return ""
}

func deniedBy(h Hit) string {
	if h.Condition() != nil || h.nameUnknown {
		return fmt.Sprintf("%s, rule %d, denies it under a condition", h.Role(), h.RuleIndex())
	}
	return fmt.Sprintf("denied by %s, rule %d", h.Role(), h.RuleIndex())
}
