package protectedattr

import (
	"fmt"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// thousand protections, half of them labels, half annotations; every tenth is local to the namespace.
func thousand(t testing.TB) *Index {
	all := make([]Protection, 0, 1000)
	for i := range 1000 {
		p := Protection{Name: fmt.Sprint(i), Attribute: Attribute(i % 2), Key: fmt.Sprintf("example.com/key-%d", i), Role: releaseManagers, Values: []string{"prod"}}
		if i%10 < 2 {
			p.Namespace = "hammer"
		}
		all = append(all, p)
	}
	return mustIndex(t, all...)
}

func workload(touched bool) (old, new *appsv1.StatefulSet) {
	labels := func() map[string]string {
		return kv{"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": "web-1", "app.kubernetes.io/version": "7",
			"app.kubernetes.io/managed-by": "helm", "team": "a"}
	}
	old = &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "hammer", Labels: labels(),
		Annotations: kv{"kubectl.kubernetes.io/last-applied-configuration": "{}", "deployment.kubernetes.io/revision": "1"}}}
	old.Spec.Template = template(labels(), plain("tmp"), plain("config"), ephemeral("scratch", labels()))
	old.Spec.VolumeClaimTemplates = append(old.Spec.VolumeClaimTemplates, claim("data", labels()))
	new = old.DeepCopy()
	new.Labels["app.kubernetes.io/version"] = "8"
	if touched {
		new.Labels["example.com/key-0"] = "prod"
	}
	return old, new
}

func statefulSetRequest() *Request {
	return &Request{User: "edgar", Groups: []string{"team-a", "system:authenticated"}, Group: "apps", Resource: "statefulsets",
		Namespace: "hammer", Name: "web", Member: members(releaseManagers)}
}

// PA-11: a write that touches none of a thousand protections allocates nothing, as structs or as JSON; nor does one by
// a member that touches one.
func TestNoAllocations(t *testing.T) {
	ix := thousand(t)
	req := statefulSetRequest()
	for _, touched := range []bool{false, true} {
		old, new := workload(touched)
		looseOld, looseNew := loosely(t, old), loosely(t, new)
		for name, run := range map[string]func() Result{
			"structs": func() Result { return ix.Check(req, old, new) },
			"create":  func() Result { return ix.Check(req, nil, new) },
			"JSON":    func() Result { return ix.Check(req, looseOld, looseNew) },
		} {
			if !run().Allowed() {
				t.Fatalf("%s: refused", name)
			}
			if n := testing.AllocsPerRun(100, func() { run() }); n != 0 {
				t.Errorf("%s, touched %v: %v allocations", name, touched, n)
			}
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	ix := thousand(b)
	req := statefulSetRequest()
	stranger := statefulSetRequest()
	stranger.Member = nil
	for _, bc := range []struct {
		name    string
		touched bool
		ix      *Index
		req     *Request
	}{
		{"none", false, mustIndex(b), req},
		{"untouched", false, ix, req},
		{"touched", true, ix, req},
		{"refused", true, ix, stranger},
	} {
		old, new := workload(bc.touched)
		looseOld, looseNew := loosely(b, old), loosely(b, new)
		b.Run(bc.name+"/structs", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bc.ix.Check(bc.req, old, new)
			}
		})
		b.Run(bc.name+"/json", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bc.ix.Check(bc.req, looseOld, looseNew)
			}
		})
	}
}

// An index is used by all requests at once; the race detector sees this test.
func TestConcurrentUse(t *testing.T) {
	ix := thousand(t)
	old, new := workload(true)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if !ix.Check(statefulSetRequest(), old, new).Allowed() || !ix.Check(podRequest(), nil, podWith(nil, nil)).Allowed() {
					t.Error("refused")
				}
			}
		})
	}
	wg.Wait()
}
