package streams

import (
	"bufio"
	"errors"
	"net"
	"net/http"
)

// writer tells a stream about the connection that a handler hijacks.
type writer struct {
	http.ResponseWriter
	stream *stream
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack implements http.Hijacker. It is only called where the connection can be hijacked.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	hijacker, ok := w.ResponseWriter.(http.Hijacker)
	if !ok {
		return nil, nil, errors.New("the connection cannot be taken over")
	}
	w.stream.mu.Lock()
	defer w.stream.mu.Unlock()
	if w.stream.ended {
		return nil, nil, errors.New("the right to this connection has ended")
	}
	conn, buffered, err := hijacker.Hijack()
	if err == nil {
		w.stream.hijacked = func() { _ = conn.Close() }
	}
	return conn, buffered, err
}
