package sidecar

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
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
	// headBytes tell one log file from another: an audit event begins with its ID.
	headBytes = 256
)

// logTail reads the audit log of the API server and gives each event to the sinks (SC-10). It spools before it moves
// its position, so that an event may come twice after a crash, and none is lost.
type logTail struct {
	path, positionPath string
	sinks              audit.Sink
	at                 position
	kept               time.Time
	// seen is the log as it was when all of it had been read; nil if it was not.
	seen os.FileInfo
}

// position is how far the log was read: by the beginning of the file, since a file keeps that when it is rotated.
type position struct {
	Head   string `json:"head"`
	Offset int64  `json:"offset"`
}

func newLogTail(path, positionPath string, sinks audit.Sink) (*logTail, error) {
	t := &logTail{path: path, positionPath: positionPath, sinks: sinks}
	data, err := os.ReadFile(positionPath)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t, nil
	case err != nil:
		return nil, err
	}
	if err := json.Unmarshal(data, &t.at); err != nil {
		return nil, fmt.Errorf("%s: %w; remove it to read the audit log from its beginning", positionPath, err)
	}
	return t, nil
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
	if missing == nil && now.Size() == t.at.Offset {
		t.seen = now
	}
	return nil
}

func (t *logTail) readAll(ctx context.Context) error {
	files, err := t.files()
	if err != nil {
		return err
	}
	begin := slices.IndexFunc(files, func(f string) bool { return t.at.Head != "" && t.isAt(f) })
	if begin < 0 {
		if t.at.Head != "" && len(files) > 0 {
			klog.InfoS("The part of the audit log that was read last is gone: what was in it and not read is lost", "log", t.path)
		}
		begin, t.at = 0, position{}
	}
	for i, file := range files[begin:] {
		if i > 0 {
			t.at = position{}
		}
		if err := t.read(ctx, file); err != nil {
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

func (t *logTail) isAt(path string) bool {
	head, err := headOf(path)
	if err != nil || !strings.HasPrefix(head, t.at.Head) {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.Size() >= t.at.Offset // one that was truncated begins anew
}

func headOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, headBytes)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return "", err
	}
	return string(head[:n]), nil
}

// read gives the events of a file to the sinks, from the position to its last whole line.
func (t *logTail) read(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(t.at.Offset, io.SeekStart); err != nil {
		return err
	}
	lines, count := bufio.NewReaderSize(f, 1<<16), 0
	for ctx.Err() == nil {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break // half a line is written on
		}
		if err != nil {
			return err
		}
		if !t.take(line) {
			return errors.New("the spool of the audit sinks does not take an event")
		}
		t.at.Offset += int64(len(line))
		if count++; count%tailBatch == 0 && !t.unheard() {
			if err := t.keep(path); err != nil {
				return err
			}
		}
	}
	if count == 0 {
		return nil
	}
	return t.keep(path)
}

func (t *logTail) unheard() bool {
	to, ok := t.sinks.(interface{ Unheard() bool })
	return ok && to.Unheard()
}

// eventDecoder reads events as API servers write them.
var eventDecoder = audit.Codecs.UniversalDecoder(auditinternal.SchemeGroupVersion)

// take gives one event to the sinks. A line that is no event is skipped: it will never be one.
func (t *logTail) take(line []byte) bool {
	if t.unheard() || len(bytes.TrimSpace(line)) == 0 {
		return true
	}
	decoded, _, err := eventDecoder.Decode(line, nil, nil)
	event, ok := decoded.(*auditinternal.Event)
	if err != nil || !ok {
		klog.InfoS("A line of the audit log is no event", "log", t.path, "err", err)
		return true
	}
	return t.sinks.ProcessEvents(event)
}

// keep makes the position durable, without a sink now and then only.
func (t *logTail) keep(path string) error {
	head, err := headOf(path)
	if err != nil {
		return err
	}
	t.at.Head = head[:min(int64(len(head)), t.at.Offset)]
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
