package answer

import (
	"bufio"
	"bytes"
	"errors"
	"maps"
	"net"
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// Fate says what happens to a response. The zero value drops it.
type Fate int

const (
	// Drop lets nothing out.
	Drop Fate = iota
	// Hold keeps the response until the handler has returned.
	Hold
	// Pass lets the response out as it is written.
	Pass
	// ByLine lets the response out line by line, each one rewritten.
	ByLine
)

var errHeld = errors.New("the connection cannot be taken over: the response is held back")

// Rule decides about a response.
type Rule struct {
	// First is called once, before the first byte leaves, with the status that the handler sends; 200 if it sends none.
	First func(code int) Fate
	// Limit is how many bytes are held; a longer response is dropped. Zero means no limit.
	Limit int
	// Line rewrites a line, for ByLine.
	Line func([]byte) []byte
}

// Writer is a response under a rule.
type Writer struct {
	http.ResponseWriter
	rule Rule
	// before are the headers set before the handler ran. Headers of a dropped response are dropped with it.
	before http.Header
	begun  bool
	fate   Fate
	code   int
	body   bytes.Buffer
}

var (
	_ responsewriter.UserProvidedDecorator = (*Writer)(nil)
	_ http.Flusher                         = (*Writer)(nil)
	_ http.Hijacker                        = (*Writer)(nil)
)

// Serve runs a handler under a rule. The caller then releases or replaces a held response.
func Serve(next http.Handler, w http.ResponseWriter, r *http.Request, rule Rule) *Writer {
	a := &Writer{ResponseWriter: w, rule: rule, before: w.Header().Clone()}
	next.ServeHTTP(responsewriter.WrapForHTTP1Or2(a), r)
	a.begin(http.StatusOK)
	if a.fate == ByLine && a.body.Len() > 0 {
		_, _ = w.Write(a.body.Bytes()) // half a line, of a client that is gone
	}
	return a
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (a *Writer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// begin decides once what happens to the response.
func (a *Writer) begin(code int) {
	if a.begun {
		return
	}
	a.begun, a.code = true, code
	if a.fate = a.rule.First(code); a.fate == Pass || a.fate == ByLine {
		a.ResponseWriter.WriteHeader(code)
	}
}

// WriteHeader implements http.ResponseWriter.
func (a *Writer) WriteHeader(code int) { a.begin(code) }

// Write implements http.ResponseWriter.
func (a *Writer) Write(p []byte) (int, error) {
	a.begin(http.StatusOK)
	switch a.fate {
	case Pass:
		return a.ResponseWriter.Write(p)
	case ByLine:
		a.body.Write(p)
		return len(p), a.writeLines()
	case Hold:
		if a.rule.Limit > 0 && a.body.Len()+len(p) > a.rule.Limit {
			a.fate, a.body = Drop, bytes.Buffer{}
			break
		}
		a.body.Write(p)
	}
	return len(p), nil
}

// writeLines writes the lines that are complete.
func (a *Writer) writeLines() error {
	for {
		end := bytes.IndexByte(a.body.Bytes(), '\n')
		if end < 0 {
			return nil
		}
		if _, err := a.ResponseWriter.Write(a.rule.Line(a.body.Next(end + 1))); err != nil {
			return err
		}
	}
}

// Flush implements http.Flusher. A held response stays held.
func (a *Writer) Flush() {
	a.begin(http.StatusOK)
	if flusher, ok := a.ResponseWriter.(http.Flusher); ok && (a.fate == Pass || a.fate == ByLine) {
		flusher.Flush()
	}
}

// Hijack implements http.Hijacker: a connection is taken over only for a response that passes.
func (a *Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if !a.begun {
		a.begun, a.code = true, http.StatusSwitchingProtocols
		a.fate = a.rule.First(a.code)
	}
	if a.fate != Pass {
		return nil, nil, errHeld
	}
	hijacker, ok := a.ResponseWriter.(http.Hijacker)
	if !ok {
		return nil, nil, http.ErrNotSupported
	}
	return hijacker.Hijack()
}

// Fate returns what happened to the response.
func (a *Writer) Fate() Fate { return a.fate }

// Code is the status that the handler sent.
func (a *Writer) Code() int { return a.code }

// Body returns the held bytes.
func (a *Writer) Body() []byte { return a.body.Bytes() }

// Release sends the held response, with another body if one is given.
func (a *Writer) Release(body []byte) {
	a.ResponseWriter.WriteHeader(a.code)
	_, _ = a.ResponseWriter.Write(body) // the client is gone
}

// Forget removes the headers of the response. What is written next replaces it.
func (a *Writer) Forget() http.ResponseWriter {
	clear(a.Header())
	maps.Copy(a.Header(), a.before)
	return a.ResponseWriter
}
