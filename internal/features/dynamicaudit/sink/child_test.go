package sink

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

const childEnv = "AUDITSINK_CHILD"

// child runs the part of a test that has to die, in a process of its own.
func child() bool {
	if os.Getenv(childEnv) == "" {
		return false
	}
	if err := writeUntilKilled(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// writeUntilKilled answers requests as fast as it can on several goroutines: it processes an event, then prints its
// audit ID, which stands for a response that the client has received completely.
func writeUntilKilled() error {
	ca, err := base64.StdEncoding.DecodeString(os.Getenv("AUDITSINK_CA"))
	if err != nil {
		return err
	}
	r, err := New(Config{Dir: os.Getenv("AUDITSINK_DIR"), AllowInsecure: true, MinBackoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond})
	if err != nil {
		return err
	}
	if err := r.Run(make(chan struct{})); err != nil {
		return err
	}
	// Requests are served from the start, before the server knows its sinks again.
	update := func() {
		r.Update([]*v1alpha1.AuditSink{sinkAt("a", "RequestResponse", os.Getenv("AUDITSINK_URL"), ca)}, nil)
	}
	if os.Getenv(childEnv) == "0" { // the very first start: there is nothing to remember yet
		update()
	} else {
		time.AfterFunc(20*time.Millisecond, update)
	}
	var out sync.Mutex
	for w := range 4 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("run%s-%d-%d", os.Getenv(childEnv), w, i)
				ev := testEvent(id)
				ev.ResponseObject.Raw = []byte(`"` + strings.Repeat("x", rand.Intn(3000)) + `"`)
				if !r.ProcessEvents(ev) {
					fmt.Fprintln(os.Stderr, "refused")
					os.Exit(1)
				}
				out.Lock()
				_, err := io.WriteString(os.Stdout, id+"\n")
				out.Unlock()
				if err != nil {
					os.Exit(1)
				}
			}
		}()
	}
	select {}
}

// DA-8, SV-9: the server is killed -9 again and again while it answers requests, with the sink down, up and flapping.
// Every request that was answered is delivered in the end, at least once.
func TestKilledServerLosesNothing(t *testing.T) {
	for _, sinkIs := range []string{"down", "up", "flapping"} {
		t.Run(sinkIs, func(t *testing.T) {
			t.Parallel()
			a := newHTTPSink(t)
			switch sinkIs {
			case "down":
				a.misbehave(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(503); return true })
			case "flapping":
				a.misbehave(func(w http.ResponseWriter, _ *http.Request) bool {
					switch rand.Intn(3) {
					case 0:
						w.WriteHeader(500)
						return true
					case 1:
						panic(http.ErrAbortHandler)
					}
					return false
				})
			}
			dir := quickDir(t)
			var answered []string
			for run := range 5 {
				answered = append(answered, runAndKill(t, run, dir, a, 100+rand.Intn(300))...)
			}
			a.misbehave(nil)
			r := startRouter(t, Config{Dir: dir, AllowInsecure: true})
			r.Update([]*v1alpha1.AuditSink{a.object("a", "RequestResponse")}, nil)
			eventually(t, "all is delivered", func() bool { return status(t, r, "a").Spooled == 0 })
			s := status(t, r, "a")
			if s.Dropped != 0 {
				t.Errorf("%+v", s)
			}
			got := map[string]int{}
			for _, ev := range a.await(t, 1) {
				got[string(ev.AuditID)]++
				if ev.ResponseObject == nil {
					t.Fatalf("%s is damaged", ev.AuditID)
				}
			}
			missing := 0
			for _, id := range answered {
				if got[id] == 0 {
					missing++
				}
			}
			if missing > 0 {
				t.Errorf("%d of %d answered requests are missing; %+v", missing, len(answered), s)
			}
			t.Logf("%d answered, %d delivered, %d of them twice, %d torn", len(answered), len(got), len(a.received())-len(got), s.Torn)
		})
	}
}

// runAndKill starts a server, kills it when it has answered a number of requests, and returns those that were answered.
func runAndKill(t *testing.T, run int, dir string, a *httpSink, after int) (answered []string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", childEnv, run), "AUDITSINK_DIR="+dir, "AUDITSINK_URL="+a.URL,
		"AUDITSINK_CA="+base64.StdEncoding.EncodeToString(a.caBundle()))
	cmd.Stderr = io.Discard
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break // killed; a line that is not complete was not received
		}
		if answered = append(answered, strings.TrimSpace(line)); len(answered) == after {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // killed
	if len(answered) < after {
		t.Fatalf("the server ended by itself after %d requests", len(answered))
	}
	return answered
}
