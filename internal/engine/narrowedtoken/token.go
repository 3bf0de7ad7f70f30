package narrowedtoken

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	stdjson "encoding/json"
)

const (
	// Prefix is the prefix of narrowed tokens of every version. No other credential has it.
	Prefix = "pvt"
	// version is the prefix of tokens of this version; a dot follows.
	version = "pvt1"

	// MaxSize is the maximum size of the text of a token in bytes.
	MaxSize = 16 << 10
	// MaxLinks is the maximum number of links of a token.
	MaxLinks = 16

	macSize    = sha256.Size
	lengthSize = 4
)

// encoding is the encoding of the body. It is strict, and line breaks, which it would skip, are refused: a token has
// exactly one text.
var encoding = base64.RawURLEncoding.Strict()

// ErrInvalid stands for every reason to refuse a token. Only the audit log says what is wrong with it, never the
// response.
var ErrInvalid = errors.New("invalid narrowed token")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// Is reports whether a credential is a narrowed token, valid or not.
func Is(credential string) bool { return strings.HasPrefix(credential, Prefix) }

// Token is a parsed token. It does not contain its text.
type Token struct {
	Payload Payload
	Links   []Link
	// Texts are the links as sent.
	Texts []string
}

// parts are the raw parts of a token.
type parts struct {
	keyID, payload []byte
	links          [][]byte
	mac            []byte
}

// New makes a token from a payload and its links.
func New(key Key, p Payload, links ...Link) (string, error) {
	if err := p.check(); err != nil {
		return "", err
	}
	payload, err := stdjson.Marshal(p)
	if err != nil {
		return "", err
	}
	t := parts{keyID: key.id[:], payload: payload, mac: first(key, payload)}
	for i := range links {
		if err := t.append(&links[i]); err != nil {
			return "", err
		}
	}
	return t.text()
}

// Extend is New for a token that was requested with another one: it has the links of that one, as sent, in front of its
// own.
func Extend(key Key, p Payload, before []string, link Link) (string, error) {
	token, err := New(key, p)
	if err != nil {
		return "", err
	}
	t, err := split(token)
	if err != nil {
		return "", err
	}
	for _, text := range before {
		t.links, t.mac = append(t.links, []byte(text)), next(t.mac, []byte(text))
	}
	if err := t.append(&link); err != nil {
		return "", err
	}
	return t.text()
}

// Attenuate appends a link. It needs no key, and checks only the form of the token.
func Attenuate(token string, link Link) (string, error) {
	t, err := split(token)
	if err != nil {
		return "", err
	}
	if err := t.append(&link); err != nil {
		return "", err
	}
	return t.text()
}

// Verify reads a token that was made with one of the keys.
func Verify(keys Keys, token string) (*Token, error) {
	t, err := split(token)
	if err != nil {
		return nil, err
	}
	key, found := keys.find(t.keyID)
	if !found {
		return nil, invalid("no key %x", t.keyID)
	}
	mac := first(key, t.payload)
	for _, link := range t.links {
		mac = next(mac, link)
	}
	if !hmac.Equal(mac, t.mac) {
		return nil, invalid("the signature is wrong")
	}
	return t.read()
}

// Inspect reads a token without a key: it does not verify that the token is genuine.
func Inspect(token string) (*Token, error) {
	t, err := split(token)
	if err != nil {
		return nil, err
	}
	return t.read()
}

// first returns K₀, and next returns Kᵢ.
func first(key Key, payload []byte) []byte {
	h := hmac.New(sha256.New, key.secret[:])
	_, _ = h.Write([]byte(version))
	_, _ = h.Write(key.id[:])
	_, _ = h.Write(payload)
	return h.Sum(nil)
}

func next(mac, link []byte) []byte {
	h := hmac.New(sha256.New, mac)
	_, _ = h.Write(length(link))
	_, _ = h.Write(link)
	return h.Sum(nil)
}

func length(part []byte) []byte {
	return binary.BigEndian.AppendUint32(make([]byte, 0, lengthSize), uint32(len(part)))
}

func (t *parts) append(l *Link) error {
	if len(t.links) == MaxLinks {
		return fmt.Errorf("a token has at most %d links", MaxLinks)
	}
	if err := l.check(); err != nil {
		return err
	}
	link, err := stdjson.Marshal(l)
	if err != nil {
		return err
	}
	t.links, t.mac = append(t.links, link), next(t.mac, link)
	return nil
}

// text encodes the token.
func (t *parts) text() (string, error) {
	body := slices.Clone(t.keyID)
	for _, part := range append([][]byte{t.payload}, t.links...) {
		body = append(append(body, length(part)...), part...)
	}
	token := version + "." + encoding.EncodeToString(append(body, t.mac...))
	if len(token) > MaxSize {
		return "", fmt.Errorf("the token would have %d bytes, the limit is %d: use fewer or shorter rules", len(token), MaxSize)
	}
	return token, nil
}

// split splits a token into its parts.
func split(token string) (*parts, error) {
	if len(token) > MaxSize {
		return nil, invalid("it has %d bytes, the limit is %d", len(token), MaxSize)
	}
	text, ok := strings.CutPrefix(token, version+".")
	if !ok {
		return nil, invalid("it does not begin with %s.", version)
	}
	body, err := encoding.DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return nil, invalid("it is not base64url without padding")
	}
	if len(body) < keyIDSize+lengthSize+macSize {
		return nil, invalid("it is too short")
	}
	t := &parts{keyID: body[:keyIDSize], mac: body[len(body)-macSize:]}
	rest := body[keyIDSize : len(body)-macSize]
	for first := true; first || len(rest) > 0; first = false {
		var part []byte
		if part, rest, err = cut(rest); err != nil {
			return nil, err
		}
		if first {
			t.payload = part
			continue
		}
		if len(t.links) == MaxLinks {
			return nil, invalid("it has more than %d links", MaxLinks)
		}
		t.links = append(t.links, part)
	}
	return t, nil
}

// cut takes one part, which is preceded by its length.
func cut(rest []byte) (part, behind []byte, err error) {
	if len(rest) < lengthSize {
		return nil, nil, invalid("it is cut off")
	}
	n := uint64(binary.BigEndian.Uint32(rest))
	rest = rest[lengthSize:]
	if n > uint64(len(rest)) {
		return nil, nil, invalid("it is cut off")
	}
	return rest[:n], rest[n:], nil
}

// read decodes the parts.
func (t *parts) read() (*Token, error) {
	p, err := decodePayload(t.payload)
	if err != nil {
		return nil, invalid("payload: %w", err)
	}
	out := &Token{Payload: *p}
	for i, text := range t.links {
		l, err := DecodeLink(text)
		if err != nil {
			return nil, invalid("link %d: %w", i+1, err)
		}
		out.Links, out.Texts = append(out.Links, *l), append(out.Texts, string(text))
	}
	return out, nil
}

// Expires returns when the token expires: the earliest time in its payload and its links.
func (t *Token) Expires() time.Time {
	at := time.Unix(t.Payload.Expires, 0)
	for i := range t.Links {
		if ends, ok := t.Links[i].Ends(); ok && ends.Before(at) {
			at = ends
		}
	}
	return at
}
