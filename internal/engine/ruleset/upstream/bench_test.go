package upstream_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/test/refmodel"
)

// BenchmarkAgainstUpstream asks upstream's authorizer and the index the same question, about one user among n cluster
// role bindings, and reports how many times faster the index is.
func BenchmarkAgainstUpstream(b *testing.B) {
	for _, n := range []int{100, 10_000, 100_000} {
		w := &refmodel.World{Master: "master", ClusterRoles: []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "view"}, Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"configmaps", "endpoints", "pods", "services"}},
			{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{"apps"}, Resources: []string{"daemonsets", "deployments", "replicasets", "statefulsets"}},
		}}}}
		for i := range n {
			w.ClusterRoleBindings = append(w.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("binding-%06d", i)},
				RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: fmt.Sprintf("user-%06d@example.com", i)}}})
		}
		up, ix := upstreamOf(w), indexOf(w)
		var a authorizer.Attributes = authorizer.AttributesRecord{User: &user.DefaultInfo{Name: fmt.Sprintf("user-%06d@example.com", n-1), Groups: []string{"system:authenticated", "team-a", "team-b"}},
			Verb: "get", Namespace: "hammer", APIGroup: "apps", Resource: "deployments", Name: "web", ResourceRequest: true}
		b.Run(fmt.Sprintf("bindings=%d", n), func(b *testing.B) {
			rounds, start := 0, time.Now()
			for time.Since(start) < 200*time.Millisecond {
				rounds++
				if d, _, _ := up.Authorize(context.Background(), a); d != authorizer.DecisionAllow {
					b.Fatal("not allowed")
				}
			}
			upstream := float64(time.Since(start).Nanoseconds()) / float64(rounds)
			b.ReportAllocs()
			for b.Loop() {
				if m := ix.RBAC(a); !m.Allow.Found() {
					b.Fatal("not allowed")
				}
			}
			ours := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
			b.ReportMetric(upstream, "upstream-ns/op")
			b.ReportMetric(upstream/ours, "x-faster")
		})
	}
}
