package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

const (
	listBegin = `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[`
	listEnd   = "]}\n"
)

// post sends the events as one EventList. The sink has them if and only if there is no error. If released is false, a
// connection that is being given up may still read the events, and their memory must not be used again.
func (t *target) post(ctx context.Context, events [][]byte) (released bool, err error) {
	length := int64(len(listBegin) + len(listEnd) + max(0, len(events)-1))
	for _, e := range events {
		length += int64(len(e))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, nil)
	if err != nil {
		return true, errors.New("request to the sink cannot be made") // its text repeats the URL
	}
	bodies := []*listReader{newListReader(events)}
	req.Body, req.ContentLength = bodies[0], length
	req.GetBody = func() (io.ReadCloser, error) { // for a connection that the sink has closed meanwhile
		bodies = append(bodies, newListReader(events))
		return bodies[len(bodies)-1], nil
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, */*")
	req.Header.Set("User-Agent", "proviso-audit")
	err = t.do(req)
	return closed(bodies), err
}

func (t *target) do(req *http.Request) error {
	resp, err := t.client.Do(req)
	if err != nil {
		return plainError(err)
	}
	// The body is not needed and not trusted; reading a little of it allows reusing the connection.
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	_ = resp.Body.Close()
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return nil
	}
	return &answerError{code: resp.StatusCode, retryAfter: retryAfter(resp.Header.Get("Retry-After"))}
}

// closed reports whether the transport has let go of the bodies. It does so on its own time with the one that it was
// given, and net/http does not always with another that it has asked for.
func closed(bodies []*listReader) bool {
	patience := time.NewTimer(time.Second)
	defer patience.Stop()
	for i, b := range bodies {
		if i > 0 {
			patience.Reset(0)
		}
		select {
		case <-b.closed:
		case <-patience.C:
			return false
		}
	}
	return true
}

// answerError is an answer that is not a success.
type answerError struct {
	code       int
	retryAfter time.Duration
}

func (e *answerError) Error() string {
	text := fmt.Sprintf("sink answered %d %s", e.code, http.StatusText(e.code))
	if e.code >= 300 && e.code < 400 {
		text += ", and redirects are not followed"
	}
	return text
}

func retryAfter(seconds string) time.Duration {
	n, err := strconv.Atoi(seconds)
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, 300)) * time.Second
}

// plainError says what went wrong without the URL, which net/http puts in front and which may hold secrets, in one line
// of limited length.
func plainError(err error) error {
	var u *url.Error
	for errors.As(err, &u) {
		if u.Timeout() {
			return errors.New("sink did not answer in time")
		}
		err = u.Err
	}
	return errors.New(plainText(err.Error()))
}

func plainText(s string) string {
	const most = 300
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, " "))
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// listReader is the text of an EventList made of events, without putting them together in memory.
type listReader struct {
	list   [][]byte
	closed chan struct{}
	once   sync.Once
	at     int // index of the next piece: event, comma, event, …, end
	rest   []byte
}

func newListReader(events [][]byte) *listReader {
	return &listReader{list: events, rest: []byte(listBegin), closed: make(chan struct{})}
}

func (r *listReader) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(r.rest) == 0 && !r.advance() {
			if n == 0 {
				return 0, io.EOF
			}
			return n, nil
		}
		c := copy(p[n:], r.rest)
		r.rest = r.rest[c:]
		n += c
	}
	return n, nil
}

var (
	comma = []byte(",")
	end   = []byte(listEnd)
)

// advance moves on to the next piece.
func (r *listReader) advance() bool {
	pieces := max(0, 2*len(r.list)-1)
	switch {
	case r.at < pieces && r.at%2 == 0:
		r.rest = r.list[r.at/2]
	case r.at < pieces:
		r.rest = comma
	case r.at == pieces:
		r.rest = end
	default:
		return false
	}
	r.at++
	return true
}

func (r *listReader) Close() error {
	r.once.Do(func() { close(r.closed) })
	return nil
}
