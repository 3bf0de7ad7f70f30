package localetcd

import (
	"runtime"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
)

// verbosity at which etcd's messages appear in the server's log. Its warnings are mostly about being alone and about
// slow disks: of interest only to a user who looks for them.
const (
	warnVerbosity = 2
	infoVerbosity = 4
)

// phase decides what an error means.
type phase int32

const (
	// starting: the caller gets one error instead of a log.
	starting phase = iota
	running
	// closing: servers report that they were closed.
	closing
)

// routine are errors that etcd logs although nothing is wrong: on its first start it looks for a version before it has
// written one, and tries again.
var routine = map[string]bool{"failed to update storage version": true}

// journal takes etcd's messages to the server's log.
type journal struct {
	phase atomic.Int32
	// failed receives the text of the first message with which etcd gives up.
	failed chan string
	// worst is the last error that was logged while starting.
	worst atomic.Pointer[string]
}

func newJournal() *journal { return &journal{failed: make(chan string, 1)} }

func (j *journal) enter(p phase)       { j.phase.Store(int32(p)) }
func (j *journal) during(p phase) bool { return phase(j.phase.Load()) == p }

// logger returns what etcd writes to.
func (j *journal) logger() *zap.Logger {
	return zap.New(&core{journal: j}, zap.WithPanicHook(lastWord{j}), zap.WithFatalHook(lastWord{j}))
}

// lastWord decides what follows a message with which etcd gives up, on whichever goroutine. While starting that
// goroutine ends, and Start reports the message. Later it stops where it is, with the locks it holds: a store that
// could not write must acknowledge nothing more, and the code that waits for Err ends the process with a message
// instead of a stack. It panics only while closing.
type lastWord struct{ *journal }

func (l lastWord) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	if l.during(closing) {
		zapcore.WriteThenPanic.OnWrite(entry, fields)
	}
	select {
	case l.failed <- describe(entry.Message, fields):
	default: // the first one is the cause of the others
	}
	if l.during(starting) {
		runtime.Goexit()
	}
	select {}
}

// describe adds the error that a message is about.
func describe(message string, fields []zapcore.Field) string {
	for _, field := range fields {
		if err, ok := field.Interface.(error); ok && field.Type == zapcore.ErrorType {
			message += ": " + err.Error()
		}
	}
	return message
}

// core is where zap meets klog.
type core struct {
	journal *journal
	fields  []zapcore.Field
}

func (c *core) Enabled(level zapcore.Level) bool {
	switch {
	case level >= zapcore.ErrorLevel:
		return true
	case level == zapcore.WarnLevel:
		return klog.V(warnVerbosity).Enabled()
	default:
		return klog.V(infoVerbosity).Enabled()
	}
}

func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{c.journal, append(c.fields[:len(c.fields):len(c.fields)], fields...)}
}

func (c *core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

func (c *core) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	encoder := zapcore.NewMapObjectEncoder()
	var keys []any
	for _, list := range [][]zapcore.Field{c.fields, fields} {
		for _, field := range list {
			field.AddTo(encoder)
			if value, ok := encoder.Fields[field.Key]; ok {
				keys = append(keys, field.Key, value)
			}
		}
	}
	if entry.Level >= zapcore.ErrorLevel && c.journal.during(starting) {
		text := describe(entry.Message, fields)
		c.journal.worst.Store(&text)
	}
	message := "etcd: " + entry.Message
	quiet := !c.journal.during(running) || routine[entry.Message]
	switch {
	case entry.Level >= zapcore.ErrorLevel && !quiet:
		klog.ErrorS(nil, message, keys...)
	case entry.Level >= zapcore.WarnLevel:
		klog.V(warnVerbosity).InfoS(message, keys...)
	default:
		klog.V(infoVerbosity).InfoS(message, keys...)
	}
	return nil
}

func (c *core) Sync() error { return nil }
