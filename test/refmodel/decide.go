package refmodel

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// Hit is a rule that has something to say, and the binding that brings it in.
type Hit struct {
	Binding string // kind namespace/name
	Role    string // kind namespace/name
	Rule    int
	Deny    bool
	Answer  Answer
	About   About // of its where
}

// World is everything that Policy and RBAC consist of.
type World struct {
	Master string
	Served []Resource

	Policies            []*policyv1alpha1.Policy
	PolicyBindings      []*policyv1alpha1.PolicyBinding
	Roles               []*rbacv1.Role
	ClusterRoles        []*rbacv1.ClusterRole
	RoleBindings        []*rbacv1.RoleBinding
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
}

// Policy lists the rules of Policy that concern the request, of the master namespace or of the request's.
func (w *World) Policy(q *Request, master bool) (hits []Hit) {
	if !master && (!q.ResourceRequest || q.Namespace == "" || q.Namespace == w.Master) {
		return nil
	}
	for _, c := range w.PolicyBindings {
		if master != (c.Namespace == w.Master) || !master && c.Namespace != q.Namespace {
			continue
		}
		from := c.PolicyRef.Namespace
		if from == "" {
			from = c.Name
		}
		if from != c.Namespace && from != w.Master {
			continue
		}
		for name, b := range c.RoleBindings {
			if !named(q.User, b.UserNames, b.GroupNames) {
				continue
			}
			for i, r := range w.policyRules(from, b.RoleName) {
				if a := w.policyRule(&r, q); a != No {
					hits = append(hits, Hit{"Policy " + c.Namespace + "/" + c.Name + "/" + name, "Policy " + from + "/" + b.RoleName, i, r.Deny, a, about(&r, q)})
				}
			}
		}
	}
	return hits
}

func (w *World) policyRules(ns, name string) []policyv1alpha1.PolicyRule {
	for _, p := range w.Policies {
		if p.Namespace == ns && p.Name == policyv1alpha1.PolicyName {
			return p.Roles[name].Rules
		}
	}
	return nil
}

func named(u user.Info, users, groups []string) bool {
	return slices.Contains(users, u.GetName()) || slices.ContainsFunc(groups, func(g string) bool { return slices.Contains(u.GetGroups(), g) })
}

// RBAC lists the RBAC rules that allow the request, of cluster role bindings or of the role bindings of the namespace.
func (w *World) RBAC(q *Request, cluster bool) (hits []Hit) {
	add := func(binding, ns string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		if !slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool { return isSubject(q.User, s, ns) }) {
			return
		}
		role, rules := w.rbacRules(ref, ns)
		for i, r := range rules {
			if rbacRule(&r, q) {
				hits = append(hits, Hit{Binding: binding, Role: role, Rule: i, Answer: Yes})
			}
		}
	}
	if cluster {
		for _, b := range w.ClusterRoleBindings {
			add("ClusterRoleBinding /"+b.Name, "", b.RoleRef, b.Subjects)
		}
		return hits
	}
	for _, b := range w.RoleBindings {
		if b.Namespace == q.Namespace && q.Namespace != "" {
			add("RoleBinding "+b.Namespace+"/"+b.Name, b.Namespace, b.RoleRef, b.Subjects)
		}
	}
	return hits
}

func isSubject(u user.Info, s rbacv1.Subject, ns string) bool {
	switch s.Kind {
	case "User":
		return s.Name == u.GetName()
	case "Group":
		return slices.Contains(u.GetGroups(), s.Name)
	case "ServiceAccount":
		if s.Namespace != "" {
			ns = s.Namespace
		}
		return ns != "" && u.GetName() == "system:serviceaccount:"+ns+":"+s.Name
	}
	return false
}

func (w *World) rbacRules(ref rbacv1.RoleRef, ns string) (string, []rbacv1.PolicyRule) {
	switch ref.Kind {
	case "ClusterRole":
		for _, r := range w.ClusterRoles {
			if r.Name == ref.Name {
				return "ClusterRole /" + r.Name, r.Rules
			}
		}
	case "Role":
		for _, r := range w.Roles {
			if r.Name == ref.Name && r.Namespace == ns {
				return "Role " + ns + "/" + r.Name, r.Rules
			}
		}
	}
	return "", nil
}

func rbacRule(r *rbacv1.PolicyRule, q *Request) bool {
	has := func(list []string, v string) bool { return slices.Contains(list, "*") || slices.Contains(list, v) }
	if !has(r.Verbs, q.Verb) {
		return false
	}
	if !q.ResourceRequest {
		return urls(r.NonResourceURLs, q.Path)
	}
	res := q.Resource
	if q.Subresource != "" {
		res += "/" + q.Subresource
	}
	return has(r.APIGroups, q.APIGroup) &&
		(has(r.Resources, res) || q.Subresource != "" && slices.Contains(r.Resources, "*/"+q.Subresource)) &&
		(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, q.Name))
}

// Certainty that Policy and RBAC together allow a request.
type Certainty int

// The certainties.
const (
	Never Certainty = iota
	Sometimes
	Always
)

// Decide walks the tiers as PO-7 words it and enumerates what every condition could evaluate to, so that nothing has to
// be reasoned about. It gives up, with ok false, on more than a dozen conditions.
func (w *World) Decide(q *Request) (certainty Certainty, ok bool) {
	hits := w.Hits(q)
	id := func(h Hit) string { return h.Role + "#" + strings.Repeat("i", h.Rule) }
	var conditions []string
	for _, h := range slices.Concat(hits.Master, hits.Local) {
		if h.Answer != Yes && !slices.Contains(conditions, id(h)) {
			conditions = append(conditions, id(h))
		}
	}
	if len(conditions) > 12 {
		return Never, false
	}
	some, all := false, true
	for bits := range 1 << len(conditions) {
		allowed := hits.Allowed(func(h Hit) bool { return bits&(1<<slices.Index(conditions, id(h))) != 0 })
		some, all = some || allowed, all && allowed
	}
	switch {
	case all:
		return Always, true
	case some:
		return Sometimes, true
	}
	return Never, true
}

// Hits is everything that has something to say about a request.
type Hits struct{ Master, Local, Cluster, RBAC []Hit }

// Hits collects them.
func (w *World) Hits(q *Request) Hits {
	return Hits{w.Policy(q, true), w.Policy(q, false), w.RBAC(q, true), w.RBAC(q, false)}
}

// Conditional reports whether the decision depends on any condition.
func (h *Hits) Conditional() bool {
	return slices.ContainsFunc(slices.Concat(h.Master, h.Local), func(h Hit) bool { return h.Answer != Yes })
}

// Denied reports whether a deny rule ends it, for one way in which the conditions come out.
func (h *Hits) Denied(holds func(Hit) bool) bool {
	allowed := *h
	allowed.RBAC = append(slices.Clone(h.RBAC), Hit{Answer: Yes})
	return !allowed.Allowed(holds)
}

// Allowed decides for one way in which the conditions come out.
func (h *Hits) Allowed(holds func(Hit) bool) bool {
	met := func(hits []Hit, deny bool) bool {
		return slices.ContainsFunc(hits, func(h Hit) bool { return h.Deny == deny && (h.Answer == Yes || holds(h)) })
	}
	switch {
	case met(h.Master, true):
		return false
	case met(h.Master, false):
		return true
	case met(h.Local, true) && len(h.Cluster) == 0:
		return false
	}
	return met(h.Local, false) || len(h.Cluster) > 0 || len(h.RBAC) > 0
}
