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
	// MaxDescription is how many bytes a description has at most.
	MaxDescription = 256
	// maxRules is how many rules a link has at most. Links are compiled by those who receive them.
	maxRules = 64
	// maxAncestors is how many tokens a token can come from.
	maxAncestors = MaxLinks
)

// Payload is what only the server writes: whose token it is, and until when.
type Payload struct {
	// ID is what audit events and revocations call the token.
	ID string `json:"id"`
	// Issued and Expires are seconds since 1970.
	Issued  int64 `json:"iat"`
	Expires int64 `json:"exp"`
	// User is whom the token stands for.
	User User `json:"user"`
	// Audience is who, besides the server, may confirm the token.
	Audience string `json:"aud,omitempty"`
	// Grants tells that granted access requests count.
	Grants bool `json:"grants,omitempty"`
	// Bound is what the credential was bound to that asked for the token.
	Bound *Bound `json:"bound,omitempty"`
	// Ancestors are the tokens that this one was asked for with, the first one first. Revoking one revokes this.
	Ancestors []Ancestor `json:"from,omitempty"`
}

// User is whom a token stands for.
type User struct {
	Name   string              `json:"name"`
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
}

// Bound are the objects that have to exist while the token is used: those that a service account token is bound to.
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

// Ancestor is a token that another one was asked for with.
type Ancestor struct {
	ID     string `json:"id"`
	Issued int64  `json:"iat"`
}

// Link is one restriction.
type Link struct {
	// Rules are what it allows. Without one it allows nothing.
	Rules []accessv1alpha1.TokenRule `json:"rules"`
	// Expires is when the token ends, in seconds since 1970, if that is before the payload says; 0 leaves it.
	Expires int64 `json:"exp,omitempty"`
	// Description says what the restriction is for.
	Description string `json:"description,omitempty"`
}

// DecodeLink reads one link, strictly: what it does not know, or could read in two ways, is an error.
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

// decode reads one JSON object: keys as they are spelled, each once and each known, and nothing behind it.
func decode(data []byte, into any) error {
	if !utf8.Valid(data) {
		return errors.New("it is not UTF-8")
	}
	// The strict decoder knows fields that are given twice, but for those that other types read by themselves.
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

// once refuses keys that are given twice, at any depth, and null, which is given and says nothing.
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

// idSize is how many characters an ID has: 16 bytes in hexadecimal.
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

// CheckDescription refuses what would not stand on one line of a refusal or an audit event.
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

// Ends is when the link ends the token; false if it leaves that to others.
func (l *Link) Ends() (time.Time, bool) { return time.Unix(l.Expires, 0), l.Expires != 0 }
