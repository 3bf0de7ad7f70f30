package auditlog

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Config configures how requests are processed.
type Config struct {
	// Each is called for each request. Workers goroutines call it concurrently; worker, below Workers, identifies the
	// goroutine, so each can have its own memory. Requests come in no particular order.
	Each func(worker int, r *Request)
	// Workers is the number of goroutines; 0 means one for each processor.
	Workers int
	// Progress is called with the tally so far, for each piece of the text; may be nil.
	Progress func(Tally)
	// MaxLine is the longest line that is read, in bytes; 0 means 16 MiB. A longer one counts as broken.
	MaxLine int
}

// Tally counts what was read. Every line is in Lines; every event is one of Requests, Stages and Anonymous; every other
// line that is not empty is one of Broken and Foreign.
type Tally struct {
	// Bytes are those of the text, after decompression.
	Bytes, Lines int64
	// Requests were handed out.
	Requests int64
	// Stages are events of a request that was, or will be, handed out for another of its events, and of requests whose
	// end was not recorded.
	Stages int64
	// Anonymous are events without a user: the request was not authenticated, and nothing was decided.
	Anonymous int64
	// Broken lines could not be read, and Foreign ones are not audit events.
	Broken, Foreign int64
	// Problems are the first of both.
	Problems []Problem
}

// Add adds what was read of another log.
func (t *Tally) Add(o Tally) {
	t.Bytes, t.Lines, t.Requests = t.Bytes+o.Bytes, t.Lines+o.Lines, t.Requests+o.Requests
	t.Stages, t.Anonymous = t.Stages+o.Stages, t.Anonymous+o.Anonymous
	t.Broken, t.Foreign = t.Broken+o.Broken, t.Foreign+o.Foreign
	t.Problems = append(t.Problems, o.Problems...)
}

// Answerable is an error if the logs have no request: what is asked about them has no answer.
func (t Tally) Answerable(logs ...string) error {
	if t.Requests > 0 {
		return nil
	}
	text := fmt.Sprintf("no requests found in %s: %d lines, of which %d are broken, %d are not audit events, %d have no user and %d are of earlier stages",
		strings.Join(logs, ", "), t.Lines, t.Broken, t.Foreign, t.Anonymous, t.Stages)
	for _, p := range t.Problems {
		text += "\n  " + p.String()
	}
	return errors.New(text)
}

// Problem is a line that is not an event.
type Problem struct {
	Line int    `json:"line"`
	Why  string `json:"why"`
}

func (p Problem) String() string { return fmt.Sprintf("line %d: %s", p.Line, p.Why) }

// maxProblems is how many lines are named.
const maxProblems = 10

// chunkSize is how much text a worker gets at a time.
const chunkSize = 1 << 20

// Read reads a log, plain or compressed, to its end, and hands out each request once. An error means that the log could
// not be read to its end; then the tally covers the part before the error. Lines that are not events are not an error.
func Read(ctx context.Context, log io.Reader, cfg Config) (Tally, error) {
	if cfg.Workers <= 0 {
		cfg.Workers = runtime.GOMAXPROCS(0)
	}
	cfg.MaxLine = cmp.Or(cfg.MaxLine, 16<<20)
	r := &reading{Config: cfg, seed: maphash.MakeSeed(), started: map[uint64]bool{}, free: make(chan []byte, cfg.Workers+2), chunks: make(chan chunk, cfg.Workers)}
	workers := make([]*worker, cfg.Workers)
	var done sync.WaitGroup
	for i := range workers {
		workers[i] = &worker{reading: r, number: i, parser: newParser()}
		done.Go(workers[i].run)
	}
	err := r.split(ctx, log)
	close(r.chunks)
	done.Wait()
	out := r.now()
	for _, w := range workers {
		out.Problems = append(out.Problems, w.problems...)
	}
	out.Problems = append(out.Problems, r.tooLong...)
	slices.SortStableFunc(out.Problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	out.Problems = out.Problems[:min(len(out.Problems), maxProblems)]
	return out, err
}

// reading is one call of Read.
type reading struct {
	Config
	chunks chan chunk
	free   chan []byte

	bytes, lines, requests, stages, anonymous, broken, foreign atomic.Int64
	tooLong                                                    []Problem // the splitter's

	// started are the requests that have two events, by their IDs.
	mu      sync.Mutex
	seed    maphash.Seed
	started map[uint64]bool
}

func (r *reading) now() Tally {
	return Tally{Bytes: r.bytes.Load(), Lines: r.lines.Load(), Requests: r.requests.Load(), Stages: r.stages.Load(), Anonymous: r.anonymous.Load(), Broken: r.broken.Load(), Foreign: r.foreign.Load()}
}

// chunk is text of whole lines.
type chunk struct {
	text []byte
	line int // the number of the first
}

// plainText takes the compression off.
func plainText(log io.Reader) (io.Reader, error) {
	buffered := bufio.NewReaderSize(log, 256<<10)
	magic, err := buffered.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(magic) < 2 || magic[0] != 0x1f || magic[1] != 0x8b {
		return buffered, nil
	}
	return gzip.NewReader(buffered)
}

// split cuts the text into chunks of whole lines.
func (r *reading) split(ctx context.Context, log io.Reader) error {
	text, err := plainText(log)
	if err != nil {
		return err
	}
	line := 1
	buffer, whole := r.buffer(), 0 // as many bytes of it are whole lines
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.Progress != nil {
			r.Progress(r.now())
		}
		if len(buffer) == cap(buffer) {
			if len(buffer) >= r.MaxLine {
				if buffer, err = r.skip(text, buffer, line); err != nil {
					return err
				}
				line++
				whole = bytes.LastIndexByte(buffer, '\n') + 1
				continue
			}
			buffer = slices.Grow(buffer, min(len(buffer), r.MaxLine-len(buffer)))
			buffer = buffer[:len(buffer):min(cap(buffer), r.MaxLine)]
		}
		n, err := text.Read(buffer[len(buffer):cap(buffer)])
		r.bytes.Add(int64(n))
		buffer = buffer[:len(buffer)+n]
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("after line %d: %w", line-1, err)
		}
		if last := bytes.LastIndexByte(buffer[len(buffer)-n:], '\n'); last >= 0 {
			whole = len(buffer) - n + last + 1
		}
		switch {
		case err != nil: // the end, perhaps without a newline
			if lines := countLines(buffer); lines > 0 {
				r.hand(buffer, line, lines)
			}
			return nil
		case whole == 0 || len(buffer) < chunkSize:
			continue
		}
		rest := append(r.buffer(), buffer[whole:]...)
		lines := countLines(buffer[:whole])
		r.hand(buffer[:whole], line, lines)
		line += lines
		buffer, whole = rest, 0
	}
}

func countLines(text []byte) int {
	lines := bytes.Count(text, []byte{'\n'})
	if len(text) > 0 && text[len(text)-1] != '\n' {
		lines++
	}
	return lines
}

func (r *reading) hand(text []byte, line, lines int) {
	r.lines.Add(int64(lines))
	r.chunks <- chunk{text, line}
}

// skip passes over the rest of a line that is too long, and returns what was read behind it.
func (r *reading) skip(text io.Reader, buffer []byte, line int) ([]byte, error) {
	r.lines.Add(1)
	r.broken.Add(1)
	if len(r.tooLong) < maxProblems {
		r.tooLong = append(r.tooLong, Problem{line, fmt.Sprintf("longer than %d bytes", r.MaxLine)})
	}
	for {
		n, err := text.Read(buffer[:cap(buffer)])
		r.bytes.Add(int64(n))
		if at := bytes.IndexByte(buffer[:n], '\n'); at >= 0 {
			return append(r.buffer(), buffer[at+1:n]...), nil
		}
		if errors.Is(err, io.EOF) {
			return buffer[:0], nil
		}
		if err != nil {
			return nil, fmt.Errorf("in line %d: %w", line, err)
		}
	}
}

// buffer is an empty one.
func (r *reading) buffer() []byte {
	select {
	case b := <-r.free:
		return b
	default:
		return make([]byte, 0, chunkSize+64<<10)
	}
}

func (r *reading) release(b []byte) {
	if cap(b) > 4*chunkSize {
		return
	}
	select {
	case r.free <- b[:0]:
	default:
	}
}

// maxStarted bounds what is remembered of requests that have two events.
const maxStarted = 2_000_000

// first reports whether this is the first event of a request that can have two. When there are too many to remember,
// only the end of a request counts.
func (r *reading) first(e *event) bool {
	key := maphash.String(r.seed, e.id)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started[key] {
		delete(r.started, key)
		return false
	}
	if len(r.started) >= maxStarted {
		return e.stage != "ResponseStarted"
	}
	r.started[key] = true
	return true
}

// worker reads chunks.
type worker struct {
	*reading
	number   int
	parser   *parser
	problems []Problem
	event    event
}

func (w *worker) run() {
	for c := range w.chunks {
		text, line := c.text, c.line
		for len(text) > 0 {
			one := text
			if at := bytes.IndexByte(text, '\n'); at >= 0 {
				one, text = text[:at], text[at+1:]
			} else {
				text = nil
			}
			if one = bytes.TrimSpace(one); len(one) > 0 {
				w.line(one, line)
			}
			line++
		}
		w.release(c.text)
	}
}

func (w *worker) line(text []byte, line int) {
	err := w.parser.event(text, &w.event)
	if err == nil && w.event.kind == "EventList" {
		s := scanner{text: w.event.items}
		err = s.list(func(item []byte) error {
			err := w.parser.event(item, &w.event)
			if err == nil && w.event.kind == "EventList" {
				err = errKind
			}
			w.take(line, err)
			return nil
		})
		if err == nil {
			return
		}
	}
	w.take(line, err)
}

// take counts an event and hands out its request.
func (w *worker) take(line int, err error) {
	e := &w.event
	switch {
	case errors.Is(err, errKind):
		w.foreign.Add(1)
	case err != nil:
		w.broken.Add(1)
	case e.User == nil:
		w.anonymous.Add(1)
	case e.stage == "ResponseStarted" || e.longRunning() && e.stage != "RequestReceived":
		if !w.first(e) {
			w.stages.Add(1)
			return
		}
		w.out(line)
	case e.stage == "ResponseComplete" || e.stage == "Panic":
		w.out(line)
	default:
		w.stages.Add(1)
	}
	if err != nil && len(w.problems) < maxProblems {
		w.problems = append(w.problems, Problem{line, err.Error()})
	}
}

func (w *worker) out(line int) {
	w.requests.Add(1)
	w.event.Line = line
	w.Each(w.number, &w.event.Request)
}
