package ruleset

import (
	"slices"
	"strings"

	"proviso.dev/proviso/internal/connection"
)

// verbBit is a standard verb as a bit, so that a rule's verbs are one word. Other verbs have no bit.
type verbBit uint16

const (
	bitGet verbBit = 1 << iota
	bitList
	bitWatch
	bitCreate
	bitUpdate
	bitPatch
	bitDelete
	bitDeleteCollection
	// bitOther stands for all other verbs in the inverse index; a request never carries it.
	bitOther

	allBits = bitOther - 1
)

func bitOf(verb string) verbBit {
	switch verb {
	case "get":
		return bitGet
	case "list":
		return bitList
	case "watch":
		return bitWatch
	case "create":
		return bitCreate
	case "update":
		return bitUpdate
	case "patch":
		return bitPatch
	case "delete":
		return bitDelete
	case "deletecollection":
		return bitDeleteCollection
	}
	return 0
}

// family groups the connect subresources, on which the verbs of Policy mean something else.
type family uint8

const (
	familyNone  family = iota
	familyExec         // pods/exec, pods/attach, pods/portforward
	familyProxy        // pods/proxy, services/proxy, nodes/proxy
	families
)

func familyOf(group, resource, sub string) family {
	switch connection.Of(group, resource, sub) {
	case connection.Exec:
		return familyExec
	case connection.Proxy:
		return familyProxy
	}
	return familyNone
}

// Verbs of Policy that mean more than themselves.
const (
	verbAll         = "*"
	verbExec        = "exec"
	verbProxy       = "proxy"
	verbImpersonate = "impersonate"
	verbGranular    = "granular:"
)

// special says why a verb is one that a wildcard of Policy never covers (PO-9): it hands out or takes away power
// itself, or it is the right to a field that may be withheld from whoever has everything else.
type special uint8

const (
	ordinary      special = 0
	byName        special = 1 << (iota - 1) // matched by its name alone
	impersonating                           // also by impersonate*
	granular                                // also by granular:*
)

// namedSpecials are the special verbs that only their names match.
var namedSpecials = []string{"escalate", "bind", "deny", "unsafe-delete-ignore-read-errors"}

// prefixVerbs are the patterns that name all verbs with a prefix.
var prefixVerbs = map[string]special{verbImpersonate + "*": impersonating, verbGranular + "*": granular}

func specialOf(verb string) special {
	switch verb {
	case "escalate", "bind", "deny", "unsafe-delete-ignore-read-errors":
		return byName
	}
	switch {
	case strings.HasPrefix(verb, verbImpersonate):
		return impersonating
	case strings.HasPrefix(verb, verbGranular):
		return granular
	}
	return ordinary
}

// verbSet is a compiled list of verbs.
type verbSet struct {
	// masks are the standard verbs that are covered, by family of the subresource.
	masks [families]verbBit
	// parent are those that exec and proxy cover through the parent resource: `exec` on `pods` is about pods/exec.
	parent [families]verbBit
	// star covers every verb that is neither standard nor special, starSpecial also the special ones: RBAC's *, and
	// that of a rule that denies.
	star, starSpecial bool
	// full is a wildcard without exceptions, fullSpecial one that has the special verbs as well: the only things that
	// answer a review about all verbs of a path or a resource.
	full, fullSpecial bool
	// proxy covers every verb of the proxy subresources but the special ones.
	proxy bool
	// prefixes are the patterns impersonate* and granular:*.
	prefixes special
	// named and negated are the other verbs, literally.
	named, negated []string
	// negAll, negProxy and negPrefixes are the negations of *, proxy and the patterns.
	negAll, negProxy bool
	negPrefixes      special
}

// standard returns what one entry covers of the standard verbs, by family. Only exec, proxy, a named create and * reach
// connect subresources: a right to get pods must not become a right to run commands in them.
func standard(entry string) (masks [families]verbBit) {
	switch entry {
	case verbAll:
		return [families]verbBit{allBits, allBits, allBits}
	case verbExec:
		masks[familyExec] = bitCreate | bitGet
	case verbProxy:
		masks[familyProxy] = allBits
	case "create":
		return [families]verbBit{bitCreate, bitCreate, bitCreate}
	case "update":
		masks[familyNone] = bitUpdate | bitPatch
	case "delete":
		masks[familyNone] = bitDelete | bitDeleteCollection
	default:
		masks[familyNone] = bitOf(entry)
	}
	return masks
}

// policyVerbs compiles the verbs of a Policy rule. Negations bind tighter than anything else, whatever the order. The *
// of a rule that denies covers every verb.
func policyVerbs(positive, negative []string, deny bool) verbSet {
	var v verbSet
	for _, e := range positive {
		masks := standard(e)
		for f := range masks {
			v.masks[f] |= masks[f]
			if e == verbExec || e == verbProxy {
				v.parent[f] |= masks[f]
			}
		}
		switch {
		case e == verbAll:
			v.star, v.starSpecial = true, deny
		case prefixVerbs[e] != ordinary:
			v.prefixes |= prefixVerbs[e]
		case bitOf(e) == 0:
			v.proxy = v.proxy || e == verbProxy
			v.named = append(v.named, e)
		}
	}
	v.full = v.star && len(negative) == 0
	v.fullSpecial = v.full && (deny || v.prefixes == impersonating|granular && subset(namedSpecials, v.named))
	for _, e := range negative {
		masks := standard(e)
		for f := range masks {
			v.masks[f] &^= masks[f]
			v.parent[f] &^= masks[f]
		}
		switch {
		case e == verbAll:
			v.negAll = true
		case prefixVerbs[e] != ordinary:
			v.negPrefixes |= prefixVerbs[e]
		case bitOf(e) == 0:
			v.negProxy = v.negProxy || e == verbProxy
			v.negated = append(v.negated, e)
		}
	}
	return v
}

// rbacVerbs compiles the verbs of an RBAC rule, in which everything is literal and * is everything.
func rbacVerbs(verbs []string) verbSet {
	var v verbSet
	for _, e := range verbs {
		bits := bitOf(e)
		if e == verbAll {
			v.star, v.starSpecial, v.full, v.fullSpecial, bits = true, true, true, true, allBits
		}
		for f := range v.masks {
			v.masks[f] |= bits
		}
		if bits == 0 {
			v.named = append(v.named, e)
		}
	}
	return v
}

func (v *verbSet) matches(q *request) bool {
	if q.bit != 0 {
		return v.masks[q.family]&q.bit != 0
	}
	return v.other(q)
}

// matchesParent tells whether the verbs reach a connect subresource although the rule names only its parent.
func (v *verbSet) matchesParent(q *request) bool {
	if q.bit != 0 {
		return v.parent[q.family]&q.bit != 0
	}
	return q.family == familyProxy && v.proxy && q.special == ordinary && !v.negates(q)
}

func (v *verbSet) other(q *request) bool {
	if v.negates(q) {
		return false
	}
	switch {
	case slices.Contains(v.named, q.verb):
		return true
	case q.special != ordinary:
		return v.starSpecial || v.prefixes&q.special != 0
	case q.verb == verbAll && q.resourceRequest:
		return v.fullSpecial
	case q.verb == verbAll:
		return v.full
	}
	return v.star || v.proxy && q.family == familyProxy
}

// name tells whether the verb of the request is named, by itself or by the pattern of its prefix.
func (v *verbSet) name(q *request) bool {
	return v.prefixes&q.special != 0 || slices.Contains(v.named, q.verb)
}

func (v *verbSet) negates(q *request) bool {
	return len(v.negated) > 0 && slices.Contains(v.negated, q.verb) ||
		v.negPrefixes&q.special != 0 ||
		q.special == ordinary && (v.negAll || v.negProxy && q.family == familyProxy)
}

// overlaps is matches for a question about several things at once, where saying yes is the safe side: any of them could
// be a connect subresource.
func (v *verbSet) overlaps(q *request) bool {
	if q.verb == verbAll {
		return v.star || v.prefixes != 0 || len(v.named) > 0 || v.masks != [families]verbBit{}
	}
	for f := familyNone; f < families; f++ {
		asked := *q
		asked.family = f
		if v.matches(&asked) || v.matchesParent(&asked) {
			return true
		}
	}
	return false
}

// connects tells whether the verbs reach a connect subresource of either family as well; a question about all resources
// or groups can be about one.
func (v *verbSet) connects(q *request) bool {
	for f := familyExec; f < families; f++ {
		asked := *q
		asked.family = f
		if !v.matches(&asked) {
			return false
		}
	}
	return true
}

// bits is every verb that could be covered on any subresource, for the inverse index.
func (v *verbSet) bits() verbBit {
	var b verbBit
	for f := range v.masks {
		b |= v.masks[f] | v.parent[f]
	}
	if v.star || v.starSpecial || v.proxy || v.prefixes != 0 || len(v.named) > 0 {
		b |= bitOther
	}
	return b
}
