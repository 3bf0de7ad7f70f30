package readfilter

import (
	"bufio"
	"maps"
	"net"
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// fence keeps an answer back that was not decided by the storage, however it is written: with a status or without one,
// flushed, over a connection that was taken over, or by returning without a word. Errors pass.
type fence struct {
	http.ResponseWriter
	reading *reading
	// before are the headers that were there first. Those of an answer that is held do not leave either.
	before http.Header
	begun  bool
	held   bool
}

var (
	_ responsewriter.UserProvidedDecorator = (*fence)(nil)
	_ http.Flusher                         = (*fence)(nil)
	_ http.Hijacker                        = (*fence)(nil)
)

func newFence(w http.ResponseWriter, r *reading) *fence {
	return &fence{ResponseWriter: w, reading: r, before: w.Header().Clone()}
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (f *fence) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (f *fence) WriteHeader(code int) {
	f.begun = true
	if code < http.StatusBadRequest && !f.reading.decided.Load() {
		f.held = true
	}
	if !f.held {
		f.ResponseWriter.WriteHeader(code)
	}
}

func (f *fence) Write(p []byte) (int, error) {
	f.begin()
	if f.held {
		return len(p), nil
	}
	return f.ResponseWriter.Write(p)
}

// begin does what net/http does with an answer that has no status.
func (f *fence) begin() {
	if !f.begun {
		f.WriteHeader(http.StatusOK)
	}
}

// Flush implements http.Flusher.
func (f *fence) Flush() {
	f.begin()
	if f.held {
		return
	}
	if flusher, ok := f.ResponseWriter.(http.Flusher); ok {
		flusher.Flush()
	}
}

// Hijack implements http.Hijacker: watches over web sockets take the connection over.
func (f *fence) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if f.held || !f.reading.decided.Load() {
		return nil, nil, errUndecided
	}
	hijacker, ok := f.ResponseWriter.(http.Hijacker)
	if !ok {
		return nil, nil, http.ErrNotSupported
	}
	f.begun = true
	return hijacker.Hijack()
}

// keeps tells, at the end, whether an answer was held, and takes its headers away.
func (f *fence) keeps() bool {
	if !f.begun && !f.reading.decided.Load() {
		f.held = true // an answer without a word says that there is something
	}
	if f.held {
		clear(f.ResponseWriter.Header())
		maps.Copy(f.ResponseWriter.Header(), f.before)
	}
	return f.held
}
