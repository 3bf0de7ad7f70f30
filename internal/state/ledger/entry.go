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
	// From are the tokens that it was asked for with, the first one first.
	From []narrowedtoken.Ancestor `json:"from,omitempty"`
}

// EntryOf is what is kept of a token.
func EntryOf(p *narrowedtoken.Payload, links []string) Entry {
	return Entry{ID: p.ID, User: p.User.Name, Issued: p.Issued, Expires: p.Expires, Links: links, Audience: p.Audience, Grants: p.Grants, From: p.Ancestors}
}

// Payload is as much of the token as a revocation looks at.
func (e *Entry) Payload() *narrowedtoken.Payload {
	return &narrowedtoken.Payload{ID: e.ID, User: narrowedtoken.User{Name: e.User}, Issued: e.Issued, Expires: e.Expires, Ancestors: e.From}
}

// key is what the key of an entry tells, so that values need not be read to find what is over or too much.
type key struct {
	// text is the whole key, and owner is that of its user.
	text, owner string
	// expires is when the token ends, and size is how many bytes the entry has with its key.
	expires int64
	size    int
}

// form is the end of a key: when, until, how much, which.
const form = "%016x.%010x.%05x.%s"

// ownerOf is the part of the key that tells users apart. It has a fixed size, whatever a user is called.
func ownerOf(user string) string {
	sum := sha256.Sum256([]byte(user))
	return hex.EncodeToString(sum[:16])
}

// keyOf is the key of an entry. Those of a user are in the order in which they were made.
func (l *Ledger) keyOf(e *Entry, size int, now time.Time) string {
	return l.issued + ownerOf(e.User) + "/" + fmt.Sprintf(form, now.UnixNano(), e.Expires, size, e.ID)
}

// parse reads a key; false if it was not made by this release.
func (l *Ledger) parse(text string) (k key, ok bool) {
	owner, name, _ := strings.Cut(strings.TrimPrefix(text, l.issued), "/")
	k = key{text: text, owner: owner}
	var when int64
	var id string
	n, err := fmt.Sscanf(name, form, &when, &k.expires, &k.size, &id)
	k.size += len(text)
	return k, err == nil && n == 4
}
