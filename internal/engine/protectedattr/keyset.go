package protectedattr

// keyset is the rules of one kind of attribute by key, behind a filter that turns most keys away without hashing them:
// almost no key of an object is protected.
type keyset struct {
	rules map[string]*rule
	// every is about every key, because of what cannot be read; nearly always nil.
	every  *rule
	filter [filterBits / 64]uint64
}

const filterBits = 1 << 13

func (k *keyset) get(key string) *rule {
	if bit := fingerprint(key); k.filter[bit/64]&(1<<(bit%64)) == 0 {
		return nil
	}
	return k.rules[key]
}

// ensure returns the rule of a key, made if there was none. The empty key is every key.
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

// fingerprint mixes what tells keys apart cheaply: length and a few bytes. Two keys may share one; that costs a
// look-up.
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
