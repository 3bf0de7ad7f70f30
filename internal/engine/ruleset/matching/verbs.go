package matching

import (
	"slices"
	"strings"

	"proviso.dev/proviso/internal/engine/connect"
)

// VerbBit is a standard verb as a bit, so a rule's verbs fit in one word. Other verbs have no bit.
type VerbBit uint16

const (
	bitGet VerbBit = 1 << iota
	bitList
	bitWatch
	BitCreate
	bitUpdate
	bitPatch
	BitDelete
	BitDeleteCollection
	// bitOther stands for all other verbs in the inverse index; a request never carries it.
	bitOther

	allBits = bitOther - 1
)

func BitOf(verb string) VerbBit {
	switch verb {
	case "get":
		return bitGet
	case "list":
		return bitList
	case "watch":
		return bitWatch
	case "create":
		return BitCreate
	case "update":
		return bitUpdate
	case "patch":
		return bitPatch
	case "delete":
		return BitDelete
	case "deletecollection":
		return BitDeleteCollection
	}
	return 0
}

// Family groups the connect subresources, on which the verbs of Policy mean something else.
type Family uint8

const (
	FamilyNone  Family = iota
	familyExec         // pods/exec, pods/attach, pods/portforward
	familyProxy        // pods/proxy, services/proxy, nodes/proxy
	Families
)

func FamilyOf(group, resource, sub string) Family {
	switch connect.Of(group, resource, sub) {
	case connect.Exec:
		return familyExec
	case connect.Proxy:
		return familyProxy
	}
	return FamilyNone
}

// Verbs of Policy that mean more than themselves.
const (
	VerbAll         = "*"
	verbExec        = "exec"
	verbProxy       = "proxy"
	VerbImpersonate = "impersonate"
	VerbGranular    = "granular:"
	VerbReveal      = "reveal:"
)

// Special says why a verb is one that a wildcard of Policy never covers (PO-9): it grants or removes power itself, or
// it is the right to a field that may be withheld, or hidden, from callers who have everything else.
type Special uint8

const (
	ordinary      Special = 0
	byName        Special = 1 << (iota - 1) // matched by its name alone
	impersonating                           // also by impersonate*
	granular                                // also by granular:*
	revealing                               // also by reveal:*

	// patterned are all that a pattern names.
	patterned = impersonating | granular | revealing
)

// NamedSpecials are the special verbs that only their names match.
var NamedSpecials = []string{"escalate", "bind", "deny", "approve", "unsafe-delete-ignore-read-errors"}

// prefixVerbs are the patterns that name all verbs with a prefix.
var prefixVerbs = map[string]Special{VerbImpersonate + "*": impersonating, VerbGranular + "*": granular, VerbReveal + "*": revealing}

func SpecialOf(verb string) Special {
	switch verb {
	case "escalate", "bind", "deny", "approve", "unsafe-delete-ignore-read-errors":
		return byName
	}
	switch {
	case strings.HasPrefix(verb, VerbImpersonate):
		return impersonating
	case strings.HasPrefix(verb, VerbGranular):
		return granular
	case strings.HasPrefix(verb, VerbReveal):
		return revealing
	}
	return ordinary
}

// VerbSet is a compiled list of verbs.
type VerbSet struct {
	// Masks are the standard verbs that are covered, by family of the subresource.
	Masks [Families]VerbBit
	// Parent are the verbs that exec and proxy cover through the parent resource: `exec` on `pods` is about pods/exec.
	Parent [Families]VerbBit
	// star covers every verb that is neither standard nor special, starSpecial also the special ones: RBAC's *, and
	// that of a rule that denies.
	star, starSpecial bool
	// Full is a wildcard without exceptions, fullSpecial one that has the special verbs as well: only these match a
	// review about all verbs of a path or a resource.
	Full, fullSpecial bool
	// Proxy covers every verb of the proxy subresources except the special ones.
	Proxy bool
	// prefixes are the patterns impersonate*, granular:* and reveal:*.
	prefixes Special
	// Named and negated are the other verbs, literally.
	Named, Negated []string
	// negAll, negProxy and negPrefixes are the negations of *, proxy and the patterns.
	negAll, negProxy bool
	negPrefixes      Special
}

// standard returns what one entry covers of the standard verbs, by family. Only exec, proxy, a named create and * reach
// connect subresources: a right to get pods must not become a right to run commands in them.
func standard(entry string) (masks [Families]VerbBit) {
	switch entry {
	case VerbAll:
		return [Families]VerbBit{allBits, allBits, allBits}
	case verbExec:
		masks[familyExec] = BitCreate | bitGet
	case verbProxy:
		masks[familyProxy] = allBits
	case "create":
		return [Families]VerbBit{BitCreate, BitCreate, BitCreate}
	case "update":
		masks[FamilyNone] = bitUpdate | bitPatch
	case "delete":
		masks[FamilyNone] = BitDelete | BitDeleteCollection
	default:
		masks[FamilyNone] = BitOf(entry)
	}
	return masks
}

// PolicyVerbs compiles the verbs of a Policy rule. Negations bind tighter than anything else, whatever the order. The *
// of a rule that denies covers every verb.
func PolicyVerbs(positive, negative []string, deny bool) VerbSet {
	var v VerbSet
	for _, e := range positive {
		masks := standard(e)
		for f := range masks {
			v.Masks[f] |= masks[f]
			if e == verbExec || e == verbProxy {
				v.Parent[f] |= masks[f]
			}
		}
		switch {
		case e == VerbAll:
			v.star, v.starSpecial = true, deny
		case prefixVerbs[e] != ordinary:
			v.prefixes |= prefixVerbs[e]
		case BitOf(e) == 0:
			v.Proxy = v.Proxy || e == verbProxy
			v.Named = append(v.Named, e)
		}
	}
	v.Full = v.star && len(negative) == 0
	v.fullSpecial = v.Full && (deny || v.prefixes == patterned && Subset(NamedSpecials, v.Named))
	for _, e := range negative {
		masks := standard(e)
		for f := range masks {
			v.Masks[f] &^= masks[f]
			v.Parent[f] &^= masks[f]
		}
		switch {
		case e == VerbAll:
			v.negAll = true
		case prefixVerbs[e] != ordinary:
			v.negPrefixes |= prefixVerbs[e]
		case BitOf(e) == 0:
			v.negProxy = v.negProxy || e == verbProxy
			v.Negated = append(v.Negated, e)
		}
	}
	return v
}

// RBACVerbs compiles the verbs of an RBAC rule, in which everything is literal and * is everything.
func RBACVerbs(verbs []string) VerbSet {
	var v VerbSet
	for _, e := range verbs {
		bits := BitOf(e)
		if e == VerbAll {
			v.star, v.starSpecial, v.Full, v.fullSpecial, bits = true, true, true, true, allBits
		}
		for f := range v.Masks {
			v.Masks[f] |= bits
		}
		if bits == 0 {
			v.Named = append(v.Named, e)
		}
	}
	return v
}

func (v *VerbSet) Matches(q *Request) bool {
	if q.Bit != 0 {
		return v.Masks[q.Family]&q.Bit != 0
	}
	return v.other(q)
}

// MatchesParent reports whether the verbs reach a connect subresource although the rule names only its parent.
func (v *VerbSet) MatchesParent(q *Request) bool {
	if q.Bit != 0 {
		return v.Parent[q.Family]&q.Bit != 0
	}
	return q.Family == familyProxy && v.Proxy && q.Special == ordinary && !v.negates(q)
}

func (v *VerbSet) other(q *Request) bool {
	if v.negates(q) {
		return false
	}
	switch {
	case slices.Contains(v.Named, q.Verb):
		return true
	case q.Special != ordinary:
		return v.starSpecial || v.prefixes&q.Special != 0
	case q.Verb == VerbAll && q.ResourceRequest:
		return v.fullSpecial
	case q.Verb == VerbAll:
		return v.Full
	}
	return v.star || v.Proxy && q.Family == familyProxy
}

// Name reports whether the verb of the request is named, by itself or by the pattern of its prefix.
func (v *VerbSet) Name(q *Request) bool {
	return v.prefixes&q.Special != 0 || slices.Contains(v.Named, q.Verb)
}

func (v *VerbSet) negates(q *Request) bool {
	return len(v.Negated) > 0 && slices.Contains(v.Negated, q.Verb) ||
		v.negPrefixes&q.Special != 0 ||
		q.Special == ordinary && (v.negAll || v.negProxy && q.Family == familyProxy)
}

// overlaps is matches for a question about several things at once, where a wrong yes is safe: any of them could be a
// connect subresource.
func (v *VerbSet) overlaps(q *Request) bool {
	if q.Verb == VerbAll {
		return v.star || v.prefixes != 0 || len(v.Named) > 0 || v.Masks != [Families]VerbBit{}
	}
	for f := FamilyNone; f < Families; f++ {
		asked := *q
		asked.Family = f
		if v.Matches(&asked) || v.MatchesParent(&asked) {
			return true
		}
	}
	return false
}

// connects reports whether the verbs reach a connect subresource of either family as well; a question about all
// resources or groups can be about one.
func (v *VerbSet) connects(q *Request) bool {
	for f := familyExec; f < Families; f++ {
		asked := *q
		asked.Family = f
		if !v.Matches(&asked) {
			return false
		}
	}
	return true
}

// Bits is every verb that could be covered on any subresource, for the inverse index.
func (v *VerbSet) Bits() VerbBit {
	var b VerbBit
	for f := range v.Masks {
		b |= v.Masks[f] | v.Parent[f]
	}
	if v.star || v.starSpecial || v.Proxy || v.prefixes != 0 || len(v.Named) > 0 {
		b |= bitOther
	}
	return b
}
