package sink

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	authnv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"

	"proviso.dev/proviso/internal/engine/auditrule"
)

// encoder writes one event as audit.k8s.io/v1 JSON, once for each level that is wanted. It does not change or keep
// the event, which the server reuses; bodies are checked and compacted once, whatever the number of levels. Its results
// are valid until the next reset.
type encoder struct {
	event           *auditinternal.Event
	id              []byte
	texts           [4]encoded // per level
	request, answer body
}

type encoded struct {
	text      []byte
	sum       uint32
	done      bool
	truncated bool
}

type body struct {
	text []byte
	done bool
}

func (e *encoder) reset(ev *auditinternal.Event, id []byte) {
	e.event = ev
	e.id = id
	for i := range e.texts {
		e.texts[i] = encoded{text: recycled(e.texts[i].text)}
	}
	e.request, e.answer = body{text: recycled(e.request.text)}, body{text: recycled(e.answer.text)}
}

// recycled keeps a buffer unless one large event would make it stay large.
func recycled(b []byte) []byte {
	if cap(b) > 256<<10 {
		return nil
	}
	return b[:0]
}

// at returns the event with the detail of the level. If that is more than limit bytes, the bodies are left out and an
// annotation says so, as upstream's truncating backend does it.
func (e *encoder) at(level auditrule.Level, limit int) *encoded {
	out := &e.texts[level]
	if out.done {
		return out
	}
	out.done = true
	out.text = e.append(out.text[:0], level, level >= auditrule.Request, level >= auditrule.RequestResponse, false)
	if len(out.text) > limit && level >= auditrule.Request {
		out.truncated = true
		out.text = e.append(out.text[:0], level, false, false, true)
	}
	out.sum = checksum(out.text)
	return out
}

// append writes the fields in upstream's order.
func (e *encoder) append(b []byte, level auditrule.Level, request, answer, truncated bool) []byte {
	ev := e.event
	b = appendString(append(b, `{"level":`...), string(level.Audit()))
	b = appendString(append(b, `,"auditID":`...), string(ev.AuditID))
	b = appendString(append(b, `,"stage":`...), string(ev.Stage))
	b = appendString(append(b, `,"requestURI":`...), ev.RequestURI)
	b = appendString(append(b, `,"verb":`...), ev.Verb)
	b = appendUser(append(b, `,"user":`...), &ev.User)
	if ev.ImpersonatedUser != nil {
		b = appendUser(append(b, `,"impersonatedUser":`...), ev.ImpersonatedUser)
	}
	if m := ev.AuthenticationMetadata; m != nil {
		b = append(b, `,"authenticationMetadata":`...)
		b = closeObject(appendField(append(b, '{'), "impersonationConstraint", m.ImpersonationConstraint))
	}
	b = appendStrings(b, "sourceIPs", firstOf(ev.SourceIPs))
	b = appendField(b, "userAgent", ev.UserAgent)
	if ev.ObjectRef != nil {
		b = appendReference(append(b, `,"objectRef":`...), ev.ObjectRef)
	}
	if ev.ResponseStatus != nil {
		b = appendStatus(append(b, `,"responseStatus":`...), ev.ResponseStatus)
	}
	if request && ev.RequestObject != nil {
		b = append(append(b, `,"requestObject":`...), e.request.of(ev.RequestObject)...)
	}
	if answer && ev.ResponseObject != nil {
		b = append(append(b, `,"responseObject":`...), e.answer.of(ev.ResponseObject)...)
	}
	b = appendTime(append(b, `,"requestReceivedTimestamp":`...), ev.RequestReceivedTimestamp)
	b = appendTime(append(b, `,"stageTimestamp":`...), ev.StageTimestamp)
	b = e.appendAnnotations(b, level, truncated)
	return append(b, '}')
}

// of returns the object as compact JSON. A caller chooses the body of a patch, byte for byte, and it is recorded before
// it is parsed: content that some parser could fail on becomes a string, so neither its event nor the batch is lost.
func (c *body) of(obj *runtime.Unknown) []byte {
	if c.done {
		return c.text
	}
	c.done = true
	if len(obj.Raw) == 0 {
		c.text = append(c.text[:0], "null"...)
		return c.text
	}
	buf := bytes.NewBuffer(c.text[:0])
	if utf8.Valid(obj.Raw) && json.Compact(buf, obj.Raw) == nil && !tooDeep(buf.Bytes()) {
		c.text = buf.Bytes()
	} else {
		c.text = appendWhole(c.text[:0], string(obj.Raw))
	}
	return c.text
}

// maxDepth is how deep a body may be nested to be recorded as JSON. Parsers give up at 10,000 levels or far below; the
// bodies of real requests have a few dozen.
const maxDepth = 512

// tooDeep reports whether JSON is nested deeper than maxDepth.
func tooDeep(text []byte) bool {
	if bytes.Count(text, []byte{'['})+bytes.Count(text, []byte{'{'}) <= maxDepth {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}', c == ']':
			depth--
		}
	}
	return false
}

func appendUser(b []byte, u *authnv1.UserInfo) []byte {
	b = append(b, '{')
	b = appendField(b, "username", u.Username)
	b = appendField(b, "uid", u.UID)
	b = appendStrings(b, "groups", u.Groups)
	if len(u.Extra) > 0 {
		b = append(separate(b), `"extra":{`...)
		for _, k := range slices.Sorted(maps.Keys(u.Extra)) {
			b = append(appendString(separate(b), k), ':')
			b = appendList(b, u.Extra[k])
		}
		b = append(b, '}')
	}
	return append(b, '}')
}

func appendReference(b []byte, r *auditinternal.ObjectReference) []byte {
	b = append(b, '{')
	b = appendField(b, "resource", r.Resource)
	b = appendField(b, "namespace", r.Namespace)
	b = appendField(b, "name", r.Name)
	b = appendField(b, "uid", string(r.UID))
	b = appendField(b, "apiGroup", r.APIGroup)
	b = appendField(b, "apiVersion", r.APIVersion)
	b = appendField(b, "resourceVersion", r.ResourceVersion)
	b = appendField(b, "subresource", r.Subresource)
	return append(b, '}')
}

// appendStatus writes the usual status by hand and leaves the others to encoding/json.
func appendStatus(b []byte, s *metav1.Status) []byte {
	if s.Details != nil || s.TypeMeta != (metav1.TypeMeta{}) || s.ListMeta != (metav1.ListMeta{}) {
		if text, err := json.Marshal(s); err == nil {
			return append(b, text...)
		}
	}
	b = append(b, `{"metadata":{}`...)
	b = appendField(b, "status", s.Status)
	b = appendField(b, "message", s.Message)
	b = appendField(b, "reason", string(s.Reason))
	if s.Code != 0 {
		b = strconv.AppendInt(append(b, `,"code":`...), int64(s.Code), 10)
	}
	return append(b, '}')
}

func appendTime(b []byte, t metav1.MicroTime) []byte {
	if t.IsZero() {
		return append(b, "null"...)
	}
	b = t.UTC().AppendFormat(append(b, '"'), metav1.RFC3339Micro)
	return append(b, '"')
}

// appendAnnotations writes the annotations of the event and our own. Ours win: an admission policy or webhook can have
// any annotation written that begins with its own name.
func (e *encoder) appendAnnotations(b []byte, level auditrule.Level, truncated bool) []byte {
	keys := make([]string, 0, len(e.event.Annotations)+2)
	for key := range e.event.Annotations {
		if key != identityKey && (key != truncatedKey || !truncated) && (level >= auditrule.Request || !needsRequestLevel(key)) {
			keys = append(keys, key)
		}
	}
	keys = append(keys, identityKey)
	if truncated {
		keys = append(keys, truncatedKey)
	}
	slices.Sort(keys)
	b = append(b, `,"annotations":{`...)
	for _, k := range keys {
		b = append(appendString(separate(b), k), ':')
		switch {
		case k == identityKey:
			b = append(append(append(b, '"'), e.id...), '"')
		case k == truncatedKey && truncated:
			b = appendString(b, truncatedValue)
		default:
			b = appendString(b, e.event.Annotations[k])
		}
	}
	return append(b, '}')
}

// appendField writes a string field unless it is empty.
func appendField(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	b = append(append(append(separate(b), '"'), name...), `":`...)
	return appendString(b, value)
}

func appendStrings(b []byte, name string, values []string) []byte {
	if len(values) == 0 {
		return b
	}
	b = append(append(append(separate(b), '"'), name...), `":`...)
	return appendList(b, values)
}

func appendList[S ~[]string](b []byte, values S) []byte {
	if values == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, v)
	}
	return append(b, ']')
}

// separate writes a comma unless an object has just been opened.
func separate(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '{' {
		return b
	}
	return append(b, ',')
}

func closeObject(b []byte) []byte { return append(b, '}') }

// maxText and maxAddresses bound what is kept of a text and of a list of addresses, outside of bodies. A caller chooses
// URIs, names, the user agent and forwarded addresses, even without credentials: without the cut, they would push other
// users' events out of a spool.
const (
	maxText      = 8 << 10
	maxAddresses = 64
)

// firstOf cuts a list of addresses to its bound, and says so at its end.
func firstOf(addresses []string) []string {
	if len(addresses) <= maxAddresses {
		return addresses
	}
	return append(addresses[:maxAddresses:maxAddresses], fmt.Sprintf("… (cut, %d in all)", len(addresses)))
}

// appendString writes a text that a caller may have chosen, cut to its bound and marked.
func appendString(b []byte, s string) []byte {
	if len(s) <= maxText {
		return appendWhole(b, s)
	}
	end := maxText
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return appendWhole(b, fmt.Sprintf("%s… (cut, %d bytes)", s[:end], len(s)))
}

// appendWhole writes plain text by hand and leaves everything that needs escaping to encoding/json.
func appendWhole(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c == 0x7f {
			text, err := json.Marshal(s)
			if err != nil { // cannot happen for a string
				return append(b, `""`...)
			}
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
