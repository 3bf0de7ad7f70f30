package escalation

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// proof is an escalation check in progress: an index of only the writer's own roles, compiled to cover resources that
// do not exist yet, and the names that the rules mention.
type proof struct {
	grant  Grant
	ix     *ruleset.Index
	user   user.Info
	wanted []*matching.Rule
	rules  []*matching.Rule // the writer's and the wanted ones
	names  universe
	// lens and negations find the patterns of the rules by place.
	lens, negations lens
	// all are the numbers of all rules, and allow those with which the writer is allowed something; codes and matched
	// are for look.
	number       map[*matching.Rule]int
	all, matched []int
	allow        []bool
	codes        []byte
	// Earlier results: the places of a pattern, the first place that is seen in some way, how some rules see verbs and
	// names, and what the writer holds. pathVerbs is how rules with paths see verbs.
	byPattern map[string][]*place
	bySight   map[string]*place
	views     map[string]*view
	holdings  map[question]*holding
	implied   map[implication]bool
	pathVerbs *view
	budget    *budget
	seed      maphash.Seed // of nothing: places are compared by name
}

// maxRoles limits the check: a writer with more roles in one place is told to have them merged.
const maxRoles = 5000

// writer is what the writer of a grant holds where the grant will apply.
type writer struct {
	roles map[ruleset.Scope][]*ruleset.Definition
	// local are roles with deny rules that the writer has in any namespace. They matter only for a grant that applies
	// everywhere and that the writer need not hold.
	local []*ruleset.Definition
}

// writerOf collects the writer's roles. Tiers that are not in the chain do not count.
func writerOf(ix *ruleset.Index, g Grant) (*writer, error) {
	w := &writer{roles: map[ruleset.Scope][]*ruleset.Definition{}}
	n := 0
	ix.RolesOf(g.User, g.Namespace, g.Tiers, func(scope ruleset.Scope, d *ruleset.Definition) bool {
		if slices.Contains(w.roles[scope], d) {
			return true
		}
		if n++; n <= maxRoles {
			w.roles[scope] = append(w.roles[scope], d)
		}
		return n <= maxRoles
	})
	if n > maxRoles {
		return nil, &NotHeld{Reason: fmt.Sprintf("the writer has more than %d roles", maxRoles)}
	}
	if g.Lifted && g.Namespace == "" && slices.Contains(g.Tiers, ruleset.TierNamespace) {
		ix.LocalRolesOf(g.User, func(d *ruleset.Definition) bool {
			if d.Denies() {
				w.local = append(w.local, d)
			}
			return len(w.local) <= maxRoles
		})
		if len(w.local) > maxRoles {
			return nil, &NotHeld{Reason: fmt.Sprintf("more than %d roles deny something to the writer", maxRoles)}
		}
	}
	return w, nil
}

// anywhere returns the writer in a namespace in which the denies of all namespaces apply.
func (w *writer) anywhere() *writer {
	out := &writer{roles: maps.Clone(w.roles)}
	out.roles[ruleset.ScopePolicy] = nil
	for _, d := range w.local {
		moved := *d
		moved.Ref = ruleset.RoleRef{Kind: ruleset.PolicyRole, Namespace: anyNamespace, Name: d.Ref.Namespace + "/" + d.Ref.Name}
		out.roles[ruleset.ScopePolicy] = append(out.roles[ruleset.ScopePolicy], &moved)
	}
	return out
}

// anyNamespace is the name of that namespace. No namespace can have it.
const anyNamespace = "any namespace"

// denied reports whether any deny rule that is not shared applies to the writer.
func (w *writer) denied(shared sharedDenies) bool {
	for _, scope := range []ruleset.Scope{ruleset.ScopeMaster, ruleset.ScopePolicy} {
		for _, d := range w.roles[scope] {
			for i, ru := range d.Rules {
				if ru != nil && ru.Deny && !(scope == ruleset.ScopeMaster && shared.has(d, i)) {
					return true
				}
			}
		}
	}
	return false
}

// rbac lists the rules that RBAC gives the writer.
func (w *writer) rbac() (rules []rbacv1.PolicyRule) {
	for _, kind := range []ruleset.Scope{ruleset.ScopeCluster, ruleset.ScopeRBAC} {
		for _, r := range w.roles[kind] {
			rules = append(rules, r.RBAC...)
		}
	}
	return rules
}

// weight returns how many steps it takes to compile the writer's rules.
func (w *writer) weight() (steps int) {
	for _, roles := range w.roles {
		for _, d := range roles {
			steps += weight(d)
		}
	}
	return steps
}

func weight(d *ruleset.Definition) (steps int) {
	for _, r := range d.Rules {
		steps += perRule
		if r != nil {
			steps += perEntry * (len(r.Patterns) + len(r.Negs) + len(r.Names) + len(r.URLs) + len(r.Verbs.Named))
		}
	}
	return steps
}

// proofOf prepares the comparison of what is wanted with what the writer holds in a namespace.
func (c *comparison) proofOf(w *writer, namespace string, shared sharedDenies) (*proof, error) {
	h := &proof{grant: c.grant, user: &user.DefaultInfo{Name: "writer"}, seed: maphash.MakeSeed(), budget: &c.budget,
		number: map[*matching.Rule]int{}, byPattern: map[string][]*place{}, bySight: map[string]*place{},
		views: map[string]*view{}, holdings: map[question]*holding{}, implied: map[implication]bool{}}
	h.grant.Namespace = namespace
	if h.budget.charge(w.weight() + weight(c.wanted)); h.budget.spent() {
		return nil, errTooMuch()
	}
	ix := c.index
	in := writerInput(ix, namespace, w.roles)
	in.Kinds, in.Future = ix.Kinds(), true
	in.Skip = func(ref ruleset.RoleRef, i int) bool { return shared.has(ix.Definition(ref), i) }
	h.ix = ruleset.Build(in)
	h.take(c.wanted)
	h.wanted = slices.DeleteFunc(slices.Clone(h.rules), func(r *matching.Rule) bool { return r.Deny })
	own := len(h.rules)
	h.ix.Definitions(h.take)
	h.allow = make([]bool, len(h.rules))
	for n, r := range h.rules {
		h.all, h.number[r] = append(h.all, n), n
		h.allow[n] = n >= own && !r.Deny && !c.everyName
	}
	h.names = universeOf(h.rules, func(r *matching.Rule) bool { return h.allow[h.number[r]] })
	h.lens = newLens(h.rules, func(r *matching.Rule) []matching.Pattern { return r.Patterns })
	h.negations = newLens(h.rules, func(r *matching.Rule) []matching.Pattern { return r.Negs })
	h.codes = make([]byte, len(h.rules))
	var paths []int
	for n, r := range h.rules {
		if len(r.URLs) > 0 {
			paths = append(paths, n)
		}
		h.budget.charge(len(r.Patterns) + len(r.Negs) + len(r.Names) + len(r.URLs))
	}
	h.pathVerbs = &view{verbs: h.verbsSeen(paths)}
	if h.budget.spent() {
		return nil, errTooMuch()
	}
	return h, nil
}

func (h *proof) take(d *ruleset.Definition) {
	for _, ru := range d.Rules {
		if ru != nil {
			h.rules = append(h.rules, ru)
		}
	}
}

// writerInput returns the input of an index with only the writer in it. It reuses compiled conditions; a quarantined
// rule stays quarantined.
func writerInput(ix *ruleset.Index, namespace string, roles map[ruleset.Scope][]*ruleset.Definition) ruleset.Input {
	in := ruleset.Input{MasterNamespace: ix.MasterNamespace()}
	in.CompileRule = func(ref ruleset.RoleRef, i int, r *policyv1alpha1.PolicyRule) (matching.Condition, error) {
		if old := ix.Definition(ref); old != nil && i < len(old.Rules) && old.Rules[i] != nil && old.Rules[i].Cond != nil {
			return asWritten{r}, nil
		}
		return nil, fmt.Errorf("the condition of %s, rule %d, was not compiled", ref, i)
	}
	policies := map[string]*policyv1alpha1.Policy{}
	bindings := map[[2]string]*policyv1alpha1.PolicyBinding{}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "writer"}}
	define := func(d *ruleset.Definition) rbacv1.RoleRef {
		if d.Ref.Kind == ruleset.ClusterRole {
			in.ClusterRoles = append(in.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: d.Ref.Name}, Rules: d.RBAC})
			return rbacv1.RoleRef{Kind: "ClusterRole", Name: d.Ref.Name}
		}
		in.Roles = append(in.Roles, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: d.Ref.Namespace, Name: d.Ref.Name}, Rules: d.RBAC})
		return rbacv1.RoleRef{Kind: "Role", Name: d.Ref.Name}
	}
	bind := func(ns, home, name string, entry policyv1alpha1.PolicyRoleBinding) {
		key := [2]string{ns, home}
		b := bindings[key]
		if b == nil {
			b = &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: key[0], Name: key[1]}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{}}
			bindings[key] = b
			in.PolicyBindings = append(in.PolicyBindings, b)
		}
		entry.UserNames = []string{"writer"}
		b.RoleBindings[name] = entry
	}
	bindPolicy := func(ns string, d *ruleset.Definition) {
		if d.Ref.Kind == ruleset.ClusterRole {
			ref := define(d)
			bind(ns, ix.MasterNamespace(), "ClusterRole/"+ref.Name, policyv1alpha1.PolicyRoleBinding{RoleName: ref.Name,
				RoleRef: &policyv1alpha1.PolicyRoleReference{APIGroup: rbacv1.GroupName, Kind: ref.Kind, Name: ref.Name}})
			return
		}
		p := policies[d.Ref.Namespace]
		if p == nil {
			p = &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: d.Ref.Namespace, Name: policyv1alpha1.PolicyName}, Roles: map[string]policyv1alpha1.PolicyRole{}}
			policies[d.Ref.Namespace] = p
			in.Policies = append(in.Policies, p)
		}
		p.Roles[d.Ref.Name] = policyv1alpha1.PolicyRole{Rules: d.Policy}
		bind(ns, d.Ref.Namespace, d.Ref.Name, policyv1alpha1.PolicyRoleBinding{RoleName: d.Ref.Name})
	}
	for _, d := range roles[ruleset.ScopeMaster] {
		bindPolicy(ix.MasterNamespace(), d)
	}
	for _, d := range roles[ruleset.ScopePolicy] {
		bindPolicy(namespace, d)
	}
	for i, d := range roles[ruleset.ScopeCluster] {
		in.ClusterRoleBindings = append(in.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}, RoleRef: define(d), Subjects: subjects})
	}
	for i, d := range roles[ruleset.ScopeRBAC] {
		in.RoleBindings = append(in.RoleBindings, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(i)}, RoleRef: define(d), Subjects: subjects})
	}
	return in
}

// whyDenied returns which deny rule applies to the request, with or without a condition, or "". The request need not be
// allowed.
func whyDenied(q *ruleset.Query) string {
	m, tier := q.PolicyMaster(), ruleset.TierMaster
	if !m.Denies() && !m.Allow.Found() {
		if m, tier = q.PolicyNamespace(), ruleset.TierNamespace; m.Denies() && q.ClusterGrant().Found() {
			return ""
		}
	}
	switch {
	case m.Deny.Found():
		return deniedBy(m.Deny)
	case m.ConditionalDeny:
		return deniedBy(q.AppendConditional(nil, tier, ruleset.Denies)[0])
	}
	return ""
}

func deniedBy(h ruleset.Hit) string {
	if h.Condition() != nil || h.Names() != nil {
		return fmt.Sprintf("%s, rule %d, denies it under a condition", h.Role(), h.RuleIndex())
	}
	return fmt.Sprintf("denied by %s, rule %d", h.Role(), h.RuleIndex())
}
