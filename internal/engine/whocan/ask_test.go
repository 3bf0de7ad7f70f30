package whocan

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/test/law"
	"proviso.dev/proviso/test/refmodel"
)

// text is a condition that is only compared.
type text string

func (text) RuleCondition() {}

func build(w *refmodel.World) *ruleset.Index {
	var served []ruleset.Served
	for _, r := range w.Served {
		served = append(served, ruleset.Served{Group: r.Group, Resource: r.Plural, Kind: r.Kind, Builtin: r.Builtin()})
	}
	return ruleset.Build(ruleset.Input{MasterNamespace: w.Master, Kinds: ruleset.NewKinds(served),
		CompileRule: func(_ ruleset.RoleRef, _ int, r *policyv1alpha1.PolicyRule) (ruleset.Condition, error) {
			if strings.Contains(r.When, refmodel.Broken) {
				return nil, fmt.Errorf("broken")
			}
			return text(r.When), nil
		},
		Policies: w.Policies, PolicyBindings: w.PolicyBindings, Roles: w.Roles, ClusterRoles: w.ClusterRoles,
		RoleBindings: w.RoleBindings, ClusterRoleBindings: w.ClusterRoleBindings})
}

// nobody is the name of a user that no binding names: an unnamed member of a group.
const nobody = "\x00nobody"

// as is the request made by a subject, judged as PO-14 says; alone leaves out system:authenticated.
func as(r refmodel.Request, s ruleset.Subject, alone bool) *refmodel.Request {
	switch {
	case s.Group && (alone || s.Name == "system:authenticated" || s.Name == "system:unauthenticated"):
		r.User = &user.DefaultInfo{Name: nobody, Groups: []string{s.Name}}
	case s.Group:
		r.User = &user.DefaultInfo{Name: nobody, Groups: []string{s.Name, "system:authenticated"}}
	case alone:
		r.User = &user.DefaultInfo{Name: s.Name}
	default:
		r.User = &user.DefaultInfo{Name: s.Name, Groups: []string{"system:authenticated"}}
	}
	return &r
}

func listed(a Answer, s ruleset.Subject) refmodel.Certainty {
	names := a.Users
	if s.Group {
		names = a.Groups
	}
	switch {
	case slices.Contains(names, s.Name):
		return refmodel.Always
	case slices.ContainsFunc(a.Conditional, func(c Conditional) bool { return c.Subject == s }):
		return refmodel.Sometimes
	}
	return refmodel.Never
}

// PO-14: who-can equals brute force over the reference model: every subject that any binding names is judged, and the
// answer lists exactly those that can, always or under conditions.
func TestAskEqualsBruteForce(t *testing.T) {
	seen := map[refmodel.Certainty]int{}
	law.Rounds(t, 250, func(seed int64) int {
		askEqualsBruteForce(t, seed, refmodel.Pick(rand.New(rand.NewSource(seed)).Intn), seen)
		return 12
	})
	for _, o := range []refmodel.Certainty{refmodel.Never, refmodel.Sometimes, refmodel.Always} {
		if seen[o] < 50 {
			law.TooFew(t, "certainties %v: too few to prove anything", seen)
		}
	}
}

func FuzzAskEqualsBruteForce(f *testing.F) {
	law.Fuzz(f, func(t *testing.T, pick func(int) int) { askEqualsBruteForce(t, 0, pick, map[refmodel.Certainty]int{}) })
}

// askEqualsBruteForce tries the law on one world and counts what it has seen.
func askEqualsBruteForce(t *testing.T, seed int64, pick refmodel.Pick, seen map[refmodel.Certainty]int) {
	w := pick.World()
	ix := build(w)
	users, groups := w.Subjects()
	for range 12 {
		r := pick.Request()
		answer := Ask(ix, Question{Request: r, IncludeBlocked: true})
		everybody := listed(answer, ruleset.Subject{Group: true, Name: "system:authenticated"})
		for _, s := range subjectsOf(users, groups) {
			certainty, ok := w.Decide(as(*r, s, false))
			if !ok {
				continue
			}
			want := certainty
			direct := w.Hits(as(*r, s, true))
			all := slices.Concat(direct.Master, direct.Local, direct.Cluster, direct.RBAC)
			allow := slices.ContainsFunc(all, func(h refmodel.Hit) bool { return !h.Deny })
			deny := slices.ContainsFunc(all, func(h refmodel.Hit) bool { return h.Deny })
			if !allow && (want == refmodel.Always || !deny) {
				// This subject can only because everybody can: then everybody is listed, and the subject is not.
				if want > everybody {
					t.Fatalf("seed %d: %v can (%v), but system:authenticated is listed as %v\n%+v", seed, s, want, everybody, r)
				}
				want = refmodel.Never
			}
			if got := listed(answer, s); got != want {
				t.Fatalf("seed %d: %v is listed as %v, want %v\n%+v\n%+v", seed, s, got, want, r, answer)
			}
			seen[want]++
			requireBlocked(t, answer, s, all, certainty)
		}
		requireNoStrangers(t, answer, users, groups)
	}
}

func subjectsOf(users, groups []string) (out []ruleset.Subject) {
	for _, u := range users {
		out = append(out, ruleset.Subject{Name: u})
	}
	for _, g := range groups {
		out = append(out, ruleset.Subject{Group: true, Name: g})
	}
	return out
}

// requireBlocked: a subject that cannot is listed with every deny rule that it is bound to, and nobody who can is
// listed.
func requireBlocked(t *testing.T, a Answer, s ruleset.Subject, hits []refmodel.Hit, certainty refmodel.Certainty) {
	t.Helper()
	var rules []string
	for _, b := range a.Blocked {
		if b.Subject == s {
			rules = append(rules, fmt.Sprint("Policy ", b.Deny.Role().Namespace, "/", b.Deny.Role().Name, "#", b.Deny.RuleIndex()))
		}
	}
	if certainty != refmodel.Never && len(rules) > 0 {
		t.Fatalf("%v can (%v) and is listed as blocked by %v", s, certainty, rules)
	}
	for _, h := range hits {
		if id := fmt.Sprint(h.Role, "#", h.Rule); certainty == refmodel.Never && h.Deny && !slices.Contains(rules, id) {
			t.Fatalf("%v is denied by %s, listed are %v", s, id, rules)
		}
	}
}

func requireNoStrangers(t *testing.T, a Answer, users, groups []string) {
	t.Helper()
	for _, u := range a.Users {
		if !slices.Contains(users, u) {
			t.Fatalf("user %q is listed and bound nowhere", u)
		}
	}
	for _, g := range a.Groups {
		if !slices.Contains(groups, g) && g != "system:masters" {
			t.Fatalf("group %q is listed and bound nowhere", g)
		}
	}
}

func bindings(ns, of string, role string, users, groups []string) *policyv1alpha1.PolicyBinding {
	return &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: of},
		RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"b-" + role: {RoleName: role, UserNames: users, GroupNames: groups}}}
}

// PO-14: the parts of the answer, by example.
func TestAskByExample(t *testing.T) {
	role := func(r ...policyv1alpha1.PolicyRule) policyv1alpha1.PolicyRole {
		return policyv1alpha1.PolicyRole{Rules: r}
	}
	policy := func(ns string, roles map[string]policyv1alpha1.PolicyRole) *policyv1alpha1.Policy {
		return &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "default"}, Roles: roles}
	}
	w := &refmodel.World{Master: "master",
		Policies: []*policyv1alpha1.Policy{
			policy("master", map[string]policyv1alpha1.PolicyRole{"admin": role(policyv1alpha1.PolicyRule{Verbs: []string{"*"}, ResourceKinds: []string{"*"}})}),
			policy("hammer", map[string]policyv1alpha1.PolicyRole{
				"edit":    role(policyv1alpha1.PolicyRule{Verbs: []string{"update"}, ResourceKinds: []string{"deployments.apps"}}),
				"bounded": role(policyv1alpha1.PolicyRule{Verbs: []string{"update"}, ResourceKinds: []string{"deployments.apps"}, When: "object.spec.replicas < 5"}),
				"not":     role(policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"*"}, ResourceKinds: []string{"deployments"}}),
			}),
		},
		PolicyBindings: []*policyv1alpha1.PolicyBinding{
			bindings("master", "master", "admin", []string{"clark"}, nil),
			{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "hammer"}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{
				"edit":    {RoleName: "edit", UserNames: []string{"hubert", "mallory"}, GroupNames: []string{"team-a"}},
				"bounded": {RoleName: "bounded", UserNames: []string{"edgar"}},
				"not":     {RoleName: "not", UserNames: []string{"mallory"}, GroupNames: []string{"contractors"}},
				"gone":    {RoleName: "missing", UserNames: []string{"zoe"}},
			}},
		},
		ClusterRoles: []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "apps"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"apps"}, Resources: []string{"*"}}}}},
		ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{{ObjectMeta: metav1.ObjectMeta{Name: "controllers"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "apps"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "kube-system", Name: "deployer"}}}},
	}
	r := authorizer.AttributesRecord{Verb: "update", Namespace: "hammer", APIGroup: "apps", Resource: "deployments", Name: "web", ResourceRequest: true}
	a := Ask(build(w), Question{Request: r, IncludeBlocked: true})
	if want := []string{"clark", "hubert", "system:serviceaccount:kube-system:deployer"}; !slices.Equal(a.Users, want) {
		t.Errorf("users %q, want %q", a.Users, want)
	}
	if want := []string{"system:masters", "team-a"}; !slices.Equal(a.Groups, want) {
		t.Errorf("groups %q, want %q", a.Groups, want)
	}
	if len(a.Conditional) != 1 || a.Conditional[0].Subject.Name != "edgar" || len(a.Conditional[0].Standing.Conditions) != 1 ||
		a.Conditional[0].Standing.Conditions[0].Condition() != text("object.spec.replicas < 5") {
		t.Errorf("conditional %+v", a.Conditional)
	}
	var blocked []string
	for _, b := range a.Blocked {
		blocked = append(blocked, fmt.Sprintf("%s by %s: %s", b.Subject, b.Deny.Binding(), b.Deny.Describe()))
	}
	if want := []string{`User "mallory" by RoleBinding "hammer/not": deny verbs * of deployments`,
		`Group "contractors" by RoleBinding "hammer/not": deny verbs * of deployments`}; !slices.Equal(blocked, want) {
		t.Errorf("blocked %q, want %q", blocked, want)
	}
	if a.Err == nil || a.Err.Error() != `RoleBinding "hammer/gone" grants nothing: Role "hammer/missing" does not exist` {
		t.Errorf("error %v", a.Err)
	}
	if a := Ask(build(w), Question{Request: r}); a.Blocked != nil {
		t.Errorf("blocked without being asked: %v", a.Blocked)
	}
}

// EX-3: the pages of an answer together are the answer, whatever their size, and a name filter leaves the others out.
func TestPagesAreTheAnswer(t *testing.T) {
	pages := 0
	law.Rounds(t, 100, func(seed int64) int {
		pick := refmodel.Pick(rand.New(rand.NewSource(seed)).Intn)
		ix := build(pick.World())
		for range 6 {
			r := pick.Request()
			var named func(string) bool
			if pick(2) == 0 {
				named = func(name string) bool { return strings.Contains(name, "a") }
			}
			whole := Ask(ix, Question{Request: r, IncludeBlocked: true, Page: Page{Named: named}})
			var joined Answer
			page := Page{Limit: 1 + pick(3), Named: named}
			for {
				part := Ask(ix, Question{Request: r, IncludeBlocked: true, Page: page})
				pages++
				joined.Users, joined.Groups = append(joined.Users, part.Users...), append(joined.Groups, part.Groups...)
				joined.Conditional, joined.Blocked = append(joined.Conditional, part.Conditional...), append(joined.Blocked, part.Blocked...)
				if part.Last == nil {
					break
				}
				if n := len(part.Users) + len(part.Groups) + len(part.Conditional); n > page.Limit || part.Left == 0 {
					t.Fatalf("seed %d: %d on a page of %d, %d left", seed, n, page.Limit, part.Left)
				}
				page.After = part.Last
			}
			for _, name := range slices.Concat(whole.Users, whole.Groups) {
				if named != nil && !named(name) {
					t.Fatalf("seed %d: %q does not have the name that was asked for", seed, name)
				}
			}
			describe := func(a Answer) string {
				text := fmt.Sprint(a.Users, a.Groups)
				for _, c := range a.Conditional {
					text += fmt.Sprint(c.Subject)
				}
				for _, b := range a.Blocked {
					text += fmt.Sprint(b.Subject, b.Deny.Role(), b.Deny.RuleIndex(), b.Deny.Binding())
				}
				return text
			}
			if got, want := describe(joined), describe(whole); got != want {
				t.Fatalf("seed %d: pages of %d are\n%s, the answer is\n%s", seed, page.Limit, got, want)
			}
		}
		return 6
	})
	if pages < 500 {
		law.TooFew(t, "%d pages", pages)
	}
}

// BenchmarkAskPage asks for the first page of an answer with 100,000 users (EX-3).
func BenchmarkAskPage(b *testing.B) {
	w := &refmodel.World{Master: "master"}
	w.ClusterRoles = []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "view"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}}}
	for i := range 100_000 {
		w.ClusterRoleBindings = append(w.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("view-%06d", i)},
			RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: fmt.Sprintf("user-%06d", i)}}})
	}
	ix := build(w)
	q := Question{Request: authorizer.AttributesRecord{Verb: "get", Namespace: "hammer", Resource: "pods", ResourceRequest: true}, Page: Page{Limit: 100}}
	if a := Ask(ix, q); len(a.Users) != 100 || a.Left < 99_900 {
		b.Fatalf("%d users, %d left", len(a.Users), a.Left)
	}
	for b.Loop() {
		Ask(ix, q)
	}
}

// BenchmarkAsk asks about a namespace among 10,000 with ten bindings each; the answer has a hundred subjects.
func BenchmarkAsk(b *testing.B) {
	w := &refmodel.World{Master: "master"}
	for i := range 10_000 {
		ns := fmt.Sprintf("namespace-%05d", i)
		c := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "master"}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{}}
		for j := range 10 {
			var users []string
			for k := range 10 {
				users = append(users, fmt.Sprintf("user-%d-%d-%d", i, j, k))
			}
			c.RoleBindings[fmt.Sprint("binding-", j)] = policyv1alpha1.PolicyRoleBinding{RoleName: []string{"edit", "view"}[j%2], UserNames: users}
		}
		w.PolicyBindings = append(w.PolicyBindings, c)
	}
	w.Policies = []*policyv1alpha1.Policy{{ObjectMeta: metav1.ObjectMeta{Namespace: "master", Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{
		"view": {Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"get", "list"}, ResourceKinds: []string{"*", "-secrets"}}}},
		"edit": {Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"*"}, ResourceKinds: []string{"*"}}}},
	}}}
	ix := build(w)
	r := authorizer.AttributesRecord{Verb: "get", Namespace: "namespace-04711", APIGroup: "apps", Resource: "deployments", Name: "web", ResourceRequest: true}
	if n := len(Ask(ix, Question{Request: r}).Users); n != 100 {
		b.Fatalf("%d users", n)
	}
	b.ReportAllocs()
	for b.Loop() {
		Ask(ix, Question{Request: r})
	}
}

// BenchmarkAskClusterWide asks about one secret among 100,000 cluster role bindings to as many roles.
func BenchmarkAskClusterWide(b *testing.B) {
	w := &refmodel.World{Master: "master"}
	for i := range 100_000 {
		name := metav1.ObjectMeta{Name: fmt.Sprintf("role-%06d", i)}
		w.ClusterRoles = append(w.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{fmt.Sprintf("secret-%06d", i/100)}}}})
		w.ClusterRoleBindings = append(w.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: name,
			RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: name.Name}, Subjects: []rbacv1.Subject{{Kind: "User", Name: fmt.Sprintf("user-%06d", i)}}})
	}
	ix := build(w)
	r := authorizer.AttributesRecord{Verb: "get", Namespace: "hammer", Resource: "secrets", Name: "secret-000471", ResourceRequest: true}
	if n := len(Ask(ix, Question{Request: r}).Users); n != 100 {
		b.Fatalf("%d users", n)
	}
	b.ReportAllocs()
	for b.Loop() {
		Ask(ix, Question{Request: r})
	}
}
