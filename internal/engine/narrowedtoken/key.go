package narrowedtoken

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// KeySize is the size of a root key in bytes.
const KeySize = 32

// keyIDSize is the size of a key ID in bytes.
const keyIDSize = 8

// keyIDDomain separates the derivation of the ID from everything else that is derived from the key.
const keyIDDomain = "proviso narrowed token key id\x00"

// Key is a root key. With it, anyone can make tokens for every user.
type Key struct {
	secret [KeySize]byte
	id     [keyIDSize]byte
}

// NewKey returns the key with these bytes.
func NewKey(secret []byte) (Key, error) {
	if len(secret) != KeySize {
		return Key{}, fmt.Errorf("a key has %d bytes, this one has %d", KeySize, len(secret))
	}
	var k Key
	copy(k.secret[:], secret)
	sum := sha256.Sum256(append([]byte(keyIDDomain), secret...))
	copy(k.id[:], sum[:])
	return k, nil
}

// ParseKey reads the text of a key file: the bytes in standard base64, surrounded only by white space.
func ParseKey(text []byte) (Key, error) {
	secret, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		return Key{}, errors.New("it is not 32 bytes in base64: make one with `openssl rand -base64 32`")
	}
	return NewKey(secret)
}

// KeyText returns the text of a key file.
func KeyText(secret []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(secret) + "\n") }

// String never shows the secret.
func (k Key) String() string { return fmt.Sprintf("key %x", k.id) }

// GoString never shows the secret either.
func (k Key) GoString() string { return k.String() }

// Keys are the root keys of a server. The first one signs; all of them verify.
type Keys []Key

// find returns the key with an ID.
func (k Keys) find(id []byte) (Key, bool) {
	for _, key := range k {
		if string(key.id[:]) == string(id) { // the ID may be known
			return key, true
		}
	}
	return Key{}, false
}
