// Package replay decides recorded requests again, by the policy before a change and by the policy after it, and
// collects those whose answer flips.
//
// A request whose answer depends on something that was not recorded is undecided, and is counted with the reason and
// the audit level that would suffice. A request whose answer is the same before and after, whatever was not recorded,
// is decided: it does not flip.
package replay
