package ruleset

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
	"unsafe"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

var sizes = []int{100, 10_000, 100_000}

// viewRole is a role of ordinary size.
func viewRole() *rbacv1.ClusterRole {
	read := []string{"get", "list", "watch"}
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}, Rules: []rbacv1.PolicyRule{
		{Verbs: read, APIGroups: []string{""}, Resources: []string{"configmaps", "endpoints", "persistentvolumeclaims", "pods", "replicationcontrollers", "services"}},
		{Verbs: read, APIGroups: []string{""}, Resources: []string{"bindings", "events", "limitranges", "namespaces/status", "pods/log", "pods/status", "resourcequotas"}},
		{Verbs: read, APIGroups: []string{"apps"}, Resources: []string{"controllerrevisions", "daemonsets", "deployments", "deployments/scale", "replicasets", "statefulsets"}},
		{Verbs: read, APIGroups: []string{"batch"}, Resources: []string{"cronjobs", "jobs"}},
		{Verbs: read, APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingresses", "networkpolicies"}},
	}}
}

// clusterBindings is n users who each have one cluster role binding to the same role, as upstream's figures are
// measured.
func clusterBindings(n int) Input {
	in := Input{MasterNamespace: "master", ClusterRoles: []*rbacv1.ClusterRole{viewRole()}}
	for i := range n {
		in.ClusterRoleBindings = append(in.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("binding-%06d", i)},
			RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"},
			Subjects:   []rbacv1.Subject{{Kind: "User", Name: fmt.Sprintf("user-%06d@example.com", i)}},
		})
	}
	return in
}

// ownRoles is n users of whom ten share a role, which lets them read what everybody reads, and one secret.
func ownRoles(n int) Input {
	in := clusterBindings(n)
	in.ClusterRoles = nil
	for i := range n / 10 {
		r := viewRole()
		r.Name = fmt.Sprintf("role-%06d", i)
		r.Rules = append(r.Rules, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{r.Name}})
		in.ClusterRoles = append(in.ClusterRoles, r)
	}
	for i, b := range in.ClusterRoleBindings {
		b.RoleRef.Name = in.ClusterRoles[i%len(in.ClusterRoles)].Name
	}
	return in
}

// tenants is PO-17: n/10 namespaces with ten Policy bindings each, and a hundredth as many in the master namespace.
func tenants(n int) Input {
	in := Input{MasterNamespace: "master", CompileRule: compileText}
	rule := func(deny bool, verbs, kinds []string) policyv1alpha1.PolicyRule {
		return policyv1alpha1.PolicyRule{Deny: deny, Verbs: verbs, ResourceKinds: kinds}
	}
	in.Policies = []*policyv1alpha1.Policy{{ObjectMeta: metav1.ObjectMeta{Namespace: "master", Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{
		"view":    {Rules: []policyv1alpha1.PolicyRule{rule(false, []string{"get", "list", "watch"}, []string{"*", "-roles", "-rolebindings", "-policies", "-policybindings", "-secrets"})}},
		"edit":    {Rules: []policyv1alpha1.PolicyRule{rule(false, []string{"*"}, []string{"*", "-roles", "-rolebindings", "-policies", "-policybindings", "-resourceaccessreviews"})}},
		"careful": {Rules: []policyv1alpha1.PolicyRule{rule(true, []string{"delete"}, []string{"deployments.apps"})}},
	}}}
	roles := []string{"view", "edit", "careful"}
	add := func(ns string, n, offset int) {
		c := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "master"}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{}}
		for i := range n {
			c.RoleBindings[fmt.Sprintf("binding-%d", i)] = policyv1alpha1.PolicyRoleBinding{RoleName: roles[i%3], UserNames: []string{fmt.Sprintf("user-%06d@example.com", (offset*10+i)%max(n, 1000))}}
		}
		in.PolicyBindings = append(in.PolicyBindings, c)
	}
	for i := range n / 10 {
		add(fmt.Sprintf("namespace-%05d", i), 10, i)
	}
	add("master", n/100, 0)
	return in
}

// cpu reports the time that the processor has worked per operation, which a busy machine does not change.
func cpu(b *testing.B) func() {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	start := used()
	return func() { b.ReportMetric(float64(used()-start)/float64(b.N), "cpu-ns/op") }
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// reader asks as the server does, with a pointer to a record.
func reader(i int, groups ...string) *authorizer.AttributesRecord {
	return &authorizer.AttributesRecord{User: &user.DefaultInfo{Name: fmt.Sprintf("user-%06d@example.com", i), Groups: append([]string{"system:authenticated"}, groups...)},
		Verb: "get", Namespace: "namespace-00001", APIGroup: "apps", APIVersion: "v1", Resource: "deployments", Name: "web", ResourceRequest: true}
}

// BenchmarkRBAC is one user among n cluster role bindings; "all users" asks as every user in turn, which empties the
// caches.
func BenchmarkRBAC(b *testing.B) {
	for _, n := range append(slices.Clone(sizes), 1_000_000) {
		ix := Build(clusterBindings(n))
		b.Run(fmt.Sprintf("bindings=%d/one-user", n), func(b *testing.B) {
			var a authorizer.Attributes = reader(n/2, "team-a", "team-b", "team-c")
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				var q Query
				q.Reset(ix, a)
				if m := q.RBAC(); !m.Allow.Found() {
					b.Fatal("not allowed")
				}
			}
		})
		b.Run(fmt.Sprintf("bindings=%d/all-users", n), func(b *testing.B) {
			// The request itself is in the cache, as it is when it has just been read; the user's place in the index is
			// not.
			name := []byte("user-000000@example.com")
			a := reader(0, "team-a", "team-b", "team-c")
			a.User = &user.DefaultInfo{Name: unsafe.String(&name[0], len(name)), Groups: a.User.GetGroups()}
			var attrs authorizer.Attributes = a
			b.ReportAllocs()
			defer cpu(b)()
			i := 0
			for b.Loop() {
				i = (i + 7919) % n
				for at, rest := 10, i; at > 4; at, rest = at-1, rest/10 {
					name[at] = byte('0' + rest%10)
				}
				var q Query
				q.Reset(ix, attrs)
				if m := q.RBAC(); !m.Allow.Found() {
					b.Fatal("not allowed")
				}
			}
		})
	}
}

// BenchmarkMemory is what a machine takes for three reads of which each tells where the next is, in as much memory as n
// bindings take: a decision about a user of whom nothing is in the processor's caches cannot take less, besides what it
// takes for one of whom everything is (BenchmarkRBAC, one-user).
func BenchmarkMemory(b *testing.B) {
	const perBinding, line = 455, 64
	for _, n := range append(slices.Clone(sizes), 1_000_000) {
		b.Run(fmt.Sprintf("bindings=%d", n), func(b *testing.B) {
			lines := make([][line / 4]uint32, n*perBinding/line)
			order := rand.New(rand.NewPCG(1, 1)).Perm(len(lines))
			for i, at := range order {
				lines[at][0] = uint32(order[(i+1)%len(order)])
			}
			defer cpu(b)()
			at := uint32(0)
			for b.Loop() {
				for range 3 {
					at = lines[at][0]
				}
			}
		})
	}
}

// BenchmarkChain asks all three tiers, which is the worst case of a request.
func BenchmarkChain(b *testing.B) {
	for _, n := range sizes {
		ix := Build(tenants(n))
		b.Run(fmt.Sprintf("bindings=%d", n), func(b *testing.B) {
			var a authorizer.Attributes = reader(11, "team-a", "team-b", "team-c")
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				var q Query
				q.Reset(ix, a)
				q.PolicyMaster()
				q.PolicyNamespace()
				q.RBAC()
			}
		})
	}
}

// BenchmarkApply is a role change and a binding change with n bindings loaded.
func BenchmarkApply(b *testing.B) {
	for _, n := range sizes {
		in := clusterBindings(n)
		ix := Build(in)
		b.Run(fmt.Sprintf("bindings=%d/role", n), func(b *testing.B) {
			b.ReportAllocs()
			defer cpu(b)()
			i := 0
			for b.Loop() {
				r := viewRole()
				r.Rules[0].Verbs = []string{"get", fmt.Sprint("verb-", i)}
				i++
				ix = ix.Apply(Put(r))
			}
		})
		b.Run(fmt.Sprintf("bindings=%d/binding", n), func(b *testing.B) {
			b.ReportAllocs()
			defer cpu(b)()
			i := 0
			for b.Loop() {
				bind := in.ClusterRoleBindings[i%n].DeepCopy()
				bind.Subjects[0].Name += fmt.Sprint(i)
				i++
				ix = ix.Apply(Put(bind))
			}
		})
	}
}

// BenchmarkBuild builds from nothing and reports what a binding costs in memory, the index alone.
func BenchmarkBuild(b *testing.B) {
	for name, input := range map[string]func(int) Input{"rbac": clusterBindings, "roles": ownRoles, "tenants": tenants} {
		b.Run(fmt.Sprintf("%s/bindings=%d", name, 100_000), func(b *testing.B) {
			in := input(100_000)
			before := heap()
			var ix *Index
			done := cpu(b)
			for b.Loop() {
				ix = Build(in)
			}
			done()
			b.ReportMetric(float64(heap()-before)/float64(ix.Bindings()), "B/binding")
			runtime.KeepAlive(in)
		})
	}
}

// BenchmarkManyRoles is one user with n cluster roles of which one matters, by resource and by name.
func BenchmarkManyRoles(b *testing.B) {
	for _, n := range sizes {
		in := Input{MasterNamespace: "master"}
		for i := range n {
			name := metav1.ObjectMeta{Name: fmt.Sprintf("role-%06d", i)}
			in.ClusterRoles = append(in.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
				{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{fmt.Sprintf("secret-%06d", i)}}}})
			in.ClusterRoleBindings = append(in.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: name,
				RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: name.Name}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "collector"}}})
		}
		before := heap()
		ix := Build(in)
		memory := float64(heap()-before) / float64(n)
		b.Run(fmt.Sprintf("roles=%d", n), func(b *testing.B) {
			a := ask("collector", "get", "secrets")
			a.Name = fmt.Sprintf("secret-%06d", n/3)
			var attrs authorizer.Attributes = a
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				if m := ix.RBAC(attrs); !m.Allow.Found() {
					b.Fatal("not allowed")
				}
			}
			b.ReportMetric(memory, "B/binding")
		})
	}
}
