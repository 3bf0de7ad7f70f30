package narrowedtoken

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	stdjson "encoding/json"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/json"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
)

// Limits of the content.
const (
	// MaxDescription is the maximum size of a description in bytes.
	MaxDescription = 256
	// maxRules is the maximum number of rules in a link. The receiver of a link has to compile it.
	maxRules = 64
	// maxAncestors is the maximum number of ancestors of a token.
	maxAncestors = MaxLinks
)

// Payload is the part that only the server writes: whose token it is, and until when.
type Payload struct {
	// ID identifies the token in audit events and revocations.
	ID string `json:"id"`
	// Issued and Expires are seconds since 1970.
	Issued  int64 `json:"iat"`
	Expires int64 `json:"exp"`
	// User is the user of the token.
	User User `json:"user"`
	// Audience names who may confirm the token in addition to the server.
	Audience string `json:"aud,omitempty"`
	// Grants is true if granted access requests count.
	Grants bool `json:"grants,omitempty"`
	// Bound is what the credential that asked for the token was bound to.
	Bound *Bound `json:"bound,omitempty"`
	// Ancestors are the chain of tokens with which this one was requested, the first one first. Revoking one of them
	// revokes this one.
	Ancestors []Ancestor `json:"from,omitempty"`
}

// User is the user of a token.
type User struct {
	Name   string              `json:"name"`
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
}

// Bound lists the objects that must exist while the token is used: those that a service account token is bound to.
type Bound struct {
	Namespace      string `json:"namespace"`
	ServiceAccount Object `json:"serviceAccount"`
	Pod            Object `json:"pod,omitzero"`
	Node           Object `json:"node,omitzero"`
	Secret         Object `json:"secret,omitzero"`
}

// Object is an object by name and uid. The zero value is none.
type Object struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// Ancestor is a token with which another one was requested.
type Ancestor struct {
	ID     string `json:"id"`
	Issued int64  `json:"iat"`
}

// Link is one restriction.
type Link struct {
	// Rules are what it allows. Without rules it allows nothing.
	Rules []accessv1alpha1.TokenRule `json:"rules"`
	// Expires is when the token expires, in seconds since 1970, if that is earlier than in the payload; 0 sets no
	// limit.
	Expires int64 `json:"exp,omitempty"`
	// Description is the purpose of the restriction.
	Description string `json:"description,omitempty"`
}

// DecodeLink reads one link, strictly: unknown or ambiguous content is an error.
func DecodeLink(data []byte) (*Link, error) {
	l := &Link{}
	if err := decode(data, l); err != nil {
		return nil, err
	}
	return l, l.check()
}

func decodePayload(data []byte) (*Payload, error) {
	p := &Payload{}
	if err := decode(data, p); err != nil {
		return nil, err
	}
	return p, p.check()
}

// decode reads one JSON object: keys are case-sensitive, unique and known, and nothing follows the object.
func decode(data []byte, into any) error {
	if !utf8.Valid(data) {
		return errors.New("it is not UTF-8")
	}
	// The strict decoder detects duplicate fields, except in types with their own decoder.
	if bytes.Contains(data, []byte("null")) || bytes.Contains(data, []byte("attributeRestrictions")) {
		if err := once(data); err != nil {
			return err
		}
	}
	strict, err := json.UnmarshalStrict(data, into)
	switch {
	case err != nil:
		return err
	case len(strict) > 0:
		return strict[0]
	}
	return nil
}

// once refuses duplicate keys, at any depth, and null, which sets a key to nothing.
func once(data []byte) error {
	d := stdjson.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var open []map[string]bool
	key := false
	for {
		t, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		top := len(open) - 1
		if t == stdjson.Delim('{') || t == stdjson.Delim('[') {
			var names map[string]bool
			if t == stdjson.Delim('{') {
				names = map[string]bool{}
			}
			open, key = append(open, names), names != nil
			continue
		}
		name, isText := t.(string)
		switch {
		case t == nil:
			return errors.New("null is not a value")
		case t == stdjson.Delim('}') || t == stdjson.Delim(']'):
			open = open[:top]
		case key && isText:
			if open[top][name] {
				return fmt.Errorf("the field %q is given twice", name)
			}
			open[top][name], key = true, false
			continue
		}
		key = len(open) > 0 && open[len(open)-1] != nil
	}
}

func (p *Payload) check() error {
	switch {
	case !isID(p.ID):
		return errors.New("the id is not one")
	case p.User.Name == "":
		return errors.New("it has no user")
	case p.Issued <= 0 || p.Expires <= p.Issued:
		return errors.New("it does not say from when until when it holds")
	case len(p.Ancestors) > maxAncestors:
		return errors.New("it comes from too many others")
	case slices.ContainsFunc(p.Ancestors, func(a Ancestor) bool { return !isID(a.ID) || a.Issued <= 0 }):
		return errors.New("an id of what it comes from is not one")
	}
	return nil
}

// idSize is the number of characters of an ID: 16 bytes in hexadecimal.
const idSize = 32

func isID(id string) bool {
	if len(id) != idSize {
		return false
	}
	for _, c := range []byte(id) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// IsID reports whether a text can be the ID of a token.
func IsID(id string) bool { return isID(id) }

func (l *Link) check() error {
	switch {
	case l.Rules == nil:
		return errors.New("a link has no list of rules")
	case len(l.Rules) > maxRules:
		return fmt.Errorf("a link has %d rules, the limit is %d", len(l.Rules), maxRules)
	case l.Expires < 0:
		return errors.New("a link ends before 1970")
	}
	if err := CheckDescription(l.Description); err != nil {
		return err
	}
	for i := range l.Rules {
		if err := checkRule(&l.Rules[i]); err != nil {
			return fmt.Errorf("rule %d: %w", i, err)
		}
	}
	return nil
}

// CheckDescription refuses text that does not fit on one line of a refusal or an audit event.
func CheckDescription(text string) error {
	if len(text) > MaxDescription {
		return fmt.Errorf("a description has %d bytes, the limit is %d", len(text), MaxDescription)
	}
	if !utf8.ValidString(text) {
		return errors.New("a description is not UTF-8")
	}
	for _, r := range text {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x2028 || r == 0x2029 {
			return errors.New("a description has a control character")
		}
	}
	return nil
}

func checkRule(r *accessv1alpha1.TokenRule) error {
	switch {
	case len(r.UnknownFields()) > 0 || len(r.Unrecognized) > 0:
		return errors.New("a field is not known")
	case r.Shadowed() || !r.Enforcement.Known():
		return errors.New("enforcement: a link is always enforced")
	case r.Namespaces != nil && len(r.Namespaces) == 0:
		return errors.New("namespaces: name one, or leave it out for all of them")
	case len(r.Namespaces) > 0 && len(r.NonResourceURLs) > 0:
		return errors.New("namespaces: paths have none")
	}
	for _, name := range r.Namespaces {
		if len(validation.IsDNS1123Label(name)) > 0 {
			return fmt.Errorf("namespaces: %q is not the name of a namespace", name)
		}
	}
	return nil
}

// Ends returns when the link ends the token; false if it sets no limit.
func (l *Link) Ends() (time.Time, bool) { return time.Unix(l.Expires, 0), l.Expires != 0 }
