package twoworlds

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/transport/websocket"
	"sigs.k8s.io/yaml"
)

// reply is an answer, without the differences that are allowed.
type reply struct {
	code    int
	headers string
	// body is an object, or the events of a watch, one a line.
	body string
	// raw is the body as it came, if it was JSON.
	raw object
}

// differs names the part in which two answers differ.
func (r *reply) differs(o *reply) string {
	switch {
	case r.code != o.code:
		return "code"
	case r.body != o.body:
		return "body"
	case r.headers != o.headers:
		return "headers"
	}
	return ""
}

func (r *reply) String() string { return fmt.Sprintf("%d %s\n    %s", r.code, r.headers, r.body) }

// send sends a step as a user, and reads the answer.
func (w *world) send(user string, s Step) *reply {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := w.open(ctx, user, s)
	if err != nil {
		return &reply{body: err.Error()}
	}
	defer func() { _ = resp.Body.Close() }()
	return w.read(resp)
}

func (w *world) open(ctx context.Context, user string, s Step) (*http.Response, error) {
	req, err := w.request(ctx, user, s)
	if err != nil {
		return nil, err
	}
	return w.proxy.Do(req)
}

func (w *world) read(resp *http.Response) *reply {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return &reply{code: resp.StatusCode, body: err.Error()}
	}
	out := &reply{code: resp.StatusCode, headers: plainHeaders(resp.Header)}
	decoded, err := decode(resp.Header.Get("Content-Type"), raw)
	if err != nil {
		out.body = plain(string(raw))
		return out
	}
	if o, ok := decoded.(object); ok {
		out.raw = o
		meta, _ := o["metadata"].(object)
		rv, _ := meta["resourceVersion"].(string)
		if rv != "" && !strings.HasPrefix(resp.Request.URL.Path, policyHome) { // when a status is written is the server's
			w.last = rv
		}
		w.more, _ = meta["continue"].(string)
	}
	out.body = text(plainValue(decoded))
	return out
}

// decode makes plain data of a body, whatever its form.
func decode(contentType string, raw []byte) (out any, err error) {
	switch kind, _, _ := strings.Cut(contentType, ";"); kind {
	case yamlType:
		err = yaml.Unmarshal(raw, &out)
	case cborType:
		if err = direct.Unmarshal(raw, &out); err == nil {
			err = json.Unmarshal([]byte(text(out)), &out)
		}
	case protobufType:
		typed, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
		if err != nil {
			return nil, err
		}
		return decode(jsonType, []byte(text(typed)))
	case jsonType:
		err = json.Unmarshal(raw, &out)
	default:
		err = errors.New("not a known form")
	}
	return out, err
}

// plainValue removes what is allowed to differ, at any depth.
func plainValue(v any) any {
	switch v := v.(type) {
	case object:
		out := object{}
		for k, inner := range v {
			switch token, isText := inner.(string); {
			case replacedFields[k]:
				out[k] = "…"
			case k == "continue" && isText && token != "":
				out[k] = plainToken(token)
			case k == "resourceRules" || k == "nonResourceRules":
				out[k] = sorted(plainValue(inner)) // in the order in which the server has learnt of the caller's bindings
			case k == "causes" || k == "managedFields":
				out[k] = sorted(plainValue(inner)) // managers are in the order of their times
			case k == "message" && isText && strings.HasPrefix(token, applyConflicts):
				lines := strings.Split(plain(token[len(applyConflicts):]), "\n") // the same
				slices.Sort(lines)
				out[k] = applyConflicts + strings.Join(lines, "\n")
			case k == "name" && v["generateName"] != nil:
				out[k] = "…"
			default:
				out[plain(k)] = plainValue(inner) // managedFields have UIDs as keys
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plainValue(v[i])
		}
		return out
	case string:
		return plain(v)
	}
	return v
}

const applyConflicts = "Apply failed with conflicts: "

// sorted orders a list by what its entries say.
func sorted(v any) any {
	list, ok := v.([]any)
	if ok {
		slices.SortFunc(list, func(a, b any) int { return strings.Compare(text(a), text(b)) })
	}
	return v
}

// plainToken is what a continue token says, without its revision: where the next page begins may not tell of what is
// hidden either.
func plainToken(token string) any {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	var says object
	if err != nil || json.Unmarshal(raw, &says) != nil {
		return "a token"
	}
	says["rv"] = "…"
	return plainValue(says)
}

func plainHeaders(h http.Header) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if !skippedHeaders[name] {
			out = append(out, name+": "+plain(strings.Join(h[name], " | ")))
		}
	}
	return strings.Join(out, "; ")
}

// quiet is how long a watch waits for a write that its selectors may leave out.
const quiet = 400 * time.Millisecond

// stream sends a watch and reads it until the fence comes. Between, disturb changes what the caller may not see.
func (w *world) stream(user string, s Step, tick string, disturb func()) *reply {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, next, end := w.watch(ctx, user, s)
	if next == nil {
		return out
	}
	defer end()
	disturb()
	ref, _, _ := refOf(s.Path)
	if ref.NS == "" && ref.Kind != "namespaces" {
		ref.NS = home
	}
	w.fence(ref.Kind, ref.NS, tick)
	enough := time.AfterFunc(quiet, end)
	defer enough.Stop()
	var events []string
	for {
		raw, err := next()
		if err != nil {
			break
		}
		var event object
		if err := json.Unmarshal(raw, &event); err != nil {
			events = append(events, plain(string(raw)))
			continue
		}
		if event["type"] == "BOOKMARK" {
			continue // it comes when it comes
		}
		events = append(events, text(plainValue(event)))
		if bytes.Contains(raw, []byte(`"tick":"`+tick+`"`)) || event["type"] == "ERROR" {
			break
		}
		enough.Reset(2 * time.Second)
	}
	out.body = strings.Join(events, "\n    ")
	return out
}

// watch opens a stream. next returns one event after the other, and end makes it return an error; both are nil if the
// answer is no stream.
func (w *world) watch(ctx context.Context, user string, s Step) (out *reply, next func() ([]byte, error), end func()) {
	if s.Socket {
		return w.socket(ctx, user, s)
	}
	ctx, cancel := context.WithCancel(ctx)
	resp, err := w.open(ctx, user, s)
	if err != nil {
		cancel()
		return &reply{body: err.Error()}, nil, nil
	}
	if resp.StatusCode != http.StatusOK {
		out = w.read(resp)
		_ = resp.Body.Close()
		cancel()
		return out, nil, nil
	}
	decoder := json.NewDecoder(resp.Body)
	next = func() (raw []byte, err error) {
		var message json.RawMessage
		err = decoder.Decode(&message)
		return message, err
	}
	return &reply{code: resp.StatusCode, headers: plainHeaders(resp.Header)}, next, func() { cancel(); _ = resp.Body.Close() }
}

// handshake is the code in the error of a web socket that was refused.
var handshake = regexp.MustCompile(`\([0-9]{3} [^)]*\)`)

// socket opens a stream as a web socket, with an origin as browsers send it.
func (w *world) socket(ctx context.Context, user string, s Step) (out *reply, next func() ([]byte, error), end func()) {
	req, err := w.request(ctx, user, s)
	if err != nil {
		return &reply{body: err.Error()}, nil, nil
	}
	req.Header.Set("Origin", w.Admin.Host)
	rt, holder, err := websocket.RoundTripperFor(w.vouching)
	if err != nil {
		return &reply{body: err.Error()}, nil, nil
	}
	conn, err := websocket.Negotiate(rt, holder, req, "base64.binary.k8s.io")
	if err != nil {
		return &reply{body: "no socket" + handshake.FindString(err.Error())}, nil, nil
	}
	next = func() (raw []byte, err error) {
		_, raw, err = conn.ReadMessage()
		return raw, err
	}
	return &reply{code: http.StatusOK}, next, func() { _ = conn.Close() }
}
