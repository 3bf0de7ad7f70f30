package sidecar

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/klog/v2"

	"proviso.dev/proviso/internal/platform/atomicfile"
)

const (
	// tailPeriod is how long an event waits in the log at most, and skimPeriod while there is no sink that waits.
	tailPeriod = 200 * time.Millisecond
	skimPeriod = time.Second
	// tailBatch is after how many events the position is kept.
	tailBatch = 500
	// unheardPeriod is how often it is kept while there is no sink, to whom an event could come twice.
	unheardPeriod = 5 * time.Second
	// maxLine is the longest line that is read whole: as long as an event may be with the flags that init writes.
	maxLine = maxEventBytes + 1<<20
)

// logTail reads the audit log of the API server and gives each event to the sinks (SC-10). It spools before it moves
// its position, so after a crash an event may arrive twice, but none is lost.
type logTail struct {
	path, positionPath string
	sinks              audit.Sink
	at                 position
	kept               time.Time
	maxLine            int
	// end is how far the log itself was read.
	end int64
	// seen is the log as it was when all of it had been read; nil if it was not.
	seen os.FileInfo
}

func newLogTail(path, positionPath string, sinks audit.Sink) (*logTail, error) {
	registerTailMetrics()
	at, err := loadPosition(positionPath)
	if err != nil {
		return nil, err
	}
	return &logTail{path: path, positionPath: positionPath, sinks: sinks, at: at, maxLine: maxLine}, nil
}

// Run implements feature.Runner.
func (t *logTail) Run(ctx context.Context) {
	for {
		if err := t.catchUp(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "The audit log cannot be read")
		}
		period := tailPeriod
		if t.unheard() {
			period = skimPeriod
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(period):
		}
	}
}

// catchUp reads everything that is there: what was rotated away since, oldest first, and then the log itself.
func (t *logTail) catchUp(ctx context.Context) error {
	now, missing := os.Stat(t.path)
	if missing == nil && t.seen != nil && os.SameFile(now, t.seen) && now.Size() == t.seen.Size() && now.ModTime().Equal(t.seen.ModTime()) {
		return nil
	}
	t.seen = nil
	if err := t.readAll(ctx); err != nil {
		return err
	}
	if missing == nil && now.Size() == t.end {
		t.seen = now
	}
	return nil
}

func (t *logTail) readAll(ctx context.Context) error {
	var files []unread
	lost := 0
	for range 2 { // a file that is not listed may have been renamed meanwhile: a second look finds it
		paths, err := t.files()
		if err != nil {
			return err
		}
		if files, lost, err = t.at.locate(paths); err != nil {
			return err
		}
		if lost == 0 {
			break
		}
	}
	t.at.adopt(files)
	t.at.forget(files)
	if lost > 0 {
		lostTotal.WithLabelValues(causeGone).Add(float64(lost))
		klog.InfoS("A part of the audit log is gone: what was in it and not read is lost", "log", t.path)
	}
	for _, f := range files {
		if f.done {
			continue
		}
		if err := t.read(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// files are the log and what was rotated out of it, oldest first.
func (t *logTail) files() ([]string, error) {
	ext := filepath.Ext(t.path)
	rotated, err := filepath.Glob(strings.TrimSuffix(t.path, ext) + "-*" + ext)
	if err != nil {
		return nil, err
	}
	slices.Sort(rotated) // their names are times
	if _, err := os.Stat(t.path); err == nil {
		rotated = append(rotated, t.path)
	}
	return rotated, nil
}

// read gives the events of a file to the sinks, from where it was left to its last whole line.
func (t *logTail) read(ctx context.Context, from unread) error {
	f, err := openLog(from.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // rotated away meanwhile: the next look finds it
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if inodeOf(f.info) != from.inode {
		return nil // likewise
	}
	if _, err := f.Seek(from.offset, io.SeekStart); err != nil {
		return err
	}
	lines, count, at := bufio.NewReaderSize(f, 1<<16), 0, from.offset
	for ctx.Err() == nil {
		line, length, err := readLine(lines, t.maxLine)
		if errors.Is(err, io.EOF) {
			break // half a line is written on
		}
		if err != nil {
			return err
		}
		if !t.take(line, length > int64(len(line))) {
			return errors.Join(errors.New("the spool of the audit sinks does not take an event"), t.keep(f, at, false))
		}
		at += length
		if count++; count%tailBatch == 0 && !t.unheard() {
			if err := t.keep(f, at, false); err != nil {
				return err
			}
		}
	}
	rotated := from.path != t.path
	if !rotated {
		t.end = at
	}
	if count == 0 && !rotated {
		return nil
	}
	return t.keep(f, at, rotated && ctx.Err() == nil)
}

// readLine reads a line with its end, and of one that is longer than a limit its beginning. Length is that of the whole
// line.
func readLine(r *bufio.Reader, limit int) (line []byte, length int64, err error) {
	for {
		part, err := r.ReadSlice('\n')
		length += int64(len(part))
		line = append(line, part[:min(len(part), limit-len(line))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, length, err
		}
	}
}

func (t *logTail) unheard() bool {
	to, ok := t.sinks.(interface{ Unheard() bool })
	return ok && to.Unheard()
}

// take gives one event to the sinks. A line that is not an event is skipped: it will never be one. One that was cut is
// what its beginning says, and marked.
func (t *logTail) take(line []byte, cut bool) bool {
	if t.unheard() || len(bytes.TrimSpace(line)) == 0 {
		return true
	}
	event, err := decodeEvent(line, cut)
	if err != nil {
		lostTotal.WithLabelValues(causeNoEvent).Inc()
		klog.InfoS("A line of the audit log is not an event", "log", t.path, "err", err)
		return true
	}
	if !t.sinks.ProcessEvents(event) {
		return false
	}
	if cut {
		lostTotal.WithLabelValues(causeCut).Inc()
	}
	return true
}

// keep makes the position durable, without a sink now and then only.
func (t *logTail) keep(f *logFile, offset int64, rotated bool) error {
	before, err := f.before(offset)
	if err != nil {
		return err
	}
	t.at.set(filePosition{Inode: inodeOf(f.info), Offset: offset, Before: before, Rotated: rotated})
	if t.unheard() && time.Since(t.kept) < unheardPeriod {
		return nil
	}
	data, err := json.Marshal(t.at)
	if err != nil {
		return err
	}
	if err := atomicfile.Replace(t.positionPath, data, whole); err != nil {
		return err
	}
	t.kept = time.Now()
	return nil
}
