package expr

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// IDDomain is the domain of the IDs of our own conditions.
const IDDomain = "policy.proviso.dev"

const (
	maxIDName = 63 // a label key allows this much after the slash
	idHash    = 10 // hex digits; 40 bits keep a set of 128 apart
)

// ConditionID builds the ID of a condition from a readable prefix, such as the
// name of the role, and from its effect and text. Equal residuals of one effect
// under one prefix get equal IDs, so they can be merged; the same text under
// different effects does not, because IDs are unique in a set. The result is
// always a valid label key (CA-1).
func ConditionID(prefix string, effect Effect, text string) string {
	sum := sha256.Sum256([]byte(effect.String() + "\x00" + text))
	hash := hex.EncodeToString(sum[:])[:idHash]
	prefix = readable(prefix, maxIDName-idHash-1)
	if prefix == "" {
		return IDDomain + "/" + hash
	}
	return IDDomain + "/" + prefix + "-" + hash
}

// readable keeps the characters that a label key may contain. All others become dashes; the ends must be letters or
// digits.
func readable(s string, limit int) string {
	var b strings.Builder
	for _, r := range s {
		if b.Len() == limit {
			break
		}
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			b.WriteRune(r)
		default:
			b.WriteByte('-')
		}
	}
	return strings.Trim(b.String(), "-_.")
}

// DerivedID returns the ID of a condition that is also used in another way. It keeps the hash at the end, which
// distinguishes conditions.
func DerivedID(use, id string) string {
	domain, name, _ := strings.Cut(id, "/")
	if over := len(use) + 1 + len(name) - maxIDName; over > 0 {
		name = name[over:]
	}
	return domain + "/" + use + "-" + strings.TrimLeft(name, "-_.")
}
