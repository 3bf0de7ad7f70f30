package e2e

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// DA-8, SV-9: the sink is down, the server is killed -9 in the middle of writes, again and again; once the sink is
// back, every write that was acknowledged has its event there, and what was written is there as well.
func TestKillLosesNoAuditEvent(t *testing.T) {
	t.Parallel()
	const each = 2000
	rounds := soak(3)
	dir := tempDir(t) + "/d"
	at := collect(t, false)
	at.down.Store(true)
	var mu sync.Mutex
	acknowledged := map[string]bool{}
	for round := range rounds {
		s := serve(t, dir, "--audit-dynamic-allow-insecure-sinks")
		c := s.caller()
		if round == 0 {
			c.must("", "POST", auditClasses, writesOf("writes", "configmaps"))
			c.must("", "POST", auditSinks, sink("patient", at.webhook(), rule("writes", "Request")))
			s.kubectl("wait", "--for=condition=Active", "auditsink/patient", "--timeout=60s")
		}
		var writers sync.WaitGroup
		var n atomic.Int64
		enough := make(chan struct{})
		for w := range 8 {
			writers.Go(func() {
				for i := 0; ; i++ {
					id := fmt.Sprintf("r%d-w%d-%d", round, w, i)
					if code, _ := c.send(id, "POST", configMaps, configMap(id)); code != 201 {
						return // the server is gone: nothing was acknowledged
					}
					mu.Lock()
					acknowledged[id] = true
					mu.Unlock()
					if n.Add(1) == each {
						close(enough)
					}
				}
			})
		}
		s.await("the writes", func() bool {
			select {
			case <-enough:
				return true
			default:
				return false
			}
		})
		s.signal(syscall.SIGKILL) // while all of them are writing
		s.wait()
		writers.Wait()
	}
	if len(at.events) > 0 {
		t.Fatal("the sink was not down")
	}
	at.down.Store(false)
	s := serve(t, dir, "--audit-dynamic-allow-insecure-sinks")
	total := len(acknowledged)
	stored := map[string]bool{}
	for _, name := range strings.Fields(s.kubectl("get", "configmaps", "-n", "default", "-o", "jsonpath={.items[*].metadata.name}")) {
		stored[name] = true
	}
	for id := range acknowledged {
		if !stored[id] {
			t.Errorf("%s was acknowledged and is lost", id)
		}
	}
	s.await(fmt.Sprintf("the events of %d acknowledged writes", total), func() bool {
		for id := range acknowledged {
			if events := at.of(id); len(events) > 0 {
				if e := events[0]; e.ObjectRef == nil || e.ObjectRef.Name != id || e.RequestObject == nil {
					t.Fatalf("event of %s is %+v", id, e)
				}
				delete(acknowledged, id)
			}
		}
		return len(acknowledged) == 0
	})
	// DA-11: servers at several addresses were one replica, whose figures survive it; nothing is left to deliver.
	s.await("a status that says so", func() bool {
		out := s.kubectl("get", "auditsink", "patient", "-o", "jsonpath={.status.replicas[*].name} spooled={.status.spooled}")
		return len(strings.Fields(out)) == 2 && (strings.HasSuffix(out, "spooled=") || strings.HasSuffix(out, "spooled=0"))
	})
	if dropped := s.kubectl("get", "auditsink", "patient", "-o", "jsonpath={.status.dropped}"); dropped != "" && dropped != "0" {
		t.Errorf("%s events are said to be dropped", dropped)
	}
	t.Logf("%d acknowledged writes, %d servers killed, none lost", total, rounds)
}
