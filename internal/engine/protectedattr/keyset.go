package protectedattr

import (
	"maps"
	"slices"
	"strings"
)

// keyset holds the rules of one kind of attribute by key, behind a filter that rejects most keys without hashing them:
// almost no key of an object is protected.
type keyset struct {
	rules map[string]*rule
	// domains has the rules for keys without their own rule, by the part before the slash; nearly always empty.
	domains map[string]*rule
	// every is about every key, because of unreadable protections; nearly always nil.
	every  *rule
	filter [filterBits / 64]uint64
}

const filterBits = 1 << 13

func (k *keyset) get(key string) *rule {
	if bit := fingerprint(key); k.filter[bit/64]&(1<<(bit%64)) != 0 {
		if r := k.rules[key]; r != nil {
			return r
		}
	}
	if len(k.domains) == 0 {
		return nil
	}
	domain, _, _ := strings.Cut(key, "/")
	if len(domain) == len(key) {
		return nil
	}
	return k.domains[domain]
}

// empty reports whether no key is protected.
func (k *keyset) empty() bool { return len(k.rules) == 0 && len(k.domains) == 0 && k.every == nil }

// everyKey is the suffix of a key that stands for all keys of a domain.
const everyKey = "/*"

// domainOf returns the domain that a key stands for; empty if it is the key of one attribute.
func domainOf(key string) string {
	domain, ok := strings.CutSuffix(key, everyKey)
	if !ok || strings.ContainsAny(domain, "/*") {
		return ""
	}
	return domain
}

// domain returns the rules that a protection of a domain belongs to: those of its keys, in order, and its own.
func (k *keyset) domain(domain string) []*rule {
	if k.domains == nil {
		k.domains = map[string]*rule{}
	}
	if k.domains[domain] == nil {
		k.domains[domain] = &rule{}
	}
	all := []*rule{k.domains[domain]}
	for _, key := range k.of(domain) {
		all = append(all, k.rules[key])
	}
	return all
}

// of returns the keys of a domain that have their own rule, in order.
func (k *keyset) of(domain string) (keys []string) {
	for _, key := range slices.Sorted(maps.Keys(k.rules)) {
		if strings.HasPrefix(key, domain+"/") {
			keys = append(keys, key)
		}
	}
	return keys
}

// ensure returns the rule of a key, and creates it if there is none. The empty key stands for every key.
func (k *keyset) ensure(key string) *rule {
	if key == "" {
		if k.every == nil {
			k.every = &rule{}
		}
		return k.every
	}
	r := k.rules[key]
	if r == nil {
		r = &rule{}
		if k.rules == nil {
			k.rules = map[string]*rule{}
		}
		k.rules[key] = r
		bit := fingerprint(key)
		k.filter[bit/64] |= 1 << (bit % 64)
	}
	return r
}

// fingerprint mixes cheap properties of a key: length and a few bytes. Two keys may share one; that costs a look-up.
func fingerprint(key string) uint {
	n := uint(len(key))
	if n == 0 {
		return 0
	}
	h := n*131 + uint(key[0])
	h = h*131 + uint(key[n/2])
	h = h*131 + uint(key[n-1])
	return h % filterBits
}
