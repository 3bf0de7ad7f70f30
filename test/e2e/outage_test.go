package e2e

import (
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// replica is one of several servers on one etcd cluster. It keeps its port when it is started again.
type replica struct {
	*server
	name string
	args []string
	port string

	// acknowledged are the names of what was written through this replica.
	mu           sync.Mutex
	acknowledged []string
	count        atomic.Int64
}

func startReplica(t *testing.T, name, dir string, args []string) *replica {
	t.Helper()
	r := &replica{name: name, port: fmt.Sprint(freePort(t))}
	r.args = append(args, "--controllers", "*", "--secure-port", r.port)
	r.server = serve(t, dir, r.args...)
	return r
}

func (r *replica) restart() { r.server = serve(r.t, r.dir, r.args...) }

// write keeps creating config maps until the end. What fails was not acknowledged; the next one is tried at once.
func (r *replica) write(end <-chan struct{}) {
	c := r.caller()
	c.client.Timeout = 10 * time.Second
	for i := 0; ; i++ {
		select {
		case <-end:
			return
		default:
		}
		name := fmt.Sprintf("%s-%d", r.name, i)
		if code, _ := c.send("", "POST", configMaps, configMap(name)); code == http.StatusCreated {
			r.mu.Lock()
			r.acknowledged = append(r.acknowledged, name)
			r.mu.Unlock()
			r.count.Add(1)
		} else {
			time.Sleep(20 * time.Millisecond) // nobody listens: do not spin
		}
	}
}

// decides is the answer that each user gets, by its code.
func (r *replica) decides(users int) string {
	var all []string
	for i := range users {
		code, _ := r.callerAs(fmt.Sprintf("user-%d", i)).send("", "GET", "/api/v1/namespaces/shared/configmaps", nil)
		all = append(all, fmt.Sprint(code))
	}
	return strings.Join(all, " ")
}

// SV-2, SV-9: three etcd members with TLS and two replicas. Whichever process is killed or stopped, the others keep
// answering and writing, and a policy that changes meanwhile is in force on both replicas afterwards, also on the one
// that was away.
func TestAnyProcessMayFail(t *testing.T) {
	t.Parallel()
	cluster := startEtcdCluster(t)
	first, second := tempDir(t)+"/a", tempDir(t)+"/b"
	a := startReplica(t, "a", first, cluster.flags())
	if out, err := exec.Command("sh", "-c", fmt.Sprintf("mkdir -m 700 %[2]s && cp -rp %[1]s/pki %[2]s/pki", first, second)).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b := startReplica(t, "b", second, append(cluster.flags(), "--policy-max-staleness=30s"))
	a.apply(localPolicy("shared", `[{verbs: [list], resourceKinds: [configmaps]}]`))

	type victim struct {
		name    string
		process func() *process
		signal  syscall.Signal
		start   func()
		left    []*replica
	}
	var victims []victim
	for i, m := range cluster.members {
		how := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL}[i]
		victims = append(victims, victim{m.name, func() *process { return m.process }, how, func() { cluster.restart(m) }, []*replica{a, b}})
	}
	victims = append(victims,
		victim{"replica a", func() *process { return a.process }, syscall.SIGKILL, a.restart, []*replica{b}},
		victim{"replica b", func() *process { return b.process }, syscall.SIGINT, b.restart, []*replica{a}},
		victim{"replica b", func() *process { return b.process }, syscall.SIGKILL, b.restart, []*replica{a}})

	// want is what each user gets; one user gains and one loses something in every round.
	want := make([]string, len(victims)+1)
	for i := range want {
		want[i] = "403"
	}
	agree := func(when string, replicas ...*replica) {
		t.Helper()
		for _, r := range replicas {
			r.await(fmt.Sprintf("%s: %s to decide %v", when, r.name, want), func() bool { return r.decides(len(want)) == strings.Join(want, " ") })
		}
	}
	bind := func(r *replica, user int) error {
		out, err := r.try(fmt.Sprintf("{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: user-%[1]d, namespace: shared}, roleRef: {namespace: shared, name: edgar}, userNames: [user-%[1]d]}", user), "apply", "-f", "-")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	if err := bind(a, 0); err != nil {
		t.Fatal(err)
	}
	want[0] = "200"
	agree("at first", a, b)

	end := make(chan struct{})
	var writers sync.WaitGroup
	for _, r := range []*replica{a, b} {
		writers.Go(func() { r.write(end) })
	}
	for round, v := range victims {
		when := fmt.Sprintf("%s gone by %s", v.name, v.signal)
		p := v.process()
		p.signal(v.signal)
		<-p.done
		begin := time.Now()
		for _, r := range v.left {
			had := r.count.Load()
			r.await(when+": writes to go on at "+r.name, func() bool { return r.count.Load() >= had+20 })
		}
		t.Logf("%s: 20 more writes on each of %d replicas after %s", when, len(v.left), time.Since(begin).Round(time.Millisecond))
		// The policy changes while it is away.
		through := v.left[round%len(v.left)]
		through.await(when+": a grant", func() bool { return bind(through, round+1) == nil })
		through.await(when+": a revocation", func() bool {
			_, err := through.try("", "delete", "rolebinding.authorization.proviso.dev", fmt.Sprintf("user-%d", round), "-n", "shared", "--ignore-not-found")
			return err == nil
		})
		want[round], want[round+1] = "403", "200"
		agree(when, v.left...)
		v.start()
		agree(v.name+" is back", a, b)
	}
	close(end)
	writers.Wait()

	total := 0
	for _, reader := range []*replica{a, b} {
		names := map[string]bool{}
		for _, name := range strings.Fields(reader.kubectl("get", "configmaps", "-n", "default", "-o", "jsonpath={.items[*].metadata.name}")) {
			names[name] = true
		}
		total = 0
		for _, writer := range []*replica{a, b} {
			for _, name := range writer.acknowledged {
				total++
				if !names[name] {
					t.Errorf("%s, acknowledged by %s, is missing at %s", name, writer.name, reader.name)
				}
			}
		}
	}
	t.Logf("%d acknowledged writes through %d failures, none lost", total, len(victims))
	t.Run("policy that hears nothing", func(t *testing.T) { hearsNothing(t, cluster, a, b, fmt.Sprintf("user-%d", len(want)-1)) })
}

// OP-6: while etcd says nothing, a replica with a limit refuses everybody but system:masters once it is reached. One
// without a limit goes on deciding by what it knows. Both decide as before when etcd goes on, also if nobody writes.
func hearsNothing(t *testing.T, cluster *etcdCluster, free, limited *replica, user string) {
	review := m{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": m{"user": user, "groups": []string{"system:authenticated"},
		"resourceAttributes": m{"verb": "list", "version": "v1", "resource": "configmaps", "namespace": "shared"}}}
	decides := func(r *replica) string { // an admin asks, and nothing of it is in etcd
		code, body := r.caller().send("", "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
		if code != http.StatusCreated {
			return fmt.Sprint(code)
		}
		return body
	}
	allows := func(r *replica) func() bool {
		return func() bool { return strings.Contains(decides(r), `"allowed":true`) }
	}
	free.await("the grant", allows(free))
	limited.await("the grant where there is a limit", allows(limited))
	for _, one := range cluster.members {
		one.signal(syscall.SIGSTOP)
	}
	goOn := sync.OnceFunc(func() {
		for _, one := range cluster.members {
			one.signal(syscall.SIGCONT)
		}
	})
	defer goOn()
	limited.await("the limit", func() bool {
		text := decides(limited)
		return strings.Contains(text, `"allowed":false`) && strings.Contains(text, "has not heard from etcd for")
	})
	if code, text := limited.callerAs(user).send("", "GET", "/api/v1/namespaces/shared/configmaps", nil); code != http.StatusForbidden || !strings.Contains(text, "--policy-max-staleness=30s") {
		t.Errorf("beyond the limit: %d %s", code, text)
	}
	if !allows(free)() {
		t.Errorf("without a limit: %s", decides(free))
	}
	if code, text := limited.caller().send("", "GET", "/readyz/policy-age", nil); code == http.StatusOK {
		t.Errorf("it is ready: %s", text)
	}
	goOn()
	limited.await("etcd to be heard", allows(limited))
	limited.await("readiness", func() bool {
		code, _ := limited.caller().send("", "GET", "/readyz/policy-age", nil)
		return code == http.StatusOK
	})
	if text := limited.kubectl("get", "--raw", "/metrics"); !strings.Contains(text, "proviso_policy_snapshot_age_seconds ") {
		t.Error("there is no metric of the age")
	}
}
