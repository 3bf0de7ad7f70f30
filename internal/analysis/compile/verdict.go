package compile

import (
	"maps"
	"slices"
	"strings"
)

// Fidelity says how well the compiled objects match the rule. The zero value is the worst.
type Fidelity uint8

// The verdicts.
const (
	// Impossible: a part of the rule cannot be had.
	Impossible Fidelity = iota
	// Stronger: more is refused.
	Stronger
	// Exact: every request that the rule is about is decided in the same way.
	Exact
)

func (v Fidelity) String() string {
	switch v {
	case Exact:
		return "exact"
	case Stronger:
		return "stronger"
	}
	return "impossible"
}

// MarshalText implements encoding.TextMarshaler.
func (v Fidelity) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Assessment is the verdict on one rule, or on an object that is not a rule.
type Assessment struct {
	// Rule is NAMESPACE/ROLE/INDEX, or KIND/NAME of an object.
	Rule    string   `json:"rule"`
	Verdict Fidelity `json:"verdict"`
	// Lost says what cannot be expressed, Stronger what is refused in addition, and Notes other useful facts.
	Lost     []string `json:"lost,omitempty"`
	Stronger []string `json:"stronger,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	// Accepted is true if the caller accepts the losses.
	Accepted bool `json:"accepted,omitempty"`
	// Policies are the names of the policies that hold the rule, or refuse by it.
	Policies []string `json:"policies,omitempty"`

	// lostOf and less are what is lost, or not granted, of some resources or verbs, by the reason.
	lostOf, less map[string][]string
}

func (f *Assessment) lose(why string)  { f.Lost = add(f.Lost, why) }
func (f *Assessment) harden(by string) { f.Stronger = add(f.Stronger, by) }
func (f *Assessment) note(text string) { f.Notes = add(f.Notes, text) }

// loseOf notes that something of a resource or verb cannot be had.
func (f *Assessment) loseOf(what, of string) { f.lostOf = gather(f.lostOf, what, of) }

// lessOf notes that something of a resource is not granted.
func (f *Assessment) lessOf(what, of string) { f.less = gather(f.less, what, of) }

func gather(all map[string][]string, what, of string) map[string][]string {
	if all == nil {
		all = map[string][]string{}
	}
	all[what] = add(all[what], of)
	return all
}

// spread lists what was gathered, one line for each reason.
func spread(all map[string][]string, list []string) []string {
	for _, what := range slices.Sorted(maps.Keys(all)) {
		list = add(list, what+" ("+strings.Join(slices.Sorted(slices.Values(all[what])), ", ")+")")
	}
	return list
}

func add(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// conclude makes the verdict from what was found.
func (f *Assessment) conclude(accept []string) {
	f.Lost, f.Stronger = spread(f.lostOf, f.Lost), spread(f.less, f.Stronger)
	switch {
	case len(f.Lost) > 0:
		f.Verdict, f.Accepted = Impossible, accepts(accept, f.Rule)
	case len(f.Stronger) > 0:
		f.Verdict = Stronger
	default:
		f.Verdict = Exact
	}
}

// accepts reports whether a rule is among those that may be lost: by its own name, or by that of its role.
func accepts(accept []string, rule string) bool {
	return slices.ContainsFunc(accept, func(a string) bool { return a == rule || strings.HasPrefix(rule, a+"/") && a != "" })
}

// Text is one line for people.
func (f *Assessment) Text() string {
	parts := []string{}
	for _, list := range []struct {
		word string
		all  []string
	}{{"cannot be had: ", f.Lost}, {"", f.Stronger}, {"", f.Notes}} {
		for _, one := range list.all {
			parts = append(parts, list.word+one)
		}
	}
	return strings.Join(parts, "; ")
}
