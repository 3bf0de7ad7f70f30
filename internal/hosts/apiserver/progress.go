package apiserver

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// progress writes whole lines, so that it reads the same in a terminal, in a pipe and in a log.
type progress struct {
	mu    sync.Mutex
	out   io.Writer
	begin time.Time
}

// newProgress begins now.
func newProgress(out io.Writer) *progress { return &progress{out: out, begin: time.Now()} }

// Done reports a finished step.
func (p *progress) Done(step, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "  %-16s %s\n", step, fmt.Sprintf(format, args...))
}

// Say prints a line as it is.
func (p *progress) Say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// Elapsed is the time since the beginning.
func (p *progress) Elapsed() string { return since(p.begin) }

// logLines writes what people would read to the log.
type logLines struct{}

func (logLines) Write(text []byte) (int, error) {
	if line := strings.Join(strings.Fields(string(text)), " "); line != "" {
		klog.InfoS(line)
	}
	return len(text), nil
}

// since is a span of time as people read it.
func since(t time.Time) string { return fmt.Sprintf("%.1f s", time.Since(t).Seconds()) }
