package refmodel

import (
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// Pick draws a number from 0 to n-1. Tests hand in a random source or the bytes of a fuzzer.
type Pick func(n int) int

// The small universe that worlds and requests are drawn from. Real names, so that real special cases are hit.
var (
	Users      = []string{"alice", "bob", "system:serviceaccount:hammer:bot", ""}
	Groups     = []string{"team-a", "team-b", "system:authenticated", "system:serviceaccounts"}
	Namespaces = []string{"hammer", "anvil", "master"}
	Verbs      = []string{"get", "list", "create", "update", "patch", "delete", "deletecollection", "escalate", "impersonate",
		"impersonate-on:user-info:list", "granular", "granular:labels", "granular:label(a.com)", "reveal:a.com/data", "exec", "deny", ""}
	APIGroups    = []string{"", "apps", "example.com", Guarded}
	Plurals      = []string{"pods", "deployments", "widgets", "nodes", "secrets", "secret", "requests"}
	Subresources = []string{"", "", "", "exec", "proxy", "scale"}
	Names        = []string{"", "web", "db"}
	Paths        = []string{"/metrics", "/debug/pprof", "/debug", "/"}
)

var (
	ruleVerbs = []string{"*", "*", "*", "*", "*", "*", "*", "*", "get", "list", "create", "update", "delete", "exec", "proxy", "-get", "-update", "-delete", "-exec",
		"-proxy", "-create", "escalate", "impersonate*", "impersonate", "-impersonate", "granular", "-granular", "granular:*", "-granular:*", "granular:labels", "reveal:*", "-reveal:*", "reveal:a.com/data", "patch", "deny", "-*"}
	ruleKinds = []string{"*", "*", "*", "*", "*", "*", "*", "*", "*", "*", "*", "*", "*", "*", "pods", "pods/exec", "deployments.apps", "Deployment", "Widget", "widgets", "Widget.example.com",
		"nodes", "secrets", "pods.", "*.apps", "*/scale", "pods/*", "-pods", "-secrets", "-widgets", "-Widget", "-*.apps", "-pods/exec", "-*/scale",
		"Secret", "-Secret", "requests", "Request." + Guarded, "-Request", "-Deployment", "-*." + Guarded}
	ruleURLs = []string{"*", "/metrics", "/debug/*", "/debug*", "/"}
	// Conditions are a and b, which depend on the object, and one that asks who the caller is.
	conditions = []string{"", "", "", "", "a", "b", Personal, Broken}
	rbacVerbs  = []string{"*", "*", "*", "get", "list", "create", "update", "patch", "delete", "escalate", "impersonate", "granular", "granular:labels", "exec"}
	rbacKinds  = []string{"*", "*", "*", "pods", "pods/exec", "deployments", "widgets", "*/scale", "*/exec", "nodes/proxy", "secrets", "nodes", "requests"}
	// Some have names that others have already: as a plural that is a kind, as a kind that is a plural, in another
	// group.
	allServed = []Resource{{"", "pods", "Pod"}, {"", "nodes", "Node"}, {"", "secrets", "Secret"}, {"apps", "deployments", "Deployment"},
		{Guarded, "requests", "Request"}, {"example.com", "widgets", "Widget"}, {"example.com", "deployments", "Deployment"},
		{"example.com", "secret", "Requests"}, {"example.com", "nodes", "Secret"}, {"example.com", "pods", "Widgets"}}
)

func (p Pick) one(from []string) string { return from[p(len(from))] }

// some draws up to n of them, at least least.
func (p Pick) some(from []string, least, n int) (out []string) {
	for range least + p(n-least+1) {
		out = append(out, p.one(from))
	}
	return out
}

// PolicyRule draws a rule.
func (p Pick) PolicyRule() policyv1alpha1.PolicyRule {
	r := policyv1alpha1.PolicyRule{Deny: p(4) == 0, Verbs: p.some(ruleVerbs, 1, 3)}
	if p(8) == 0 {
		r.NonResourceURLs = p.some(ruleURLs, 1, 2)
	} else {
		r.ResourceKinds = p.some(ruleKinds, 1, 3)
		if p(3) == 0 {
			r.APIGroups = p.some([]string{"", "apps", "example.com", Guarded, "*"}, 1, 2)
		}
		if p(4) == 0 {
			r.ResourceNames = p.some(Names[1:], 1, 2)
		}
	}
	r.When = p.one(conditions)
	return r
}

// RBACRule draws a rule of RBAC.
func (p Pick) RBACRule() rbacv1.PolicyRule {
	r := rbacv1.PolicyRule{Verbs: p.some(rbacVerbs, 0, 3)}
	if p(5) == 0 {
		r.NonResourceURLs = p.some(ruleURLs, 1, 2)
		return r
	}
	r.APIGroups = p.some([]string{"", "", "apps", "example.com", Guarded, "*", "*"}, 0, 3)
	r.Resources = p.some(rbacKinds, 0, 3)
	if p(4) == 0 {
		r.ResourceNames = p.some(Names[1:], 1, 2)
	}
	return r
}

func list[T any](p Pick, least, n int, draw func() T) (out []T) {
	for range least + p(n-least+1) {
		out = append(out, draw())
	}
	return out
}

// Policy draws a container of roles named r0 to r3, some of which are missing.
func (p Pick) Policy(ns string) *policyv1alpha1.Policy {
	c := &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: policyv1alpha1.PolicyName}, Roles: map[string]policyv1alpha1.PolicyRole{}}
	for i := range 4 {
		if p(4) != 0 {
			c.Roles[fmt.Sprint("r", i)] = policyv1alpha1.PolicyRole{Rules: list(p, 0, 4, p.PolicyRule)}
		}
	}
	return c
}

// PolicyBinding draws a container of bindings.
func (p Pick) PolicyBinding(ns, of string) *policyv1alpha1.PolicyBinding {
	c := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: of}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{}}
	if p(2) == 0 {
		c.PolicyRef.Namespace = of
	}
	for i := range p(5) {
		c.RoleBindings[fmt.Sprint("b", i)] = policyv1alpha1.PolicyRoleBinding{RoleName: fmt.Sprint("r", p(4)),
			UserNames: p.some(Users, 0, 2), GroupNames: p.some(Groups, 0, 2)}
	}
	return c
}

// RoleRef draws a reference to one of the roles r0 to r3.
func (p Pick) RoleRef() rbacv1.RoleRef {
	return rbacv1.RoleRef{Kind: p.one([]string{"Role", "ClusterRole", "ClusterRole", "ClusterRole", "Role", "Other"}), Name: fmt.Sprint("r", p(4))}
}

// Subject draws a subject.
func (p Pick) Subject() rbacv1.Subject {
	switch p(4) {
	case 0:
		return rbacv1.Subject{Kind: "Group", Name: p.one(Groups)}
	case 1:
		return rbacv1.Subject{Kind: "ServiceAccount", Name: "bot", Namespace: p.one([]string{"", "hammer", "anvil"})}
	case 2:
		return rbacv1.Subject{Kind: p.one([]string{"User", "User", "user", ""}), Name: p.one(Users)}
	}
	return rbacv1.Subject{Kind: "User", Name: p.one(Users)}
}

// World draws a world.
func (p Pick) World() *World {
	w := &World{Master: "master"}
	for _, r := range allServed {
		if p(4) != 0 {
			w.Served = append(w.Served, r)
		}
	}
	for _, ns := range Namespaces {
		if p(4) != 0 {
			w.Policies = append(w.Policies, p.Policy(ns))
		}
		for _, of := range Namespaces {
			if p(3) != 0 {
				w.PolicyBindings = append(w.PolicyBindings, p.PolicyBinding(ns, of))
			}
		}
		for i := range 3 {
			if p(3) != 0 {
				w.Roles = append(w.Roles, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprint("r", i)}, Rules: list(p, 0, 4, p.RBACRule)})
			}
			if p(3) != 0 {
				w.RoleBindings = append(w.RoleBindings, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprint("b", i)},
					RoleRef: p.RoleRef(), Subjects: list(p, 0, 3, p.Subject)})
			}
		}
	}
	for i := range 4 {
		if p(3) != 0 {
			w.ClusterRoles = append(w.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("r", i)}, Rules: list(p, 0, 4, p.RBACRule)})
		}
		if p(3) != 0 {
			w.ClusterRoleBindings = append(w.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("b", i)},
				RoleRef: p.RoleRef(), Subjects: list(p, 0, 3, p.Subject)})
		}
	}
	return w
}

// User draws a caller.
func (p Pick) User() user.Info {
	return &user.DefaultInfo{Name: p.one(Users), Groups: p.some(Groups, 0, 3)}
}

// Request draws a request.
func (p Pick) Request() *Request {
	q := &Request{authorizer.AttributesRecord{User: p.User(), Verb: p.one(Verbs[:7]), Namespace: p.one([]string{"", "hammer", "anvil", "master"})}}
	if p(3) == 0 {
		q.Verb = p.one(Verbs)
	}
	if p(8) == 0 {
		q.Namespace, q.Path = "", p.one(Paths)
		return q
	}
	q.ResourceRequest = true
	q.APIGroup, q.Resource, q.Subresource, q.Name = p.one(APIGroups), p.one(Plurals), p.one(Subresources), p.one(Names)
	if q.Subresource == "proxy" {
		q.Name = p.spelling(q.Name)
	}
	return q
}

// spelling draws one of the ways in which the URL of a proxy request spells a name.
func (p Pick) spelling(name string) string {
	if name == "" {
		return name
	}
	return p.one([]string{name, name + ":80", "http:" + name + ":80", "https:" + name + ":"})
}

// Subjects lists every user and group that some binding names, in order.
func (w *World) Subjects() (users, groups []string) {
	u, g := map[string]bool{}, map[string]bool{}
	for _, c := range w.PolicyBindings {
		for _, b := range c.RoleBindings {
			for _, n := range b.UserNames {
				u[n] = true
			}
			for _, n := range b.GroupNames {
				g[n] = true
			}
		}
	}
	add := func(subjects []rbacv1.Subject, ns string) {
		for _, s := range subjects {
			switch {
			case s.Kind == "User":
				u[s.Name] = true
			case s.Kind == "Group":
				g[s.Name] = true
			case s.Kind == "ServiceAccount" && s.Namespace != "":
				u["system:serviceaccount:"+s.Namespace+":"+s.Name] = true
			case s.Kind == "ServiceAccount" && ns != "":
				u["system:serviceaccount:"+ns+":"+s.Name] = true
			}
		}
	}
	for _, b := range w.RoleBindings {
		add(b.Subjects, b.Namespace)
	}
	for _, b := range w.ClusterRoleBindings {
		add(b.Subjects, "")
	}
	return slices.Sorted(maps.Keys(u)), slices.Sorted(maps.Keys(g))
}
