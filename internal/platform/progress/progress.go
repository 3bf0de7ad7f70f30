package progress

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// Report writes whole lines, so that it reads the same in a terminal, in a pipe and in a log.
type Report struct {
	mu    sync.Mutex
	out   io.Writer
	begin time.Time
}

// New begins now.
func New(out io.Writer) *Report { return &Report{out: out, begin: time.Now()} }

// Done reports a finished step.
func (p *Report) Done(step, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "  %-16s %s\n", step, fmt.Sprintf(format, args...))
}

// Say prints a line as it is.
func (p *Report) Say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// Elapsed is the time since the beginning.
func (p *Report) Elapsed() string { return Since(p.begin) }

// LogLines writes what people would read to the log.
type LogLines struct{}

func (LogLines) Write(text []byte) (int, error) {
	if line := strings.Join(strings.Fields(string(text)), " "); line != "" {
		klog.InfoS(line)
	}
	return len(text), nil
}

// Since is a span of time as people read it.
func Since(t time.Time) string { return fmt.Sprintf("%.1f s", time.Since(t).Seconds()) }
