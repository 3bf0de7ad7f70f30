package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"proviso.dev/proviso/internal/engine/narrowedtoken"
)

// Entry is a token that was issued.
type Entry struct {
	ID      string `json:"id"`
	User    string `json:"user"`
	Issued  int64  `json:"iat"`
	Expires int64  `json:"exp"`
	// Links are the descriptions of the links that the server has seen.
	Links    []string `json:"links,omitempty"`
	Audience string   `json:"aud,omitempty"`
	Grants   bool     `json:"grants,omitempty"`
	// From are the tokens with which it was requested, the first one first.
	From []narrowedtoken.Ancestor `json:"from,omitempty"`
}

// EntryOf returns the entry for a token.
func EntryOf(p *narrowedtoken.Payload, links []string) Entry {
	return Entry{ID: p.ID, User: p.User.Name, Issued: p.Issued, Expires: p.Expires, Links: links, Audience: p.Audience, Grants: p.Grants, From: p.Ancestors}
}

// Payload returns the part of the token that a revocation looks at.
func (e *Entry) Payload() *narrowedtoken.Payload {
	return &narrowedtoken.Payload{ID: e.ID, User: narrowedtoken.User{Name: e.User}, Issued: e.Issued, Expires: e.Expires, Ancestors: e.From}
}

// key is the parsed key of an entry. With it, values need not be read to find expired or surplus entries.
type key struct {
	// text is the whole key, and owner is the part for its user.
	text, owner string
	// expires is when the token expires, and size is the size of the entry with its key in bytes.
	expires int64
	size    int
	// entered is when the token was entered, which is when it was issued.
	entered int64
}

// form is the end of a key: time of issue, expiry, size, id.
const form = "%016x.%010x.%05x.%s"

// ownerOf returns the part of the key that identifies the user. It has a fixed size, however long the user's name is.
func ownerOf(user string) string {
	sum := sha256.Sum256([]byte(user))
	return hex.EncodeToString(sum[:16])
}

// keyOf returns the key of an entry. Keys of a user are in the order of issue.
func (l *Ledger) keyOf(e *Entry, size int, now time.Time) string {
	return l.issued + ownerOf(e.User) + "/" + fmt.Sprintf(form, now.UnixNano(), e.Expires, size, e.ID)
}

// parse reads a key; false if this release did not write it.
func (l *Ledger) parse(text string) (k key, ok bool) {
	owner, name, _ := strings.Cut(strings.TrimPrefix(text, l.issued), "/")
	k = key{text: text, owner: owner}
	var when int64
	var id string
	n, err := fmt.Sscanf(name, form, &when, &k.expires, &k.size, &id)
	k.size += len(text)
	k.entered = when / int64(time.Second)
	return k, err == nil && n == 4
}
