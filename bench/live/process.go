package live

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// process is a running program whose output is in a file.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// spawn starts a program that is killed with the context.
func spawn(ctx context.Context, dir, path string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, path, args...), log: filepath.Join(dir, filepath.Base(path)+".log"), done: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, out, out
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // the waiting code sees that it ended, and its log
		close(p.done)
	}()
	return p, nil
}

// stop ends the program as Ctrl-C does, and kills it if that takes too long.
func (p *process) stop() {
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		_ = p.cmd.Process.Kill()
	}
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// kill ends the program at once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.done
}

// healthy waits for an etcd.
func (p *process) healthy(ctx context.Context, url string) error {
	return p.await(ctx, "etcd", func() bool {
		answer, err := http.Get(url + "/health")
		if err != nil {
			return false
		}
		return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	})
}

// await polls until the condition holds or the program ends.
func (p *process) await(ctx context.Context, what string, condition func() bool) error {
	deadline := time.After(10 * time.Minute) // of a server with a million bindings, on a busy machine
	for !condition() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.done:
			return fmt.Errorf("waiting for %s: the program ended\n%s", what, p.tail())
		case <-deadline:
			return fmt.Errorf("waiting for %s: too long\n%s", what, p.tail())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// resident is the memory that the program has in use, or 0 where the system does not say.
func (p *process) resident() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err == nil {
				return kb << 10
			}
		}
	}
	return 0
}

// worked is how long processors have worked for the program, or 0 where the system does not say.
func (p *process) worked() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	// The name of the program is in brackets and may hold anything.
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	const user, system, ticks = 11, 12, 100
	if len(fields) <= system {
		return 0
	}
	var sum int64
	for _, f := range []string{fields[user], fields[system]} {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0
		}
		sum += n
	}
	return time.Duration(sum) * time.Second / ticks
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
