package e2e

import (
	"debug/elf"
	bits "encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// clock is the wall clock of one process. Jumps are made without touching that of the machine and without any help of
// the program: before its first instruction, the kernel's clock_gettime that is mapped into the process is replaced by
// one that asks the kernel and adds an offset to the wall clock. The monotonic clock stays as it is, as when an
// administrator or NTP sets the time.
type clock struct {
	t      *testing.T
	memory string
	offset int64 // address of the offset, in seconds
}

// jumpy is clock_gettime(DI clock, SI timespec) for amd64. The offset follows the code.
var jumpy = []byte{
	0xb8, 0xe4, 0x00, 0x00, 0x00, // mov  eax, 228 (clock_gettime)
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi (CLOCK_REALTIME is 0)
	0x75, 0x0a, // jne  end
	0x48, 0x8b, 0x0d, 0x06, 0x00, 0x00, 0x00, // mov  rcx, [rip+6] (offset)
	0x48, 0x01, 0x0e, // add  [rsi], rcx
	0xc3,       // end: ret
	0x90, 0x90, // align
	0, 0, 0, 0, 0, 0, 0, 0, // offset, at 24
}

const jumpyOffset = 24

// spawnWithClock is spawn with a clock that the test sets.
func spawnWithClock(t *testing.T, path string, args ...string) (*process, *clock) {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the clock of a process is replaced on linux/amd64 only")
	}
	p := &process{t: t, cmd: exec.Command(path, args...), output: &output{}, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.Dir = tempDir(t)
	// The process stops before its first instruction; only the thread that started it may let it go.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := p.cmd.Start(); err != nil {
		t.Skipf("a process cannot be traced here: %v", err)
	}
	pid := p.cmd.Process.Pid
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || !status.Stopped() {
		t.Fatalf("the process did not stop: %v %v", status, err)
	}
	c, err := replaceClock(t, pid)
	if detached := syscall.PtraceDetach(pid); detached != nil {
		t.Fatal(detached)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(p.kill)
	if err != nil {
		t.Skipf("the clock of a process cannot be replaced here: %v", err)
	}
	return p, c
}

func replaceClock(t *testing.T, pid int) (*clock, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	var begin, end int64
	for _, line := range strings.Split(string(maps), "\n") {
		if strings.HasSuffix(line, "[vdso]") {
			if _, err := fmt.Sscanf(line, "%x-%x ", &begin, &end); err != nil {
				return nil, err
			}
		}
	}
	if begin == 0 {
		return nil, errors.New("there is no vdso")
	}
	c := &clock{t: t, memory: fmt.Sprintf("/proc/%d/mem", pid)}
	memory, err := os.OpenFile(c.memory, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer memory.Close()
	image := make([]byte, end-begin)
	if _, err := memory.ReadAt(image, begin); err != nil {
		return nil, err
	}
	library, err := elf.NewFile(strings.NewReader(string(image)))
	if err != nil {
		return nil, err
	}
	symbols, err := library.DynamicSymbols()
	if err != nil {
		return nil, err
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			at := begin + int64(s.Value)
			if at%8 != 0 { // the offset must not straddle words
				return nil, fmt.Errorf("clock_gettime is at %x", at)
			}
			if at+int64(len(jumpy)) > end {
				return nil, errors.New("there is no room in the vdso")
			}
			c.offset = at + jumpyOffset
			_, err := memory.WriteAt(jumpy, at)
			return c, err
		}
	}
	return nil, errors.New("the vdso has no clock_gettime")
}

// jump sets the clock to now plus d.
func (c *clock) jump(d time.Duration) {
	c.t.Helper()
	memory, err := os.OpenFile(c.memory, os.O_RDWR, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	defer memory.Close()
	var word [8]byte
	bits.LittleEndian.PutUint64(word[:], uint64(int64(d/time.Second)))
	if _, err := memory.WriteAt(word[:], c.offset); err != nil {
		c.t.Fatal(err)
	}
}

// SV-8, SV-9, DA-8: the clock of the server jumps forwards and back, by minutes, a month and years. Decisions stay
// right, changes of policy take effect, events arrive, leases are kept or taken again; credentials are judged by the
// clock there is, and only by that: a token that has expired is refused, a certificate that is not valid is, and both
// are taken again when the clock is right.
func TestClockThatJumps(t *testing.T) {
	dir := tempDir(t) + "/d"
	// A webhook authorizer whose answers are kept for a second.
	var open atomic.Bool
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":%v}}`, open.Load())
	}))
	defer hook.Close()
	config := authorizationConfig(t, m{"type": "Policy", "name": "policy"}, m{"type": "Node", "name": "node"}, m{"type": "RBAC", "name": "rbac"}, m{"type": "Webhook", "name": "hook", "webhook": m{
		"connectionInfo": m{"type": "KubeConfigFile", "kubeConfigFile": hookKubeconfig(t, hook)}, "subjectAccessReviewVersion": "v1", "matchConditionSubjectAccessReviewVersion": "v1",
		"failurePolicy": "Deny", "matchConditions": []m{{"expression": "request.user == 'hooked'"}}, "timeout": "10s", "authorizedTTL": "1s", "unauthorizedTTL": "1s"}})
	s := &server{dir: dir, port: freePort(t), kubeconfig: dir + "/admin.kubeconfig"}
	var c *clock
	s.process, c = spawnWithClock(t, binary(t), "serve", "--data-dir", dir, "--secure-port", fmt.Sprint(s.port), "--audit-dynamic-allow-insecure-sinks", "--authorization-config", config)
	s.await("readiness", func() bool { return strings.Contains(s.output.String(), "Ready in") })

	s.apply(loadPolicy)
	admin := s.caller()
	at := collect(t, false)
	admin.must("", "POST", auditClasses, writesOf("writes", "configmaps"))
	admin.must("", "POST", auditSinks, sink("sink", at.webhook(), rule("writes", "Metadata")))
	s.kubectl("wait", "--for=condition=Active", "auditsink/sink", "--timeout=60s")
	const maps = "/api/v1/namespaces/load/configmaps"
	env := func(name, env string) m { return m{"metadata": m{"name": name}, "data": m{"env": env}} }
	decisions := func(when string) {
		t.Helper()
		reader, writer, nobody := s.callerAs("r", "readers"), s.callerAs("w", "writers"), s.callerAs("n", "strangers")
		for _, d := range []struct {
			who          *caller
			method, path string
			object       any
			want         int
		}{
			{reader, "GET", maps + "/there", nil, 200}, {writer, "GET", maps + "/there", nil, 403}, {nobody, "GET", maps + "/there", nil, 403},
			{writer, "POST", maps + "?dryRun=All", env("a", "dev"), 201}, {writer, "POST", maps + "?dryRun=All", env("a", "prod"), 403},
			{writer, "POST", maps + "?dryRun=All", env("banned-a", "dev"), 403}, {nobody, "POST", maps + "?dryRun=All", env("a", "dev"), 403},
		} {
			if code, text := d.who.send("", d.method, d.path, d.object); code != d.want {
				t.Errorf("%s: %s %s: want %d, got %d %s", when, d.method, d.path, d.want, code, text)
			}
		}
	}
	// A token for an hour, used like any client does.
	s.await("the default service account", func() bool {
		_, err := s.try("", "get", "serviceaccount", "default")
		return err == nil
	})
	token := strings.TrimSpace(s.kubectl("create", "token", "default", "--duration=1h"))
	whoami := func() int {
		t.Helper()
		anonymous := s.crowd(t)
		anonymous.tls.Certificates, anonymous.tls.GetClientCertificate = nil, nil
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, anonymous.host+"/api", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := anonymous.client().Do(req)
		if err != nil {
			return 0
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	s.await("the token to be good", func() bool { return whoami() == http.StatusOK })
	decisions("at first")

	const day = 24 * time.Hour
	// hooked waits until the webhook's answer of now is in force: jumps are longer than the patience of await, so that
	// an answer that is kept by the wall clock would be kept for too long.
	hooked := func(when string, want int) {
		t.Helper()
		open.Store(want == http.StatusOK)
		s.await(fmt.Sprintf("%s: the webhook's answer %d", when, want), func() bool {
			code, _ := s.callerAs("hooked").send("", "GET", maps+"/there", nil)
			return code == want
		})
	}
	for i, jump := range []struct {
		by    time.Duration
		token int
	}{{30 * time.Minute, 200}, {30 * day, 401}, {-3 * time.Minute, 401}, {0, 200}} {
		when := fmt.Sprintf("after a jump to %s", jump.by)
		// A sink that is down when the clock jumps, so that its back-off is under way.
		at.down.Store(true)
		before := fmt.Sprintf("before-%d", i)
		refused := at.refused.Load()
		admin.must(before, "POST", configMaps, configMap(before))
		s.await("the sink to be tried", func() bool { return at.refused.Load() > refused })
		hooked("before a jump", http.StatusOK)
		c.jump(jump.by)
		at.down.Store(false)
		hooked(when, http.StatusForbidden)
		s.await(when+": the event of before", func() bool { return len(at.of(before)) > 0 })
		decisions(when)
		// What was decided about a token may be kept for ten seconds, by the monotonic clock.
		s.await(fmt.Sprintf("%s: the token to be answered with %d", when, jump.token), func() bool { return whoami() == jump.token })
		// A policy changes, and an event arrives.
		user := fmt.Sprintf("late-%d", i)
		s.apply(fmt.Sprintf("{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: %[1]s, namespace: load}, roleRef: {namespace: load, name: readers}, userNames: [%[1]s]}", user))
		reads := func(want int) func() bool {
			return func() bool {
				code, _ := s.callerAs(user).send("", "GET", maps+"/there", nil)
				return code == want
			}
		}
		s.await(when+": a grant", reads(200))
		s.kubectl("delete", "rolebinding.authorization.proviso.dev", user, "-n", "load")
		s.await(when+": a revocation", reads(403))
		admin.must(user, "POST", configMaps, configMap(user))
		s.await(when+": an event", func() bool { return len(at.of(user)) > 0 })
		s.kubectl("create", "namespace", user)
		s.await(when+": the controllers", func() bool {
			_, err := s.try("", "get", "serviceaccount", "default", "-n", user)
			return err == nil
		})
	}

	// Years: nobody has a certificate that is valid then, so that nobody gets in, and nothing else happens.
	for _, jump := range []time.Duration{-20 * 365 * day, 50 * 365 * day} {
		c.jump(jump)
		fresh := s.crowd(t) // certificates are looked at when a connection begins
		s.await(fmt.Sprintf("the certificate to be refused %s from now", jump), func() bool {
			code, _ := fresh.send(t.Context(), fresh.client(), "", "", "GET", maps+"/there", nil)
			return code != http.StatusOK
		})
		s.await(fmt.Sprintf("the token to be refused %s from now", jump), func() bool { return whoami() != http.StatusOK })
	}
	c.jump(0)
	s.await("everything to be as before", func() bool {
		fresh := s.crowd(t)
		code, _ := fresh.send(t.Context(), fresh.client(), "", "", "GET", maps+"/there", nil)
		return code == http.StatusOK && whoami() == http.StatusOK
	})
	decisions("with the right time again")
	s.stop()
}
